"""`planner workload from-metrics`: what engines count becomes a workload."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.program.every_command import ANY_ENGINE
from planner.cli.program.option_records import with_records
from planner.cli.program.shared_options import Answers, PrometheusFlags, Queries, show_queries
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain.serving.observed import MeteredWorkload


@with_records
def command(
    answers: Answers = None,
    *,
    queries: Queries = False,
    source: PrometheusFlags,
    window: Annotated[str, typer.Option(help="The last so long: 30m, 6h, 7d. [default: 1h]", show_default=False)] = "",
    engine: Annotated[
        str,
        typer.Option(help=f"{ANY_ENGINE}. [default: the one whose metrics are there]", show_default=False),
    ] = "",
    selector: Annotated[
        str,
        typer.Option(
            help="Only series with these labels, as in PromQL's braces: 'namespace=\"x\"'.", show_default=False
        ),
    ] = "",
    longest: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens that no request exceeds, as the model's context.", show_default=False),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Workload file, FILE.yaml.", show_default=False)] = None,
    name: Annotated[str, typer.Option(help="Name of the workload. [default: the file's]", show_default=False)] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Make a workload of what running engines count: lengths, rate, and what prefix caches had.

    Histograms tell classes of lengths and their mean; within classes lengths are spread so that entropy is greatest."""
    from planner import files
    from planner.runs.live import lengths

    if sum(map(bool, (queries, answers, source.prometheus))) != 1:
        raise InputError(
            "planner workload from-metrics: must get one of answer files, --prometheus and --queries.",
            hint="planner workload from-metrics --prometheus http://localhost:9090 --out FILE asks by itself.",
        )
    endpoint = source.source()
    if queries:
        show_queries(
            lengths.queries_of(engine, window or "1h", selector), "planner workload from-metrics", as_json=json
        )
        return
    if out is not None:
        files.refuse_existing(out, force=force)
    name = name or ("metered" if out is None else out.stem)
    metered = lengths.metered_workload(
        endpoint or answers or [], engine, name, longest, window=window, selector=selector
    )
    if out is not None:
        files.write_workload(metered.profile, out, force=force, source=metered.source)
    _show(metered, out, as_json=json)


def _show(metered: "MeteredWorkload", out: Path | None, *, as_json: bool) -> None:
    from dataclasses import replace

    from planner.report.workload.document import workload_document
    from planner.report.workload.words import summary_rows
    from planner.workload.summary import describe

    summary = replace(describe(metered.profile), answers=metered.answers)
    if as_json:
        screen.show_json(
            {
                "workload": summary.name,
                "file": None if out is None else str(out),
                "engine": metered.engine,
                "model": metered.model,
                "hit_share": metered.hit_share,
                "notes": list(metered.notes),
                **workload_document(summary),
            }
        )
        return
    screen.show_table(f"Workload {summary.name}", ("what", "value"), summary_rows(summary))
    for note in metered.notes:
        screen.show_note(f"note: {note}")
    if out is not None:
        screen.show_note(f"Workload {summary.name}: {out}; in a scenario: `workload: {out}`.")
