"""Plots as still figures, for files and notebooks: the series, bounds and marks that a page shows, by matplotlib.

A figure has a panel a plot, one below the other or several beside each other; plots over the same `x` share it.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from planner.domain import Plan
from planner.report.kit import style
from planner.report.kit.colours import PHASES
from planner.report.kit.plots import MOST_LABELS, Kind, Plot, Series

FRAME_IN, PANEL_IN, BAR_IN = 1.2, 2.2, 0.24
LONE_IN = 3.0
"""Height of a panel that is alone."""
MOST_MARKED = 60
"""Points of a line that are marked one by one."""
LONGEST = 24
"""Characters of an axis's label that stand in one line."""
MOST_TICKS = 12
"""Names along an axis that stand side by side; more stand upright."""
_BARS_SHARE = 0.8
_BOUNDS: tuple[Any, ...] = ("--", ":", (0, (6, 1.5, 1, 1.5)))
_TONES = {"alarm": style.ALARM, **PHASES}


def still(
    name: str, words: str, plots: Sequence[Plot], nothing: str, *, titled: bool = False, across: int = 1
) -> Figure:
    """The figure of what is called `name`, so many panels beside each other, `titled` by their plots; `nothing` says
    why one without plots is empty."""
    with style.look():
        rows = [plots[at : at + across] for at in range(0, len(plots), across)]
        heights = [max(_height_in(plot, len(plots)) for plot in row) for row in rows] or [LONE_IN]
        figure = style.blank(FRAME_IN + sum(heights))
        style.heading(figure, f"{style.shown(name, 40)}: {words}")
        if not plots:
            style.nothing_to_show(figure.subplots(), nothing)
            return figure
        shared = across == 1 and len({(plot.x, plot.ticks) for plot in plots}) == 1 and not any(map(_upright, plots))
        columns = min(across, len(plots))
        panels = figure.subplots(len(rows), columns, sharex=shared, squeeze=False, height_ratios=heights)
        for place, axes in enumerate(panels.flat):
            if place < len(plots):
                _panel(axes, plots[place], titled=titled and len(plots) > 1, in_legend=(place + 1) % columns == 0)
            else:
                axes.set_visible(False)
        for axes in panels[:-1, 0] if shared else ():
            axes.set_xlabel("")
        return figure


def still_of_plan(plan: Plan, words: str, plots: Sequence[Plot], nothing: str = "", *, across: int = 1) -> Figure:
    """The figure of a plan, with a word of warning in reference mode."""
    return still(
        plan.scenario.name, words + style.warning(plan.scenario), plots, nothing, titled=across == 1, across=across
    )


def _upright(plot: Plot) -> bool:
    """Bars of names lie, so that names can be read; what they measure is then below the axis."""
    return plot.kind in (Kind.BARS, Kind.STACKED)


def _height_in(plot: Plot, panels: int) -> float:
    lowest_in = LONE_IN if panels == 1 else PANEL_IN
    bars = len(plot.series) if plot.kind is Kind.BARS else 1
    return max(lowest_in, BAR_IN * len(plot.names) * bars) if _upright(plot) else lowest_in


def _panel(axes: Axes, plot: Plot, *, titled: bool, in_legend: bool) -> None:
    """`in_legend`: by a legend, which the last panel of a row has for all of it."""
    if titled:
        axes.set_title(style.shown(plot.title, 80))
    if _upright(plot):
        _bars(axes, plot)
    else:
        _areas(axes, [series for series in plot.series if plot.drawn_as(series) is Kind.AREAS])
        for place, series in enumerate(plot.series):
            if plot.drawn_as(series) is not Kind.AREAS:
                _line(axes, plot, series, place)
        _frame(axes, plot)
    for (name, value), dashes in zip(plot.bounds, cycle(_BOUNDS), strict=False):
        level = axes.axvline if _upright(plot) else axes.axhline  # bars of names lie: what they measure is across
        line = level(value, color=style.ink(), linewidth=1.2, linestyle=dashes, label=style.shown(name, 40))
        line.set_path_effects([withStroke(linewidth=2.6, foreground=style.paper())])  # seen over dark areas, too
    for (name, at), dashes in zip(plot.marks, cycle(_BOUNDS), strict=False):
        axes.axvline(at, color=style.faint(), linewidth=1.2, linestyle=dashes, label=style.shown(name, 40))
    if in_legend:
        style.legend_beside(axes)


def _frame(axes: Axes, plot: Plot) -> None:
    """Labels and scales."""
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y if len(plot.y) <= LONGEST else plot.y.replace(" (", "\n("))
    if "x" in plot.logarithmic:
        style.plain_logarithm(axes, "x")
    if "y" in plot.logarithmic:
        style.plain_logarithm(axes, "y")
    elif plot.from_zero:
        axes.set_ylim(0, 1.1 * max(_heights(plot), default=1.0) or 1.0)
    numbers = [x for series in plot.series for x in series.x if isinstance(x, int | float)]
    if numbers and all(isinstance(x, int) for x in numbers):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if plot.clock is not None:
        style.clock_axis(axes, plot.clock, (min(numbers), max(numbers)))
    if plot.ticks:
        upright: dict[str, Any] = (
            {"rotation": 90, "fontsize": style.points(7.0)} if len(plot.ticks) > MOST_TICKS else {}
        )
        axes.set_xticks([at for at, _ in plot.ticks], [name for _, name in plot.ticks], **upright)
    if plot.kind is Kind.AREAS and numbers:
        axes.set_xlim(min(numbers), max(numbers))


