"""A sweep: cells for the terminal, CSV, JSON; a report with lines along one key, heat maps over two."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

from planner.domain.comparisons import PlanFigures, PointState, Sweep, SweepPoint
from planner.report.comparison.side_by_side import band_words, gap_words, levels_word
from planner.report.kit.markdown import escaped, listed
from planner.report.kit.plots import Kind, Plot, chart_of, series_of
from planner.report.kit.quantities import counted, money, rate, significant
from planner.report.kit.tables import Column, Table, counts, entries, fields, of_part, record, table_of
from planner.report.kit.tree import Chart, DataTable, Figure, Page, Prose, section

_SHOWN: tuple[Column[PlanFigures], ...] = (
    Column("requests/s", lambda figures: figures.rate_rps, rate),
    Column("P10–P90", band_words, right=True),
    Column("promise", lambda figures: figures.promise_rps, rate),
    Column("USD/hour", lambda figures: figures.price_usd_per_hour, money),
    Column("USD/M tokens", lambda figures: figures.price_usd_per_million_tokens, significant),
    Column("gap", gap_words, right=True),
    Column("levels", levels_word, right=True),
    *counts("pools"),
)
_EXACT = fields(
    *("rate_rps", "promise_rps", "price_usd_per_hour", "price_usd_per_million_tokens", "watts", "unit", "value"),
    *("bound", "gap", "unrestricted_rps", "levels_hold", "gpus", "idle_gpus", "pools", "remaining_rps"),
)
WORK = frozenset({"workload", "model"})
"""Keys that change what a request is."""


def told_figures() -> tuple[Column[Any], ...]:
    """Of what has `figures` and a `state`: the few figures that people compare; None where there is no plan."""
    return (*of_part(lambda row: row.figures, _SHOWN), *fields("state"))


def exact_figures() -> tuple[Column[Any], ...]:
    """The same, all figures with all digits; None where there is no plan."""
    return (
        *of_part(lambda row: row.figures, _EXACT),
        *of_part(lambda row: row.figures and row.figures.band, fields("low_rps", "high_rps")),
    )


def points(sweep: Sweep) -> Table[SweepPoint]:
    """A row a point: values of the keys that vary, the figures, the state."""
    return table_of((*(_key(sweep, k) for k in sweep.varying), *told_figures()), sweep.points)


def _key(sweep: Sweep, key: int) -> Column[SweepPoint]:
    return Column(sweep.index.keys[key], lambda point: _number(point.entry.labels[key]), _label)


def _label(value: str | float) -> str:
    """As it was typed."""
    return escaped(value) if isinstance(value, str) else f"{value:.10g}"


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
    most_words = f"**Most requests/s: {rate(fastest.figures.rate_rps)}** at {_at(sweep, fastest)}"
    price = cheapest.figures.price_usd_per_million_tokens
    if price is None:
        return f"{most_words}; no fleet has all its prices."
    return f"{most_words}; **least per token: {significant(price)} USD per million** at {_at(sweep, cheapest)}."


def _at(sweep: Sweep, point: SweepPoint) -> str:
    values = [f"{sweep.index.keys[k]} {point.entry.labels[k]}" for k in sweep.varying]
    return escaped(", ".join(values)) or "the only point"


def fixed_words(sweep: Sweep) -> str:
    """Keys that have one value, as they were set."""
    fixed = [k for k in range(len(sweep.index.keys)) if k not in sweep.varying]
    return ", ".join(f"{sweep.index.keys[k]}={sweep.index.entries[0].labels[k]}" for k in fixed)


def reasons(sweep: Sweep) -> list[str]:
    """Why points have no plan: a line each."""
    return [
        f"{_at(sweep, point)}: {point.state.value}: {escaped(point.message.partition(chr(10))[0])}"
        for point in sweep.points
        if point.figures is None and not point.repeats
    ]


def exact_points(sweep: Sweep) -> Table[SweepPoint]:
    """A row a point, as in sweep.csv: all keys, state, figures, the run's folder, the reason."""
    keys = entries(lambda point: zip(sweep.index.keys, point.entry.labels, strict=True), sweep.points)
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


MOST_MAPS = 12
"""Heat maps of a figure; beyond them the table tells."""

SHOWN_FIGURES: Mapping[str, tuple[str, Callable[[PlanFigures], float | None]]] = {
    "rates": ("requests/s", lambda figures: figures.rate_rps),
    "token-prices": ("USD per million tokens", lambda figures: figures.price_usd_per_million_tokens),
}
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")


