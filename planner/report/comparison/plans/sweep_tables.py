"""A sweep as text: cells for the terminal, Markdown, CSV, a document for JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from planner.domain.comparisons.plans import PlanFigures
from planner.domain.comparisons.sweeps import PointState, Sweep, SweepPoint
from planner.report.comparison.plans.side_by_side import gap_words, levels_word
from planner.report.kit.bands import rate_with
from planner.report.kit.csv_tables import csv_table
from planner.report.kit.markdown import escaped, table
from planner.report.kit.quantities import NONE, counted, money, rate, significant

FIGURES = ("requests/s", "P10–P90", "promise", "USD/hour", "USD/M tokens", "gap", "levels")
CSV_FIGURES = (
    *("rate_rps", "promise_rps", "price_usd_per_hour", "price_usd_per_million_tokens", "watts", "unit", "value"),
    *("bound", "gap", "unrestricted_rps", "levels_hold", "gpus", "idle_gpus", "pools", "remaining_rps"),
)
WORK = frozenset({"workload", "model"})
"""Keys that change what a request is."""
BAND_COLUMNS = ("low_rps", "high_rps")


def figure_texts(figures: PlanFigures) -> tuple[str, ...]:
    """The cells of `FIGURES`."""
    banded = rate_with(figures.rate_rps, figures.band)
    return (
        rate(figures.rate_rps),
        NONE if banded is None else banded.range,
        NONE if figures.promise_rps is None else rate(figures.promise_rps),
        NONE if figures.price_usd_per_hour is None else money(figures.price_usd_per_hour),
        NONE if figures.price_usd_per_million_tokens is None else significant(figures.price_usd_per_million_tokens),
        gap_words(figures),
        levels_word(figures),
    )


def figure_cells(figures: PlanFigures | None) -> tuple[object, ...]:
    """The cells of `CSV_FIGURES` and `BAND_COLUMNS`, with all digits; None where there is no plan."""
    band = figures.band if figures else None
    return (
        *(getattr(figures, name, None) for name in CSV_FIGURES),
        *(getattr(band, name, None) for name in BAND_COLUMNS),
    )


def point_texts(sweep: Sweep, point: SweepPoint) -> tuple[str, ...]:
    """A point as a row: values of the keys that vary, the figures, and the state where there is no plan."""
    values = tuple(point.entry.labels[k] for k in sweep.varying)
    if point.figures is None:
        return (*values, point.state.value, *[NONE] * (len(FIGURES) - 1))
    return (*values, *figure_texts(point.figures))


def columns_of(sweep: Sweep) -> tuple[str, ...]:
    """Headers of `point_texts`."""
    return (*(sweep.index.keys[k] for k in sweep.varying), *FIGURES)


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
    header = [*map(escaped, columns_of(sweep)), "run"]
    rows = [
        [*map(escaped, point_texts(sweep, point)), f"{escaped(point.entry.name)}{' (same)' * point.repeats}"]
        for point in sweep.points
    ]
    fixed = fixed_words(sweep)
    parts = [
        f"# Sweep of {escaped(sweep.index.scenario)}",
        verdict(sweep),
        *([f"Everywhere: {escaped(fixed)}."] if fixed else []),
        table(header, rows, "r" * (len(header) - 1) + "l"),
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


def sweep_csv(sweep: Sweep) -> bytes:
    """The rows of `sweep_rows`."""
    return csv_table(*sweep_rows(sweep))


def sweep_rows(sweep: Sweep) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Columns, and a row a point: all keys, state, figures, the run's folder, the reason."""
    header = (*sweep.index.keys, "state", *CSV_FIGURES, *BAND_COLUMNS, "run", "content", "message")
    rows: list[tuple[object, ...]] = [
        (
            *point.entry.labels,
            point.state.value,
            *figure_cells(point.figures),
            point.entry.name,
            point.entry.content,
            point.message,
        )
        for point in sweep.points
    ]
    return header, rows


def sweep_document(sweep: Sweep) -> dict[str, Any]:
    """The sweep as plain data."""
    return {
        "scenario": sweep.index.scenario,
        "points": [
            {
                "values": dict(zip(sweep.index.keys, point.entry.labels, strict=True)),
                "state": point.state.value,
                "run": point.entry.name,
                "content": point.entry.content,
                "same_as_an_earlier_point": point.repeats,
                "message": point.message,
                "figures": None if point.figures is None else asdict(point.figures),
            }
            for point in sweep.points
        ],
    }
