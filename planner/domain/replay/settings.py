"""What a replay is asked for beside a plan and a trace."""

from dataclasses import dataclass, field
from typing import Annotated

from planner.domain.keys import INTERNAL, Bounds, Key
from planner.domain.replay.arrivals import ArrivalProcess, ArrivalSettings
from planner.domain.serving.routing import RouterPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An island loses so many nodes `at_s` seconds after the start, or all its servers (`nodes` 0).

    `servers`: rows of island and servers that die, its own and those that share its nodes; whoever knows the plan says
    which.
    """

    island: str
    at_s: Annotated[float, Bounds(low=0)]
    nodes: Annotated[int, Bounds(low=0)] = 1
    back_after_s: Annotated[float | None, Bounds(low=0), Key("else what loading the weights takes")] = None
    servers: Annotated[tuple[tuple[str, int], ...], INTERNAL] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """`requests`: how many of the process are replayed, warm-up included; `warm_up`: share of them that is not counted.

    `storage_gb_s`: bandwidth at which a server that comes back reads its weights. `overflow_ms`: work before a bucket's
    servers from which on the policy `overflow` looks at longer buckets. `length_spread`: of what the router takes for a
    prompt's length, over the true one: standard deviation of its logarithm, 0 where it counts tokens. `blind_to_speed`:
    the router draws and compares servers as if all of a bucket were equally fast.
    """

    policy: RouterPolicy = RouterPolicy.LEAST_WORK
    arrivals: ArrivalSettings = field(default_factory=lambda: ArrivalSettings(process=ArrivalProcess.POISSON))
    seeds: tuple[int, ...] = (0, 1, 2)
    requests: Annotated[int, Bounds(low=1)] = 20_000
    warm_up: Annotated[float, Bounds(low=0, below=1)] = 0.1
    moments: Annotated[int, Bounds(low=1)] = 60
    storage_gb_s: Annotated[float, Bounds(above=0)] = 2.0
    overflow_ms: Annotated[float, Bounds(low=0)] = 1000.0
    length_spread: Annotated[float, Bounds(low=0, high=1)] = 0.0
    blind_to_speed: bool = False
    failures: tuple[Failure, ...] = ()
