"""The parts of the manual, and the manual page (`man -l planner.1`)."""

import re
from collections.abc import Iterator

import typer

from planner.cli.docs.manual.parts import ABOUT, ENVIRONMENT, EXAMPLES, EXIT_STATUSES, FILES, Part
from planner.cli.program.listing import HELP
from planner.plans.provenance import planner_version

_MARKS = re.compile(r"`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|\[(?P<words>[^\]]+)\]\([^)]*\)")


def manual_parts(program: typer.Context) -> tuple[Part, ...]:
    """All parts in order; the commands from the program itself."""
    return (
        Part(title="Description", text=ABOUT),
        Part(title="Commands"),
        *_commands(program),
        Part(title="Files", terms=FILES),
        Part(title="Exit status", terms=EXIT_STATUSES),
        Part(title="Environment", terms=ENVIRONMENT),
        Part(title="Examples", typed=EXAMPLES),
    )


def _commands(context: typer.Context) -> Iterator[Part]:
    """A part for each command, those of groups among them."""
    yield _command(context)
    for name, command in getattr(context.command, "commands", {}).items():
        yield from _commands(typer.Context(command, info_name=name, parent=context))


def _command(context: typer.Context) -> Part:
    records = [parameter.get_help_record(context) for parameter in context.command.params]
    usage = " ".join(context.command.get_usage(context).removeprefix("Usage: ").split())
    text = (context.command.help or "").split("\n\nBegin with")[0]
    paragraphs = tuple(" ".join(part.split()) for part in text.split("\n\n") if part)
    terms = tuple(record for record in records if record)
    return Part(title=context.command_path, text=paragraphs, typed=(usage,), terms=terms, below=True)


def manual_roff(program: typer.Context) -> str:
    """The manual page, section 1."""
    lines = [
        f'.TH PLANNER 1 "" "planner {planner_version()}" "User Commands"',
        ".SH NAME",
        f"planner \\- {_escaped(HELP[0].lower() + HELP[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B planner",
        "[OPTIONS] COMMAND [ARGUMENTS]",
    ]
    for part in manual_parts(program):
        lines += _roff(part)
    return "\n".join(lines) + "\n"


def _roff(part: Part) -> list[str]:
    heading = f'.SS "{_escaped(part.title)}"' if part.below else f'.SH "{_escaped(part.title.upper())}"'
    lines = [heading]
    for paragraph in part.text:
        lines += [".PP", _styled(paragraph)]
    if part.typed:
        lines += [".PP", ".nf", *(f".RS 4\n\\fB{_escaped(line)}\\fP\n.RE" for line in part.typed), ".fi"]
    for term, meaning in part.terms:
        lines += [".TP", f"\\fB{_escaped(term)}\\fP", _styled(meaning)]
    return lines


def _styled(text: str) -> str:
    """One line, code and strong words bold."""
    line, end = "", 0
    for match in _MARKS.finditer(text):
        inner = match["code"] or match["strong"] or match["words"]
        line += _escaped(text[end : match.start()]) + f"\\fB{_escaped(inner)}\\fP"
        end = match.end()
    line += _escaped(text[end:])
    return _guarded(" ".join(line.split()))


def _escaped(text: str) -> str:
    """For roff: backslashes and hyphens as they are, quotes that end no argument, no line that begins a request."""
    return _guarded(text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq"))


def _guarded(line: str) -> str:
    return f"\\&{line}" if line.startswith((".", "'")) else line
