"""What a notebook shows of an object: a heading, a few facts, the first rows of a table. Short, whatever its size.

No colours of its own but half-transparent greys, so that it reads on light and on dark ground; all text is escaped.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

MOST_ROWS = 12
MOST_COLUMNS = 10
MOST_LETTERS = 120
"""Of one cell; a heading has five times as many."""

_MOST_READ = 2 * MOST_ROWS
_TABLE = "border-collapse:collapse;margin:.4em 0;font-size:90%"
_CELL = "padding:.15em .7em;border-bottom:1px solid rgba(128,128,128,.35);vertical-align:top"

Cell = str | int | float | None


def card(
    heading: str,
    verdict: str = "",
    *,
    facts: Mapping[str, Cell] | None = None,
    rows: Iterable[Mapping[str, Cell]] = (),
    rest: str = "",
) -> str:
    """HTML below 20 kB: `facts` as rows of name and value, then up to a dozen of `rows`, each by column.

    `rest`: where the rows are that have no room here, as `plan.pools`.
    """
    listed = list(rows)
    parts = [f"<div style='line-height:1.4'><strong>{_short(heading, 5 * MOST_LETTERS)}</strong>"]
    if verdict:
        parts.append(f"<div>{_short(verdict, 5 * MOST_LETTERS)}</div>")
    if facts:
        parts.append(_table((), [(name, value) for name, value in list(facts.items())[:MOST_ROWS]]))
    if listed:
        columns = list(listed[0])[:MOST_COLUMNS]
        parts.append(_table(columns, [[row.get(column) for column in columns] for row in listed[:MOST_ROWS]]))
    if len(listed) > MOST_ROWS or (listed and len(listed[0]) > MOST_COLUMNS):
        where = f"; all of it: <code>{_short(rest, MOST_LETTERS)}</code>" if rest else ""
        parts.append(f"<div>{min(len(listed), MOST_ROWS)} of {len(listed)} rows{where}</div>")
    return "".join((*parts, "</div>"))


def rows_of(frame: Any) -> list[dict[str, Cell]]:
    """Rows of a data frame for a card; a hundred at most, more are never shown."""
    rows = [{str(name): value for name, value in row.items()} for row in frame.head(_MOST_READ).to_dict("records")]
    return [*rows, *({} for _ in range(len(frame) - len(rows)))]


def _table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    head = "".join(f"<th style='{_CELL};text-align:left'>{_short(name, MOST_LETTERS)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table style='{_TABLE}'>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def _cell(value: Cell) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = "–" if value is None else f"{value:,.5g}" if isinstance(value, float) else str(value)
    return f"<td style='{_CELL};text-align:{'right' if number else 'left'}'>{_short(text, MOST_LETTERS)}</td>"


def _short(text: str, most: int) -> str:
    """Escaped, and cut to so many letters before that."""
    return escape(text if len(text) <= most else f"{text[: most - 1]}…")
