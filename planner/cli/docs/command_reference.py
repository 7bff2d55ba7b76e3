"""The page of the program: every command with its arguments and options, as the program itself knows them, and what
holds for all of them."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import typer

from planner.cli.docs.manual.pages import manual_parts
from planner.cli.docs.manual.parts import Part
from planner.report.kit.markdown import table

_ABOUT = (
    "Every command with its arguments and options, files, exit statuses and the environment; `--help` says it of one."
)
_SHARED = "Options of several commands"
_FEWEST = 3  # commands that have an option with one meaning, for it to be explained once


def commands_text(program: typer.Context) -> str:
    """The page: a section for each command, in the program's order; options that several have are explained once."""
    parts = [part for part in manual_parts(program) if part.text or part.terms or part.typed]
    shared = _shared(parts)
    sections = [text for part in parts for text in _section(part, shared)]
    rows = [_row(name, meaning) for name, meaning in shared.items()]
    sections += [f"## {_SHARED}", table(("Option", "Meaning"), rows, "ll")]
    return "\n\n".join(["# Commands", _ABOUT, *sections]) + "\n"


def _shared(parts: Sequence[Part]) -> Mapping[str, str]:
    """The meaning that most commands give an option, of those that enough commands have."""
    uses = Counter(term for part in parts if part.below for term in part.terms if term[0].startswith("-"))
    shared: dict[str, str] = {}
    for (name, meaning), commands in uses.most_common():
        if commands >= _FEWEST:
            shared.setdefault(name, meaning)
    return dict(sorted(shared.items()))


def _section(part: Part, shared: Mapping[str, str]) -> Iterator[str]:
    """Heading, words, what is typed, and the table of what only this command has."""
    yield f"## {part.title}"
    yield from part.text
    if part.typed:
        yield "\n".join(["```text", *part.typed, "```"])
    elsewhere = [name for name, meaning in part.terms if part.below and shared.get(name) == meaning]
    own = [_row(name, meaning) for name, meaning in part.terms if name not in elsewhere]
    if own:
        yield table(("Argument or option" if part.below else "Name", "Meaning"), own, "ll")
    if elsewhere:
        names = ", ".join(f"`{name}`" for name in elsewhere)
        yield f"And, as [several commands](#{_SHARED.lower().replace(' ', '-')}) have them: {names}."


def _row(name: str, meaning: str) -> tuple[str, str]:
    """Help is Markdown already, but for what would end a cell or begin a tag."""
    text = re.sub(r"([|<*])", r"\\\1", " ".join(meaning.split()))
    shown = name.replace("|", r"\|")
    return f"`{shown}`", text
