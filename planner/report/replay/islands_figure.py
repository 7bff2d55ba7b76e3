"""How busy the islands of a replay are, and how full their KV caches: a bar each, by island."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from planner.domain import Phase
from planner.domain.replay.results import IslandUse, ReplayResult
from planner.domain.serving.levels import Spread
from planner.report.kit import style
from planner.report.kit.quantities import significant
from planner.report.replay.words import share_interval

ROW_IN, FRAME_IN, LEAST_IN = 0.34, 1.6, 2.8


def draw(result: ReplayResult) -> Figure:
    """Left the share of the time with a step under way, right the mean and the most of the room for caches."""
    height_in = max(LEAST_IN, FRAME_IN + ROW_IN * len(result.islands))
    figure = style.blank(height_in)
    rate = significant(result.rate_rps)
    style.heading(figure, f"{style.shown(result.plan, 40)}: its islands at {rate} requests/s")
    busy, full = figure.subplots(1, 2, sharey=True)
    if not result.islands:
        for axes in (busy, full):
            style.nothing_to_show(axes, "no islands")
        return figure
    _bars(busy, result, [use.utilisation for use in result.islands])
    _bars(full, result, [use.kv_share for use in result.islands])
    most = [use.most_kv_share.mean for use in result.islands]
    places = range(len(most))
    full.plot(most, places, linestyle="none", marker="|", markersize=11, markeredgewidth=2.0, color=style.ink())
    busy.set_yticks(places, [label_of(use) for use in result.islands])
    busy.invert_yaxis()
    busy.set_title("time with a step under way")
    full.set_title("room for KV caches: mean, and the most (upright mark)")
    _legend(full, result)
    return figure


def label_of(use: IslandUse) -> str:
    """`mixed-1: 4 × H200`."""
    return f"{style.shown(use.island)}: {use.servers} × {style.shown(use.gpu)}"


def colours_of(result: ReplayResult) -> dict[str, str]:
    """A colour a GPU type, in the order in which they come."""
    types = dict.fromkeys(use.gpu for use in result.islands)
    return {gpu: style.palette()[place % len(style.palette())] for place, gpu in enumerate(types)}


def _bars(axes: Axes, result: ReplayResult, spreads: list[Spread]) -> None:
    colours = colours_of(result)
    for place, (use, spread) in enumerate(zip(result.islands, spreads, strict=True)):
        axes.barh(
            place,
            spread.mean,
            color=style.mixed(colours[use.gpu], style.paper(), 0.25),
            hatch=style.PHASE_HATCHES[use.phase],
            edgecolor=style.ink(),
            linewidth=0.5,
            height=0.7,
        )
        ends = share_interval(spread)
        if ends is not None:
            axes.plot(ends, (place, place), color=style.ink(), linewidth=1.4)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")


def _legend(axes: Axes, result: ReplayResult) -> None:
    types = [Patch(facecolor=colour, label=style.shown(gpu)) for gpu, colour in colours_of(result).items()]
    phases = [phase for phase in Phase if any(use.phase is phase for use in result.islands)]
    hatches = [
        Patch(facecolor=style.paper(), edgecolor=style.ink(), hatch=style.PHASE_HATCHES[phase], label=phase.value)
        for phase in phases
    ]
    axes.legend(handles=[*types, *hatches], loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
