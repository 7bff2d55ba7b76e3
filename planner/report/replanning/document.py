"""A change as one JSON document."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from planner.domain import Plan
from planner.domain.changes import ChangePoint, PlanChange, ServerChange
from planner.domain.rollouts import RollOut, RollOutStep
from planner.report.kit.tables import fields, record
from planner.report.replanning.words import change_verdict, roll_out_verdict


def change_document(
    change: PlanChange, frontier: Sequence[ChangePoint], roll_out: RollOut, plan: Plan, notes: Sequence[str] = ()
) -> dict[str, Any]:
    """All of it; a side of a change that is not there is null. `plan`: the new one."""
    verdicts = (change_verdict(change), roll_out_verdict(roll_out))
    return {
        "summary": " ".join(verdicts).replace("**", ""),
        "notes": list(notes),
        "promise_rps": plan.outlook.promise_rps,
        "capacity_rps": plan.throughput_rps,
        **record(_CHANGE, change),
        "changes": [_change(item) for item in change.changes],
        "frontier": [asdict(point) for point in frontier],
        "roll_out": {
            **record(_ROLL_OUT, roll_out),
            "steps": [_step(step) for step in roll_out.steps],
        },
    }


_CHANGE = fields("servers_before", "servers_running_on", "running_on_share", "gpus_touched", "gpu_seconds", "usd")
_ROLL_OUT = fields(
    *("current_rps", "new_rps", "old_load", "least_share", "floor_rps", "reached_share", "seconds", "replayed_rps"),
    "holds",
)
_ROLE = fields(
    *("island", "gpu", "gpus", "phase", "start", "end", "server.parallel.tp", "server.parallel.dp"),
    *("server.parallel.pp", "server.tokens_per_step", "server.batch_size", "server.overlapped"),
)


def _change(item: ServerChange) -> dict[str, Any]:
    return {
        **record(fields("kind", "servers=count"), item),
        "before": item.before and record(_ROLE, item.before),
        "after": item.after and record(_ROLE, item.after),
        **record(fields("drain_s", "load_s"), item),
    }


def _step(step: RollOutStep) -> dict[str, Any]:
    return {
        "number": step.number,
        "stops": [_change(item) for item in step.stops],
        "starts": [_change(item) for item in step.starts],
        **record(fields("during_rps", "after_rps"), step),
        "gpus": dict(step.gpus),
        **record(fields("seconds", "new_table", "replayed"), step),
        "during": dict(step.during),
        "after": dict(step.after),
    }
