"""How well a calibration meets what was measured: throughput of single steps, rates of benchmark figures."""

import math
from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from planner.domain import Accuracy, CalibrationFit, JudgedFigure, JudgedMeasurement, Phase
from planner.report.cost import cost_panels
from planner.report.kit import callouts, style
from planner.report.kit.quantities import counted, percent, whole

PANEL_IN = 6.0
MARGINS = cost_panels.Margins(left=0.85, right=3.6, top=0.6, bottom=0.6, gap=0.0)
BAND = 0.10
ROOM = 1.35
MARKER_PT = 7.0
FITTED_MARKERS = MappingProxyType({Phase.PREFILL: "o", Phase.DECODE: "s"})
COMPARED_MARKERS = MappingProxyType({Phase.PREFILL: "D", Phase.DECODE: "^"})


def draw(fit: CalibrationFit) -> Figure:
    """One square panel; the legend and the mean errors beside it."""
    figure, (axes,) = cost_panels.grid(1, 1, PANEL_IN, MARGINS)
    style.heading(figure, f"Predicted and measured throughput: calibration {style.shown(fit.calibration.name, 50)}")
    low, high = _limits(fit.points)
    _frame(axes, low, high)
    colours = _colours(fit.points)
    for point in fit.points:
        _point(axes, point, colours[point.measurement.gpu])
    lines = [[(low, low), (high, high)]]
    lines += [[(_measured(p), _predicted(p)), (_measured(p), _left_out(p))] for p in fit.fitted]
    boxes = [callouts.marker_box(axes, _measured(p), _left_out(p), MARKER_PT / 2) for p in fit.fitted]
    callouts.place(axes, [_callout(point) for point in fit.points], lines, boxes)
    _legend(axes, fit, colours)
    return figure


def _measured(point: JudgedMeasurement) -> float:
    return point.measurement.tokens_per_s_per_gpu


def _predicted(point: JudgedMeasurement) -> float:
    return _measured(point) * (1 + point.after_error)


def _left_out(point: JudgedMeasurement) -> float:
    return _measured(point) * (1 + point.left_out_error)


def _limits(points: Sequence[JudgedMeasurement]) -> tuple[float, float]:
    values = [value for p in points for value in (_measured(p), _predicted(p))]
    values += [_left_out(p) for p in points if p.measurement.fitted]
    return min(values) / ROOM, max(values) * ROOM


def _colours(points: Sequence[JudgedMeasurement]) -> dict[str, str]:
    """A colour a GPU type, by its first place among the points."""
    gpus = dict.fromkeys(p.measurement.gpu for p in points)
    return {gpu: style.palette()[k % len(style.palette())] for k, gpu in enumerate(gpus)}


