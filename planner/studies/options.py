"""What several studies' commands are given, each said once: options, policies, and who does the work."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

import typer

from planner.cli import screen
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.processes import Processes as Workers

Figures = Annotated[bool, typer.Option("--figures/--no-figures", help="Draw figures into --out.")]
Processes = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Runs at once. [default: all cores]", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace a result that exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


class NamedPolicy(Protocol):
    """A policy as commands know it."""

    @property
    def name(self) -> str:
        """What it is called in tables and options."""


Policy = TypeVar("Policy", bound=NamedPolicy)


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
    given = (name for name, value in context.params.items() if value is not None)
    return {name for name in given if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"}


@contextmanager
def workers_of(executor: str, processes: int, scheduler: str | None) -> "Iterator[Workers]":
    """What a study's `processes` are: so many of this machine, or the workers of Dask. Raises InputError."""
    from planner.runs.batches.choosing import SERIAL, open_pool

    with open_pool(executor, workers=processes, scheduler=scheduler, tell=screen.show_warning) as pool:
        yield pool or (1 if executor == SERIAL else processes)
