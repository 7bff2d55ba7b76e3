"""A schedule as it would be run: planned for the day ahead on a forecast, again and again, and met by the real rates.

Every so often the switching programme is solved for the day ahead, on forecasts with their headroom, from the plan that
stands. Until the next time its changes are carried out as their windows come. A rate above the promise is seen when its
window ends; then a plan that carries it, with the headroom, is started at once, and serves from the first window that
begins after its servers have loaded. Windows until then are not carried, and count as such. Such a plan stands until
the day ahead is planned again. Emergencies are not refused for the limit of changes, but they use it up.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from planner.domain import Scenario
from planner.domain.changes import ChangeSettings
from planner.domain.schedules import (
    SAME_RATE,
    ForecastSettings,
    RateSeries,
    RateWindow,
    Schedule,
    ScheduledWindow,
    Tariff,
    TariffKind,
)
from planner.errors import InfeasibleError, InputError
from planner.replanning.changes import changes_between
from planner.replanning.days.forecasts import first_window, forecasts_of, headroom_at, windows_of_a_day
from planner.replanning.days.transitions import load_seconds
from planner.replanning.schedules.levels import LevelBook, LevelSet, Planner, Replanner, window_usd
from planner.replanning.schedules.scheduling import chosen_levels, require_changes, schedule_of
from planner.replanning.schedules.switching import best_plans
from planner.units import SECONDS_PER_HOUR

LoadSeconds = Callable[[int, int], float]
"""From one plan to another, by their numbers: seconds until the new servers serve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolled:
    """Plans that stood, by window of the part that was judged, and the windows that begin with an emergency."""

    plans: tuple[int, ...]
    emergencies: tuple[int, ...]


def rolling_schedule(
    scenario: Scenario,
    series: RateSeries,
    tariff: Tariff,
    change: ChangeSettings,
    most_changes: int,
    settings: ForecastSettings,
    *,
    planner: Planner,
    replanner: Replanner | None = None,
    first: int | None = None,
) -> Schedule:
    """What planning on forecasts comes to, judged on the rates of the windows from `first` on (None: the first that can
    be forecast). Bounds and `foresight_usd` are of the same windows with their rates known.

    Raises as `best_schedule`, and InputError where rates are too few for the forecast, or GPUs are reserved.
    """
    require_changes(most_changes)
    _require_unreserved(tariff)
    earliest = first_window(series, settings)
    first = earliest if first is None else first
    if first < earliest:
        raise InputError(
            f"rates {series.name}: forecast {settings.kind}: begins at window {earliest} of the rates at the earliest, "
            f"got {first}.",
            hint="Begin later (--from), or give earlier rates, too.",
        )
    judged = series.part(first, len(series.windows))
    book = LevelBook(scenario, change, planner, replanner, tariff)
    known_levels = chosen_levels(book, judged, tariff, most_changes)
    foresight = schedule_of(known_levels, scenario, judged, tariff, most_changes)
    demands = demands_of(series, settings, first)
    levels = _of_both(book, _levels_for(book, demands, tariff, most_changes), known_levels)
    horizon = Horizon(
        levels=levels,
        scenario=scenario,
        tariff=tariff,
        most_changes=most_changes,
        every=max(1, round(settings.every_hours * SECONDS_PER_HOUR / series.window_s)),
        load_s=load_times(levels, change),
    )
    rolled = horizon.run(series, settings, first)
    return _judged(foresight, levels, rolled, scenario, settings)


def load_times(levels: LevelSet, change: ChangeSettings) -> LoadSeconds:
    """Of changes between plans, worked out where they are asked for."""

    def seconds(before: int, after: int) -> float:
        plans = (levels.levels[before].plan, levels.levels[after].plan)
        return load_seconds(changes_between(*plans, change))

    return seconds


def demands_of(series: RateSeries, settings: ForecastSettings, first: int) -> RateSeries:
    """What is planned for in every window from `first` on: its forecast with the headroom of its day's beginning."""
    expected, day = forecasts_of(series, settings), windows_of_a_day(series)
    rates: list[float] = []
    for start in range(first, len(series.windows), day):
        headroom = headroom_at(series, expected, settings, start)
        rates += ((1 + headroom) * expected[start : start + day]).tolist()
    return _with_rates(series.part(first, len(series.windows)), rates)


def _with_rates(series: RateSeries, rates: Sequence[float]) -> RateSeries:
    windows = (
        RateWindow(start_s=window.start_s, rate_rps=rate) for window, rate in zip(series.windows, rates, strict=True)
    )
    return replace(series, windows=tuple(windows))


def _levels_for(book: LevelBook, demands: RateSeries, tariff: Tariff, most_changes: int) -> LevelSet:
    """Plans for what is expected; where no fleet promises it all, up to the largest that there is."""
    try:
        return chosen_levels(book, demands, tariff, most_changes)
    except InfeasibleError:
        highest_rps = book.most_rps() * (1 - SAME_RATE)
        clipped = _with_rates(demands, [min(rate, highest_rps) for rate in demands.rates_rps])
        return chosen_levels(book, clipped, tariff, most_changes)


def _of_both(book: LevelBook, *chosen: LevelSet) -> LevelSet:
    """Plans for what is expected, and those that an emergency may need: plans for rates that were seen, which no
    forecast told of. Which of them stands is decided on forecasts and on rates of windows that have ended."""
    every, numbers = book.all(), {id(level) for levels in chosen for level in levels.levels}
    return every.only(number for number, level in enumerate(every.levels) if id(level) in numbers)


