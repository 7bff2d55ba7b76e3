"""`planner plan`: scenarios in, run folders out."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.errors import EXIT_FAILURE, InputError

if TYPE_CHECKING:
    from planner.batch import Job

RUNS = Path("runs")


def command(
    scenarios: Annotated[list[Path], typer.Argument(help="Scenario files.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder; with several scenarios the folder of their run folders. [default: runs/NAME]"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace run folders that exist.")] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**32 - 1, help="Instead of the scenario's search.seed.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1024,
            help="Processes: for the evaluations of one scenario, or for several scenarios. [default: 1; cores]",
        ),
    ] = None,
    engine: Annotated[str, typer.Option(help="Engine of the manifests: vllm or sglang.")] = "vllm",
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Plan one or several scenarios, a run folder each."""
    from planner.batch import Job

    jobs = [
        Job(
            scenario=path,
            folder=_folder(path, out, several=len(scenarios) > 1),
            force=force,
            seed=seed,
            processes=processes if len(scenarios) == 1 else None,
            engine=engine,
        )
        for path in scenarios
    ]
    _check_engine(engine)
    if len(jobs) == 1:
        _one(jobs[0], as_json=json, quiet=quiet or json)
    else:
        _several(jobs, workers=processes or os.cpu_count() or 1, as_json=json, quiet=quiet or json)


def _folder(scenario: Path, out: Path | None, *, several: bool) -> Path:
    if several or out is None:
        return (out or RUNS) / scenario.stem
    return out


def _check_engine(engine: str) -> None:
    """A wrong engine is told before the search, not after it."""
    from planner.export import ENGINES

    if engine not in ENGINES:
        raise InputError(f"--engine: must be one of {', '.join(ENGINES)}, came {engine!r}.", hint="Choose one of them.")


def _one(job: "Job", *, as_json: bool, quiet: bool) -> None:
    from planner.batch import run_job

    with screen.search_progress(job.scenario.stem, quiet=quiet) as progress:
        outcome = run_job(job, progress)
    for warning in outcome.warnings:
        screen.show_warning(warning)
    if as_json:
        screen.show_json(asdict(outcome))
    else:
        screen.show_text((job.folder / "summary.md").read_text(encoding="utf-8"))
        screen.show_text(f"Written to {job.folder}")


def _several(jobs: "list[Job]", *, workers: int, as_json: bool, quiet: bool) -> None:
    from planner.batch import run_scenarios

    twice = sorted({str(job.folder) for job in jobs if sum(job.folder == other.folder for other in jobs) > 1})
    if twice:
        raise InputError(
            f"scenarios: two of them would be written to {twice[0]}.", hint="Give the files different names."
        )
    outcomes = {}
    for outcome in run_scenarios(jobs, workers):
        outcomes[outcome.folder] = outcome
        if not quiet:
            said = "done" if outcome.status == 0 else f"failed with status {outcome.status}"
            screen.show_note(f"{outcome.scenario}: {said}")
        for warning in outcome.warnings:
            screen.show_warning(f"{outcome.scenario}: {warning}")
    ordered = [outcomes[str(job.folder)] for job in jobs]
    if as_json:
        screen.show_json([asdict(outcome) for outcome in ordered])
    else:
        columns = ("scenario", "status", "requests/s", "USD/hour", "USD/M tokens", "folder or error")
        screen.show_table(
            "Plans",
            columns,
            [
                (
                    o.scenario,
                    o.status,
                    o.throughput_rps,
                    o.price_usd_per_hour,
                    o.price_usd_per_million_tokens,
                    o.message or o.folder,
                )
                for o in ordered
            ],
        )
    failures = {outcome.status for outcome in ordered if outcome.status}
    if failures:
        raise typer.Exit(failures.pop() if len(failures) == 1 else EXIT_FAILURE)
