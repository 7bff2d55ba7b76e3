"""What a page holds: sections of prose, tables, charts and drawings. Records only; `page.py` makes HTML of them.

Every chart brings its numbers as a table, for readers who cannot hover, print, or want to check.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Cell = str | int | float | None
"""A number sorts as one; None is shown as a dash and sorts last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTable:
    """Rows under named columns; a column is numeric where all its cells are numbers or None.

    `rest`: where the rows stand that a page has no room for, as `islands.csv of the run folder`.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    rest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """Markdown: paragraphs, lists, emphasis, links. HTML in it is shown, not run."""

    markdown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A plotly figure as its JSON: `traces` and `layout`, without colours and fonts, which `charts.py` gives.

    Traces are those of plotly's cartesian build: bar, box, contour, heatmap, histogram, pie, scatter, violin.

    `name`: unique in a page, small letters and hyphens. `says`: what to see in it, in one sentence.
    """

    name: str
    title: str
    says: str
    traces: tuple[Mapping[str, Any], ...]
    layout: Mapping[str, Any]
    table: DataTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A picture that is drawn, not plotted: `svg` made by the report itself, its colours as CSS variables.

    The SVG goes into the page as it is: whoever draws it escapes the names in it (`drawing.py` has the shapes).
    """

    name: str
    title: str
    says: str
    svg: str
    table: DataTable


Block = Prose | DataTable | Chart | Drawing


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page; `name` is its anchor. Blocks in `folded` stand behind the line `fold`, which opens them."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    folded: tuple[Block, ...] = ()
    fold: str = "More"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number at the head of a page: `value` as it is shown, `label` below it, `band` beside it where it has one."""

    label: str
    value: str
    band: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One file to send. `verdict`: two sentences, a line of Markdown; `figures`: the few numbers that come first.

    `source`: what it is a page of, as `plan 1f3a...`, by which the next one of the same may replace it. Titles, labels,
    captions and `says` are plain text; `html_page` escapes them.
    """

    title: str
    verdict: str
    figures: tuple[Figure, ...]
    sections: tuple[Section, ...]
    made_by: str
    source: str = ""
