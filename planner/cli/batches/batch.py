"""`planner batch`: many scenarios, planned; `planner batch-manifests`: as Kubernetes objects."""

import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.program.every_command import ANY_ENGINE
from planner.cli.program.shared_options import Executor, Scheduler, typed_again
from planner.cli.terminal.wide_tables import show_rows
from planner.errors import EXIT_DONE, EXIT_INFEASIBLE, EXIT_INTERRUPTED, InputError, PlannerError

if TYPE_CHECKING:
    from planner.domain.comparisons import Batch
    from planner.runs.batches.batches import BatchRequest, BatchResult
    from planner.runs.batches.working import BatchProgress, ReportJob

LINE_EVERY_S = 30.0
"""Between two lines of progress where nobody looks at a terminal."""
MOST_SHOWN = 50
"""Jobs in the table on the terminal; the files have all."""


def command(
    source: Annotated[
        Path, typer.Argument(metavar="JOBS", help="A jobs file, or a folder of scenario files.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="Folder for the batch.", show_default=False)],
    resume: Annotated[bool, typer.Option("--resume", help="Plan only what is missing or changed there.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of every scenario, such as slo.tpot_ms=40."),
    ] = None,
    executor: Executor = "local",
    scheduler: Scheduler = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Plan part I of N, counted from 0, beside others.", show_default=False),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Jobs side by side on this machine. [default: cores]")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**32 - 1, help="Instead of every job's seed.", show_default=False)
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help=f"Engine to plan for: {ANY_ENGINE}. [default: the jobs']", show_default=False)
    ] = None,
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", help="Draw the figures of every run; small plans take less time.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Plan many scenarios, each once: jobs of a file with grids, or every scenario of a folder; a table of all.

    Exit status: 0 every job has a plan, 3 some are infeasible, 1 some failed, 2 bad input."""
    from planner.cli.plan.plan import check_engine
    from planner.files.scenario.settings import read_setting
    from planner.runs.batches.batches import BatchRequest, run_batch
    from planner.runs.batches.choosing import executor_of
    from planner.runs.batches.listing import read_shard

    check_engine(engine)
    changes = tuple(map(read_setting, settings or []))
    request = BatchRequest(
        source=source,
        folder=out,
        settings=changes,
        seed=seed,
        engine=engine,
        executor=executor,
        figures=figures,
        shard=read_shard(shard) if shard else None,
    )
    workers = processes or os.cpu_count() or 1
    chosen = executor_of(executor, workers=workers, scheduler=scheduler, tell=screen.show_warning)
    try:
        with _progress(executor, quiet=quiet or json) as report:
            result = run_batch(request, chosen, report, resume=resume)
    except KeyboardInterrupt:
        _tell_how_to_resume(request, typed_again(executor, scheduler, processes, seed, engine))
        raise typer.Exit(EXIT_INTERRUPTED) from None
    _finish(result, out, as_json=json, part=shard)


def _finish(result: "BatchResult", out: Path, *, as_json: bool, part: str | None) -> None:
    """Files and words; where the disk takes no files any more, the words nevertheless. A part writes no files of all:
    others are at work."""
    from planner.files.plan.batches.indexes import INSTALL_PARQUET, can_write_parquet
    from planner.runs.batches.batches import exit_status
    from planner.runs.comparisons import write_batch_files

    for run, reason in result.effort.quarantined:
        screen.show_warning(f"{run}: moved to {out / 'quarantine'} and done again: {reason}")
    refusal: InputError | None = None
    try:
        if part is None:
            write_batch_files(out, result)
    except InputError as error:
        refusal = error
    show(result.batch, out, as_json=as_json)
    if not can_write_parquet() and not as_json:
        screen.show_note(
            f"No results.parquet: pyarrow is not installed ({INSTALL_PARQUET}); results.csv has the same rows."
        )
    if refusal is not None or result.refused:
        reason = result.refused or str(refusal)
        raise PlannerError(f"{out}: the batch is not complete: {reason}", hint="Then run it again with --resume.")
    raise typer.Exit(exit_status(result.batch))


def show(batch: "Batch", folder: Path, *, as_json: bool) -> None:
    """The batch on standard output."""
    from planner.report.comparison.batch import batch_document, jobs, reasons, verdict
    from planner.report.kit.markdown import bullets
    from planner.runs.batches.batches import exit_status

    if as_json:
        screen.show_json({"folder": str(folder)} | batch_document(batch, exit_status(batch)))
        return
    show_rows(f"Batch of {batch.index.source}", *jobs(batch, MOST_SHOWN).words(), first=1)
    more = len(batch.jobs) - MOST_SHOWN
    lines = [verdict(batch), *([f"{more} more jobs: see results.csv."] if more > 0 else []), bullets(reasons(batch))]
    screen.show_markdown("\n\n".join(filter(None, lines)))
    screen.show_text(f"Tables, page and runs: {folder}")


def _tell_how_to_resume(request: "BatchRequest", options: list[str]) -> None:
    words = ["planner", "batch", str(request.source)]
    words += [word for setting in request.settings for word in ("--set", setting.text)]
    words += [*options, *([] if request.figures else ["--no-figures"])]
    part = ["--resume"] if request.shard is None else ["--shard", f"{request.shard.index}/{request.shard.count}"]
    words += ["--out", str(request.folder), *part]
    screen.show_note(f"Interrupted; resume with: {shlex.join(words)}")


@contextmanager
def _progress(executor: str, *, quiet: bool) -> "Iterator[ReportJob]":
    """A bar on a terminal; elsewhere a line for the first and the last job, for failures, and one now and then."""
    if quiet:
        yield lambda _: None
    elif screen.draws_bars():
        with _bar(executor) as report:
            yield report
    else:
        yield _Lines(executor)


@contextmanager
def _bar(executor: str) -> "Iterator[ReportJob]":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn(executor), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=screen.err()) as bar:
        task = bar.add_task("", total=None)
        yield lambda progress: bar.update(
            task, completed=progress.ended, total=progress.total, description=pace_words(progress)
        )


class _Lines:
    """Progress as lines on standard error."""

    def __init__(self, executor: str) -> None:
        self._executor = executor
        self._last_s = 0.0

    def __call__(self, progress: "BatchProgress") -> None:
        """A line, where it is time for one."""
        now_s = time.monotonic()
        failed = progress.outcome.status not in (EXIT_DONE, EXIT_INFEASIBLE)
        if failed or progress.ended in (1, progress.total) or now_s - self._last_s >= LINE_EVERY_S:
            self._last_s = now_s
            name = Path(progress.outcome.folder).name
            why = f"; {name}: {progress.outcome.message}" if failed else ""
            line = f"{progress.ended}/{progress.total} jobs ({self._executor}): {pace_words(progress)}{why}"
            print(line, file=sys.stderr, flush=True)


def pace_words(progress: "BatchProgress") -> str:
    """`14.2 jobs/min, 3 min left, 2 failed`."""
    remaining = [f"{duration(progress.left_s)} left"] if progress.ended < progress.total else []
    failures = [f"{progress.failures} failed"] if progress.failures else []
    return ", ".join([f"{progress.per_minute:.3g} jobs/min", *remaining, *failures])


def duration(seconds: float) -> str:
    """`40 s`, `3 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


INDEXED, DASK = "indexed", "dask"


def manifests(
    jobs: Annotated[
        str, typer.Argument(metavar="JOBS", help="Jobs file or folder, as the pods see it.", show_default=False)
    ],
    batch: Annotated[str, typer.Option(help="Folder of the batch, as the pods see it.", show_default=False)],
    image: Annotated[str, typer.Option(help="Image with the planner, with Dask for dask.", show_default=False)],
    claim: Annotated[str, typer.Option(help="PersistentVolumeClaim that all pods mount.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for the manifests.", show_default=False)],
    kind: Annotated[
        str,
        typer.Option(help="indexed: a Job whose pods share the jobs; dask: a Dask cluster.", metavar="indexed|dask"),
    ] = INDEXED,
    name: Annotated[str, typer.Option(help="What the objects are called.")] = "planner-batch",
    mount: Annotated[str, typer.Option(help="Where the volume lies in the pods.")] = "/files",
    workers: Annotated[int, typer.Option(min=1, max=10_000, help="Pods side by side.")] = 4,
    cpus: Annotated[int, typer.Option(min=1, max=1024, help="Cores of a pod: jobs at once.")] = 1,
    memory_gb: Annotated[float, typer.Option(help="Memory of a pod, GB.")] = 4.0,
    force: Annotated[bool, typer.Option("--force", help="Replace manifests that exist.")] = False,
) -> None:
    """Write Kubernetes manifests of a batch: an indexed Job, or a Dask cluster with its client; plain objects."""
    from planner import files
    from planner.export.batch_objects import BatchObjects, dask_files, indexed_job_files

    rendered = {INDEXED: indexed_job_files, DASK: dask_files}
    if kind not in rendered:
        raise InputError(f"--kind: must be one of {', '.join(rendered)}, got {kind!r}.", hint="Leave it out.")
    objects = BatchObjects(
        name=name,
        image=image,
        claim=claim,
        mount=PurePosixPath(mount),
        jobs=PurePosixPath(jobs),
        folder=PurePosixPath(batch),
        workers=workers,
        cpus=cpus,
        memory_gb=memory_gb,
    )
    texts = {path: text.encode() for path, text in rendered[kind](objects).items()}
    kinds = ("20-shards.yaml", "30-tables.yaml", "20-scheduler.yaml", "30-workers.yaml", "40-client.yaml")
    files.write_folder(out, texts, force=force, kinds=(*kinds, "50-tables.yaml"))
    screen.show_text(f"Written to {out}: {', '.join(texts)}")
