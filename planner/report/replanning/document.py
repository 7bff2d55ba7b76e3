"""A change as one JSON document."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from planner.domain import Plan
from planner.domain.replanning.changes import ChangePoint, PlanChange, ServerChange, ServerRole
from planner.domain.replanning.rollouts import RollOut, RollOutStep
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
        "servers_before": change.servers_before,
        "servers_running_on": change.servers_running_on,
        "running_on_share": change.running_on_share,
        "gpus_touched": change.gpus_touched,
        "gpu_seconds": change.gpu_seconds,
        "usd": change.usd,
        "changes": [_change(item) for item in change.changes],
        "frontier": [asdict(point) for point in frontier],
        "roll_out": {
            "current_rps": roll_out.current_rps,
            "new_rps": roll_out.new_rps,
            "old_load": roll_out.old_load,
            "least_share": roll_out.least_share,
            "floor_rps": roll_out.floor_rps,
            "reached_share": roll_out.reached_share,
            "seconds": roll_out.seconds,
            "replayed_rps": roll_out.replayed_rps,
            "holds": roll_out.holds,
            "steps": [_step(step) for step in roll_out.steps],
        },
    }


def _change(item: ServerChange) -> dict[str, Any]:
    return {
        "kind": item.kind.value,
        "servers": item.count,
        "before": _role(item.before),
        "after": _role(item.after),
        "drain_s": item.drain_s,
        "load_s": item.load_s,
    }


def _role(role: ServerRole | None) -> dict[str, Any] | None:
    if role is None:
        return None
    server = role.server
    return {
        "island": role.island,
        "gpu": role.gpu,
        "gpus": role.gpus,
        "phase": role.phase.value,
        "start": role.start,
        "end": role.end,
        "tp": server.parallel.tp,
        "dp": server.parallel.dp,
        "pp": server.parallel.pp,
        "tokens_per_step": server.tokens_per_step,
        "batch_size": server.batch_size,
        "overlapped": server.overlapped,
    }


def _step(step: RollOutStep) -> dict[str, Any]:
    return {
        "number": step.number,
        "stops": [_change(item) for item in step.stops],
        "starts": [_change(item) for item in step.starts],
        "during_rps": step.during_rps,
        "after_rps": step.after_rps,
        "gpus": dict(step.gpus),
        "seconds": step.seconds,
        "new_table": step.new_table,
        "replayed": step.replayed,
        "during": dict(step.during),
        "after": dict(step.after),
    }
