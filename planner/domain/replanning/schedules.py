"""A sequence of plans over a day or a week: what stands when, what it costs, and what no schedule undercuts."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.plan import Plan
from planner.domain.replanning.rates import RateSeries


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
    """One window: the number of the level that stands, its cost, and what changing into it cost (0: it stood)."""

    level: int
    usd: float
    change_usd: float = 0.0
    holds: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What stands when. `usd` with all changes. `static_usd`: of the cheapest plan that stands all the time;
    `bound_usd`: no schedule with so few changes a day costs less; `unlimited_bound_usd`: nor with any number.

    `reserved`: GPUs that are paid all the time, by type (tariff `reserved`). `forecast`: what it was planned on.
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

    @property
    def changes(self) -> tuple[int, ...]:
        """Windows that begin with a change."""
        numbers = [window.level for window in self.windows]
        return tuple(k for k in range(1, len(numbers)) if numbers[k] != numbers[k - 1])
