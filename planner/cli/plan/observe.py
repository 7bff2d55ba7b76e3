"""`planner observe`: where a running deployment and its plan differ."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan import saved_runs
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.runs.live.observing import ObservedRun


def command(
    run: saved_runs.Run,
    answers: Annotated[
        list[Path] | None,
        typer.Argument(help="Answers of Prometheus (JSON) to the queries of --queries.", show_default=False),
    ] = None,
    queries: Annotated[bool, typer.Option("--queries", help="Print the queries, as commands, and stop.")] = False,
    prometheus: Annotated[
        str, typer.Option(help="Ask a Prometheus there, as http://localhost:9090.", show_default=False)
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option(help="Its bearer token. [default: PLANNER_PROMETHEUS_TOKEN, where it is set]", show_default=False),
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="Certificates to trust. [default: the machine's]", show_default=False)
    ] = None,
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

    if sum(map(bool, (queries, answers, prometheus))) != 1:
        raise InputError(
            "planner observe: must get one of answer files, --prometheus and --queries.",
            hint="planner observe RUN --prometheus http://localhost:9090 asks by itself; --queries says how to.",
        )
    if not prometheus and (token_file or ca_file):
        raise InputError("--token-file, --ca-file: go with --prometheus alone.", hint="Leave them out.")
    if answers and (window or engine):
        raise InputError(
            "--window, --engine: must be left out with answer files, which tell their own.", hint="Leave them out."
        )
    plan = saved_runs.read_run(run)
    if queries:
        from planner import export

        asked_engine = export.priced_engine(plan, engine).name
        _show_queries(export.observe_queries(plan, asked_engine, name, window), as_json=json)
        return
    if out is not None:
        files.claim_folder(out, observing.file_names(), force=force)
    if prometheus:
        from planner.runs.live.prometheus import prometheus_at

        source = prometheus_at(prometheus, token_file, ca_file)
        observed = observing.observe_live(plan, source, engine, name, window)
    else:
        observed = observing.observe_run(plan, answers or [], name)
    if out is not None:
        files.write_folder(out, observed.files, force=force, kinds=observing.file_names())
    _show(observed, out, as_json=json)


def _show_queries(queries: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        screen.show_json(queries)
        return
    screen.show_text("# PROMETHEUS: where it answers, as http://localhost:9090; then planner observe RUN *.json")
    for name, query in queries.items():
        parameter = shlex.quote(f"query={query}")
        screen.show_text(f'curl -sfG "$PROMETHEUS/api/v1/query" --data-urlencode {parameter} -o {name}.json')


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