def _frame(axes: Axes, low: float, high: float) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    subs = (1.0, 2.0, 5.0) if high / low > 30 else (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    for axis in (axes.xaxis, axes.yaxis):
        cost_panels.plain_ticks(axis, subs)
    axes.grid(visible=True, axis="both")
    axes.set_xlabel("measured (tokens/s per GPU)")
    axes.set_ylabel("predicted (tokens/s per GPU)")
    ends = [low, high]
    axes.fill_between(
        ends,
        [(1 - BAND) * end for end in ends],
        [(1 + BAND) * end for end in ends],
        color=style.GRID,
        alpha=0.6,
        linewidth=0,
        zorder=1,
        label="within 10 %",
    )
    axes.plot(ends, ends, color=style.ink(), linewidth=0.9, zorder=2, label="equal")


def _point(axes: Axes, point: JudgedMeasurement, colour: str) -> None:
    phase, x = point.measurement.phase, _measured(point)
    if not point.measurement.fitted:
        axes.plot(
            [x],
            [_predicted(point)],
            COMPARED_MARKERS[phase],
            color=colour,
            markersize=MARKER_PT,
            markeredgecolor=style.ink(),
            zorder=4,
            label="only compared with",
        )
        return
    axes.plot([x, x], [_predicted(point), _left_out(point)], color=colour, linewidth=0.9, zorder=3, label="difference")
    axes.plot(
        [x],
        [_left_out(point)],
        FITTED_MARKERS[phase],
        color=colour,
        markerfacecolor=style.paper(),
        zorder=4,
        markersize=MARKER_PT,
        label="left out",
    )
    axes.plot(
        [x],
        [_predicted(point)],
        FITTED_MARKERS[phase],
        color=colour,
        markersize=MARKER_PT,
        zorder=4.5,
        markeredgecolor=style.paper(),
        markeredgewidth=0.5,
        label="fitted",
    )


def _callout(point: JudgedMeasurement) -> callouts.Callout:
    m = point.measurement
    balanced = ", balanced" if m.balanced else ""
    text = f"{style.shown(m.gpu)} {m.phase}\n{whole(m.length)} × {m.batch:.3g}{balanced}"
    return callouts.Callout(x=_measured(point), y=_predicted(point), radius_pt=MARKER_PT / 2, text=text)


def _legend(axes: Axes, fit: CalibrationFit, colours: dict[str, str]) -> None:
    axes.legend(
        handles=[*_kinds(fit), *(Patch(facecolor=colour, label=style.shown(gpu)) for gpu, colour in colours.items())],
        loc="upper left",
        bbox_to_anchor=(1.02, 1.0),
        borderaxespad=0,
        alignment="left",
        labelspacing=0.8,
    )


def _kinds(fit: CalibrationFit) -> list[Line2D | Patch]:
    """What markers mean, with the mean errors of those that they stand for."""
    others = [p for p in fit.points if not p.measurement.fitted]
    kinds: list[Line2D | Patch] = []
    if fit.fitted:
        after, left_out = percent(fit.mean_error("after")), percent(fit.mean_error("left_out"))
        kinds.append(_key("os", f"{counted(len(fit.fitted), 'measurement')}, fitted:\nmean error {after}", full=True))
        kinds.append(_key("os", f"the same, each left out of the fit:\nmean error {left_out}", full=False))
    if others:
        off = percent(sum(abs(p.after_error) for p in others) / len(others))
        kinds.append(_key("D^", f"{len(others)} only compared with:\nmean error {off}", full=True))
    kinds.append(Line2D([], [], linestyle="", label="circle, diamond: prefill\nsquare, triangle: decode"))
    kinds.append(Line2D([], [], linestyle="", label="figures: tokens × batch"))
    kinds.append(Line2D([], [], color=style.ink(), linewidth=0.9, label="predicted = measured"))
    kinds.append(Patch(facecolor=style.GRID, alpha=0.6, label=f"within {percent(BAND)}"))
    return kinds


def _key(markers: str, label: str, *, full: bool) -> Line2D:
    return Line2D(
        [],
        [],
        linestyle="",
        marker=markers[0],
        markersize=MARKER_PT,
        color=style.faint(),
        markerfacecolor=style.faint() if full else style.paper(),
        label=label,
    )


ROW_IN = 0.42
JUDGED_MARGINS = cost_panels.Margins(left=2.1, right=1.6, top=0.6, bottom=0.6, gap=0.0)
SPREAD = 0.28
FARTHEST = 4.0
TICKS = (0.25, 0.5, 0.75, 1.0, 1.33, 2.0, 4.0)


def draw_judged(judged: Accuracy) -> Figure:
    """One panel; ratios beyond four either way lie at its edge."""
    kinds = list(dict.fromkeys(figure.kind for figure in judged.figures))
    figure, (axes,) = cost_panels.grid(1, 1, ROW_IN * (len(kinds) + 1), JUDGED_MARGINS)
    style.heading(figure, "Predicted over measured rates")
    _judged_frame(axes, kinds)
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


def _judged_frame(axes: Axes, kinds: list[str]) -> None:
    axes.axvline(1.0, color="0.3", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlim(1 / FARTHEST / 1.1, FARTHEST * 1.1)
    axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axes.set_xticks([], minor=True)
    axes.set_yticks(np.arange(len(kinds)), kinds)
    axes.set_ylim(len(kinds) - 0.5, -0.5)
    axes.set_xlabel("predicted rate over measured rate (of times the inverse)")
