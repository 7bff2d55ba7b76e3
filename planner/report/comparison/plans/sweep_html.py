"""A sweep as a page to send: lines along one key, heat maps over two, small ones for each value of further keys."""

import re
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from planner.domain.comparisons import PlanFigures, Sweep, SweepPoint
from planner.report.comparison.plans.sweep_tables import (
    best_points,
    fixed_words,
    reasons,
    same_work,
    verdict,
)
from planner.report.kit.html.blocks import Block, Cell, Chart, DataTable, Figure, Page, Prose, Section
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import rate, significant
from planner.report.kit.tables import Column, fields, of_part, table_of

MOST_MAPS = 12
"""Heat maps of a figure; beyond them the table tells."""

SHOWN_FIGURES: Mapping[str, tuple[str, Callable[[PlanFigures], float | None]]] = {
    "rates": ("requests/s", lambda figures: figures.rate_rps),
    "token-prices": ("USD per million tokens", lambda figures: figures.price_usd_per_million_tokens),
}
_SORTED: tuple[Column[PlanFigures], ...] = (
    Column("promise", lambda figures: figures.promise_rps),
    Column("requests/s", lambda figures: figures.rate_rps),
    Column("P10", lambda figures: figures.band and figures.band.low_rps),
    Column("P90", lambda figures: figures.band and figures.band.high_rps),
    Column("USD per million tokens", lambda figures: figures.price_usd_per_million_tokens),
    Column("USD/hour", lambda figures: figures.price_usd_per_hour),
    Column("gap", lambda figures: figures.gap, unit="%"),
    Column("pools", lambda figures: figures.pools),
)
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")


def sweep_html(sweep: Sweep, made_by: str) -> Page:
    """The page: charts by the keys that vary, and every point as a row."""
    best = best_points(sweep.points)
    fixed = fixed_words(sweep)
    keys = (_label(sweep, k) for k in sweep.varying)
    every = table_of((*keys, *sorted_figures(), *fields("run=entry.name")), sweep.points).html("Every point")
    blocks: list[Block] = [Prose(markdown=f"Everywhere: {escaped(fixed)}.")] if fixed else []
    blocks += [chart for name in SHOWN_FIGURES for chart in _charts(sweep, name)] if best else []
    return Page(
        title=f"Sweep of {sweep.index.scenario}",
        verdict=verdict(sweep),
        figures=_heads(best) if best and len(same_work(sweep)) == 1 else (),
        sections=(
            Section(name="points", title="Points", blocks=(*blocks, every)),
            *_reasons(sweep),
        ),
        made_by=made_by,
    )


def _heads(best: tuple[SweepPoint, SweepPoint]) -> tuple[Figure, ...]:
    fastest, cheapest = (point.figures for point in best)
    assert fastest is not None, "a planned point has figures"
    assert cheapest is not None, "a planned point has figures"
    most = Figure(label="requests/s at most", value=rate(fastest.rate_rps))
    price = cheapest.price_usd_per_million_tokens
    if price is None:
        return (most,)
    return most, Figure(label="USD per million tokens at least", value=significant(price))


def _reasons(sweep: Sweep) -> tuple[Section, ...]:
    lines = reasons(sweep)
    if not lines:
        return ()
    return (Section(name="reasons", title="Points without a plan", blocks=(Prose(markdown=lines[0]),)),)


def _label(sweep: Sweep, key: int) -> Column[SweepPoint]:
    return Column(sweep.index.keys[key], lambda point: _number(point.entry.labels[key]))


def sorted_figures() -> tuple[Column[Any], ...]:
    """Figures as a page sorts them; None where there is no plan."""
    return (*of_part(lambda row: row.figures, _SORTED), *fields("state"))


def _number(label: str) -> Cell:
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
    labels = [_number(point.entry.labels[position]) for point in sweep.points]
    values = [_value(point, name) for point in sweep.points]
    numeric = all(isinstance(label, int | float) for label in labels)
    trace: dict[str, Any] = {"type": "bar", "name": title, "x": labels, "y": values}
    if numeric:
        trace |= {"type": "scatter", "mode": "lines+markers"}
    key = sweep.index.keys[position]
    return Chart(
        name=name,
        title=f"{title} by {key}",
        says=f"{title} at each value of {key}; points without a plan are left out.",
        traces=(trace,),
        layout={
            "xaxis": {"title": {"text": key}, **({} if numeric else {"type": "category"})},
            "yaxis": {"title": {"text": title}, "rangemode": "tozero"},
        },
        table=DataTable(columns=(key, title), rows=tuple(zip(labels, values, strict=True))),
    )


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
