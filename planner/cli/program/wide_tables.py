"""The option `--wide`, which every command has that prints tables: those with `--json`."""

from functools import cache
from typing import Any

import typer

from planner.cli import screen


def with_wide_tables(command: Any) -> None:
    """Give the command, or those of a group, the option."""
    for below in getattr(command, "commands", {}).values():
        with_wide_tables(below)
    if any("--json" in parameter.opts for parameter in command.params):
        command.params.append(_wide_option())


@cache
def _wide_option() -> Any:
    """As typer makes it of a function's parameter; the callback is all that sees its value."""
    shell = typer.Typer(add_completion=False)
    shell.command()(_with_option)
    command: Any = typer.main.get_command(shell)
    return next(parameter for parameter in command.params if "--wide" in parameter.opts)


def _set(context: typer.Context, wide: bool) -> bool:
    if not context.resilient_parsing:
        screen.show_every_column(wide)
    return wide


def _with_option(
    wide: bool = typer.Option(
        False,
        "--wide",
        help="Tables with every column, however narrow the terminal.",
        callback=_set,
        expose_value=False,
    ),
) -> None:
    """Never called."""
