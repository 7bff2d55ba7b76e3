"""Plots: series of points over one axis, each with its interval; charts of pages made of them.

One mechanism for every chart, of which `kit/stills.py` makes pictures: whoever has figures names series, axes and
bounds here.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import cycle
from types import MappingProxyType
from typing import Any

from planner.errors import InputError
from planner.report.kit.tree import Cell, Chart, DataTable

_STEPS_S = (60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY_S = 86400


class Clock(StrEnum):
    """What seconds are counted from: 1970 in UTC, or midnight of the first day."""

    DATED = "time (UTC)"
    DAYS = "time of the day"


def moment(at_s: float) -> str:
    """As plotly takes it: `1970-01-01T06:10:00`."""
    return (datetime.fromtimestamp(0, UTC) + timedelta(seconds=at_s)).strftime("%Y-%m-%dT%H:%M:%S")


def clock_words(clock: Clock, at_s: float) -> tuple[str, str]:
    """The day and the hour: `2026-11-25` or `day 1`, and `06:10`."""
    when = datetime.fromtimestamp(0, UTC) + timedelta(seconds=at_s)
    return f"{when:%Y-%m-%d}" if clock is Clock.DATED else f"day {int(at_s // _DAY_S) + 1}", f"{when:%H:%M}"


def clock_ticks(first_s: float, last_s: float, most_ticks: int = 9) -> list[float]:
    """Whole minutes, hours or days between two times, at most so many."""
    span = max(last_s - first_s, 1.0)
    step = next((step for step in _STEPS_S if span / step <= most_ticks - 1), None)
    step = step or _DAY_S * -(-int(span / _DAY_S) // (most_ticks - 1))
    start = -(-first_s // step) * step
    return [start + number * step for number in range(int((last_s - start) // step) + 1)]


MOST_POINTS = 500
"""Of a series; of more an even choice, its last among them, so that pages stay small."""
MOST_LABELS = 12
"""Points whose labels stand beside them; of more only who points at one reads it."""

_BOUND_DASHES = ("dash", "dot", "longdashdot")

Across = str | float | tuple[str, str]
"""Where a point stands: at a number, a name, or a name within a group of names."""


class Kind(StrEnum):
    """How series are drawn. AREAS lie above each other, each value from its place to the next one's."""

    LINES = "lines"
    STEPS = "steps"
    DOTS = "dots"
    BARS = "bars"
    STACKED = "stacked"
    AREAS = "areas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points of one name: `y` over `x`, in the plot's units; `low` and `high`: their intervals, None where there are
    none, called `interval` where the plot's word is not theirs. `tone`: as `charts.py` knows them; `place`: the look of
    that place in every plot, the series' own where None; `gpu`: the type that it is of, whose colour it has, paler by
    `pale` (a share). `stepped`: a line of steps that stand before their points. `kind`: how it is drawn where it is not
    as the plot's others. `labels`: what each point is.
    """

    name: str
    x: tuple[Across, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    interval: str = ""
    tone: str = ""
    place: int | None = None
    gpu: str = ""
    pale: float = 0.0
    stepped: bool = False
    kind: Kind | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A chart to be: `x` and `y` label the axes, units in brackets; `interval` says what `low` and `high` are.

    `bounds`: level lines, each with its name; `marks`: upright ones. `logarithmic`: of `x`, `y`, `xy` or neither.
    `from_zero`: whether the axis of `y` begins there. `rest`: the file that has all numbers. `clock`: where `x` are
    seconds that are shown as times. `ticks`: places along `x` that have a name of their own. `lying`: bars of a page
    lie as those of pictures do, a name a line.
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
    ticks: tuple[tuple[float, str], ...] = ()
    lying: bool = False

    @property
    def names(self) -> list[str]:
        """Of the places along `x`, in the order in which they first come."""
        return [str(x) for x in dict.fromkeys(x for series in self.series for x in series.x)]

    def drawn_as(self, series: Series) -> Kind:
        """How one of its series is drawn."""
        return series.kind or self.kind


def chart_of(plot: Plot, table: DataTable | None = None, *, told: bool = False) -> Chart:
    """The chart with its numbers: `table`, else a row a point; long series thinned, which the table's caption says.
    `told`: as of `Chart`."""
    thin = replace(plot, series=tuple(thinned(series) for series in plot.series))
    shorter = any(len(series.x) > MOST_POINTS for series in plot.series)
    traces = [*(_trace(thin, series) for series in thin.series), *_levels(thin), *_uprights(thin)]
    if plot.clock is not None:
        traces = [trace | {"x": [moment(x) for x in trace["x"]]} for trace in traces]
    if plot.lying:
        traces = [trace | {"x": trace["y"], "y": trace["x"], "orientation": "h"} for trace in traces]
    numbers = replace(
        _table(thin),
        caption=f"Of long series {MOST_POINTS:,} points, evenly chosen." if shorter else "",
        rest=plot.rest,
    )
    return Chart(
        name=plot.name,
        title=plot.title,
        says=plot.says,
        traces=tuple(traces),
        layout=_layout(plot),
        table=numbers if table is None else table,
        told=told,
    )


def thinned(series: Series) -> Series:
    """At most MOST_POINTS of its points, the first and the last among them."""
    count = len(series.x)
    if count <= MOST_POINTS:
        return series
    places = [round(turn * (count - 1) / (MOST_POINTS - 1)) for turn in range(MOST_POINTS)]

    def of(row: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(row[at] for at in places) if row else ()

    series = replace(series, x=of(series.x), y=of(series.y), labels=of(series.labels))
    return replace(series, low=of(series.low), high=of(series.high))


def _trace(plot: Plot, series: Series) -> dict[str, Any]:
    trace: dict[str, Any] = {"name": series.name, "x": list(series.x), "y": list(series.y)}
    if any(isinstance(x, tuple) for x in series.x):
        trace["x"] = [list(names) for names in zip(*series.x, strict=True)]  # plotly wants groups, then names
    looks = {
        "tone": series.tone or None,
        "series": series.place,
        "gpu": series.gpu or None,
        "pale": series.pale or None,
    }
    if meta := {key: look for key, look in looks.items() if look is not None}:
        trace["meta"] = meta
    trace |= _drawn(plot.drawn_as(series), series)
    if series.labels:
        trace["hovertext"] = list(series.labels)
    if 0 < len(series.labels) <= MOST_LABELS:
        beside = {"mode": f"{trace['mode']}+text", "textposition": "top center"} if "mode" in trace else {}
        trace |= {"text": list(series.labels), **beside}
    return trace | _whiskers(series, "error_x" if plot.lying else "error_y")


def _drawn(kind: Kind, series: Series) -> dict[str, Any]:
    """What a trace of a kind is to plotly."""
    scatter: dict[str, Any] = {"type": "scatter"}
    if kind in (Kind.BARS, Kind.STACKED):
        return {"type": "bar"}
    if kind is Kind.AREAS:
        return scatter | {"mode": "none", "stackgroup": "areas", "line": {"shape": "hv"}}
    if kind is Kind.DOTS or (kind is Kind.STEPS and len(series.x) == 1):
        return scatter | {"mode": "markers"} | _MARKERS.get(series.tone, {})
    if series.stepped or kind is Kind.STEPS:
        return scatter | {"mode": "lines", "line": {"shape": "vh" if series.stepped else "hv"}}
    return scatter | {"mode": "lines" if len(series.x) > 60 else "lines+markers"}


_MARKERS: dict[str, dict[str, Any]] = {
    "bound": {"marker": {"symbol": "line-ew", "size": 44, "line": {"width": 3}}},
    "chosen": {"marker": {"symbol": "star", "size": 16}},
    "alarm": {"marker": {"symbol": "x"}},
}
"""Marks that are not those of their series' place: a stroke at a bound, a star, a cross."""


