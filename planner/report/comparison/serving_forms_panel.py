"""The panel of the forms of serving: requests/s over the bound on TPOT, a line a form, each with its name."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from planner.domain import FormComparison, Scenario, ServingForm
from planner.report.kit import style
from planner.report.kit.colours import PALETTE
from planner.report.kit.quantities import significant

HEIGHT_IN = 4.6
LABEL_ROOM = 0.055
"""Height of a line's name, as a share of the axis."""

TICK_ROOM = 0.035
"""Width of a figure below the axis, as a share of it."""

ROOM_RIGHT = 1.35
"""How far the axis goes beyond the last bound, for the names."""

HEAD_ROOM = 1.3
"""The upper part of the panel is for the names of upright lines, clear of the curves."""

LINES = {
    ServingForm.AUTO: ("free choice", style.IDLE, 6.0, ""),
    ServingForm.SPLIT: ("split", PALETTE[0], 1.8, "o"),
    ServingForm.AGGREGATED: ("aggregated", PALETTE[6], 1.8, "s"),
}
"""Name, colour, width and marker; the free choice lies wide below both."""


def draw(comparison: FormComparison, scenario: Scenario) -> Figure:
    """Three lines, the scenario's own bound, and where the better form changes."""
    figure = style.blank(HEIGHT_IN)
    axes = figure.subplots()
    style.heading(figure, f"{style.shown(scenario.name, 40)}: best rate of each form against the bound on TPOT")
    axes.set_xscale("log")
    most = HEAD_ROOM * max(point.bound_rps for point in comparison.points)
    for form, (_, colour, width, marker) in LINES.items():
        points = comparison.of(form)
        axes.plot(
            [point.tpot_ms for point in points],
            [point.rate_rps for point in points],
            color=colour,
            linewidth=width,
            marker=marker or None,
            markersize=4.0,
            solid_capstyle="round",
        )
    axes.set_ylim(0, most)
    axes.set_xlim(comparison.bounds_ms[0] / 1.05, comparison.bounds_ms[-1] * ROOM_RIGHT)
    _names(axes, comparison, LABEL_ROOM * most)
    _marks(axes, comparison, most)
    ticks = _ticks(comparison.bounds_ms)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{ms:g}" for ms in ticks])
    axes.set_xlabel("bound on TPOT (ms)")
    axes.set_ylabel("rate of the whole mix (requests/s)")
    return figure


def _ticks(bounds_ms: Sequence[float]) -> list[float]:
    """The bounds whose figures have room beside each other."""
    apart = (bounds_ms[-1] * ROOM_RIGHT / bounds_ms[0]) ** TICK_ROOM
    ticks = [bounds_ms[0]]
    for tpot_ms in bounds_ms[1:]:
        if tpot_ms >= ticks[-1] * apart:
            ticks.append(tpot_ms)
    return ticks


def _names(axes: Axes, comparison: FormComparison, room: float) -> None:
    """Each line's name beside its end, the lower ones first and none over another."""
    last = comparison.bounds_ms[-1]
    ends = sorted((comparison.at(last, form).rate_rps, form.value, form) for form in LINES)
    floor = float("-inf")
    for rate, _, form in ends:
        name, colour, width, _ = LINES[form]
        floor = max(rate, floor + room)
        shade = style.faint() if width > 2 else colour  # the wide line's own colour is too pale to read
        axes.text(last * 1.03, floor, name, color=shade, va="center", fontsize=style.points(9.0), fontweight="bold")


def _marks(axes: Axes, comparison: FormComparison, most: float) -> None:
    """Upright lines at changes and at the scenario's own bound, with their figures."""
    for change in comparison.changes:
        axes.axvline(change.at_ms, color=style.faint(), linewidth=0.9, linestyle=":")
        axes.text(
            change.at_ms * 1.01,
            0.99 * most,
            f"{significant(change.at_ms, 2)} ms",
            va="top",
            fontsize=style.points(8.0),
            rotation=90,
        )
    if comparison.own_ms is not None and comparison.own_ms in comparison.bounds_ms:
        axes.axvline(comparison.own_ms, color=style.faint(), linewidth=0.9)
        axes.text(
            comparison.own_ms * 1.01, 0.99 * most, "the scenario's", va="top", fontsize=style.points(8.0), rotation=90
        )
