"""What several commands are given: seeds, and who does the work of a sweep, a study or a search."""

from typing import Annotated

import typer

from planner.errors import InputError

MOST_SEEDS = 1000
LARGEST_SEED = 2**32 - 1


def seeds_of(text: str) -> tuple[int, ...]:
    """`42`, `42-51`, `1,5,42-44`: whole numbers, in the order given. InputError: other words, downwards, twice."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not _is_seed(first) or (dash and not _is_seed(last)):
            raise _bad_seeds(text, f"must be whole numbers from 0 to {LARGEST_SEED} and ranges of them")
        low, high = int(first), int(last) if dash else int(first)
        if high < low:
            raise _bad_seeds(text, f"must be ranges upwards, not from {low} to {high}")
        if high - low >= MOST_SEEDS:
            raise _bad_seeds(text, f"must be at most {MOST_SEEDS}")
        seeds.extend(range(low, high + 1))
    if len(set(seeds)) < len(seeds):
        raise _bad_seeds(text, "must name each seed once")
    if len(seeds) > MOST_SEEDS:
        raise _bad_seeds(text, f"must be at most {MOST_SEEDS}")
    return tuple(seeds)


def _is_seed(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST_SEED)) and int(text) <= LARGEST_SEED


def _bad_seeds(text: str, rule: str) -> InputError:
    return InputError(f"--seeds: {rule}, got {text!r}.", hint="Write 42, or 42-51, or 1,5,42-44.")


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
