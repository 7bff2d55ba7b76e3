"""`planner simulate queue`: a trace at its own times, with pods that leave and pods that wait."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import screen
from planner.domain import Semantics
from planner.studies.commands import Force, Json, policies_of
from planner.studies.policies import inputs

if TYPE_CHECKING:
    from planner.studies.policies.records import DepartureRun

COLUMNS = (
    "policy",
    "ran",
    "failed",
    "waiting",
    "waited",
    "retries",
    "wait_mean_s",
    "wait_p95_s",
    "wait_max_s",
    "allocation_percent",
    "fragmentation_percent",
    "power_w",
    "energy_kwh",
)


def command(
    nodes: Annotated[Path, typer.Option(help="CSV of nodes, as of `simulate cluster`.", show_default=False)],
    pods: Annotated[
        Path, typer.Option(help="CSV of pods with creation_time and deletion_time (s).", show_default=False)
    ],
    policy: Annotated[list[str], typer.Option(help="As of `simulate cluster`; may be repeated.", show_default=False)],
    longest_wait_s: Annotated[
        float | None,
        typer.Option(min=0, help="Pods give up after this many s; 0: none waits. [default: they never do]"),
    ] = None,
    backfill: Annotated[
        bool, typer.Option("--backfill/--no-backfill", help="Pods that fit may pass those that do not.")
    ] = True,
    stretch: Annotated[float, typer.Option(help="Pods stay this many times as long.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of ties.")] = 0,
    semantics: Annotated[Semantics, typer.Option(help="As of `simulate cluster`.")] = Semantics.REFERENCE,
    out: Annotated[Path | None, typer.Option(help="Folder for queue.csv.", show_default=False)] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Pods come at their own times, wait where they fit nowhere, and leave: waits, allocation, energy of policies."""
    from planner import files
    from planner.placement.fragmentation import target_workload
    from planner.report.kit.tables import csv_table
    from planner.studies.policies.online.arrivals import draw_tie_order
    from planner.studies.policies.online.departures import lengthened, simulate_departures
    from planner.studies.policies.online.policies import parse_policy
    from planner.studies.policies.page import QUEUE_FILE
    from planner.studies.policies.records import QueueSettings
    from planner.studies.policies.study import too_large

    if out is not None:
        files.claim_folder(out, [QUEUE_FILE], force=force)
    mixes, power = policies_of(policy, parse_policy), inputs.power_table()
    trace_nodes, trace_pods = inputs.read_traces(nodes, pods, power)
    strange = too_large(trace_nodes, trace_pods)
    if strange:
        screen.show_warning(
            f"{pods}: {len(strange)} of {len(trace_pods)} pods fit on no node, not even an empty one (the first is "
            f"{strange[0].name}); they wait until they give up, and without backfilling nobody passes them."
        )
    runs = [
        simulate_departures(
            trace_nodes,
            lengthened(trace_pods, stretch),
            mix,
            target_workload(trace_pods),
            queue=QueueSettings(backfill=backfill, most_wait_s=longest_wait_s),
            semantics=semantics,
            tie_order=draw_tie_order(trace_nodes, seed),
            seed=seed,
            power=power,
        )
        for mix in mixes
    ]
    rows = [_row(run) for run in runs]
    if out is not None:
        files.write_folder(out, {QUEUE_FILE: csv_table(COLUMNS, rows)}, force=force)
    if json:
        screen.show_json([dict(zip(COLUMNS, row, strict=True)) for row in rows])
    else:
        _show(rows, out)


def _row(run: "DepartureRun") -> list[Any]:
    queue = run.queue
    return [
        run.policy,
        queue.ran,
        queue.failed,
        queue.waiting,
        queue.waited,
        queue.retries,
        queue.wait_mean_s,
        queue.wait_p95_s,
        queue.wait_max_s,
        run.allocation_percent,
        run.fragmentation_percent,
        run.power_w,
        run.energy_kwh,
    ]


def _show(rows: Sequence[Sequence[object]], out: Path | None) -> None:
    screen.show_table("Pods that come, wait and leave", COLUMNS, rows)
    if out is not None:
        screen.show_text(f"Written to {out}")
