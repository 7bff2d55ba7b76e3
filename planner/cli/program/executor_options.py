"""Options that say who does the work of a sweep, a study or a search: processes here, or the workers of Dask."""

from typing import Annotated

import typer

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
