"""Latency against the rate: TTFT, TPOT and the share within the levels, with bounds, promise and capacity."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, PercentFormatter

from planner.domain.replay.results import ReplaySweep
from planner.domain.serving.levels import Spread
from planner.report.buckets.view import bound_span
from planner.report.kit import style
from planner.report.kit.colours import PALETTE
from planner.report.kit.quantities import significant
from planner.report.replay.curves import points_of, quantiles_of
from planner.report.replay.words import TIMES, level_key, share_interval

HEIGHT_IN = 8.0
MARGIN = 0.04
"""Room beside the outermost rates, as a share of the axis."""


ROOM = 1.5
"""Factor between the outermost figure and the end of a logarithmic axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a quantile is drawn."""

    colour: str
    dashes: str
    marker: str


LOOKS = (
    Look(colour=PALETTE[0], dashes="-", marker="o"),
    Look(colour=PALETTE[6], dashes="--", marker="s"),
)


def draw(sweep: ReplaySweep) -> Figure:
    """Three panels over the same rates; bands are the 95 % intervals of the seeds."""
    figure = style.blank(HEIGHT_IN)
    style.heading(figure, f"{style.shown(sweep.results[0].plan, 40)}: what requests meet at each rate")
    ttft, tpot, within = figure.subplots(3, 1, sharex=True)
    _times(ttft, sweep, "ttft_ms")
    _times(tpot, sweep, "tpot_ms")
    _shares(within, sweep)
    for axes in (ttft, tpot, within):
        _marks(axes, sweep)
    _mark_names(ttft, sweep)
    within.set_xlabel("rate of the whole mix (requests/s)")
    return figure


def _times(axes: Axes, sweep: ReplaySweep, key: str) -> None:
    axes.set_ylabel(f"{TIMES[key]} (ms)")
    lines = {quantile: points_of(sweep.results, key, quantile) for quantile in quantiles_of(sweep, key)}
    if not any(lines.values()):
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no end at any rate", transform=axes.transAxes, ha="center", color=style.faint())
        return
    for (quantile, points), look in zip(lines.items(), LOOKS, strict=False):
        _line(axes, points, look, "mean" if quantile == "mean" else quantile.upper())
    bounds = {level.bound_ms for level in sweep.results[0].levels if level_key(level) == key and level.bound_ms}
    for bound in sorted(bounds):
        axes.axhline(bound, color=style.ALARM, linewidth=1.2, linestyle=":", label=f"bound, {bound_span((bound,))}")
    axes.set_yscale("log")  # a queue without an end would flatten all that matters
    axes.set_ylim(*limits_ms([spread.mean for points in lines.values() for _, spread in points], bounds))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: significant(value, 1)))
    style.legend_beside(axes)


def limits_ms(means: Sequence[float], bounds: Iterable[float]) -> tuple[float, float]:
    """Ends of the axis: the lines and the bounds fit, and a tick at least; a wide band is cut."""
    shown = [*means, *bounds]
    return min(shown) / ROOM, max(shown) * ROOM


def _line(axes: Axes, points: Sequence[tuple[float, Spread]], look: Look, name: str) -> None:
    rates = [rate for rate, _ in points]
    means = [spread.mean for _, spread in points]
    axes.plot(rates, means, color=look.colour, linestyle=look.dashes, marker=look.marker, markersize=4.5, label=name)
    if all(spread.low is not None and spread.high is not None for _, spread in points):
        low = [max(spread.low or 0.0, 1e-3) for _, spread in points]  # above 0: the axis is logarithmic
        high = [spread.high or spread.mean for _, spread in points]
        axes.fill_between(rates, low, high, color=look.colour, alpha=0.2, linewidth=0)


def _shares(axes: Axes, sweep: ReplaySweep) -> None:
    rates = [result.rate_rps for result in sweep.results]
    spreads = [result.total.within_levels for result in sweep.results]
    means = [spread.mean for spread in spreads]
    look = LOOKS[0]
    axes.plot(rates, means, color=look.colour, linestyle="-", marker="o", markersize=4.5, label="within all levels")
    ends = [share_interval(spread) for spread in spreads]
    pairs = [pair for pair in ends if pair is not None]
    if len(pairs) == len(rates):
        axes.fill_between(
            rates, [low for low, _ in pairs], [high for _, high in pairs], color=look.colour, alpha=0.2, linewidth=0
        )
    needed = sorted({level.needed for level in sweep.results[0].levels if level.needed})
    for share in needed:
        axes.axhline(share, color=style.ALARM, linewidth=1.2, linestyle=":", label=f"must: {100 * share:g} %")
    axes.set_ylim(min(0.9, *means) - 0.02 if min(means) > 0.1 else 0, 1.005)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylabel("requests within levels")
    style.legend_beside(axes)


def marks_of(sweep: ReplaySweep) -> list[tuple[float, str, str, str]]:
    """Rate, name, colour and dashes of what is marked: promise, capacity, the highest rate that holds."""
    last = sweep.results[-1]
    marks = [(last.promise_rps, "promise", style.faint(), "--"), (last.capacity_rps, "capacity", style.faint(), "-")]
    if sweep.held_rps is not None:
        marks.append((sweep.held_rps, "holds up to", style.palette()[2], "-."))
    return sorted(mark for mark in marks if mark[0] > 0)


def _marks(axes: Axes, sweep: ReplaySweep) -> None:
    marks = marks_of(sweep)
    for rate, _, colour, dashes in marks:
        axes.axvline(rate, color=colour, linewidth=1.3, linestyle=dashes)
    rates = [*(result.rate_rps for result in sweep.results), *(rate for rate, *_ in marks)]
    room = MARGIN * (max(rates) - min(rates)) or MARGIN * max(rates)
    axes.set_xlim(min(rates) - room, max(rates) + room)


def _mark_names(axes: Axes, sweep: ReplaySweep) -> None:
    """Names of the upright lines above the panel, each at a height of its own."""
    marks = marks_of(sweep)
    for place, (rate, name, _, _) in enumerate(marks):
        axes.text(
            rate,
            1.02 + 0.09 * (len(marks) - 1 - place),
            f"{name} {significant(rate)}",
            transform=axes.get_xaxis_transform(),
            ha="center",
            va="bottom",
            fontsize=style.points(8.0),
        )
