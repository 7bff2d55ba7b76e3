"""Requests over time, of the first seed: arrivals, those waiting, those answering, those late; events marked."""

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from planner.domain.replay.results import Moment, ReplayResult
from planner.report.kit import style
from planner.report.kit.quantities import significant
from planner.report.replay.curves import edges_of, late_shares

HEIGHT_IN = 7.4
ROOM_ABOVE = 1.25
"""Top of a panel over its largest figure, for names."""

FINE = 0.06
"""Below it, shares have a digit behind the point."""

Figures = list[float]


def draw(result: ReplayResult) -> Figure:
    """Four panels over the same seconds, from the end of the warm-up on."""
    figure = style.blank(HEIGHT_IN)
    rate = significant(result.rate_rps)
    style.heading(figure, f"{style.shown(result.plan, 40)}: replayed at {rate} requests/s, first seed")
    panels: list[Axes] = list(figure.subplots(4, 1, sharex=True))
    if not result.moments:
        for axes in panels:
            style.nothing_to_show(axes, "no moments were recorded")
        return figure
    _rates(panels[0], result)
    _area(panels[1], result, lambda moment: moment.waiting, "waiting for prefill", style.palette()[1])
    _area(panels[2], result, lambda moment: moment.answering, "answering", style.palette()[0])
    _late(panels[3], result)
    for axes in panels:
        _mark_events(axes, result)
    _event_names(panels[0], result)
    panels[-1].set_xlabel("seconds from the first arrival; the warm-up is left out")
    return figure


def _rates(axes: Axes, result: ReplayResult) -> None:
    edges = edges_of(result.moments)
    arrived = [moment.arrived / moment.seconds for moment in result.moments]
    finished = [moment.finished / moment.seconds for moment in result.moments]
    axes.stairs(arrived, edges, baseline=None, color=style.ink(), linewidth=1.3, label="arrived")
    axes.stairs(
        finished, edges, baseline=None, color=style.palette()[6], linestyle="--", linewidth=1.3, label="finished"
    )
    axes.set_ylabel("requests/s")
    axes.set_ylim(0, ROOM_ABOVE * max(1e-9, *arrived, *finished))
    style.legend_beside(axes)


def _area(axes: Axes, result: ReplayResult, figure_of: Callable[[Moment], float], name: str, colour: str) -> None:
    values = [figure_of(moment) for moment in result.moments]
    axes.stairs(values, edges_of(result.moments), fill=True, color=style.mixed(colour, style.paper(), 0.55))
    axes.stairs(values, edges_of(result.moments), baseline=None, color=colour, linewidth=1.2)
    axes.set_ylim(0, ROOM_ABOVE * max(1e-9, *values))
    axes.set_ylabel(f"requests\n{name}")


def _late(axes: Axes, result: ReplayResult) -> None:
    shares = late_shares(result.moments)
    axes.stairs(shares, edges_of(result.moments), fill=True, color=style.ALARM, hatch="////", alpha=0.75)
    top = min(1.02, max(0.02, ROOM_ABOVE * max(shares)))
    axes.set_ylim(0, top)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=1 if top < FINE else 0, symbol=""))
    axes.set_ylabel("late, of those\nthat arrived (%)")
    if not any(shares):
        axes.text(0.5, 0.5, "none late", transform=axes.transAxes, ha="center", va="center", color=style.faint())


def _mark_events(axes: Axes, result: ReplayResult) -> None:
    """Events as upright lines."""
    edges = edges_of(result.moments)
    for at_s, _ in result.events:
        axes.axvline(at_s, color=style.ALARM, linewidth=1.1, linestyle="-.")
    axes.set_xlim(edges[0], edges[-1])


def _event_names(axes: Axes, result: ReplayResult) -> None:
    """What each line is, on the side of it that has more room; two that are near each other at different heights."""
    first, last = axes.get_xlim()
    shown = [(at_s, text) for at_s, text in result.events if first <= at_s <= last]
    for place, (at_s, text) in enumerate(shown):
        side = "right" if at_s > (first + last) / 2 else "left"
        height = 0.97 - 0.14 * (place % 3)
        words = f" {style.shown(text, 60)} "
        axes.text(
            at_s, height, words, transform=axes.get_xaxis_transform(), ha=side, va="top", fontsize=style.points(8.0)
        )
