"""Every command with its arguments and options, as the program itself knows them."""

import re
from collections.abc import Iterator

import typer

from planner.report.kit.markdown import table

_HEAD = """\
# Commands

Every command of the program. `planner COMMAND --help` says the same.

Exit status: 0 done, 2 bad input, 3 infeasible, 130 interrupted, 143 terminated, 1 anything else. With
`PLANNER_DEBUG=1` in the environment a defect of the planner is told with where it arose.
"""


def commands_text(program: typer.Context) -> str:
    """The page: a section for each command, in the program's order."""
    return "\n".join([_HEAD, *_sections(program)])


def _sections(context: typer.Context) -> Iterator[str]:
    """The command, and those of a group."""
    yield _section(context)
    for name, command in getattr(context.command, "commands", {}).items():
        yield from _sections(typer.Context(command, info_name=name, parent=context))


def _section(context: typer.Context) -> str:
    rows = [record for parameter in context.command.params if (record := parameter.get_help_record(context))]
    shown = [(f"`{name}`", _cell(meaning)) for name, meaning in rows]
    usage = context.command.get_usage(context).removeprefix("Usage: ")
    parts = [f"## {context.command_path}", context.command.help or "", f"```text\n{usage}\n```"]
    return "\n\n".join([*parts, table(("Argument or option", "Meaning"), shown, "ll")] if shown else parts) + "\n"


def _cell(text: str) -> str:
    """Help is Markdown already, but for what would end a cell or begin a tag."""
    return re.sub(r"([|<*])", r"\\\1", text)