def sweep_page(sweep: Sweep) -> Page:
    """The report: charts by the keys that vary, and every point as a row."""
    best, fixed = best_points(sweep.points), fixed_words(sweep)
    run: Column[SweepPoint] = Column("run", lambda point: f"{point.entry.name}{' (same)' * point.repeats}")
    words = [Prose(markdown=f"Everywhere: {escaped(fixed)}.")] if fixed else []
    charts = [chart for name in SHOWN_FIGURES for chart in _charts(sweep, name)] if best else []
    every = table_of((*points(sweep).columns, run), sweep.points).block()
    return Page(
        title=f"Sweep of {sweep.index.scenario}",
        verdict=verdict(sweep),
        figures=_heads(best) if best and len(same_work(sweep)) == 1 else (),
        sections=(
            section("points", "Points", *words, *charts, every),
            section("reasons", "Points without a plan", *listed(reasons(sweep))),
        ),
    )


def _heads(best: tuple[SweepPoint, SweepPoint]) -> tuple[Figure, ...]:
    fastest, cheapest = (point.figures for point in best)
    assert fastest is not None, "a planned point has figures"
    assert cheapest is not None, "a planned point has figures"
    rate_figure = Figure(label="requests/s at most", value=rate(fastest.rate_rps))
    price = cheapest.price_usd_per_million_tokens
    if price is None:
        return (rate_figure,)
    return rate_figure, Figure(label="USD per million tokens at least", value=significant(price))


def _number(label: str) -> str | float:
    """A label as the number that it is, so that a column of numbers sorts as one."""
    if not _NUMBER.fullmatch(label):
        return label
    return int(label) if label.lstrip("+-").isdigit() else float(label)


def _charts(sweep: Sweep, name: str) -> list[Chart]:
    """Of one figure: lines, or heat maps."""
    if len(sweep.varying) < 2:
        return [_lines(sweep, name)]
    across, along, further = sweep.varying[-1], sweep.varying[-2], sweep.varying[:-2]
    panels = list(product(*(sweep.values(k) for k in further)))[:MOST_MAPS]
    return [_heat_map(sweep, name, (along, across), dict(zip(further, panel, strict=True))) for panel in panels]


def _value(point: SweepPoint | None, name: str) -> float | None:
    return None if point is None or point.figures is None else SHOWN_FIGURES[name][1](point.figures)


def _lines(sweep: Sweep, name: str) -> Chart:
    title, position = SHOWN_FIGURES[name][0], sweep.varying[0] if sweep.varying else 0
    labels = [point.entry.labels[position] for point in sweep.points]
    numbers = [number for number in map(_number, labels) if not isinstance(number, str)]
    numeric = len(numbers) == len(labels)
    values = [_value(point, name) for point in sweep.points]
    key = sweep.index.keys[position]
    plot = Plot(
        name=name,
        title=f"{title} by {key}",
        says=f"{title} at each value of {key}; points without a plan are left out.",
        kind=Kind.LINES if numeric else Kind.BARS,
        x=key,
        y=title,
        series=(series_of(title, list(zip(numbers if numeric else labels, values, strict=True))),),
    )
    return chart_of(plot)


def _heat_map(sweep: Sweep, name: str, axes: tuple[int, int], fixed: Mapping[int, str]) -> Chart:
    title, (along, across) = SHOWN_FIGURES[name][0], axes
    places = {
        (point.entry.labels[along], point.entry.labels[across]): point
        for point in sweep.points
        if all(point.entry.labels[k] == value for k, value in fixed.items())
    }
    rows, columns = sweep.values(along), sweep.values(across)
    values = [[_value(places.get((row, column)), name) for column in columns] for row in rows]
    where = "".join(f", {sweep.index.keys[k]} {value}" for k, value in fixed.items())
    names = (sweep.index.keys[along], sweep.index.keys[across])
    number = 0
    if fixed:
        panels = list(product(*(sweep.values(k) for k in fixed)))
        number = panels.index(tuple(fixed.values()))
    return Chart(
        name=f"{name}{'-' + _letters(number) if fixed else ''}",
        title=f"{title}{where}",
        says=f"{title} by {names[0]} (down) and {names[1]} (across); empty where nothing serves.",
        traces=(
            {
                "type": "heatmap",
                "x": list(columns),
                "y": list(rows),
                "z": values,
                "text": [[_shown(value) for value in row] for row in values],
                "texttemplate": "%{text}",
                "colorscale": "Cividis",
                "reversescale": name == "token-prices",
            },
        ),
        layout={
            "xaxis": {"title": {"text": names[1]}, "type": "category"},
            "yaxis": {"title": {"text": names[0]}, "type": "category"},
        },
        table=DataTable(
            columns=(*names, title),
            rows=tuple(
                (_number(row), _number(column), value)
                for row, line in zip(rows, values, strict=True)
                for column, value in zip(columns, line, strict=True)
            ),
        ),
    )


def _shown(value: float | None) -> str:
    return "" if value is None else significant(value)


def _letters(number: int) -> str:
    """A name for a number in small letters, as chart names are."""
    first, second = divmod(number, 26)
    return f"{chr(ord('a') + first)}{chr(ord('a') + second)}"