def _whiskers(series: Series, side: str) -> dict[str, Any]:
    """The intervals as plotly has them: distances from the points."""
    if not series.low:
        return {}
    rows = list(zip(series.y, series.low, series.high, strict=True))
    above = [max(0.0, high - y) if y is not None and high is not None else 0.0 for y, _, high in rows]
    below = [max(0.0, y - low) if y is not None and low is not None else 0.0 for y, low, _ in rows]
    return {side: {"type": "data", "symmetric": False, "array": above, "arrayminus": below}}


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
    places = [x for series in plot.series for x in series.x]
    if places and all(isinstance(x, tuple) for x in places):
        across = {"type": "multicategory"}
    elif all(isinstance(x, str) for x in places):
        across["type"] = "category"
    if "x" in plot.logarithmic:
        across["type"] = "log"
    if plot.clock is not None:
        across |= {"type": "date"} | ({"tickformat": "%H:%M<br>day %-j"} if plot.clock is Clock.DAYS else {})
    if plot.ticks:
        across |= {"tickvals": [at for at, _ in plot.ticks], "ticktext": [name for _, name in plot.ticks]}
    up |= {"type": "log"} if "y" in plot.logarithmic else {"rangemode": "tozero"} if plot.from_zero else {}
    modes: dict[Kind, dict[str, Any]] = {Kind.BARS: {"barmode": "group"}, Kind.STACKED: {"barmode": "stack"}}
    layout = {"xaxis": across, "yaxis": up, **modes.get(plot.kind, {})}
    if plot.lying:
        names = {"autorange": "reversed", "type": "category"}
        layout |= {"xaxis": up, "yaxis": names, "height": _FRAME_PX + _NAME_PX * len(plot.names)}
    if all(series.x == (series.name,) for series in plot.series):
        layout["showlegend"] = False  # each bar stands beside its name
    return layout


