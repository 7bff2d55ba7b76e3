"""The pages of the reference as Markdown: a contents page, the commands, the keys, and each guide.

The page of the program: every command with its arguments and options, as the program itself knows them, and what
holds for all of them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from planner.cli.docs.manual import Part, manual_parts
from planner.files.reference import DOCUMENTS, KeyRow, key_rows
from planner.guests import guest_guides
from planner.report.kit.markdown import escaped, table

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
    own_rows = [_row(name, meaning) for name, meaning in part.terms if name not in elsewhere]
    if own_rows:
        yield table(("Argument or option" if part.below else "Name", "Meaning"), own_rows, "ll")
    if elsewhere:
        names = ", ".join(f"`{name}`" for name in elsewhere)
        yield f"And, as [several commands](#{_SHARED.lower().replace(' ', '-')}) have them: {names}."


def _row(name: str, meaning: str) -> tuple[str, str]:
    """Help is Markdown already, but for what would end a cell or begin a tag."""
    text = re.sub(r"([|<*])", r"\\\1", " ".join(meaning.split()))
    shown = name.replace("|", r"\|")
    return f"`{shown}`", text


_HEAD = """\
# Keys

Every key of every file that you write, what it may hold and what it is without it. Unknown keys are refused.

`[]` stands for each item of a list, a word in capitals for a name of yours. A key is required where its section is
there and it says so; – means that it may be left out and that there is no value in its stead.
"""
_HEADER = ("Key", "Value", "Default", "Meaning")


def keys_text() -> str:
    """The page: a section for each document."""
    return "\n".join([_HEAD, *(_keys_of(document, title) for document, title in DOCUMENTS.items())])


def _keys_of(document: str, title: str) -> str:
    return f"## {title}\n\n{table(_HEADER, [_cells(row) for row in key_rows(document)], 'llll')}\n"


def _cells(row: KeyRow) -> tuple[str, str, str, str]:
    return f"`{row.path}`", escaped(row.kind), _default(row), row.meaning.replace("|", "\\|")


def _default(row: KeyRow) -> str:
    if row.required:
        return "required"
    if row.default is None or row.default == "":
        return "–"
    if isinstance(row.default, bool):
        return f"`{str(row.default).lower()}`"
    return f"`{row.default:.12g}`" if isinstance(row.default, float) else f"`{row.default}`"


GUIDES = (
    "planning",
    "comparing",
    "doubt",
    "batches",
    "dask",
    "money",
    "replay",
    "replanning",
    "schedules",
    "fleets",
    "traces-and-costs",
    "cached",
    "placement",
    "defragmentation",
    "manifests",
    "observing",
    "advising",
    "watching",
    "assistants",
    "results",
)
"""In the order of the contents page; those of guests follow."""
_FOLDER = Path(__file__).parent / "guides"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page: the stem of its file, its Markdown. The first line is its title, the next paragraph what it is about."""

    name: str
    text: str

    @property
    def title(self) -> str:
        """The heading."""
        return self.text.partition("\n")[0].removeprefix("# ")

    @property
    def about(self) -> str:
        """The first paragraph, on one line."""
        return " ".join(self.text.split("\n\n")[1].split())


def markdown_pages(program: typer.Context) -> tuple[Page, ...]:
    """All pages, the contents first; `program` is the context of the whole program."""
    pages = [
        *(Page(name=name, text=guide_text(name)) for name in guide_names()),
        Page(name="commands", text=commands_text(program)),
        Page(name="keys", text=keys_text()),
    ]
    return (Page(name="index", text=_contents(pages)), *pages)


def guide_text(name: str) -> str:
    """The Markdown of a guide."""
    path = guest_guides().get(name, _FOLDER / f"{name}.md")
    return path.read_text(encoding="utf-8")


def guide_names() -> tuple[str, ...]:
    """The guides of the planner, then those of its guests."""
    return (*GUIDES, *guest_guides())


def _contents(pages: Sequence[Page]) -> str:
    lines = "\n".join(f"- [{page.title}]({page.name}.md): {page.about}" for page in pages)
    return f"# The planner\n\nGuides, and the reference of commands and keys.\n\n{lines}\n"
