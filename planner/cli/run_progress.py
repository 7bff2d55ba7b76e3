"""How far a study's runs are: a bar on a terminal, a line a run elsewhere."""

import sys
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
def runs_progress(name: str, line: Callable[[Step], None], *, quiet: bool) -> Iterator[Callable[[Step], None]]:
    """A bar called `name` on a terminal, `line` for each step elsewhere, nothing where `quiet`."""
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.1f}/{task.total:.0f} runs"),
        )
        with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=screen.err()) as bar:
            task = bar.add_task(name, total=1.0)
            yield lambda step: bar.update(task, completed=step.done, total=step.total)
    else:
        yield line
