"""Predicted over measured rates of benchmark figures: a row a kind of figure, a colour a GPU type."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from planner.domain import Accuracy, JudgedFigure
from planner.report.cost import cost_panels
from planner.report.kit import style

ROW_IN = 0.42
MARGINS = cost_panels.Margins(left=2.1, right=1.6, top=0.6, bottom=0.6, gap=0.0)
SPREAD = 0.28
FARTHEST = 4.0
TICKS = (0.25, 0.5, 0.75, 1.0, 1.33, 2.0, 4.0)


def draw(judged: Accuracy) -> Figure:
    """One panel; ratios beyond four either way lie at its edge."""
    kinds = list(dict.fromkeys(figure.kind for figure in judged.figures))
    figure, (axes,) = cost_panels.grid(1, 1, ROW_IN * (len(kinds) + 1), MARGINS)
    style.heading(figure, "Predicted over measured rates")
    _frame(axes, kinds)
    names = sorted({item.run.gpu for item in judged.figures})
    colours = {name: style.palette()[k % len(style.palette())] for k, name in enumerate(names)}
    for name in names:
        of_type = [item for item in judged.figures if item.run.gpu == name]
        ratios = [min(FARTHEST, max(1 / FARTHEST, 1 + item.rate_error)) for item in of_type]
        rows = [kinds.index(item.kind) + _shift(item) for item in of_type]
        marker = style.MARKERS[names.index(name) % len(style.MARKERS)]
        shade = (
            colours[name] if names.index(name) < len(style.palette()) else style.mixed(colours[name], style.ink(), 0.5)
        )
        label = style.shown(name, 20)
        axes.plot(ratios, rows, marker, markersize=3.2, alpha=0.7, color=shade, label=label)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def _shift(item: JudgedFigure) -> float:
    """Where in its row a point lies: by its place in the file, so that equal runs give equal figures."""
    return SPREAD * math.sin(12.9898 * item.run.row)


def _frame(axes: Axes, kinds: list[str]) -> None:
    axes.axvline(1.0, color="0.3", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlim(1 / FARTHEST / 1.1, FARTHEST * 1.1)
    axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axes.set_xticks([], minor=True)
    axes.set_yticks(np.arange(len(kinds)), kinds)
    axes.set_ylim(len(kinds) - 0.5, -0.5)
    axes.set_xlabel("predicted rate over measured rate (of times the inverse)")
