"""Fleets of one rent, what is asked of them, and what each serves."""

from dataclasses import dataclass

from planner.domain import CostMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Semantics:
    """How fleets are priced: a cost mode, and the levels that every request keeps to (ms; None: none).

    In reference mode a fleet is worth its best layout of islands of any size, which is solved for; in default mode
    pools behind buckets of prompt length, as a plan deploys them.
    """

    name: str
    mode: CostMode
    ttft_ms: float | None = None
    tpot_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """GPUs by type. `chosen`: not a fleet of the grid, but what the best choice of all for the rent takes."""

    gpus: tuple[tuple[str, int], ...]
    chosen: bool = False

    @property
    def is_uniform(self) -> bool:
        """Whether it is of one type."""
        return len(self.gpus) == 1

    @property
    def label(self) -> str:
        """As tables call it."""
        return ", ".join(f"{count} {gpu}" for gpu, count in self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRate:
    """What a fleet serves of a trace (requests/s); no pools or layout of its GPUs serve more than `bound_rps`.

    `drawn_rps`: the same in draws of how fast servers are, the draws being those of every other fleet of the question;
    empty in reference mode, whose rates have no bands.
    """

    trace: str
    semantics: Semantics
    fleet: Fleet
    rate_rps: float
    bound_rps: float | None
    drawn_rps: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """A fleet beside `rival`, the fleet of one type that serves most as predicted.

    `ratio`: its rate over the rival's; `low`, `high`: P10 and P90 of that ratio over the draws; `odds`: share of the
    draws in which it serves more. `sure_rps`: what it serves in 80 % of the draws (requests/s). None without draws.
    """

    rate: FleetRate
    rival: FleetRate
    ratio: float
    low: float | None = None
    high: float | None = None
    odds: float | None = None
    sure_rps: float | None = None
