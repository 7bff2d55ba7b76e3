"""What a notebook shows of an object: a heading, a few facts, the first rows of a table. Short, whatever its size.

No colours of its own but half-transparent greys, so that it reads on light and on dark ground; all text is escaped.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

MOST_ROWS = 12
MOST_COLUMNS = 10
MOST_LETTERS = 120
"""Of one cell; a heading has five times as many."""

MOST_CHARACTERS = 19_000
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
    rows_at: str = "",
) -> str:
    """HTML below 20 kB: `facts` as rows of name and value, then up to a dozen of `rows`, each by column.

    `rows_at`: where the rows are that have no room here, as `plan.pools`.
    """
    listed = list(rows)
    most_rows, most_letters = MOST_ROWS, MOST_LETTERS
    html = _html(heading, verdict, facts or {}, listed, rows_at, most_rows, most_letters)
    while len(html) > MOST_CHARACTERS:
        most_rows, most_letters = most_rows // 2, most_letters * 2 // 3
        html = _html(heading, verdict, facts or {}, listed, rows_at, most_rows, most_letters)
    return html


def _html(
    heading: str,
    verdict: str,
    facts: Mapping[str, Cell],
    rows: Sequence[Mapping[str, Cell]],
    rows_at: str,
    most_rows: int,
    letters: int,
) -> str:
    parts = [f"<div style='line-height:1.4'><strong>{_short(heading, 5 * letters)}</strong>"]
    if verdict:
        parts.append(f"<div>{_short(verdict, 5 * letters)}</div>")
    if facts:
        parts.append(_table((), list(facts.items())[:MOST_ROWS], 5 * letters))
    columns = list(rows[0])[:MOST_COLUMNS] if rows else []
    if columns and most_rows:
        parts.append(_table(columns, [[row.get(column) for column in columns] for row in rows[:most_rows]], letters))
    if len(rows) > most_rows or (rows and len(rows[0]) > MOST_COLUMNS):
        where = f"; all of it: <code>{_short(rows_at, letters)}</code>" if rows_at else ""
        parts.append(f"<div>{min(len(rows), most_rows)} of {len(rows)} rows{where}</div>")
    return "".join((*parts, "</div>"))


def rows_of(frame: Any) -> list[dict[str, Cell]]:
    """Rows of a data frame for a card; a hundred at most, more are never shown."""
    rows = [{str(name): value for name, value in row.items()} for row in frame.head(_MOST_READ).to_dict("records")]
    return [*rows, *({} for _ in range(len(frame) - len(rows)))]


def _table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], letters: int) -> str:
    head = "".join(f"<th style='{_CELL};text-align:left'>{_short(name, letters)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(_cell(value, letters) for value in row)}</tr>" for row in rows)
    return f"<table style='{_TABLE}'>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def _cell(value: Cell, letters: int) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = "–" if value is None else f"{value:,.5g}" if isinstance(value, float) else str(value)
    return f"<td style='{_CELL};text-align:{'right' if number else 'left'}'>{_short(text, letters)}</td>"


def _short(text: str, most_letters: int) -> str:
    """Escaped, and cut to so many letters before that."""
    return escape(text if len(text) <= most_letters else f"{text[: most_letters - 1]}…")


_COLUMNS = ("island", "phase", "gpu", "size", "servers", "gpus_per_server", "tp", "dp", "batch_size", "share")


def plan_card(plan: Any, rate: str) -> str:
    """Of a plan at hand: its rate (as it is told), its facts, a row an island or pool."""
    parts = f"{plan.record.form.row.part}s"  # plan.pools, plan.islands
    frame = getattr(plan, parts)
    return card(
        f"Plan {plan.name}: {rate} requests/s",
        facts=dict(_facts(plan)),
        rows=rows_of(frame[[column for column in _COLUMNS if column in frame]]),
        rows_at=f"plan.{parts}",
    )


def _facts(plan: Any) -> Iterator[tuple[str, Cell]]:
    cost, gap, placement = plan.cost, plan.gap, plan.record.placement
    yield "promise", f"{plan.promise_rps:.1f} requests/s"
    if gap is not None:
        yield "below the best of its form", f"at most {gap:.1%}"
    if cost.usd_per_hour and not plan.record.priced:
        without = [gpu for gpu in plan.scenario.inventory.without_price if plan.record.fleet[gpu]]
        yield "price", f"{cost.usd_per_hour:,.2f} USD/hour without {', '.join(without)}"
    elif cost.usd_per_hour:
        yield "price", f"{cost.usd_per_hour:,.2f} USD/hour, {cost.usd_per_million_tokens:.3f} USD per 10⁶ tokens"
    yield "GPUs", ", ".join(f"{count} {gpu}" for gpu, count in plan.record.fleet.items())
    if placement is not None and plan.scenario.cluster is not None:
        short = f", {len(placement.shortfalls)} without room" if placement.shortfalls else ""
        yield "placed", f"on {plan.scenario.cluster.name}: {len(placement.sites)} islands{short}"
    if plan.record.outlook.latencies:
        yield "latency", "plan.latency; pictures: plan.figure('routing'), 'mix', 'throughput' …"
