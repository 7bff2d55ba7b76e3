"""Plots as still figures, for files and notebooks: the series, bounds and marks that a page shows, by matplotlib.

A figure has a panel a plot, one below the other; plots over the same `x` share it.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from planner.domain import Plan
from planner.report.kit import style
from planner.report.kit.html.plots import Kind, Plot, Series

FRAME_IN, PANEL_IN, BAR_IN = 1.2, 2.2, 0.24
LONE_IN = 3.0
"""Height of a panel that is alone."""
MOST_MARKED = 60
"""Points of a line that are marked one by one."""
LONGEST = 24
"""Characters of an axis's label that stand in one line."""
_BARS_SHARE = 0.8
_BOUNDS: tuple[Any, ...] = ("--", ":", (0, (6, 1.5, 1, 1.5)))
_TONES = {"alarm": style.ALARM, "idle": style.IDLE}


def still(name: str, words: str, plots: Sequence[Plot], nothing: str, *, titled: bool = False) -> Figure:
    """The figure of what is called `name`; `nothing` says why one without plots is empty; `titled`: panels by plots."""
    with style.look():
        heights = [_height_in(plot, len(plots)) for plot in plots] or [LONE_IN]
        figure = style.blank(FRAME_IN + sum(heights))
        style.heading(figure, f"{style.shown(name, 40)}: {words}")
        if not plots:
            style.nothing_to_show(figure.subplots(), nothing)
            return figure
        shared = len({plot.x for plot in plots}) == 1 and not any(map(_upright, plots))
        panels = figure.subplots(len(plots), 1, sharex=shared, squeeze=False, height_ratios=heights)[:, 0]
        for axes, plot in zip(panels, plots, strict=True):
            _panel(axes, plot)
            if titled and len(plots) > 1:
                axes.set_title(style.shown(plot.title, 80))
        for axes in panels[:-1] if shared else ():
            axes.set_xlabel("")
        return figure


def still_of_plan(plan: Plan, words: str, plots: Sequence[Plot]) -> Figure:
    """The figure of a plan, with a word of warning in reference mode."""
    return still(plan.scenario.name, words + style.warning(plan.scenario), plots, "")


def _upright(plot: Plot) -> bool:
    """Bars of names lie, so that names can be read; what they measure is then below the axis."""
    return plot.kind in (Kind.BARS, Kind.STACKED)


def _names(plot: Plot) -> list[str]:
    return [str(x) for x in dict.fromkeys(x for series in plot.series for x in series.x)]


def _height_in(plot: Plot, panels: int) -> float:
    least = LONE_IN if panels == 1 else PANEL_IN
    bars = len(plot.series) if plot.kind is Kind.BARS else 1
    return max(least, BAR_IN * len(_names(plot)) * bars) if _upright(plot) else least


def _panel(axes: Axes, plot: Plot) -> None:
    if _upright(plot):
        _bars(axes, plot)
    else:
        for place, series in enumerate(plot.series):
            _line(axes, plot, series, place)
        _frame(axes, plot)
    for (name, value), dashes in zip(plot.bounds, cycle(_BOUNDS), strict=False):
        level = axes.axvline if _upright(plot) else axes.axhline  # bars of names lie: what they measure is across
        level(value, color=style.ink(), linewidth=1.2, linestyle=dashes, label=style.shown(name, 40))
    for (name, at), dashes in zip(plot.marks, cycle(_BOUNDS), strict=False):
        axes.axvline(at, color=style.faint(), linewidth=1.2, linestyle=dashes, label=style.shown(name, 40))
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
    if plot.clock is not None:
        seconds = [x for series in plot.series for x in series.x if not isinstance(x, str)]
        style.clock_axis(axes, plot.clock, (min(seconds), max(seconds)))


def _heights(plot: Plot) -> list[float]:
    values = [y for series in plot.series for y in (*series.y, *series.high) if y is not None]
    return values + [value for _, value in plot.bounds]


def _look(series: Series, place: int) -> dict[str, Any]:
    look = style.line_of(place if series.place is None else series.place)
    if series.gpu:
        return look | {"color": style.type_colour(series.gpu)}
    if series.tone == "faint":
        return look | {"color": style.faint()}
    if series.tone in ("chosen", "bound"):
        return {"color": style.ink(), "linestyle": "--" if series.tone == "bound" else "-"}
    return look | {"color": _TONES.get(series.tone, look["color"])}


def _line(axes: Axes, plot: Plot, series: Series, place: int) -> None:
    kind, look, label = series.kind or plot.kind, _look(series, place), style.shown(series.name, 40)
    marker = style.MARKERS[place % len(style.MARKERS)]
    if kind is Kind.DOTS:
        star = series.tone == "chosen"
        size_pt2, shape = (150, "*") if star else (26, marker)
        y = _numbers(series.y)
        colour, above = look["color"], 5 if star else 3
        axes.scatter(series.x, y, size_pt2, colour, marker=shape, label=label, zorder=above, clip_on=False)
        return
    if series.stepped or (kind is Kind.STEPS and len(series.x) > 1):
        axes.step(series.x, _numbers(series.y), where="pre" if series.stepped else "post", label=label, **look)
    else:
        marked = marker if len(series.x) <= MOST_MARKED else None
        axes.plot(series.x, _numbers(series.y), marker=marked, markersize=4.5, label=label, **look)
    if any(low is not None for low in series.low):
        low, high = _numbers(series.low), _numbers(series.high)
        interval = plot.interval if series is plot.series[0] else ""
        axes.vlines(series.x, low, high, color=look["color"], alpha=0.5, linewidth=1.4, label=interval)


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _bars(axes: Axes, plot: Plot) -> None:
    """A bar a name and series, beside each other or end to end."""
    names = _names(plot)
    lanes = 1 if plot.kind is Kind.STACKED else max(1, len(plot.series))
    ends = dict.fromkeys(names, 0.0)
    for place, series in enumerate(plot.series):
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
        if any(low is not None for low in series.low):
            axes.hlines(at, _numbers(series.low), _numbers(series.high), color=style.ink(), linewidth=1.4)
    axes.set_yticks(range(len(names)), [style.shown(name) for name in names])
    axes.invert_yaxis()
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(plot.y)
    axes.set_ylabel(plot.x)