def _heights(plot: Plot) -> list[float]:
    """Of all that is drawn; areas stand on each other."""
    values = [y for series in plot.series for y in (*series.y, *series.high) if y is not None]
    areas = [_numbers(series.y) for series in plot.series if plot.drawn_as(series) is Kind.AREAS]
    return values + [value for _, value in plot.bounds] + [sum(column) for column in zip(*areas, strict=True)]


def _look(series: Series, place: int) -> dict[str, Any]:
    look = style.line_of(place if series.place is None else series.place)
    if series.gpu:
        return look | {"color": style.mixed(style.type_colour(series.gpu), style.paper(), series.pale)}
    if series.tone == "faint":
        return look | {"color": style.faint()}
    if series.tone in ("chosen", "bound"):
        return {"color": style.ink(), "linestyle": "--" if series.tone == "bound" else "-"}
    return look | {"color": _TONES.get(series.tone, look["color"])}


def _line(axes: Axes, plot: Plot, series: Series, place: int) -> None:
    kind, look, label = plot.drawn_as(series), _look(series, place), style.shown(series.name, 40)
    y = _numbers(series.y)
    if kind is Kind.DOTS:
        _dots(axes, series, place, series.x, y)
    elif series.stepped or (kind is Kind.STEPS and len(series.x) > 1):
        axes.step(series.x, y, where="pre" if series.stepped else "post", label=label, **look)
    else:
        marked = style.MARKERS[place % len(style.MARKERS)] if len(series.x) <= MOST_MARKED else None
        axes.plot(series.x, y, marker=marked, markersize=4.5, label=label, **look)
    if any(low is not None for low in series.low):
        low, high = _numbers(series.low), _numbers(series.high)
        interval = series.interval or (plot.interval if series is plot.series[0] else "")
        axes.vlines(series.x, low, high, color=look["color"], alpha=0.5, linewidth=1.4, label=interval)


def _dots(axes: Axes, series: Series, place: int, x: Sequence[Any], y: Sequence[float]) -> None:
    """A star for what was chosen, a cross for what is broken, a stroke at a bound, else the marker of the place."""
    size_pt2, marker = {"chosen": (150.0, "*"), "alarm": (32.0, "x"), "bound": (90.0, "_")}.get(
        series.tone, (26.0, style.MARKERS[place % len(style.MARKERS)])
    )
    colour, above = _look(series, place)["color"], 5 if series.tone == "chosen" else 3
    label = style.shown(series.name, 40)
    axes.scatter(x, y, size_pt2, colour, marker=marker, label=label, zorder=above, clip_on=False)
    if len(series.labels) <= MOST_LABELS:
        for at, height, words in zip(x, y, series.labels, strict=False):
            axes.annotate(style.shown(words), (at, height), (0, 4), textcoords="offset points", ha="center")


def _areas(axes: Axes, areas: Sequence[Series]) -> None:
    """Each above those before, of its type's colour, told apart in grey by hatches."""
    ends: list[float] = []
    for place, series in enumerate(areas):
        starts = ends or [0.0] * len(series.x)
        ends = [start + value for start, value in zip(starts, _numbers(series.y), strict=True)]
        look = {"facecolor": _look(series, place)["color"], "edgecolor": style.paper(), "linewidth": 0.4}
        hatch, label = style.bar_of(place)["hatch"], style.shown(series.name, 40)
        axes.fill_between(series.x, starts, ends, step="post", label=label, hatch=hatch, **look)


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _bars(axes: Axes, plot: Plot) -> None:
    """A bar a name and series, beside each other or end to end; dots where a series has them."""
    names = plot.names
    drawn = [series for series in plot.series if plot.drawn_as(series) is not Kind.DOTS]
    lanes = 1 if plot.kind is Kind.STACKED else max(1, len(drawn))
    ends = dict.fromkeys(names, 0.0)
    for place, series in enumerate(drawn):
        look = style.bar_of(place if series.place is None else series.place)
        if series.gpu or series.tone:
            look["color"] = _look(series, place)["color"]
        look["color"] = style.mixed(look["color"], style.paper(), 0.25)  # an interval over it can be seen
        shift = (place - (lanes - 1) / 2) * _BARS_SHARE / lanes if lanes > 1 else 0.0
        at = [names.index(str(x)) + shift for x in series.x]
        values = _numbers(series.y)
        starts = [ends[str(x)] for x in series.x] if plot.kind is Kind.STACKED else [0.0] * len(at)
        axes.barh(at, values, _BARS_SHARE / lanes, starts, label=style.shown(series.name, 40), **look)
        for x, value in zip(series.x, values, strict=True):
            ends[str(x)] += value
        if len(series.labels) <= MOST_LABELS:
            for y, value, words in zip(at, values, series.labels, strict=False):
                axes.annotate(words, (value, y), (3, 0), textcoords="offset points", va="center")
        if any(low is not None for low in series.low):
            axes.hlines(at, _numbers(series.low), _numbers(series.high), color=style.ink(), linewidth=1.4)
    for place, series in enumerate(plot.series):
        if series not in drawn:
            _dots(axes, series, place, _numbers(series.y), [float(names.index(str(x))) for x in series.x])
    axes.set_yticks(range(len(names)), [style.shown(name) for name in names])
    axes.invert_yaxis()
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(plot.y)
    axes.set_ylabel(plot.x)
