"""`planner plan`: scenarios in, run folders out; an interrupted search resumes."""

import os
import shlex
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan.fleets import plan_if_fleet, refuse_fleets, refuse_to_resume
from planner.cli.program.every_command import ANY_ENGINE
from planner.cli.program.shared_options import Executor, Scheduler
from planner.cli.terminal.summaries import answer_last
from planner.errors import EXIT_FAILURE, EXIT_INTERRUPTED, InputError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from planner.processes.workers import TaskPool
    from planner.runs import Job, Outcome
    from planner.runs.batches.jobs import Executor as Executing

RUNS = Path("runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Who plans, as the options say it; `processes`: None for a default."""

    executor: str
    scheduler: str | None
    processes: int | None

    def pool(self) -> "AbstractContextManager[TaskPool | None]":
        """Who evaluates the layouts of one scenario; None: this machine's processes."""
        from planner.runs.batches.choosing import open_pool

        return open_pool(self.executor, workers=self._count, scheduler=self.scheduler, tell=screen.show_warning)

    def executing(self) -> "Executing":
        """Who plans several scenarios. Raises InputError."""
        from planner.runs.batches.choosing import executor_of

        return executor_of(self.executor, workers=self._count, scheduler=self.scheduler, tell=screen.show_warning)

    @property
    def _count(self) -> int:
        return self.processes or os.cpu_count() or 1


def command(
    scenarios: Annotated[list[Path] | None, typer.Argument(help="Scenario files.", show_default=False)] = None,
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
    executor: Executor = "local",
    scheduler: Scheduler = None,
    engine: Annotated[
        str | None,
        typer.Option(help=f"Engine to plan for: {ANY_ENGINE}. [default: the scenario's]", show_default=False),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Resume the unfinished search in this run folder.", show_default=False)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the scenario, such as slo.tpot_ms=40."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Plan one or several scenarios, a run folder each; or resume an interrupted search."""
    from planner.files.scenario.settings import read_setting
    from planner.runs import Job

    paths, changes = scenarios or [], tuple(map(read_setting, settings or []))
    workers = Workers(executor=executor, scheduler=scheduler, processes=processes)
    check_engine(engine)
    if resume is not None:
        _check_resume(paths, out=out, force=force)
        if changes and not paths:
            raise InputError(
                f"--set {changes[0].key}: sets a key of a scenario file, got none.",
                hint="Name the scenario that the search was begun with, or leave out --set.",
            )
        path = paths[0] if paths else None
        refuse_to_resume(resume, path)
        job = Job(scenario=path, folder=resume, seed=seed, processes=processes, engine=engine, settings=changes)
        _plan_one(job, workers, resume=True, as_json=json, quiet=quiet or json)
        return
    if not paths:
        raise typer.BadParameter("name one, or give --resume DIR.", param_hint="SCENARIOS")
    jobs = [
        Job(
            scenario=path,
            folder=_folder(path, out, several=len(paths) > 1),
            force=force,
            seed=seed,
            processes=processes if len(paths) == 1 else None,
            engine=engine,
            settings=changes,
        )
        for path in paths
    ]
    if len(jobs) == 1:
        if not plan_if_fleet(jobs[0], as_json=json, quiet=quiet or json):
            _plan_one(jobs[0], workers, resume=False, as_json=json, quiet=quiet or json)
    else:
        refuse_fleets(paths)
        _several(jobs, workers, as_json=json, quiet=quiet or json)


def _check_resume(scenarios: list[Path], *, out: Path | None, force: bool) -> None:
    flags = [flag for flag, present in (("--out", out is not None), ("--force", force)) if present]
    if flags:
        raise InputError(
            f"--resume: works in the folder as it is, got {' and '.join(flags)}.",
            hint=f"Leave out {' and '.join(flags)}, or plan anew without --resume.",
        )
    if len(scenarios) > 1:
        raise InputError(
            f"--resume: resumes the search of one scenario, got {len(scenarios)} scenarios.",
            hint="Resume each folder by itself; the folder knows its scenario.",
        )


def _folder(scenario: Path, out: Path | None, *, several: bool) -> Path:
    if several or out is None:
        return (out or RUNS) / scenario.stem
    return out


def check_engine(engine: str | None) -> None:
    """A wrong engine fails before the search, not after it."""
    if engine is None:
        return
    from planner.export import ENGINES

    if engine not in ENGINES:
        raise InputError(f"--engine: must be one of {', '.join(ENGINES)}, got {engine!r}.", hint="Choose one of them.")


def _plan_one(job: "Job", workers: Workers, *, resume: bool, as_json: bool, quiet: bool) -> None:
    from planner.runs import resume_job, run_job

    try:
        with workers.pool() as pool, screen.search_progress(job.name, quiet=quiet) as progress:
            outcome = resume_job(job, progress, pool) if resume else run_job(job, progress, pool)
    except KeyboardInterrupt:
        _tell_how_to_go_on([job.folder])
        raise typer.Exit(EXIT_INTERRUPTED) from None
    for warning in outcome.warnings:
        screen.show_warning(warning)
    if outcome.message and not outcome.status:
        screen.show_note(f"{job.folder}: {outcome.message}")
    if as_json:
        screen.show_json(_document(outcome))
    else:
        screen.show_markdown(answer_last((job.folder / "summary.md").read_text(encoding="utf-8")))
        screen.show_text(f"Written to {job.folder}")
    if outcome.status:
        _tell_how_to_go_on([job.folder])
        raise typer.Exit(outcome.status)


def _tell_how_to_go_on(folders: Iterable[Path]) -> None:
    """An interrupt is no loss: say so, where a search has left its journal."""
    from planner.files import holds_search

    for folder in folders:
        if holds_search(folder):
            screen.show_note(f"Interrupted; resume with: planner plan --resume {shlex.quote(str(folder))}")


def _tell_of(outcome: "Outcome", *, quiet: bool) -> None:
    if not quiet:
        result = "done" if outcome.status == 0 else f"failed with status {outcome.status}"
        screen.show_note(f"{outcome.scenario}: {result}")
    for warning in outcome.warnings:
        screen.show_warning(f"{outcome.scenario}: {warning}")


_FOR_BATCHES = frozenset({"figures", "worker_died", "unwritable", "cpu_s", "wall_s"})


def _document(outcome: "Outcome") -> dict[str, object]:
    """What is printed of an outcome: the same bytes for the same plan, without what batches alone look at."""
    return {key: value for key, value in asdict(outcome).items() if key not in _FOR_BATCHES}


def _rate(outcome: "Outcome") -> object:
    """Requests/s, with the band where there is one."""
    from planner.report.kit.quantities import Banded

    rate, low, high = outcome.throughput_rps, outcome.low_rps, outcome.high_rps
    return str(Banded(rate, low, high)) if rate and low and high else rate


def _several(jobs: "list[Job]", workers: Workers, *, as_json: bool, quiet: bool) -> None:
    twice = sorted({str(job.folder) for job in jobs if sum(job.folder == other.folder for other in jobs) > 1})
    if twice:
        raise InputError(
            f"scenarios: two of them would be written to {twice[0]}.", hint="Give the files different names."
        )
    outcomes = {}
    try:
        with closing(workers.executing().run(jobs)) as ended:
            for outcome in ended:
                outcomes[outcome.folder] = outcome
                _tell_of(outcome, quiet=quiet)
    except KeyboardInterrupt:
        _tell_how_to_go_on(job.folder for job in jobs)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    ordered = [outcomes[str(job.folder)] for job in jobs]
    if as_json:
        screen.show_json([_document(outcome) for outcome in ordered])
    else:
        columns = ("scenario", "status", "requests/s", "USD/hour", "USD/M tokens", "folder or error")
        screen.show_table(
            "Plans",
            columns,
            [
                (
                    o.scenario,
                    o.status,
                    _rate(o),
                    o.price_usd_per_hour,
                    o.price_usd_per_million_tokens,
                    o.message or o.folder,
                )
                for o in ordered
            ],
            important=("status", "requests/s", "folder or error", "USD/hour"),
        )
    failures = {outcome.status for outcome in ordered if outcome.status}
    if failures:
        raise typer.Exit(failures.pop() if len(failures) == 1 else EXIT_FAILURE)
