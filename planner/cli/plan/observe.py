"""`planner observe`: where a running deployment and its plan differ."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan import saved_runs
from planner.cli.program.option_records import with_records
from planner.cli.program.shared_options import Answers, PrometheusFlags, Queries, show_queries
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.runs.live.observing import ObservedRun


@with_records
def command(
    run: saved_runs.Run,
    *,
    answers: Answers = None,
    queries: Queries = False,
    source: PrometheusFlags,
    window: Annotated[
        str,
        typer.Option(
            help="The last so long, as 1h, from the engines' own metrics. [default: what the rules of monitoring.yaml "
            "record]",
            show_default=False,
        ),
    ] = "",
    name: Annotated[
        str, typer.Option(help="The name that the plan was exported under. [default: the scenario's]")
    ] = "",
    engine: Annotated[
        str,
        typer.Option(help="The engine that runs. [default: the plan's]", show_default=False),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for observe.md, .csv, .json and calibration.yaml.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an observation that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Compare a running deployment's metrics with its plan, and fit a calibration to what they tell."""
    from planner import files
    from planner.runs.live import observing

    prometheus = source.prometheus
    if sum(map(bool, (queries, answers, prometheus))) != 1:
        raise InputError(
            "planner observe: must get one of answer files, --prometheus and --queries.",
            hint="planner observe RUN --prometheus http://localhost:9090 asks by itself; --queries says how to.",
        )
    endpoint = source.source()
    if answers and (window or engine):
        raise InputError(
            "--window, --engine: must be left out with answer files, which tell their own.", hint="Leave them out."
        )
    plan = saved_runs.read_run(run)
    if queries:
        from planner import export

        asked_engine = export.priced_engine(plan, engine).name
        show_queries(export.observe_queries(plan, asked_engine, name, window), "planner observe RUN", as_json=json)
        return
    if out is not None:
        files.claim_folder(out, observing.file_names(), force=force)
    if endpoint is not None:
        observed = observing.observe_live(plan, endpoint, engine, name, window)
    else:
        observed = observing.observe_run(plan, answers or [], name)
    if out is not None:
        files.write_folder(out, observed.files, force=force, kinds=observing.file_names())
    _show(observed, out, as_json=json)


def _show(observed: "ObservedRun", out: Path | None, *, as_json: bool) -> None:
    from planner import report
    from planner.report import observed as tables

    observation, fit = observed.observation, observed.fit
    if as_json:
        folder = None if out is None else str(out)
        screen.show_json({"folder": folder, **report.observation_document(observation, fit)})
        return
    screen.show_prose(tables.observed_verdict(observation))
    screen.show_table("Promised and measured", *tables.figures(observation.figures).words())
    screen.show_table("Islands", *tables.islands(observation).words())
    for line in observation.advice:
        screen.show_prose(f"to do: {line}")
    for note in observation.notes:
        screen.show_note(f"note: {note}")
    if fit is not None:
        for factor in fit.calibration.factors:
            screen.show_text(f"factor {factor.name} ({factor.family}): {factor.value:.4g}")
    if out is not None:
        screen.show_text(f"Written to {out}")
