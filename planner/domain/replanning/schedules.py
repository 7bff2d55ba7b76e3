"""A sequence of plans over a day or a week: what stands when, what it costs, and what no schedule undercuts."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.plan import Plan
from planner.domain.replanning.rates import RateSeries

SAME_RATE = 1e-6
"""Relative difference of rates that is rounding."""


class TariffKind(StrEnum):
    """How GPUs are paid. `hourly`: for the time that they are rented. `reserved`: some always, at a discount, others by
    the hour. `owned`: watts, less what idle GPUs earn as spot capacity."""

    HOURLY = "hourly"
    RESERVED = "reserved"
    OWNED = "owned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """`reserved_discount`: of a reserved GPU's price; `usd_per_kwh`: of power; `idle_share`: of its highest draw that a
    GPU draws doing nothing; `spot_share`: of its price that a GPU earns given back to spot."""

    kind: TariffKind = TariffKind.HOURLY
    reserved_discount: Annotated[float, Bounds(low=0, below=1), Key("of a reserved GPU's price")] = 0.4
    usd_per_kwh: Annotated[float, Bounds(low=0, high=100), Key("of power")] = 0.1
    idle_share: Annotated[float, Bounds(low=0, high=1), Key("of its highest draw, of a GPU that does nothing")] = 0.25
    spot_share: Annotated[float, Bounds(low=0, high=1), Key("of its price, earned by a GPU given back to spot")] = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleLevel:
    """A plan that may stand in a window: it promises `promise_rps` (capacity times the margin) for `usd_per_hour`. No
    fleet that promises as much costs less than `bound_usd_per_hour`. `gpus` in its servers, by type."""

    plan: Plan
    promise_rps: float
    usd_per_hour: float
    bound_usd_per_hour: float
    watts: float
    gpus: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledWindow:
    """One window: the number of the level that stands, its cost, and what changing into it cost (0: it stood).
    `changing`: GPUs by type that load or drain in it, for the change after or before it."""

    level: int
    usd: float
    change_usd: float = 0.0
    holds: bool | None = None
    changing: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedRung:
    """A plan's replay at `share` of its promise, the next hundredth above the rates of so many windows. `burstiness`:
    coefficient of variation of the gaps between requests (1: Poisson). `holds` is None where so many
    requests are too few to tell. `within_levels`: share of the requests."""

    level: int
    share: float
    rate_rps: float
    burstiness: float
    windows: int
    holds: bool | None
    within_levels: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What stands when. `usd` with all changes. `static_usd`: of the cheapest plan that stands all the time;
    `bound_usd`: no schedule that carries every rate with so few changes a day costs less; `unlimited_bound_usd`: nor
    with any number.

    `reserved`: GPUs that are paid all the time, by type (tariff `reserved`). `forecast`: what it was planned on; then
    `foresight_usd` is the cost of the schedule that knows the rates, and `emergencies` are windows that begin with a
    change that no forecast asked for, as rates had passed the promise. `thin_windows`: before changes for which the
    inventory lacks GPUs to load new servers beside the old plan, so that there are fewer servers meanwhile.
    """

    series: RateSeries
    tariff: Tariff
    levels: tuple[ScheduleLevel, ...]
    windows: tuple[ScheduledWindow, ...]
    most_changes: int
    usd: float
    static_usd: float
    bound_usd: float
    unlimited_bound_usd: float
    reserved: tuple[tuple[str, int], ...] = ()
    forecast: str = "known"
    foresight_usd: float | None = None
    emergencies: tuple[int, ...] = ()
    thin_windows: tuple[int, ...] = ()
    replayed: tuple[ReplayedRung, ...] = ()

    @property
    def changes(self) -> tuple[int, ...]:
        """Windows that begin with a change."""
        numbers = [window.level for window in self.windows]
        return tuple(k for k in range(1, len(numbers)) if numbers[k] != numbers[k - 1])

    @property
    def carried(self) -> tuple[bool, ...]:
        """Of every window, whether the plan that stands promises its rate, and no change takes servers from it."""
        promises, thin = [level.promise_rps * (1 + SAME_RATE) for level in self.levels], set(self.thin_windows)
        rates = self.series.rates_rps
        return tuple(
            not rates[number] or (promises[window.level] >= rates[number] and number not in thin)
            for number, window in enumerate(self.windows)
        )

    @property
    def carried_share(self) -> float:
        """Of all windows, those that are carried."""
        return sum(self.carried) / len(self.windows)

    @property
    def gap(self) -> float | None:
        """How much dearer than its bound it may be, as a share of the bound; None where that is no cost."""
        return self.usd / self.bound_usd - 1 if self.bound_usd > 0 else None

    @property
    def holding_share(self) -> float | None:
        """Of all windows, those whose replay holds the levels; None where none was replayed."""
        answers = [window.holds for window in self.windows if window.holds is not None]
        return sum(answers) / len(answers) if answers else None
