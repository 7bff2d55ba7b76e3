"""What a fleet's services need hour by hour, who has the other nodes meanwhile, and who lends where a node is lost."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from planner.domain.fleets import FleetPlan
from planner.domain.keys import Bounds, Key
from planner.domain.schedules import DAY_S

GpuCounts = tuple[tuple[str, int], ...]
WEEK_DAYS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class LendingTerms:
    """When nodes are lent. `headroom`: times the highest rate of a window that its servers promise, for bursts: where
    these are strong and servers few it takes more than the default.
    `least_windows`: nodes that are free for less time are not lent. `floor`: share of its promise below which no
    deployment goes, requests or not. `most_steps`: of a deployment's ladder."""

    window_s: Annotated[float, Bounds(low=60, high=DAY_S), Key("of the schedule", unit="s")] = 3600.0
    headroom: Annotated[float, Bounds(low=1, high=100), Key("times a window's highest rate that is promised")] = 1.25
    floor: Annotated[float, Bounds(above=0, high=1), Key("share of a promise that always stands")] = 0.05
    least_windows: Annotated[int, Bounds(low=1, high=1000), Key("for which nodes are lent")] = 2
    most_steps: Annotated[int, Bounds(low=1, high=200), Key("of a deployment's ladder")] = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLevel:
    """Some servers of a deployment's plan. `counts`: of each of the plan's pools; `gpus`: whole nodes that they lie on,
    by type."""

    counts: tuple[int, ...]
    gpus: GpuCounts
    promise_rps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLadder:
    """A deployment's levels, all of its servers first; each has some of the servers of the one before, so that going
    from one to another starts or stops servers and restarts none. `drain_s`, `load_s`: at most, of any of them."""

    deployment: str
    levels: tuple[FleetLevel, ...]
    drain_s: float
    load_s: float

    def carrying(self, rate_rps: float) -> int:
        """The lowest level that promises a rate; the first where none does."""
        enough = [k for k, level in enumerate(self.levels) if level.promise_rps >= rate_rps]
        return max(enough, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchBlock:
    """The fewest nodes of a type on which a server of work that waits fits, and its tokens/s there. `lost_s`: time of
    every block that is lent in which it does nothing: others drain before, it loads, and drains at the end."""

    service: str
    gpu: str
    gpus: int
    tokens_per_s: float
    lost_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetWindow:
    """A window: rate and level of every deployment, in the order of the ladders; blocks lent, in the order of the
    schedule's blocks, with their tokens. `idle`: GPUs that nobody has."""

    start_s: float
    rates_rps: tuple[float, ...]
    levels: tuple[int, ...]
    lent: tuple[int, ...]
    tokens: float
    idle: GpuCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSchedule:
    """Who has which nodes when. Batches keep what they have in the plan; what a window does not need is lent to them
    beside it."""

    plan: FleetPlan
    terms: LendingTerms
    ladders: tuple[FleetLadder, ...]
    blocks: tuple[BatchBlock, ...]
    windows: tuple[FleetWindow, ...]

    @property
    def days(self) -> float:
        """That it lasts."""
        return len(self.windows) * self.terms.window_s / DAY_S

    @property
    def standing_tokens_a_day(self) -> float:
        """Of batches on the nodes that nobody has, without the schedule."""
        return sum(fill.tokens_a_day for fill in self.plan.batches)

    @property
    def gained_tokens_a_day(self) -> float:
        """Of batches on lent nodes, on average: for no more rent."""
        return sum(window.tokens for window in self.windows) / self.days

    @property
    def gained_tokens_a_week(self) -> float:
        """The same of seven days."""
        return WEEK_DAYS * self.gained_tokens_a_day

    @property
    def lent_gpu_hours_a_day(self) -> float:
        """GPU-hours that are lent, on average."""
        gpus = sum(n * block.gpus for window in self.windows for n, block in zip(window.lent, self.blocks, strict=True))
        return gpus * self.terms.window_s / 3600.0 / self.days

    @property
    def switches(self) -> int:
        """Changes of a deployment's level."""
        pairs = pairwise(self.windows)
        return sum(a != b for before, after in pairs for a, b in zip(before.levels, after.levels, strict=True))

    @property
    def starts(self) -> int:
        """Blocks of batches that load."""
        none = (0,) * len(self.blocks)
        lent = [none, *(window.lent for window in self.windows)]
        pairs = pairwise(lent)
        return sum(max(0, b - a) for before, after in pairs for a, b in zip(before, after, strict=True))

    @property
    def short(self) -> tuple[int, ...]:
        """Windows in which a deployment has all of its servers and they promise less than the rate."""
        return tuple(
            number
            for number, window in enumerate(self.windows)
            if any(
                ladder.levels[k].promise_rps < rate
                for ladder, k, rate in zip(self.ladders, window.levels, window.rates_rps, strict=True)
            )
        )

    def gpus(self, number: int) -> Mapping[str, Mapping[str, int]]:
        """GPUs by type of every deployment, every batch and of nobody ("") in a window."""
        window = self.windows[number]
        parts = {
            ladder.deployment: dict(ladder.levels[k].gpus)
            for ladder, k in zip(self.ladders, window.levels, strict=True)
        }
        for fill in self.plan.batches:
            parts[fill.service] = {} if fill.part is None else dict(fill.part.gpus)
        for block, count in zip(self.blocks, window.lent, strict=True):
            counts = parts[block.service]
            counts[block.gpu] = counts.get(block.gpu, 0) + count * block.gpus
        return {**parts, "": dict(window.idle)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedLevel:
    """A deployment's level replayed at the highest rate of the `windows` in which it stands. `burstiness`: coefficient
    of variation of the gaps between requests. `holds`: None where so few requests do not tell. `within_levels`: share
    of the requests."""

    deployment: str
    level: int
    windows: int
    rate_rps: float
    promise_rps: float
    burstiness: float
    holds: bool | None
    within_levels: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNodeLoss:
    """A deployment loses a node of a type. `lender`: who gives it one (`IDLE`: nobody had it; empty: nobody does).
    What every service is promised `meanwhile`, until servers have loaded for `load_s`, and `after`."""

    deployment: str
    gpu: str
    lender: str
    load_s: float
    meanwhile: tuple[tuple[str, float], ...]
    after: tuple[tuple[str, float], ...]


IDLE = "idle"
