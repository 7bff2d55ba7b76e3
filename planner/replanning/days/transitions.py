"""The moments of a schedule in which one plan takes the place of another.

New servers load before their window begins and old ones drain after it has: for that the inventory must have room for
the old plan and what loads beside it. Where it has none, old servers stop first, and until the new ones serve there are
fewer than either plan has: these windows count as not carried.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from planner.domain import Scenario
from planner.domain.replanning.changes import ChangeSettings, PlanChange
from planner.domain.replanning.schedules import Schedule, ScheduleLevel
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


def with_thin_windows(schedule: Schedule, scenario: Scenario, settings: ChangeSettings) -> Schedule:
    """The schedule with the windows in which a change leaves fewer servers than either plan."""
    thin = sorted({window for number in schedule.changes for window in _thin(schedule, scenario, settings, number)})
    return replace(schedule, thin_windows=tuple(thin))


def _thin(schedule: Schedule, scenario: Scenario, settings: ChangeSettings, number: int) -> Iterator[int]:
    """Windows before a change while old servers stop and new ones load, where there is no room for both."""
    before, after = (schedule.levels[schedule.windows[window].level] for window in (number - 1, number))
    change = changes_between(before.plan, after.plan, settings)
    if has_room(scenario, before, change):
        return
    seconds = drain_seconds(change) + load_seconds(change)
    yield from range(max(0, number - math.ceil(seconds / schedule.series.window_s)), number)
