"""The roofline: each part of a step at its operations per byte, under what the data sheet allows.

| symbol | meaning | unit |
|---|---|---|
| x | arithmetic intensity: FLOPs over bytes from memory | FLOP/byte |
| y | attained: FLOPs over the part's time | TFLOP/s per GPU |
| roof | min(peak, x · bandwidth), one for each precision | TFLOP/s per GPU |
"""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from planner.domain import PartOfStep, StepExplanation
from planner.report.cost import cost_panels
from planner.report.kit import callouts, style
from planner.report.kit.quantities import percent, significant, whole

COLUMNS = 3
DECADES = 6
PANEL_IN = 4.2
MARGINS = cost_panels.Margins(left=0.75, right=0.2, top=1.2, bottom=0.55, gap=0.25, row_gap=1.2)
SMALLEST_PT2, ALL_PT2 = 20.0, 1100.0
"""A marker's area where the part takes no time, and what is added where it takes all of it (pt²)."""

Limits = tuple[float, float]


def draw(explanations: Sequence[StepExplanation]) -> Figure:
    """A panel an explanation, all on the same axes."""
    figure, panels = cost_panels.grid(len(explanations), COLUMNS, PANEL_IN, MARGINS)
    style.heading(figure, "Roofline: what each part of a step attains of the data sheet")
    across, upward = _limits(explanations)
    for k, (axes, step) in enumerate(zip(panels, explanations, strict=True)):
        _frame(axes, step, across, upward, first=k % COLUMNS == 0)
        _parts(axes, step, *_roofs(axes, step))
    _legend(figure, explanations)
    return figure


def _on_roofline(step: StepExplanation) -> list[PartOfStep]:
    """The parts that have a place there, the longest first."""
    return sorted((p for p in step.parts if p.flops > 0 and p.bytes > 0), key=lambda p: -p.ms)


def _attained(part: PartOfStep) -> float:
    return part.flops / part.ms / 1e9


def _limits(explanations: Sequence[StepExplanation]) -> tuple[Limits, Limits]:
    """Axes on which every marker and every ridge has room around it."""
    parts = [part for step in explanations for part in _on_roofline(step)]
    ridges = [peak / step.memory_gb_s * 1000 for step in explanations for _, peak in step.peak_tflops]
    peaks = [peak for step in explanations for _, peak in step.peak_tflops]
    intensities = [part.flops / part.bytes for part in parts] + ridges
    attained = [_attained(part) for part in parts] + peaks
    return (min(intensities) / 6, max(intensities) * 12), (min(attained) / 6, max(attained) * 2)


def _frame(axes: Axes, step: StepExplanation, across: Limits, upward: Limits, *, first: bool) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(across)
    axes.set_ylim(upward)
    cost_panels.plain_ticks(axes.xaxis, most_decades=DECADES)
    cost_panels.plain_ticks(axes.yaxis)
    axes.grid(visible=True, axis="both")
    axes.set_xlabel("arithmetic intensity (FLOP/byte)")
    if first:
        axes.set_ylabel("attained (TFLOP/s per GPU)")
    else:
        axes.tick_params(axis="y", labelleft=False)
    whole_ms = sum(part.ms for part in step.parts)
    without = 1 - sum(part.ms for part in _on_roofline(step)) / whole_ms if whole_ms else 0.0
    axes.set_title(
        f"{cost_panels.step_label(step, chr(10))}\nbound by {step.bound}; {percent(without)} of the time without FLOPs",
        fontsize=style.points(8.0),
        linespacing=1.3,
    )


def _roofs(axes: Axes, step: StepExplanation) -> tuple[list[list[callouts.Point]], list[callouts.Box]]:
    """Draws one roof a precision; returns their corners and where their names stand."""
    (low, high), (bottom, _) = axes.get_xlim(), axes.get_ylim()
    slope = step.memory_gb_s / 1000
    roofs, names = [], []
    for name, peak in step.peak_tflops:
        corners = [(low, low * slope), (peak / slope, peak), (high, peak)]
        axes.plot(*zip(*corners, strict=True), color=style.ink(), linewidth=1.1, zorder=2)
        text = f"{name}: {whole(peak)} TFLOP/s"
        label = axes.annotate(
            text, (high, peak), (-2, 2), textcoords="offset points", ha="right", va="bottom", fontsize=style.points(7.0)
        )
        roofs.append(corners)
        names.append(label.get_window_extent().extents)
    start = max(low, bottom / slope)
    axes.text(
        start * 2,
        start * 2 * slope * 1.12,
        f"{significant(step.memory_gb_s)} GB/s",
        rotation=math.degrees(math.atan2(*_upright(axes))),
        rotation_mode="anchor",
        fontsize=style.points(7.0),
        va="bottom",
    )
    return roofs, names


def _upright(axes: Axes) -> tuple[float, float]:
    """Rise and run on the canvas of a line whose y grows as its x."""
    (x0, y0), (x1, y1) = axes.transData.transform([(1.0, 1.0), (10.0, 10.0)]).tolist()
    return y1 - y0, x1 - x0


def _parts(
    axes: Axes, step: StepExplanation, roofs: Sequence[Sequence[callouts.Point]], names: Sequence[callouts.Box]
) -> None:
    whole_ms = sum(part.ms for part in step.parts)
    labels = []
    for part in _on_roofline(step):
        share = part.ms / whole_ms
        area = SMALLEST_PT2 + ALL_PT2 * share
        x, y = part.flops / part.bytes, _attained(part)
        axes.scatter(
            [x],
            [y],
            s=area,
            color=cost_panels.part_colour(part.name),
            marker=cost_panels.BOUND_MARKERS[part.bound],
            edgecolors=style.paper(),
            linewidths=0.7,
            zorder=3,
            label=part.name,
        )
        labels.append(callouts.Callout(x=x, y=y, radius_pt=math.sqrt(area) / 2, text=f"{part.name} {percent(share)}"))
    callouts.place(axes, labels, roofs, names)


def _legend(figure: Figure, explanations: Sequence[StepExplanation]) -> None:
    bounds = {part.bound for step in explanations for part in _on_roofline(step)}
    handles = [
        Line2D([], [], linestyle="", marker=cost_panels.BOUND_MARKERS[b], color=style.faint(), label=f"bound by {b}")
        for b in cost_panels.BOUNDS
        if b in bounds
    ]
    handles.append(
        Line2D([], [], linestyle="", label="area and %: share of the time of all parts, hidden ones included")
    )
    height = style.drawn_height_in(figure)
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(MARGINS.left / style.WIDTH_IN, 1 - 0.38 / height),
        ncols=len(handles),
        borderaxespad=0,
        borderpad=0,
    )
