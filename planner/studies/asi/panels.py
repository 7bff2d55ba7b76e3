"""Figures of a trace drawn from their points: stacked and plain bars, lines, CDFs, boxes."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from planner.report.kit import style
from planner.studies.asi.records import Drawn, Point, TraceFigure

HEIGHT_IN = 3.6
MOST_COLUMNS = 3
MOST_SERIES = 16
LONGEST_NAME = 22
LOGARITHMIC = ("hours", "GiB/s")
BOX_WORDS = ("P5", "P25", "P50", "P75", "P95", "mean")


def draw_figure(figure: TraceFigure) -> Figure:
    """A panel for each panel of the points."""
    with style.look():
        panels = list(dict.fromkeys(point[0] for point in figure.points))
        columns = min(MOST_COLUMNS, len(panels))
        rows = -(-len(panels) // columns)
        sheet = style.blank(0.6 + HEIGHT_IN * rows)
        style.heading(sheet, f"Figure {figure.number}: {figure.title}")
        grid = sheet.subplots(rows, columns, squeeze=False)
        for place, axes in enumerate(grid.flat):
            if place < len(panels):
                _panel(axes, figure, panels[place])
            else:
                axes.set_visible(False)
        return sheet


def _panel(axes: Axes, figure: TraceFigure, panel: str) -> None:
    points = [point for point in figure.points if point[0] == panel]
    axes.set_title(style.shown(panel, 40))
    axes.set_xlabel(figure.x)
    axes.set_ylabel(figure.y)
    if figure.drawn in (Drawn.STACKED, Drawn.BARS):
        _bars(axes, points, stacked=figure.drawn is Drawn.STACKED)
    elif figure.drawn is Drawn.BOXES:
        _boxes(axes, points)
    else:
        _curves(axes, points, steps=figure.drawn is Drawn.CDF)
        if figure.x in LOGARITHMIC and any(float(x) > 0 for _, _, x, _ in points):
            style.plain_logarithm(axes, "x")


def _series(points: Sequence[Point]) -> list[str]:
    return list(dict.fromkeys(series for _, series, _, _ in points))[:MOST_SERIES]


def _bars(axes: Axes, points: Sequence[Point], *, stacked: bool) -> None:
    xs = list(dict.fromkeys(str(x) for _, _, x, _ in points))
    names = _series(points)
    ends = [0.0] * len(xs)
    width = 0.75 if stacked else 0.8 / len(names)
    for turn, name in enumerate(names):
        values = {str(x): y for _, series, x, y in points if series == name}
        heights = [values.get(x, 0.0) for x in xs]
        places = [at + (0 if stacked else width * (turn - (len(names) - 1) / 2)) for at in range(len(xs))]
        bars = axes.bar(
            places, heights, width, bottom=ends if stacked else None, label=style.shown(name), **style.bar_of(turn)
        )
        if stacked:
            ends = [end + height for end, height in zip(ends, heights, strict=True)]
        else:
            axes.bar_label(bars, [f"{height:,.4g}" for height in heights], fontsize=style.points(7))
    axes.set_xticks(range(len(xs)), [style.shown(x, LONGEST_NAME) for x in xs], rotation=25, ha="right")
    if len(names) > 1 or stacked:
        axes.legend(fontsize=style.points(7), loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=3)


def _curves(axes: Axes, points: Sequence[Point], *, steps: bool) -> None:
    for turn, name in enumerate(_series(points)):
        curve = [(float(x), y) for _, series, x, y in points if series == name]
        xs, ys = [x for x, _ in curve], [y for _, y in curve]
        axes.plot(
            xs,
            ys,
            linewidth=1.3,
            **style.line_of(turn),
            drawstyle="steps-post" if steps else "default",
            marker="o" if len(xs) == 1 else None,
            markersize=3,
            label=style.shown(name),
        )
    if steps:
        axes.set_ylim(0, 1.02)
    else:
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.legend(fontsize=style.points(7))


def _boxes(axes: Axes, points: Sequence[Point]) -> None:
    names = _series(points)
    boxes = []
    for name in names:
        values = {str(x): y for _, series, x, y in points if series == name}
        low, q1, median, q3, high, mean = (values[word] for word in BOX_WORDS)
        boxes.append(
            {"label": style.shown(name), "whislo": low, "q1": q1, "med": median, "q3": q3, "whishi": high, "mean": mean}
        )
    axes.bxp(boxes, showmeans=True, showfliers=False)
    axes.set_yscale("symlog", linthresh=1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:,g}"))
    axes.set_xlabel("box: P25–P75, whiskers: P5–P95, triangle: mean")
