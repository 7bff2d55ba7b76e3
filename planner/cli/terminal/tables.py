"""Tables that fit: no number and no name is ever cut in two. What has no room is left out and named, or rows become
cards.

| symbol | meaning | unit |
| --- | --- | --- |
| natural | the longest line of a column, head or cell | characters |
| least | the longest part of it that must not be cut: a whole cell, or a word of prose | characters |
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

PROSE_LENGTH = 24
"""Cells of more characters with spaces in them are prose, which may be wrapped between words."""
PROSE_LEAST = 16
"""So narrow may a column of prose be."""
FEWEST_COLUMNS = 3
"""Where fewer have room, rows become cards."""


_LABEL = re.compile(r" +(?:\S+ ){0,3}\S* {2,}(?=\S)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableText:
    """A table as text: `important` names columns in the order in which they get room, before all others; the first
    column is never left out. `numeric`: whose cells stand to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    important: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Span:
    least: int
    natural: int


def fitted(table: TableText, width: int) -> "Iterator[RenderableType]":
    """The table for a terminal of so many characters: itself, narrower, with a line on what was left out, or cards."""
    shown = _shown(table, width)
    if shown is None:
        yield from _cards(table, width)
        return
    fitting, gap, widths = shown
    yield _drawn(table, fitting, widths, gap)
    if len(fitting) < len(table.columns):
        missing = ", ".join(
            column or "the one without a title" for place, column in enumerate(table.columns) if place not in fitting
        )
        note = f"Left out, for want of room: {missing}. See them with --wide or --json."
        yield from _dim(wrapped(note, width))


def _shown(table: TableText, width: int) -> tuple[list[int], int, list[int]] | None:
    """The columns that have room, what stands between two, and their widths; None where too few have."""
    spans = [_span(table, place) for place in range(len(table.columns))]
    every = list(range(len(spans)))
    for fitting, gap in ((every, _BOXED), (every, _LEAN), (_fitting(table, spans, width), _LEAN)):
        room = width - _overhead(len(fitting), gap)
        if len(fitting) >= min(FEWEST_COLUMNS, len(spans)) and sum(spans[place].least for place in fitting) <= room:
            return fitting, gap, _widths([spans[place] for place in fitting], room)
    return None


def continued(table: TableText, width: int) -> "Iterator[RenderableType]":
    """The table for a terminal of so many characters with nothing left out: columns that have no room follow in a
    table of their own, behind the first column once more."""
    from rich.text import Text

    remaining = list(range(len(table.columns)))
    while True:
        part = _part(table, remaining)
        shown = _shown(part, width)
        if shown is None:
            yield from _cards(part, width)
            return
        fitting, gap, widths = shown
        yield _drawn(part, fitting, widths, gap if len(fitting) == len(table.columns) else _LEAN)
        remaining = [0, *(place for index, place in enumerate(remaining) if index not in fitting)]
        if len(remaining) == 1:
            return
        yield Text("")


def _part(table: TableText, places: Sequence[int]) -> TableText:
    return TableText(
        title=table.title if len(places) == len(table.columns) else "",
        columns=tuple(table.columns[place] for place in places),
        rows=tuple(tuple(row[place] for place in places) for row in table.rows),
        numeric=tuple(table.numeric[place] for place in places),
        important=table.important,
    )


def unfitted(table: TableText) -> "RenderableType":
    """The table as wide as it is."""
    return _drawn(table, range(len(table.columns)), None, _BOXED)


_BOXED = 3
_LEAN = 2
"""Characters between two columns: with lines, without."""


def _overhead(columns: int, gap: int) -> int:
    return 3 * columns + 1 if gap == _BOXED else 2 * (columns - 1)


def _span(table: TableText, place: int) -> _Span:
    from rich.cells import cell_len

    cells = [line for row in table.rows for line in row[place].split("\n")]
    prose = any(is_prose(cell) for cell in cells)
    words = table.columns[place].split(" ")
    natural = max(map(cell_len, (table.columns[place], *cells)), default=0)
    parts = [part for cell in cells for part in (cell.split(" ") if is_prose(cell) else (cell,))]
    narrowest = max(map(cell_len, (*words, *parts)), default=0)
    return _Span(max(narrowest, min(natural, PROSE_LEAST)) if prose else narrowest, natural)


