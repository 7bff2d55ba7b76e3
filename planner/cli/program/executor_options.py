"""Options that say who does the work of a sweep, a study or a search: processes here, or the workers of Dask."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen

if TYPE_CHECKING:
    from planner.processes import Processes

Executor = Annotated[
    str,
    typer.Option(
        help="Who works: local (processes of this machine), serial (this process alone), dask (workers of Dask).",
        metavar="local|serial|dask",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="With dask: the scheduler's address, tls://HOST:PORT. [default: a cluster on this machine]",
        show_default=False,
    ),
]


def typed_again(
    executor: str, scheduler: str | None, processes: int | None, seed: int | None, engine: str | None
) -> list[str]:
    """The options of a batch or a sweep as words of a command line, those that were not given left out: who goes on
    with it needs the same."""
    options = {"--scheduler": scheduler, "--processes": processes, "--seed": seed, "--engine": engine}
    words = ["--executor", executor] if executor != "local" else []
    return words + [word for name, value in options.items() if value is not None for word in (name, str(value))]


@contextmanager
def workers_of(executor: str, processes: int, scheduler: str | None) -> "Iterator[Processes]":
    """What a study's `processes` are: so many of this machine, or the workers of Dask. Raises InputError."""
    from planner.runs.batches.choosing import SERIAL, open_pool

    with open_pool(executor, workers=processes, scheduler=scheduler, tell=screen.show_warning) as pool:
        yield pool or (1 if executor == SERIAL else processes)
