"""How far a study's runs are: a bar on a terminal, a line a run elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from planner.cli import screen


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
