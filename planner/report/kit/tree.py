"""A report as one tree: a page of sections of prose, tables, charts and drawings. Records only, built once a subject.

Writers make of it HTML (`html/page.py`), Markdown (`markdown.py`), and of that what a terminal shows. Every chart has
its numbers as a table, for readers who cannot hover, print, or want to check. Prose and cells are lines of Markdown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Cell = str | int | float | None
"""A number sorts as one; None is shown as a dash and sorts last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTable:
    """Rows under named columns; a column is numeric where all its cells are numbers or None.

    `rows` are exact, to sort by; `texts`: how cells are written, in Markdown, "" where as any other of their kind.
    `align`: a letter a column in Markdown, `l` or `r`. `rest`: where the rows stand that a page has no room for, as
    `islands.csv of the run folder`.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    rest: str = ""
    texts: tuple[tuple[str, ...], ...] = ()
    align: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """Markdown: paragraphs, lists, emphasis, links. HTML in it is shown, not run."""

    markdown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A plotly figure as its JSON: `traces` and `layout`, without colours and fonts, which `charts.py` gives.

    Traces are those of plotly's cartesian build: bar, box, contour, heatmap, histogram, pie, scatter, violin.

    `name`: unique in a page, small letters and hyphens. `says`: what to see in it, in one sentence. `told`: whether its
    table stands for it where nothing is drawn.
    """

    name: str
    title: str
    says: str
    traces: tuple[Mapping[str, Any], ...]
    layout: Mapping[str, Any]
    table: DataTable
    told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A picture that is drawn, not plotted: `svg` made by the report itself, its colours as CSS variables.

    The SVG goes into the page as it is: whoever draws it escapes the names in it (`drawing.py` has the shapes). `text`:
    the same in letters, for Markdown and terminals.
    """

    name: str
    title: str
    says: str
    svg: str
    table: DataTable
    text: str = ""


def paragraphs(*texts: str) -> "tuple[Block, ...]":
    """Paragraphs as blocks; empty ones go."""
    return tuple(Prose(markdown=text) for text in texts if text)


Block = Prose | DataTable | Chart | Drawing


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page; `name` is its anchor. Blocks in `folded` stand behind the line `fold`, which opens them. One of
    no blocks is left out."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    folded: tuple[Block, ...] = ()
    fold: str = "More"


def section(name: str, title: str, *blocks: Block) -> Section:
    """A part with nothing folded, without tables that have no rows."""
    shown = (block for block in blocks if not isinstance(block, DataTable) or block.rows)
    return Section(name=name, title=title, blocks=tuple(shown))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number at the head of a page: `value` as it is shown, `label` below it, `band` beside it where it has one."""

    label: str
    value: str
    band: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole report. `verdict`: two sentences, a line of Markdown; `figures`: the few numbers that come first; `lead`:
    what stands before the first section.

    `made_by` and `source` are of its file, and written by who knows them: `source` is what it is a page of, as `plan
    1f3a...`, by which the next one of the same may replace it. Titles, labels, captions and `says` are plain text;
    writers escape them.
    """

    title: str
    verdict: str = ""
    sections: tuple[Section, ...] = ()
    lead: tuple[Block, ...] = ()
    figures: tuple[Figure, ...] = ()
    made_by: str = ""
    source: str = ""