def _require_unreserved(tariff: Tariff) -> None:
    if tariff.kind is TariffKind.RESERVED:
        raise InputError(
            "tariff reserved: a reservation is for the time as a whole, which no forecast of a day ahead covers; got a "
            "forecast.",
            hint="Choose the reservation with --forecast known, or take --tariff hourly.",
        )


@dataclass(slots=True, kw_only=True)
class Horizon:
    """Plans for the day ahead every `every` windows; `load_s`: of changes between plans, by their numbers."""

    levels: LevelSet
    scenario: Scenario
    tariff: Tariff
    most_changes: int
    every: int
    load_s: LoadSeconds
    _changes: dict[int, int] = field(default_factory=dict)

    def run(self, series: RateSeries, settings: ForecastSettings, first: int) -> Rolled:
        """Window by window from `first` on."""
        expected, day = forecasts_of(series, settings), windows_of_a_day(series)
        self._changes = {}
        plans: list[int] = []
        emergencies: list[int] = []
        standing: int | None = None
        urgent: _Urgent | None = None
        for window in range(first, len(series.windows)):
            if (window - first) % self.every == 0:
                headroom = headroom_at(series, expected, settings, window)
                after = min(window + day, len(series.windows))
                rates = ((1 + headroom) * expected[window:after]).tolist()
                planned = self.plan_ahead(_with_rates(series.part(window, after), rates), standing, series.days[window])
                begun, urgent = window, urgent if urgent is not None and urgent.ready >= window else None
            plan = planned[window - begun]
            # An emergency's plan stands while it promises more than the one that the forecast asks for.
            if urgent is not None and window >= urgent.ready and self._promise(urgent.plan) > self._promise(plan):
                plan = urgent.plan
            if standing is not None and plan != standing:
                day_number = series.days[window]
                self._changes[day_number] = self._changes.get(day_number, 0) + 1
                if urgent is not None and plan == urgent.plan and plan != planned[window - begun]:
                    emergencies.append(window - first)
            plans.append(plan)
            standing = plan
            urgent = self._after(series, window, plan, headroom, urgent)
        return Rolled(plans=tuple(plans), emergencies=tuple(emergencies))

    def plan_ahead(self, demands: RateSeries, standing: int | None, day: int) -> tuple[int, ...]:
        """Plans of the windows ahead. What no plan promises is left to the largest; where too few changes are left to
        follow the forecast, one more is taken."""
        highest_rps = max(self.levels.promises_rps)
        clipped = _with_rates(demands, [min(rate, highest_rps) for rate in demands.rates_rps])
        # With the fewest changes given back that lead to any schedule at all.
        for spent in range(min(self._changes.get(day, 0), self.most_changes), -1, -1):
            try:
                switching, _ = best_plans(
                    self.levels,
                    self.scenario,
                    clipped,
                    self.tariff,
                    self.most_changes,
                    standing=standing,
                    changes_so_far=spent,
                )
            except InfeasibleError:
                continue
            return switching.plans
        largest = self._carrying(clipped.peak_rps)
        return (largest,) * len(clipped.windows)

    def _after(
        self, series: RateSeries, window: int, plan: int, headroom: float, urgent: "_Urgent | None"
    ) -> "_Urgent | None":
        """What is started once a window has ended: a plan that carries its rate, where the one that stands did not."""
        rate = series.windows[window].rate_rps
        if rate <= self._promise(plan) * (1 + SAME_RATE):
            return urgent
        better = self._carrying(rate * (1 + headroom))
        if self._promise(better) <= self._promise(plan):
            return urgent
        if urgent is not None and urgent.ready > window and self._promise(urgent.plan) >= self._promise(better):
            return urgent
        return _Urgent(plan=better, ready=window + 1 + math.ceil(self.load_s(plan, better) / series.window_s))

    def _carrying(self, rate_rps: float) -> int:
        """The smallest plan that carries a rate; the largest where none does."""
        promises = self.levels.promises_rps
        return next((k for k, promise in enumerate(promises) if promise >= rate_rps), len(promises) - 1)

    def _promise(self, plan: int) -> float:
        return self.levels.promises_rps[plan]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Urgent:
    """A plan that was started unplanned, and the first window in which it serves."""

    plan: int
    ready: int


def _judged(
    foresight: Schedule, levels: LevelSet, rolled: Rolled, scenario: Scenario, settings: ForecastSettings
) -> Schedule:
    """The plans that stood, at their cost with the real rates; others are left out."""
    numbers = sorted(set(rolled.plans))
    levels = levels.only(numbers)
    plans = [numbers.index(plan) for plan in rolled.plans]
    costs: NDArray[np.float64] = window_usd(scenario, foresight.series, levels.levels, foresight.tariff)
    before = (plans[0], *plans)
    windows = tuple(
        ScheduledWindow(level=plan, usd=float(costs[number, plan]), change_usd=levels.change_usd[before[number]][plan])
        for number, plan in enumerate(plans)
    )
    return replace(
        foresight,
        levels=levels.levels,
        windows=windows,
        usd=sum(window.usd + window.change_usd for window in windows),
        forecast=settings.kind.value,
        foresight_usd=foresight.usd,
        emergencies=rolled.emergencies,
    )
