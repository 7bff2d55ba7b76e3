"""Tables as HTML: sorted by their heads, filtered where they are long."""

import math
from html import escape

from planner.report.kit.html.prose import text_html, tip
from planner.report.kit.markdown import plain
from planner.report.kit.quantities import NONE, shown_number
from planner.report.kit.tree import Cell, DataTable

MOST_ROWS = 500
"""Rows of a table that a page shows; how many are left out stands below."""
FILTERED_ROWS = 12
"""From so many rows on a table has a field that filters it."""


def table_html(table: DataTable, *, most_rows: int = MOST_ROWS) -> str:
    """The table whole, in a box that it is fitted to (`page.js`); below it, how many rows are left out,
    and where they are."""
    kinds = [_kind(table, column) for column in range(len(table.columns))]
    heads = "".join(_head(name, kind) for name, kind in zip(table.columns, kinds, strict=True))
    texts = table.texts or [("",) * len(table.columns)] * len(table.rows)
    rows = "\n".join(_row(*row, kinds) for row in list(zip(table.rows, texts, strict=True))[:most_rows])
    body = (
        f'<table class="data"{_caption_name(table)}><thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>'
    )
    field = _FILTER if len(table.rows) >= FILTERED_ROWS else ""
    box = f'<div class="box" tabindex="0">{body}</div>'
    return f'<div class="table">{_caption(table)}{field}{box}{_left_out(table, most_rows)}</div>'


def numbers_html(table: DataTable, *, most_rows: int) -> str:
    """The numbers of a picture, folded."""
    body = table_html(table, most_rows=most_rows)
    return f'<details class="numbers"><summary>Numbers</summary>{body}</details>'


_FILTER = (
    '<label class="filter">Filter <input type="search" placeholder="part of a row" autocomplete="off">'
    '<span class="count" aria-live="polite"></span></label>'
)


def _caption(table: DataTable) -> str:
    return f'<p class="caption">{text_html(table.caption)}</p>' if table.caption else ""


def _caption_name(table: DataTable) -> str:
    return f' aria-label="{escape(table.caption)}"' if table.caption else ""


def _left_out(table: DataTable, most_rows: int) -> str:
    left_out = len(table.rows) - most_rows
    if left_out <= 0:
        return ""
    where = f" They are in {text_html(table.rest)}." if table.rest else ""
    return f'<p class="note">The first {most_rows:,} of {len(table.rows):,} rows; {left_out:,} are left out.{where}</p>'


_NUMBER, _SHORT, _LONG = "n", "s", "l"
"""Classes of columns: numbers to the right; names on one line; sentences."""
_SHORT_TEXT = 30


def _kind(table: DataTable, column: int) -> str:
    cells = [row[column] for row in table.rows if row[column] is not None]
    if cells and not any(isinstance(cell, str) for cell in cells):
        return _NUMBER
    return _SHORT if all(len(str(cell)) <= _SHORT_TEXT for cell in cells) else _LONG


def _head(name: str, kind: str) -> str:
    meaning = tip(name)
    label = f'<abbr title="{escape(meaning)}">{text_html(name)}</abbr>' if meaning else text_html(name)
    return f'<th scope="col" class="{kind}" aria-sort="none"><button type="button">{label}</button></th>'


def _row(row: tuple[Cell, ...], texts: tuple[str, ...], kinds: list[str]) -> str:
    return f"<tr>{''.join(map(_cell, row, texts, kinds))}</tr>"


def _cell(cell: Cell, text: str, kind: str) -> str:
    if isinstance(cell, str):
        return f'<td class="{kind}">{text_html(cell)}</td>'
    if cell is None or math.isnan(cell):
        return f'<td class="{kind}">{NONE}</td>'
    exact = f' data-v="{float(cell)!r}"' if kind == _NUMBER else ""
    return f'<td class="{kind}"{exact}>{text_html(plain(text)) if text else shown_number(cell)}</td>'
