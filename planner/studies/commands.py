"""What several studies' commands share: options, policies, who works, how far it is, what is written."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

from planner.cli import screen
from planner.cli.program.shared_options import Executor, Scheduler
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.processes.workers import Processes as Workers
    from planner.report.kit.plots import Plot
    from planner.studies.front import Draw
    from planner.studies.runner import RunsDone

Figures = Annotated[bool, typer.Option("--figures/--no-figures", help="Draw figures into --out.")]
Processes = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Runs at once. [default: all cores]", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace a result that exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Who works on a study's runs, and what becomes of them."""

    figures: Figures = True
    processes: Processes = None
    executor: Executor = "local"
    scheduler: Scheduler = None
    force: Force = False
    json: Json = False
    quiet: Quiet = False


class NamedPolicy(Protocol):
    """A policy as commands know it."""

    @property
    def name(self) -> str:
        """What it is called in tables and options."""


Policy = TypeVar("Policy", bound=NamedPolicy)
Run = TypeVar("Run")


def policies_of(words: Sequence[str], parse: Callable[[str], Policy]) -> tuple[Policy, ...]:
    """Policies, each once."""
    policies = tuple(parse(word) for word in words)
    names = [policy.name for policy in policies]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"--policy: must name each policy once, got {twice!r} twice.", hint="Drop one of the two.")
    return policies


def baseline_of(
    word: str | None, policies: Sequence[NamedPolicy], parse: Callable[[str], NamedPolicy], usual: str
) -> str:
    """Name of the policy that others are compared with: `word`, else the `usual` one where it runs, else the first."""
    names = [policy.name for policy in policies]
    if word is None:
        return usual if usual in names else names[0]
    name = parse(word).name
    if name not in names:
        raise InputError(
            f"--baseline: must be one of the policies that run ({', '.join(names)}), got {word!r}.",
            hint=f"Add --policy {word}.",
        )
    return name


def option_of(name: str) -> str:
    """A parameter as it is typed."""
    return f"--{name.replace('_', '-')}"


def typed_options(context: typer.Context) -> set[str]:
    """Parameters that stood on the command line."""
    names = (name for name, value in context.params.items() if value is not None)
    return {name for name in names if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"}


@contextmanager
def workers_of(executor: str, processes: int, scheduler: str | None) -> "Iterator[Workers]":
    """What a study's `processes` are: so many of this machine, or the workers of Dask. Raises InputError."""
    from planner.runs.batches.choosing import SERIAL, open_pool

    with open_pool(executor, workers=processes, scheduler=scheduler, tell=screen.show_warning) as pool:
        yield pool or (1 if executor == SERIAL else processes)


class RunsStep(Protocol):
    """`done` of `total` runs, parts of one included."""

    @property
    def done(self) -> float:
        """Runs."""

    @property
    def total(self) -> int:
        """Runs."""


Step = TypeVar("Step", bound=RunsStep)


@contextmanager
def at_work(
    name: str, line: Callable[[Any], None], options: RunOptions, *, runs: int
) -> "Iterator[tuple[Workers, Callable[[Any], None]]]":
    """What a study of so many `runs` is handed: its workers (all cores where nobody says how many, no more than runs)
    and who listens."""
    workers = options.processes or min(len(os.sched_getaffinity(0)), runs)
    with (
        workers_of(options.executor, workers, options.scheduler) as pool,
        runs_progress(name, line, quiet=options.quiet) as listen,
    ):
        yield pool, listen


def each_run(words: Callable[[Run], str]) -> "Callable[[RunsDone[Run]], None]":
    """A line for each run that has ended: how far the study is, and `words` of the run."""

    def line(step: "RunsDone[Run]") -> None:
        if step.last is not None:
            screen.show_note(f"{step.done:.0f}/{step.total} runs: {words(step.last)}")

    return line


@contextmanager
def runs_progress(
    name: str, line: Callable[[Step], None], *, quiet: bool, counted: str = "runs", lines_too: bool = False
) -> Iterator[Callable[[Step], None]]:
    """A bar called `name` on a terminal, with `line` for each step where `lines_too`; elsewhere the lines alone, and
    nothing where `quiet`. `counted`: what the steps are."""
    if quiet:
        yield lambda _: None
    elif screen.draws_bars():
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn(f"{{task.completed:.1f}}/{{task.total:.0f}} {counted}"),
        )
        with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=screen.err()) as bar:
            task = bar.add_task(name, total=1.0)

            def listen(step: Step) -> None:
                bar.update(task, completed=step.done, total=step.total)
                if lines_too:
                    line(step)

            yield listen
    else:
        yield line


SUMMARY_FILE, REPORT_FILE, FIGURES_FOLDER = "summary.md", "report.html", "figures"
ACRONYMS = frozenset({"grar"})


def study_files(
    tables: Mapping[str, bytes],
    page: Callable[[Mapping[str, str]], str],
    pngs: Mapping[str, bytes],
    plots: "Sequence[Plot]",
) -> dict[str, bytes]:
    """Every file by its path. `pngs`: pictures by name; `page` is handed their paths by title; `plots`: of the HTML."""
    from planner.runs.pages import written_page

    paths = {name: f"{FIGURES_FOLDER}/{name}.png" for name in pngs}
    titles = {name.upper() if name in ACRONYMS else name.replace("_", " ").capitalize(): paths[name] for name in paths}
    return {
        **tables,
        SUMMARY_FILE: page(titles).encode(),
        REPORT_FILE: written_page(page({}), plots),
        **{paths[name]: png for name, png in pngs.items()},
    }


def pngs_of(pictures: "Mapping[str, Draw]") -> dict[str, bytes]:
    """Each picture as a PNG."""
    from planner.report.kit import style  # matplotlib takes a second to load

    return {name: style.encoded(draw()) for name, draw in pictures.items()}


def answer(
    out: Path | None,
    kinds: Sequence[str],
    rendered: Callable[[], Mapping[str, bytes]],
    document: Callable[[], object],
    show: Callable[[], None],
    options: RunOptions,
) -> None:
    """Write what was asked for below `out`, if anywhere, and print the document or show the result."""
    from planner import files

    if out is not None:
        files.write_folder(out, rendered(), force=options.force, kinds=kinds)
    if options.json:
        screen.show_json(document())
        return
    show()
    if out is not None:
        screen.show_text(f"Written to {out}")
