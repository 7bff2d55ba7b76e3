"""Rates over a day or a week, and a sequence of plans for them: what stands when, and what it costs."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.plan import Plan
from planner.errors import InputError

DAY_S = 86_400.0
_SAME_START = 1e-3
"""Of a window: starts that are no further apart are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateWindow:
    """Requests/s from `start_s` on (seconds from the first window). `burstiness`: coefficient of variation of the gaps
    between requests (None: not said)."""

    start_s: float
    rate_rps: float
    burstiness: float | None = None


@dataclass(frozen=True, kw_only=True)
class RateSeries:
    """Windows of `window_s` seconds without gaps, in order; the first begins at `begins_s` of its day.

    Raises InputError where there are none, one does not follow the one before it, or a rate is no number of at least 0.
    """

    name: str
    window_s: float
    windows: tuple[RateWindow, ...]
    begins_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.windows or not 0 < self.window_s < math.inf:
            raise InputError(
                f"rates {self.name}: must have windows of more than 0 seconds, got {len(self.windows)} of "
                f"{self.window_s:g} s.",
                hint="Give a rate for each window of a day.",
            )
        for number, window in enumerate(self.windows):
            if not abs(window.start_s - number * self.window_s) <= _SAME_START * self.window_s:
                raise InputError(
                    f"rates {self.name}: window {number} must begin at {number * self.window_s:g} s, where the one "
                    f"before it ends, got {window.start_s:g} s.",
                    hint="Give every window its rate, in order; 0 where there are no requests.",
                )
            if not 0 <= window.rate_rps < math.inf:
                raise InputError(
                    f"rates {self.name}: window {number}: the rate must be a number of at least 0, got "
                    f"{window.rate_rps:g}.",
                    hint="Leave out what was not measured, and let load_rates fill the gaps.",
                )

    @property
    def rates_rps(self) -> tuple[float, ...]:
        """Of every window."""
        return tuple(window.rate_rps for window in self.windows)

    @cached_property
    def days(self) -> tuple[int, ...]:
        """The day of every window, from 0."""
        return tuple(int((self.begins_s + window.start_s) // DAY_S) for window in self.windows)

    @property
    def peak_rps(self) -> float:
        """The highest rate."""
        return max(self.rates_rps)

    @property
    def mean_rps(self) -> float:
        """The mean over all windows."""
        return sum(self.rates_rps) / len(self.windows)

    def times(self, factor: float) -> "RateSeries":
        """Every rate so many times."""
        return replace(self, windows=tuple(replace(w, rate_rps=factor * w.rate_rps) for w in self.windows))

    def part(self, first: int, after: int) -> "RateSeries":
        """The windows from `first` to `after` - 1."""
        chosen = self.windows[first:after]
        shifted = tuple(replace(window, start_s=window.start_s - chosen[0].start_s) for window in chosen)
        begins_s = (self.begins_s + chosen[0].start_s) % DAY_S
        return RateSeries(name=self.name, window_s=self.window_s, windows=shifted, begins_s=begins_s)


class GapRule(StrEnum):
    """What becomes of windows that a file of rates does not have. `refuse`: the file is refused. `interpolate`: rates
    on the line between the windows beside the gap. `previous`: the rate before the gap goes on."""

    REFUSE = "refuse"
    INTERPOLATE = "interpolate"
    PREVIOUS = "previous"


class ForecastKind(StrEnum):
    """Where the rates come from that a schedule is planned on.

    `known`: the rates themselves, as nobody has them. `last_day`, `last_week`: those of the same time then. `ewma`: the
    mean of the same time of all days before, late days weighing more.
    """

    KNOWN = "known"
    LAST_DAY = "last-day"
    LAST_WEEK = "last-week"
    EWMA = "ewma"

    @property
    def history_days(self) -> int:
        """Days of rates that come before the first that can be forecast."""
        return {ForecastKind.KNOWN: 0, ForecastKind.LAST_WEEK: 7}.get(self, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastSettings:
    """A schedule is planned for the day ahead every `every_hours`, on the forecast times one plus a headroom.

    `headroom`: its share; None: the `quantile` of what past rates were above their forecasts, over `memory_days`, and
    `first_headroom` before there are any. `weight`: of the latest day in `ewma`.
    """

    kind: ForecastKind = ForecastKind.KNOWN
    every_hours: Annotated[float, Bounds(above=0, high=24), Key("after which the day ahead is planned", unit="h")] = 24
    headroom: Annotated[float | None, Bounds(low=0, high=10), Key("share above the forecast")] = None
    quantile: Annotated[float, Bounds(low=0.5, high=1), Key("of past errors, where no headroom is stated")] = 0.95
    first_headroom: Annotated[float, Bounds(low=0, high=10), Key("before there are past errors")] = 0.25
    memory_days: Annotated[float, Bounds(above=0, high=366), Key("of errors that count")] = 7
    weight: Annotated[float, Bounds(above=0, high=1), Key("of the latest day in ewma")] = 0.4


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
class LoopResult:
    """What copies that follow something cost over the days (USD), the share of requests that came while their pools
    kept the levels, and the copies that were started."""

    name: str
    usd: float
    within: float
    started: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What stands when. `usd` with all changes. `static_usd`: of the cheapest plan that stands all the time;
    `bound_usd`: no schedule that carries every rate with so few changes a day costs less; `unlimited_bound_usd`: nor
    with any number.

    `reserved`: GPUs that are paid all the time, by type (tariff `reserved`). `forecast`: what it was planned on; then
    `foresight_usd` is the cost of the schedule that knows the rates, and `emergencies` are windows that begin with a
    change that no forecast asked for, as rates had passed the promise. `thin_windows`: before changes for which the
    inventory lacks GPUs to load new servers beside the old plan, so that there are fewer servers meanwhile.
    `autoscaled`: fleets that follow the load instead (empty: not asked for).
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
    autoscaled: tuple[LoopResult, ...] = ()

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
    def within_share(self) -> float:
        """Of all requests, those that come in windows that are carried."""
        rates = self.series.rates_rps
        total = sum(rates)
        return sum(rate for rate, carried in zip(rates, self.carried, strict=True) if carried) / total if total else 1.0

    @property
    def gap(self) -> float | None:
        """How much dearer than its bound it may be, as a share of the bound; None where that is no cost."""
        return self.usd / self.bound_usd - 1 if self.bound_usd > 0 else None

    @property
    def holding_share(self) -> float | None:
        """Of all windows, those whose replay holds the levels; None where none was replayed."""
        answers = [window.holds for window in self.windows if window.holds is not None]
        return sum(answers) / len(answers) if answers else None
