"""`planner sweep`: a scenario planned at every point of a grid of its keys."""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.batches.batch import duration
from planner.cli.program.every_command import ANY_ENGINE
from planner.cli.program.shared_options import Executor, Scheduler, typed_again
from planner.cli.terminal.wide_tables import show_rows
from planner.errors import EXIT_FAILURE, EXIT_INFEASIBLE, EXIT_INTERRUPTED

if TYPE_CHECKING:
    from planner.domain.comparisons import Sweep
    from planner.runs.batches.working import BatchProgress, ReportJob


def command(
    scenario: Annotated[Path, typer.Argument(help="A scenario file.", show_default=False)],
    settings: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=VALUES",
            help="A key and its values: slo.tpot_ms=40,60 or inventory.H20=64..256:64. Several make a grid.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the sweep.", show_default=False)],
    resume: Annotated[bool, typer.Option("--resume", help="Plan only what is missing or changed there.")] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Points side by side. [default: cores]", show_default=False)
    ] = None,
    executor: Executor = "local",
    scheduler: Scheduler = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**32 - 1, help="Instead of the scenario's search.seed.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help=f"Engine to plan for: {ANY_ENGINE}. [default: the scenario's]", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Plan a scenario at every combination of values of its keys; one table and one page of all."""
    from planner.cli.plan.plan import check_engine
    from planner.files.scenario.settings import read_swept_key
    from planner.runs.batches.choosing import executor_of
    from planner.runs.batches.sweeps import SweepRequest, run_sweep
    from planner.runs.comparisons import write_sweep_files

    check_engine(engine)
    keys = tuple(map(read_swept_key, settings))
    request = SweepRequest(scenario=scenario, keys=keys, folder=out, seed=seed, engine=engine)
    workers = executor_of(
        executor, workers=processes or os.cpu_count() or 1, scheduler=scheduler, tell=screen.show_warning
    )
    try:
        with _progress(quiet=quiet or json) as report:
            sweep = run_sweep(request, workers, report, resume=resume)
    except KeyboardInterrupt:
        _tell_how_to_resume(scenario, settings, typed_again(executor, scheduler, processes, seed, engine), out)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    write_sweep_files(out, sweep)
    show(sweep, out, as_json=json)
    raise typer.Exit(_status(sweep))


def show(sweep: "Sweep", folder: Path, *, as_json: bool) -> None:
    """The sweep on standard output."""
    from planner.report.comparison.sweep import points, reasons, sweep_document, verdict
    from planner.report.kit.markdown import bullets

    if as_json:
        screen.show_json({"folder": str(folder)} | sweep_document(sweep))
        return
    show_rows(f"Sweep of {sweep.index.scenario}", *points(sweep).words(), first=len(sweep.varying))
    screen.show_markdown("\n\n".join(filter(None, (verdict(sweep), bullets(reasons(sweep))))))
    screen.show_text(f"Table, page and runs: {folder}")


def _status(sweep: "Sweep") -> int:
    """0 where every point is planned or known to be infeasible; 3 where all are infeasible, 1 where one failed."""
    from planner.domain.comparisons import PointState

    if any(point.state in (PointState.FAILED, PointState.MISSING) for point in sweep.points):
        return EXIT_FAILURE
    return 0 if sweep.count(PointState.PLANNED) else EXIT_INFEASIBLE


def _tell_how_to_resume(scenario: Path, settings: list[str], options: list[str], out: Path) -> None:
    words = ["planner", "sweep", str(scenario), *(word for text in settings for word in ("--set", text)), *options]
    screen.show_note(f"Interrupted; resume with: {shlex.join([*words, '--out', str(out), '--resume'])}")


@contextmanager
def _progress(*, quiet: bool) -> "Iterator[ReportJob]":
    """A line a point, with the time left; on a terminal too, as points take seconds."""

    def listen(progress: "BatchProgress") -> None:
        if quiet:
            return
        outcome = progress.outcome
        rate = f"{outcome.throughput_rps:.1f} requests/s" if outcome.throughput_rps else f"status {outcome.status}"
        remaining = f", {duration(progress.left_s)} left" if progress.ended < progress.total else ""
        name = Path(outcome.folder).name.rpartition("-")[0]
        print(f"{progress.ended}/{progress.total}: {name}: {rate}{remaining}", file=sys.stderr, flush=True)

    yield listen
