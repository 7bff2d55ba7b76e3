"""The pages of the reference as Markdown: a contents page, the commands, the keys, and each guide."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from planner.cli.docs.command_reference import commands_text
from planner.cli.docs.key_reference import keys_text
from planner.guests import guest_guides

GUIDES = (
    "planning",
    "comparing",
    "batches",
    "dask",
    "money",
    "replay",
    "replanning",
    "schedules",
    "traces-and-costs",
    "placement",
    "defragmentation",
    "manifests",
    "observing",
    "watching",
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
