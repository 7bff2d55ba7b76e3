"""A change as tables: servers, points of the frontier, steps."""

from collections.abc import Sequence

from planner.domain.changes import ChangePoint, PlanChange, ServerChange
from planner.domain.rollouts import RollOut, RollOutStep
from planner.report.kit.frames import Frame
from planner.report.kit.tables import Column, entries, fields, of_part, table_of

_ROLE = fields("island", "gpu", "phase", "start", "end", "gpus_per_server=gpus")
_POINT = fields(
    *("plan=label", "gpus_touched", "running_on_share", "pools", "rate_rps", "value", "bound", "change_usd", "chosen"),
)


_CHANGE: tuple[Column[ServerChange], ...] = (
    *fields("kind", "servers=count"),
    Column("gpus", lambda item: 0 if item.kind.runs_on else item.gpus),
    *of_part(lambda item: item.before, _ROLE, "before_"),
    *of_part(lambda item: item.after, _ROLE, "after_"),
    *fields("drain_s", "load_s"),
)


def changes_frame(change: PlanChange) -> Frame:
    """One row a kind of change and servers."""
    return table_of(_CHANGE, change.changes).frame()


def change_frontier_frame(points: Sequence[ChangePoint]) -> Frame:
    """One row a plan, the least change first."""
    return table_of(_POINT, points).frame()


def steps_frame(roll_out: RollOut) -> Frame:
    """One row a step."""
    columns: tuple[Column[RollOutStep], ...] = (
        *fields("step=number"),
        Column("stops", lambda step: sum(item.count for item in step.stops)),
        Column("starts", lambda step: sum(item.count for item in step.starts)),
        *fields("during_rps"),
        Column("during_share", lambda step: roll_out.share_of(step.during_rps) if roll_out.lower_rps else None),
        *fields("after_rps", "seconds", "new_table", "replayed"),
        *entries(lambda step: step.gpus, roll_out.steps, "gpus_"),
    )
    return table_of(columns, roll_out.steps).frame()