def is_prose(cell: str) -> bool:
    """Whether the cell may be wrapped between its words."""
    return " " in cell and len(cell) > PROSE_LENGTH


def _fitting(table: TableText, spans: Sequence[_Span], width: int) -> list[int]:
    """The columns that have room, the important before the others, in the table's order."""
    important = [table.columns.index(name) for name in table.important if name in table.columns]
    order = dict.fromkeys([0, *important, *range(len(spans))])
    room, fitting = width, list[int]()
    for place in order:
        needed = spans[place].least + (_LEAN if fitting else 0)
        if needed <= room:
            fitting.append(place)
            room -= needed
    return sorted(fitting)


def _widths(spans: Sequence[_Span], room: int) -> list[int]:
    """The least of each, and what is left shared out, first to those that want little more."""
    widths = [span.least for span in spans]
    spare = room - sum(widths)
    hungry = sorted(range(len(spans)), key=lambda place: spans[place].natural - spans[place].least)
    for served, place in enumerate(hungry):
        extra = min(spans[place].natural - spans[place].least, spare // (len(hungry) - served))
        widths[place] += extra
        spare -= extra
    return widths


def _drawn(table: TableText, fitting: Sequence[int], widths: Sequence[int] | None, gap: int) -> "RenderableType":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    lean = gap == _LEAN
    drawn = Table(
        title=Text(table.title, style="bold") if table.title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD if lean else box.HEAVY_HEAD,
        show_edge=not lean,
        pad_edge=not lean,
        padding=(0, 1, 0, 0) if lean else (0, 1),
    )
    for index, place in enumerate(fitting):
        drawn.add_column(
            Text(table.columns[place]),
            justify="right" if table.numeric[place] else "left",
            overflow="fold",
            width=None if widths is None else widths[index],
            no_wrap=widths is None,
        )
    for row in table.rows:
        drawn.add_row(*(Text(row[place]) for place in fitting))
    return drawn


def _cards(table: TableText, width: int) -> "Iterator[RenderableType]":
    """A block a row: its first cell, and a line for each of the others."""
    from rich.cells import cell_len
    from rich.text import Text

    if table.title:
        yield Text(table.title, style="bold")
    label = min(max(map(cell_len, table.columns[1:]), default=0), width // 2)
    for row in table.rows:
        yield Text(" ".join(part for part in (table.columns[0], row[0]) if part), style="bold", overflow="ignore")
        for name, cell in zip(table.columns[1:], row[1:], strict=True):
            yield Text("\n".join(_card_lines(name, cell, label, width)), overflow="ignore")


def _card_lines(name: str, cell: str, label: int, width: int) -> list[str]:
    """`  name  value`; a value that has no room beside its name stands below it."""
    room = max(width - label - 4, 1)
    lines = [line for part in cell.split("\n") for line in wrapped(part, room)] or [""]
    if max(map(len, lines)) <= room and len(name) <= label:
        return [f"  {name if index == 0 else '':{label}}  {line}".rstrip() for index, line in enumerate(lines)]
    below = [line for part in cell.split("\n") for line in wrapped(part, max(width - 4, 1))]
    return [*(f"  {line}" for line in wrapped(name, max(width - 2, 1))), *(f"    {line}" for line in below)]


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most so many characters, cut between words; a longer word has a line of its own, uncut. Behind a
    label (`  price   ...`) lines go on below the first."""
    import textwrap

    lead = _LABEL.match(text)
    hang = " " * len(lead.group()) if lead is not None and len(lead.group()) < width // 2 else ""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False, subsequent_indent=hang)


def _dim(lines: Sequence[str]) -> "Iterator[RenderableType]":
    from rich.text import Text

    return (Text(line, style="dim") for line in lines)
