"""A change as it can be carried out: a running copy belongs to the object of its island and cannot join another's."""

from dataclasses import replace

from planner.domain import Plan, Scenario
from planner.domain.changes import ChangeKind, ChangeSettings, PlanChange, ServerChange
from planner.replanning.changes import ChangeClock


def carried_out(change: PlanChange, before: Plan, scenario: Scenario, settings: ChangeSettings) -> PlanChange:
    """The change whose servers run on only where they stay in their island; those that would run on in another are
    started anew there, and take their time."""
    rows = tuple(replace(row, kind=ChangeKind.RESTART) if _joins_another(row) else row for row in change.changes)
    return change if rows == change.changes else ChangeClock.of(before, scenario, settings).timed(rows)


def joining_others(change: PlanChange) -> int:
    """Servers of a change that would run on in another island."""
    return sum(row.count for row in change.changes if _joins_another(row))


def _joins_another(row: ServerChange) -> bool:
    if not row.kind.runs_on or row.before is None or row.after is None:
        return False
    return row.before.island != row.after.island
