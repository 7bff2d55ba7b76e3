"""A sweep as text: cells for the terminal, Markdown, CSV, a document for JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from planner.domain.comparisons import BatchJob, PlanFigures, PointState, Sweep, SweepPoint
from planner.report.comparison.plans.side_by_side import band_words, gap_words, levels_word
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import counted, money, rate, significant
from planner.report.kit.tables import Column, Table, fields, of_part, record, table_of

_SHOWN: tuple[Column[PlanFigures], ...] = (
    Column("requests/s", lambda figures: figures.rate_rps, rate),
    Column("P10–P90", band_words, right=True),
    Column("promise", lambda figures: figures.promise_rps, rate),
    Column("USD/hour", lambda figures: figures.price_usd_per_hour, money),
    Column("USD/M tokens", lambda figures: figures.price_usd_per_million_tokens, significant),
    Column("gap", gap_words, right=True),
    Column("levels", levels_word, right=True),
)
_EXACT = fields(
    *("rate_rps", "promise_rps", "price_usd_per_hour", "price_usd_per_million_tokens", "watts", "unit", "value"),
    *("bound", "gap", "unrestricted_rps", "levels_hold", "gpus", "idle_gpus", "pools", "remaining_rps"),
)
WORK = frozenset({"workload", "model"})
"""Keys that change what a request is."""


def shown_figures() -> tuple[Column[Any], ...]:
    """Of what has `figures` and a `state`: the few figures that people compare, or the state where there is no plan."""

    def rate_or_state(row: SweepPoint | BatchJob) -> str:
        return row.state.value if row.figures is None else rate(row.figures.rate_rps)

    first, *rest = _SHOWN
    return (Column(first.name, rate_or_state, right=True), *of_part(lambda row: row.figures, rest))


def exact_figures() -> tuple[Column[Any], ...]:
    """The same, all figures with all digits; None where there is no plan."""
    return (
        *of_part(lambda row: row.figures, _EXACT),
        *of_part(lambda row: row.figures and row.figures.band, fields("low_rps", "high_rps")),
    )


def points(sweep: Sweep) -> Table[SweepPoint]:
    """A row a point: values of the keys that vary, the figures, or the state where there is no plan."""
    return table_of((*(_label(sweep, k) for k in sweep.varying), *shown_figures()), sweep.points)


def _label(sweep: Sweep, key: int) -> Column[SweepPoint]:
    return Column(sweep.index.keys[key], lambda point: point.entry.labels[key], right=True)


def best_points(points: Sequence[SweepPoint]) -> tuple[SweepPoint, SweepPoint] | None:
    """The point of the highest rate, and the cheapest per token; the first of equals. None where nothing is planned."""
    planned = [point for point in points if point.figures is not None]
    if not planned:
        return None
    return (
        max(planned, key=lambda point: point.figures.rate_rps if point.figures else 0.0),
        min(planned, key=_token_price),
    )


def _token_price(point: SweepPoint) -> float:
    """USD per million tokens; unknown prices come last."""
    price = point.figures.price_usd_per_million_tokens if point.figures else None
    return math.inf if price is None else price


def same_work(sweep: Sweep) -> list[tuple[SweepPoint, ...]]:
    """The points in groups that serve the same mix with the same model: only within one are rates comparable."""
    keys = [k for k in sweep.varying if sweep.index.keys[k].partition(".")[0] in WORK]
    groups: dict[tuple[str, ...], list[SweepPoint]] = {}
    for point in sweep.points:
        groups.setdefault(tuple(point.entry.labels[k] for k in keys), []).append(point)
    return [tuple(points) for points in groups.values()]


def verdict(sweep: Sweep) -> str:
    """What is best of points that serve the same work, and how many have no plan."""
    states = [f"{sweep.count(state)} {state.value}" for state in PointState if sweep.count(state)]
    sentences = [f"{counted(len(sweep.points), 'point')}: {', '.join(states)}."]
    for points in same_work(sweep):
        best = best_points(points)
        if best is not None:
            sentences.append(_best_words(sweep, *best))
    return " ".join(sentences if len(sentences) > 1 else [*sentences, "No point has a plan."])


def _best_words(sweep: Sweep, fastest: SweepPoint, cheapest: SweepPoint) -> str:
    assert fastest.figures is not None, "a planned point has figures"
    assert cheapest.figures is not None, "a planned point has figures"
    most = f"**Most requests/s: {rate(fastest.figures.rate_rps)}** at {_at(sweep, fastest)}"
    price = cheapest.figures.price_usd_per_million_tokens
    if price is None:
        return f"{most}; no fleet has all its prices."
    return f"{most}; **least per token: {significant(price)} USD per million** at {_at(sweep, cheapest)}."


def _at(sweep: Sweep, point: SweepPoint) -> str:
    values = [f"{sweep.index.keys[k]} {point.entry.labels[k]}" for k in sweep.varying]
    return escaped(", ".join(values)) or "the only point"


def fixed_words(sweep: Sweep) -> str:
    """Keys that have one value, as they were set."""
    fixed = [k for k in range(len(sweep.index.keys)) if k not in sweep.varying]
    return ", ".join(f"{sweep.index.keys[k]}={sweep.index.entries[0].labels[k]}" for k in fixed)


def sweep_page(sweep: Sweep) -> str:
    """The sweep as Markdown, ending in a newline."""
    shown = points(sweep)
    run: Column[SweepPoint] = Column("run", lambda point: f"{point.entry.name}{' (same)' * point.repeats}")
    fixed = fixed_words(sweep)
    parts = [
        f"# Sweep of {escaped(sweep.index.scenario)}",
        verdict(sweep),
        *([f"Everywhere: {escaped(fixed)}."] if fixed else []),
        table_of((*shown.columns, run), sweep.points).markdown(),
        *reasons(sweep),
    ]
    return "\n\n".join(parts) + "\n"


def reasons(sweep: Sweep) -> list[str]:
    """Why points have no plan: a line each, as a list."""
    lines = [
        f"- {_at(sweep, point)}: {point.state.value}: {escaped(point.message.partition(chr(10))[0])}"
        for point in sweep.points
        if point.figures is None and not point.repeats
    ]
    return ["\n".join(lines)] if lines else []


def exact_points(sweep: Sweep) -> Table[SweepPoint]:
    """A row a point, as in sweep.csv: all keys, state, figures, the run's folder, the reason."""
    keys = (_label(sweep, k) for k in range(len(sweep.index.keys)))
    last = fields("run=entry.name", "entry.content", "message")
    return table_of((*keys, *fields("state"), *exact_figures(), *last), sweep.points)


_DOCUMENT = fields("state", "run=entry.name", "entry.content", "same_as_an_earlier_point=repeats", "message")


def sweep_document(sweep: Sweep) -> dict[str, Any]:
    """The sweep as plain data."""
    return {
        "scenario": sweep.index.scenario,
        "points": [
            {
                "values": dict(zip(sweep.index.keys, point.entry.labels, strict=True)),
                **record(_DOCUMENT, point),
                "figures": None if point.figures is None else asdict(point.figures),
            }
            for point in sweep.points
        ],
    }
