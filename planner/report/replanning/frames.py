"""A change as tables: servers, points of the frontier, steps."""

from collections.abc import Sequence

from planner.domain.replanning.changes import ChangePoint, PlanChange, ServerRole
from planner.domain.replanning.rollouts import RollOut
from planner.report.kit.frames import Frame, frame_of


def changes_frame(change: PlanChange) -> Frame:
    """One row a kind of change and servers."""
    return frame_of(
        {
            "kind": item.kind.value,
            "servers": item.count,
            "gpus": 0 if item.kind.runs_on else item.gpus,
            **_role("before", item.before),
            **_role("after", item.after),
            "drain_s": item.drain_s,
            "load_s": item.load_s,
        }
        for item in change.changes
    )


def _role(side: str, role: ServerRole | None) -> dict[str, object]:
    return {
        f"{side}_island": role and role.island,
        f"{side}_gpu": role and role.gpu,
        f"{side}_phase": role and role.phase.value,
        f"{side}_start": role and role.start,
        f"{side}_end": role and role.end,
        f"{side}_gpus_per_server": role and role.gpus,
    }


def change_frontier_frame(points: Sequence[ChangePoint]) -> Frame:
    """One row a plan, the least change first."""
    return frame_of(
        {
            "plan": point.label,
            "gpus_touched": point.gpus_touched,
            "running_on_share": point.running_on_share,
            "pools": point.pools,
            "rate_rps": point.rate_rps,
            "value": point.value,
            "bound": point.bound,
            "change_usd": point.change_usd,
            "chosen": point.chosen,
        }
        for point in points
    )


def steps_frame(roll_out: RollOut) -> Frame:
    """One row a step."""
    return frame_of(
        {
            "step": step.number,
            "stops": sum(item.count for item in step.stops),
            "starts": sum(item.count for item in step.starts),
            "during_rps": step.during_rps,
            "during_share": roll_out.share_of(step.during_rps) if roll_out.lower_rps else None,
            "after_rps": step.after_rps,
            "seconds": step.seconds,
            "new_table": step.new_table,
            "replayed": step.replayed,
            **{f"gpus_{gpu}": count for gpu, count in step.gpus},
        }
        for step in roll_out.steps
    )
