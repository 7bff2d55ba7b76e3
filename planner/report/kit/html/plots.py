"""Plots as most studies have them: series of points over one axis, each with its interval; charts made of them.

One mechanism for every page that is not a plan's: whoever has figures names series, axes and bounds here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import cycle
from typing import Any

from planner.report.kit.clock import Clock, clock_words, moment
from planner.report.kit.html.blocks import Cell, Chart, DataTable

MOST_POINTS = 500
"""Of a series; of more an even choice, its last among them, so that pages stay small."""

_BOUND_DASHES = ("dash", "dot", "longdashdot")

Across = str | float


class Kind(StrEnum):
    """How series are drawn."""

    LINES = "lines"
    STEPS = "steps"
    DOTS = "dots"
    BARS = "bars"
    STACKED = "stacked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points of one name: `y` over `x`, in the plot's units; `low` and `high`: their intervals, None where there are
    none. `tone`: as `charts.py` knows them; `place`: the look of that place in every plot, the series' own where None;
    `gpu`: the type that it is of, whose colour it has. `stepped`: a line of steps that stand before their points.
    `kind`: how it is drawn where it is not as the plot's others.
    """

    name: str
    x: tuple[Across, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    tone: str = ""
    place: int | None = None
    gpu: str = ""
    stepped: bool = False
    kind: Kind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A chart to be: `x` and `y` label the axes, units in brackets; `interval` says what `low` and `high` are.

    `bounds`: level lines, each with its name; `marks`: upright ones. `logarithmic`: of `x`, `y`, `xy` or neither.
    `from_zero`: whether the axis of `y` begins there. `rest`: the file that has all numbers. `clock`: where `x` are
    seconds that are shown as times.
    """

    name: str
    title: str
    says: str
    kind: Kind
    x: str
    y: str
    series: tuple[Series, ...]
    interval: str = ""
    bounds: tuple[tuple[str, float], ...] = ()
    marks: tuple[tuple[str, float], ...] = ()
    logarithmic: str = ""
    from_zero: bool = True
    rest: str = ""
    clock: Clock | None = None


def chart_of(plot: Plot) -> Chart:
    """The chart, its numbers as a row a point; long series thinned, which the caption of the table says."""
    thin = replace(plot, series=tuple(thinned(series) for series in plot.series))
    shorter = any(len(series.x) > MOST_POINTS for series in plot.series)
    traces = [*(_trace(thin, series) for series in thin.series), *_levels(thin), *_uprights(thin)]
    if plot.clock is not None:
        traces = [trace | {"x": [moment(x) for x in trace["x"]]} for trace in traces]
    return Chart(
        name=plot.name,
        title=plot.title,
        says=plot.says,
        traces=tuple(traces),
        layout=_layout(plot),
        table=replace(
            _table(thin),
            caption=f"Of long series {MOST_POINTS:,} points, evenly chosen." if shorter else "",
            rest=plot.rest,
        ),
    )


def thinned(series: Series) -> Series:
    """At most MOST_POINTS of its points, the first and the last among them."""
    count = len(series.x)
    if count <= MOST_POINTS:
        return series
    places = [round(turn * (count - 1) / (MOST_POINTS - 1)) for turn in range(MOST_POINTS)]
    return replace(
        series,
        x=tuple(series.x[at] for at in places),
        y=tuple(series.y[at] for at in places),
        low=tuple(series.low[at] for at in places) if series.low else (),
        high=tuple(series.high[at] for at in places) if series.high else (),
    )


def _trace(plot: Plot, series: Series) -> dict[str, Any]:
    trace: dict[str, Any] = {"name": series.name, "x": list(series.x), "y": list(series.y)}
    looks = {"tone": series.tone or None, "series": series.place, "gpu": series.gpu or None}
    if meta := {key: look for key, look in looks.items() if look is not None}:
        trace["meta"] = meta
    if plot.kind in (Kind.BARS, Kind.STACKED):
        trace["type"] = "bar"
    else:
        trace |= {"type": "scatter", "mode": _mode(plot, series)}
        if series.stepped or (series.kind or plot.kind) is Kind.STEPS:
            trace["line"] = {"shape": "vh" if series.stepped else "hv"}
    return trace | _whiskers(series)


def _mode(plot: Plot, series: Series) -> str:
    kind = series.kind or plot.kind
    if kind in (Kind.DOTS, Kind.STEPS):
        return "markers" if kind is Kind.DOTS or len(series.x) == 1 else "lines"
    return "lines" if len(series.x) > 60 else "lines+markers"


def _whiskers(series: Series) -> dict[str, Any]:
    """The intervals as plotly has them: distances from the points."""
    if not series.low:
        return {}
    rows = list(zip(series.y, series.low, series.high, strict=True))
    above = [max(0.0, high - y) if y is not None and high is not None else 0.0 for y, _, high in rows]
    below = [max(0.0, y - low) if y is not None and low is not None else 0.0 for y, low, _ in rows]
    return {"error_y": {"type": "data", "symmetric": False, "array": above, "arrayminus": below}}


def _levels(plot: Plot) -> Iterator[dict[str, Any]]:
    """A line from end to end at each bound, no two of three dashed alike."""
    places = list(dict.fromkeys(x for series in plot.series for x in series.x))
    if not places:
        return
    ends = [places[0], places[-1]] if any(isinstance(x, str) for x in places) else [min(places), max(places)]
    for (name, value), dash in zip(plot.bounds, cycle(_BOUND_DASHES), strict=False):
        line = {"x": ends, "y": [value, value], "meta": {"tone": "bound"}, "line": {"dash": dash}}
        yield {"type": "scatter", "mode": "lines", "name": name, **line}


def _uprights(plot: Plot) -> Iterator[dict[str, Any]]:
    """A line from bottom to top at each mark, dashed in turn as the level ones are."""
    values = [y for series in plot.series for y in (*series.y, *series.high) if y is not None]
    values += [value for _, value in plot.bounds]
    top = max(values, default=1.0)
    bottom = min(values, default=0.0) if "y" in plot.logarithmic or not plot.from_zero else 0.0
    for (name, at), dash in zip(plot.marks, cycle(_BOUND_DASHES), strict=False):
        line = {"x": [at, at], "y": [bottom, top], "meta": {"tone": "bound"}, "line": {"dash": dash, "width": 1.5}}
        yield {"type": "scatter", "mode": "lines", "name": name, **line}


def _layout(plot: Plot) -> dict[str, Any]:
    across: dict[str, Any] = {"title": {"text": plot.x}}
    up: dict[str, Any] = {"title": {"text": plot.y}}
    if all(isinstance(x, str) for series in plot.series for x in series.x):
        across["type"] = "category"
    if "x" in plot.logarithmic:
        across["type"] = "log"
    if plot.clock is not None:
        across |= {"type": "date"} | ({"tickformat": "%H:%M<br>day %-j"} if plot.clock is Clock.DAYS else {})
    up |= {"type": "log"} if "y" in plot.logarithmic else {"rangemode": "tozero"} if plot.from_zero else {}
    modes = {Kind.BARS: {"barmode": "group"}, Kind.STACKED: {"barmode": "stack"}}
    return {"xaxis": across, "yaxis": up, **modes.get(plot.kind, {})}


def _table(plot: Plot) -> DataTable:
    """A row a point: series, x, y, and the interval where any series has one."""
    with_interval = any(series.low for series in plot.series)
    ends = (f"{plot.interval or 'interval'}: low", "high") if with_interval else ()
    rows: list[tuple[Cell, ...]] = []
    for series in plot.series:
        for at, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
            span = (series.low[at], series.high[at]) if series.low else (None, None)
            shown = x if plot.clock is None or isinstance(x, str) else " ".join(clock_words(plot.clock, x))
            rows.append((series.name, shown, y, *(span if with_interval else ())))
    rows += [(name, None, value, *((None, None) if with_interval else ())) for name, value in plot.bounds]
    return DataTable(columns=("Series", plot.x, plot.y, *ends), rows=tuple(rows))


def held_series(name: str, edges: Sequence[float], values: Sequence[float | None], **look: Any) -> Series:
    """A series of values that each hold from an edge to the next; the last one to the last edge."""
    return Series(name=name, x=tuple(edges), y=(*values, *values[-1:]), **look)


def series_of(name: str, points: Sequence[tuple[Across, float | None]], **look: Any) -> Series:
    """A series of pairs."""
    return Series(name=name, x=tuple(x for x, _ in points), y=tuple(y for _, y in points), **look)
