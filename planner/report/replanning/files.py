"""What a run folder holds of a change, beside the steps' manifests: frames, one JSON document, page and figures."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from planner.domain import Plan
from planner.domain.changes import ChangePoint, PlanChange, ServerChange
from planner.domain.rollouts import RollOut, RollOutStep
from planner.report.kit.markdown import page_text
from planner.report.kit.tables import Column, Frame, entries, fields, frame_csv, of_part, record, table_of
from planner.report.replanning.plots import CHANGE_FIGURES, change_figure
from planner.report.replanning.words import change_page, change_verdict, roll_out_verdict

_ROLE_ROW = fields("island", "gpu", "phase", "start", "end", "gpus_per_server=gpus")
_POINT = fields(
    *("plan=label", "gpus_touched", "running_on_share", "pools", "rate_rps", "value", "bound", "change_usd", "chosen"),
)


_CHANGES_ROW: tuple[Column[ServerChange], ...] = (
    *fields("kind", "servers=count"),
    Column("gpus", lambda item: 0 if item.kind.runs_on else item.gpus),
    *of_part(lambda item: item.before, _ROLE_ROW, "before_"),
    *of_part(lambda item: item.after, _ROLE_ROW, "after_"),
    *fields("drain_s", "load_s"),
)


def changes_frame(change: PlanChange) -> Frame:
    """One row a kind of change and servers."""
    return table_of(_CHANGES_ROW, change.changes).frame()


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


DOCUMENT, PAGE, TABLES = "changes.json", "change.md", "change"


def change_files(
    change: PlanChange, frontier: Sequence[ChangePoint], roll_out: RollOut, plan: Plan, notes: Sequence[str] = ()
) -> dict[str, bytes]:
    """Document and page, tables and figures below `change/`; `plan`: the new one."""
    from planner.report.kit.style import encoded  # noqa: PLC0415  # matplotlib takes a second to load

    name = plan.scenario.name
    document = json.dumps(change_document(change, frontier, roll_out, plan, notes), indent=2, ensure_ascii=False)
    return {
        DOCUMENT: f"{document}\n".encode(),
        PAGE: page_text(change_page(change, frontier, roll_out, plan, notes)).encode(),
        f"{TABLES}/servers.csv": frame_csv(changes_frame(change)),
        f"{TABLES}/steps.csv": frame_csv(steps_frame(roll_out)),
        f"{TABLES}/frontier.csv": frame_csv(change_frontier_frame(frontier)),
        **{f"{TABLES}/{key}.png": encoded(change_figure(roll_out, frontier, key, name)) for key in CHANGE_FIGURES},
    }