_FRAME_PX, _NAME_PX = 140, 44
"""Height of a page's chart of lying bars: around them, and of each."""


def _table(plot: Plot) -> DataTable:
    """A row a point: series, x, y, and the interval where any series has one."""
    with_interval = any(series.low for series in plot.series)
    ends = (f"{plot.interval or 'interval'}: low", "high") if with_interval else ()
    rows: list[tuple[Cell, ...]] = []
    for series in plot.series:
        for at, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
            span = (series.low[at], series.high[at]) if series.low else (None, None)
            rows.append((series.name, _shown(plot, x), y, *(span if with_interval else ())))
    rows += [(name, None, value, *((None, None) if with_interval else ())) for name, value in plot.bounds]
    return DataTable(columns=("Series", plot.x, plot.y, *ends), rows=tuple(rows))


def _shown(plot: Plot, x: Across) -> Cell:
    if isinstance(x, tuple):
        return ", ".join(x)
    return x if plot.clock is None or isinstance(x, str) else " ".join(clock_words(plot.clock, x))


def held_series(name: str, edges: Sequence[float], values: Sequence[float | None], **look: Any) -> Series:
    """A series of values that each hold from an edge to the next; the last one to the last edge."""
    return Series(name=name, x=tuple(edges), y=(*values, *values[-1:]), **look)


def series_of(name: str, points: Sequence[tuple[Across, float | None]], **look: Any) -> Series:
    """A series of pairs."""
    return Series(name=name, x=tuple(x for x, _ in points), y=tuple(y for _, y in points), **look)


def require_figure(name: str, names: Collection[str], hints: Mapping[str, str] = MappingProxyType({})) -> None:
    """Raises InputError where there is no figure of that name; `hints`: what would have to be for it to be there."""
    if name not in names:
        raise InputError(
            f"Figure: the name must be one of {', '.join(names)}, got {name!r}.",
            hint=hints.get(name, "Choose one of these names."),
        )
