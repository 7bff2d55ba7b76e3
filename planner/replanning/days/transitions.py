"""The moments of a schedule in which one plan takes the place of another.

New servers load before their window begins and old ones drain after it has: for that the inventory must have room for
the old plan and what loads beside it. Where it has none, old servers stop first, and until the new ones serve there are
fewer than either plan has: these windows count as not carried. GPUs that load and drain are nobody's to sell meanwhile.
"""

import math
from collections import Counter
from dataclasses import replace

from planner.domain import Scenario
from planner.domain.changes import ChangeSettings, PlanChange
from planner.domain.schedules import Schedule, ScheduleLevel
from planner.replanning.changes import changes_between


def load_seconds(change: PlanChange) -> float:
    """Until the last of the new servers serves, from when they start."""
    return max((part.load_s for part in change.changes if not part.kind.runs_on), default=0.0)


def drain_seconds(change: PlanChange) -> float:
    """Until the last of the old servers has stopped."""
    return max((part.drain_s for part in change.changes if not part.kind.runs_on), default=0.0)


def gpus_of_both(before: ScheduleLevel, change: PlanChange) -> dict[str, int]:
    """GPUs in use while new servers load beside all of the old plan, by type."""
    gpus = Counter(dict(before.gpus))
    for part in change.changes:
        if part.after is not None and not part.kind.runs_on:
            gpus[part.after.gpu] += part.count * part.after.gpus
    return dict(gpus)


def has_room(scenario: Scenario, before: ScheduleLevel, change: PlanChange) -> bool:
    """Whether the inventory holds the old plan and what loads beside it."""
    return all(scenario.inventory.item(gpu).count >= count for gpu, count in gpus_of_both(before, change).items())


def with_transitions(schedule: Schedule, scenario: Scenario, settings: ChangeSettings) -> Schedule:
    """The schedule with the GPUs that load and drain, and the windows in which a change leaves fewer servers than
    either plan."""
    thin, busy = set[int](), [Counter[str]() for _ in schedule.windows]
    for number in schedule.changes:
        before, after = (schedule.levels[schedule.windows[window].level] for window in (number - 1, number))
        change = changes_between(before.plan, after.plan, settings)
        load_s, drain_s = load_seconds(change), drain_seconds(change)
        both = Counter(gpus_of_both(before, change))
        for window in _windows(schedule, number, -load_s):
            busy[window] += both - Counter(dict(before.gpus))
        for window in _windows(schedule, number, drain_s):
            busy[window] += both - Counter(dict(after.gpus))
        # Without room for both, old servers drain before new ones load: fewer than either plan has serve meanwhile.
        if not has_room(scenario, before, change):
            thin |= set(_windows(schedule, number, -drain_s - load_s))
    windows = tuple(
        replace(window, changing=_at_most(scenario, schedule.levels[window.level], gpus))
        for window, gpus in zip(schedule.windows, busy, strict=True)
    )
    return replace(schedule, windows=windows, thin_windows=tuple(sorted(thin)))


def _windows(schedule: Schedule, number: int, seconds: float) -> range:
    """Windows that have some of the time from a window's beginning on; before it, where the seconds are negative."""
    count = math.ceil(abs(seconds) / schedule.series.window_s)
    first, after = (number - count, number) if seconds < 0 else (number, number + count)
    return range(max(0, first), min(len(schedule.windows), after))


def _at_most(scenario: Scenario, level: ScheduleLevel, gpus: Counter[str]) -> tuple[tuple[str, int], ...]:
    """No more than the inventory has beside a plan: without room for both, old servers stop first."""
    used = dict(level.gpus)
    counts = {gpu: min(count, scenario.inventory.item(gpu).count - used.get(gpu, 0)) for gpu, count in gpus.items()}
    return tuple(sorted((gpu, count) for gpu, count in counts.items() if count > 0))
