"""`planner study chapter5`: the paper's evaluation done again with the planner's own model."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.program.shared_options import Executor, Scheduler
from planner.domain import Candidates, CostMode
from planner.errors import InputError, PlannerError
from planner.studies.commands import REPORT_FILE, runs_progress, workers_of

if TYPE_CHECKING:
    from planner.domain import RequestTrace, Scenario
    from planner.studies.chapter5.experiments import Request
    from planner.studies.chapter5.journals import TrialJournal
    from planner.studies.chapter5.records import Setup, Study
    from planner.studies.chapter5.study import Step
    from planner.studies.chapter5.trials import Pace

OUT = Path("runs/chapter5")


def command(
    trials: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Searches a case. [default: the paper's, 5 or 10]")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Rounds a search. [default: the paper's, 10, 15 or 20]")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Layouts a round, where that is not what is varied.")
    ] = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(help="Only this: table5.1, or 4.8, or a figure from 5.1 to 5.13; may be repeated. [default: all]"),
    ] = None,
    trace: Annotated[
        list[Path] | None,
        typer.Option(help="Requests that figure 5.13 shows, as CSV or JSON lines; may be repeated. [default: Azure's]"),
    ] = None,
    mode: Annotated[CostMode, typer.Option(help="Cost mode; reference is the paper's.")] = CostMode.REFERENCE,
    candidates: Annotated[
        Candidates, typer.Option(help="Where searches seek layouts; acquisition is the paper's way.")
    ] = Candidates.ACQUISITION,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1001, help="Of the first trial; the others follow.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for study.md, tables and figures.")] = OUT,
    processes: Annotated[int, typer.Option(min=1, max=1024, help="Searches at once.")] = 1,
    executor: Executor = "local",
    scheduler: Scheduler = None,
    small: Annotated[
        bool, typer.Option("--small", help="Fewer trials, rounds and values: minutes, not hours.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a study that exists.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No expected time, and no progress.")] = False,
) -> None:
    """The paper's evaluation (chapter 5): its table and figures, beside its own numbers and the exact optimum."""
    from planner import files
    from planner.plans.provenance import versions
    from planner.runs.pages import written_page
    from planner.studies.chapter5.experiments import FIGURES, Request
    from planner.studies.chapter5.journals import SEARCHES_FILE, holds_searches, trial_journal
    from planner.studies.chapter5.report.page import study_page
    from planner.studies.chapter5.report.plots import chapter5_plots, file_names, render_study
    from planner.studies.chapter5.study import run, scenario_reader

    request = Request(
        figures=tuple(figure or ()),
        trials=trials,
        iterations=iterations,
        batch_size=batch,
        seed=seed,
        candidates=candidates,
        mode=mode,
        small=small,
    )
    request.chosen()
    traces = _traces(trace or (), request)
    kinds = [*file_names(FIGURES), REPORT_FILE, SEARCHES_FILE]
    files.claim_folder(out, kinds, force=force or holds_searches(out))  # fails before the work, not after it
    scenario_of = scenario_reader(mode)
    if not quiet:
        _tell_time(request, scenario_of, processes)
    with (
        trial_journal(out, versions()) as journal,
        _keeping_searches(journal, out),
        workers_of(executor, processes, scheduler) as workers,
        runs_progress("chapter5", _tell_case, quiet=quiet, counted="layouts", lines_too=True) as listen,
    ):
        study = run(request, scenario_of, processes=workers, listen=listen, journal=journal, traces=traces)
        rendered = render_study(study) | {REPORT_FILE: written_page(study_page(study), chapter5_plots(study))}
        files.write_folder(out, rendered, force=True, kinds=kinds)  # in place of the searches
    _show(study, out)


def _traces(paths: "Sequence[Path]", request: "Request") -> "list[RequestTrace]":
    """The traces of figure 5.13. InputError: none of it was asked for, or two of one name."""
    from planner import files
    from planner.studies.chapter5.experiments import TOKENS

    if paths and TOKENS not in request.chosen():
        raise InputError(
            f"--trace: only figure {TOKENS} shows traces, and it was not asked for, got {paths[0]}.",
            hint=f"Add --figure {TOKENS}, or drop --trace.",
        )
    traces = [files.read_trace(path) for path in paths]
    names = [trace.name for trace in traces]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"--trace: names must differ, got {twice[0]} twice.", hint="Rename one of the files.")
    return traces


@contextmanager
def _keeping_searches(journal: "TrialJournal", out: Path) -> "Iterator[None]":
    """Keep a study's searches however it ends, and tell the user."""
    if journal.searches:
        screen.show_note(f"{out}: resumes from {_searches(journal)} kept there")
    try:
        yield
    except KeyboardInterrupt:
        if journal.searches:
            screen.show_note(f"Interrupted; {_way_on(journal, out)}")
        raise
    except PlannerError as error:
        if not journal.searches:
            raise
        raise type(error)(error.message, hint=f"{error.hint} {_way_on(journal, out)}".strip()) from error


def _way_on(journal: "TrialJournal", out: Path) -> str:
    return f"{_searches(journal)} kept in {out}: the same command resumes from there."


def _searches(journal: "TrialJournal") -> str:
    return "1 search" if journal.searches == 1 else f"{journal.searches} searches"


def _tell_time(request: "Request", scenario_of: "Callable[[Setup], Scenario]", processes: int) -> None:
    from planner.studies.chapter5.experiments import experiments, island_cases
    from planner.studies.chapter5.trials import expected

    def tell_pace(pace: "Pace") -> None:
        screen.show_note(
            f"measured: {pace.encoding.value}, {pace.surrogate.value}: {pace.choosing_s:.2g} CPU-seconds choose "
            f"{pace.batch_size} layouts, {pace.judging_s:.2g} judge one"
        )

    seconds, _ = expected(experiments(request), scenario_of, islands=bool(island_cases(request)), listen=tell_pace)
    wall = "" if processes == 1 else f", {_time(seconds / processes)} on {processes} cores"
    screen.show_note(f"expected: about {_time(seconds)} of one core{wall}")


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _tell_case(step: "Step") -> None:
    if step.case is None:
        return
    final, optimum = step.case.final, step.case.optimum
    best = f", optimum {optimum.rate_rps:.1f}" if optimum else ""
    screen.show_note(
        f"{step.done}/{step.total} layouts: {step.experiment}, {step.case.case.label}: mean {final.mean:.1f} "
        f"requests/s{best}, {step.case.cpu_s.mean:.1f} CPU-seconds a trial"
    )


def _show(study: "Study", out: Path) -> None:
    verdicts = {True: "holds", False: "does not hold", None: "not decided"}
    rows = [(finding.figure, finding.claim, verdicts[finding.holds], finding.numbers) for finding in study.findings]
    screen.show_table("The paper's statements", ("of", "the paper says", "here", "numbers"), rows)
    screen.show_text(f"Written to {out}")
