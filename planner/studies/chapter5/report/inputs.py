"""Divisions by skew (figure 4.8), and the tokens of traces (figure 5.13)."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from planner.report.kit import style
from planner.studies.chapter5.records import Study, TokenCounts

HEIGHT_IN = 4.2
ROW_IN = 2.7
EDGE_IN = 0.9


def draw_divisions(study: Study, _figure_name: str, title: str) -> Figure:
    """Island sizes over island indices, a line a skew."""
    figure = style.blank(HEIGHT_IN)
    axes = figure.subplots()
    first = study.divisions[0]
    style.heading(figure, f"{title} ({first.gpus} GPUs, {len(first.sizes)} islands of at least {first.least})")
    colours = (*style.palette()[:3], style.ink(), *style.palette()[3:])
    for place, (division, colour) in enumerate(zip(study.divisions, colours, strict=False)):
        marker = style.MARKERS[place % len(style.MARKERS)]
        indices = range(1, 1 + len(division.sizes))
        axes.plot(indices, division.sizes, marker=marker, markersize=4, color=colour, label=f"{division.skew:g}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("island")
    axes.set_ylabel("size (GPUs)")
    axes.set_ylim(bottom=0)
    style.legend_beside(axes, "skew")
    return figure


def draw_tokens(study: Study, _figure_name: str, title: str) -> Figure:
    """A column a trace: how many tokens its requests' prompts have and, where known, their answers."""
    sides, traces = (list(dict.fromkeys(getattr(row, key) for row in study.tokens)) for key in ("side", "trace"))
    figure = style.blank(EDGE_IN + ROW_IN * len(sides))
    panels = figure.subplots(len(sides), len(traces), squeeze=False)
    style.heading(figure, title)
    for row in study.tokens:
        _histogram(panels[sides.index(row.side)][traces.index(row.trace)], row)
    for line in panels:
        line[0].set_ylabel("requests (%)")
    return figure


def _histogram(axes: Axes, row: TokenCounts) -> None:
    shares = [100 * share for share in row.shares]
    axes.bar(row.starts, shares, width=row.width, align="edge", color=style.palette()[0])
    axes.axvline(row.mean, color=style.ink(), linestyle="--", linewidth=1.0, label=f"mean {row.mean:,.0f}")
    axes.set_title(f"{style.shown(row.trace)}: {row.side} tokens, {row.width} a bar")
    axes.set_xlabel(f"{row.side} tokens")
    axes.legend(loc="upper right")
