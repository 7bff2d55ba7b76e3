"""Where a step's time goes: its parts end to end, what computation hides of the communication below them."""

from collections.abc import Sequence
from math import isclose

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from planner.domain import PartOfStep, Phase, StepExplanation
from planner.report.cost import cost_panels
from planner.report.kit import style
from planner.report.kit.quantities import percent, significant, whole

ROW_IN = 0.95
KEY_IN = 0.18
MARGINS = cost_panels.Margins(left=2.3, right=1.75, top=0.5, bottom=0.55, gap=0.0)
BAR, HIDDEN = 0.42, 0.13
"""Heights of a step's bar and of the one below it, in rows."""
OVERLAPPED = ("dispatch", "combine")
"""The parts that a second micro-batch's computation can hide."""
LEAST_LABEL = 0.045
"""Parts shorter than this share of the axis carry no figure."""
ROOM = 1.02


def draw(explanations: Sequence[StepExplanation]) -> Figure:
    """A bar an explanation."""
    keys = _keys(explanations)
    height = max(0.1 + ROW_IN * len(explanations), KEY_IN * len(keys) - MARGINS.bottom)
    figure, (axes,) = cost_panels.grid(1, 1, height, MARGINS)
    style.heading(figure, "Where a step's time goes")
    longest = max(step.step_ms for step in explanations)
    axes.set_xlim(0, longest * ROOM)
    axes.set_ylim(len(explanations) - 0.4, -0.55)
    axes.grid(visible=False)
    axes.grid(visible=True, axis="x")
    axes.spines["left"].set_visible(False)
    axes.set_yticks(range(len(explanations)), [_name(step) for step in explanations], fontsize=style.points(8.0))
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("time of one step (ms)")
    for row, step in enumerate(explanations):
        _bar(axes, row, step)
    axes.legend(handles=keys, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0, alignment="left")
    return figure


def _name(step: StepExplanation) -> str:
    return cost_panels.step_label(step, "\n").replace(" tokens, ", " tokens,\n")


def _bar(axes: Axes, row: int, step: StepExplanation) -> None:
    start = 0.0
    for part, ms in _exposed(step):
        _piece(axes, row, part, start, ms)
        start += ms
    if step.hidden_ms > 0:
        axes.barh(
            row + (BAR + HIDDEN) / 2,
            step.hidden_ms,
            HIDDEN,
            color=style.paper(),
            edgecolor=style.faint(),
            linestyle=":",
        )
        axes.annotate(
            f"{significant(step.hidden_ms)} ms of communication hidden",
            (step.hidden_ms, row + (BAR + HIDDEN) / 2),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=style.points(7.0),
        )
    reached = step.tokens_per_s_per_gpu / step.roofline_tokens_per_s_per_gpu
    axes.text(
        0,
        row - BAR / 2 - 0.05,
        f"{_took(step)}, bound by {step.bound}; {whole(step.tokens_per_s_per_gpu)} tokens/s per GPU, "
        f"{percent(reached)} of the roofline",
        fontsize=style.points(8.0),
        fontweight="bold",
        va="bottom",
    )


def _took(step: StepExplanation) -> str:
    """The step's time, and what it comes to where stages, drafted tokens or waiting ranks make the two differ."""
    time = f"{significant(step.step_ms)} ms"
    if isclose(step.step_ms, step.total_ms):
        return time
    return f"{time} ({significant(step.total_ms)} ms {'per output token' if step.phase is Phase.DECODE else 'in all'})"


def _exposed(step: StepExplanation) -> list[tuple[PartOfStep, float]]:
    """Parts with the time that each adds to the step (ms), communication last; they sum to `step_ms`."""
    hideable = [part for part in step.parts if part.name in OVERLAPPED]
    others = [part for part in step.parts if part.name not in OVERLAPPED]
    if not hideable:
        hideable, others = [p for p in others if p.bound == "network"], [p for p in others if p.bound != "network"]
    communicating = sum(part.ms for part in hideable)
    share = 1 - step.hidden_ms / communicating if communicating else 1.0
    return [(part, part.ms) for part in others] + [(part, share * part.ms) for part in hideable]


def _piece(axes: Axes, row: int, part: PartOfStep, start: float, ms: float) -> None:
    axes.barh(
        row,
        ms,
        BAR,
        left=start,
        color=cost_panels.part_colour(part.name),
        edgecolor=style.paper(),
        linewidth=0.5,
        hatch=cost_panels.BOUND_HATCHES[part.bound],
        label=part.name,
    )
    if ms >= LEAST_LABEL * axes.get_xlim()[1]:
        colour = cost_panels.part_colour(part.name)
        axes.text(
            start + ms / 2,
            row,
            significant(ms),
            ha="center",
            va="center",
            fontsize=style.points(7.0),
            color=style.ink(),
            bbox={"boxstyle": "round,pad=0.15", "facecolor": style.mixed(colour, style.paper(), 0.75), "linewidth": 0},
        )


def _keys(explanations: Sequence[StepExplanation]) -> list[Patch]:
    """Parts, then bounds; the bounds' patches are grey, so that only the hatch speaks."""
    names = dict.fromkeys(part.name for step in explanations for part, _ in _exposed(step))
    bounds = {part.bound for step in explanations for part in step.parts}
    keys = [Patch(facecolor=cost_panels.part_colour(name), label=name) for name in names]
    keys += [
        Patch(
            facecolor=style.faint(), edgecolor=style.paper(), hatch=cost_panels.BOUND_HATCHES[b], label=f"bound by {b}"
        )
        for b in cost_panels.BOUNDS
        if b in bounds
    ]
    if any(step.hidden_ms > 0 for step in explanations):
        keys.append(Patch(facecolor=style.paper(), edgecolor=style.faint(), linestyle=":", label="hidden"))
    return keys
