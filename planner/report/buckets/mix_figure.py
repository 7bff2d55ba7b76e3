"""The prompts that arrive and where buckets cut them: how many requests, and how many of their tokens, are shorter."""

from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, PercentFormatter

from planner.domain import PHASES, Plan
from planner.report.buckets.view import BucketView, buckets_of
from planner.report.kit import style
from planner.report.kit.quantities import percent

HEIGHT_IN = 6.0
ROOM = 0.24
"""Part of the panel that a bucket must be wide to carry its shares in words."""


def draw(plan: Plan) -> Figure:
    """Cumulative shares of requests and of prompt tokens by length; below, the buckets of each phase."""
    figure = style.blank(HEIGHT_IN)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2.6, 1))
    style.titled(figure, plan, "prompts by length, and their buckets")
    end = max(bucket.end for phase in PHASES for bucket in buckets_of(plan, phase))
    _curves(upper, plan, end)
    _cuts(upper, plan, end)
    upper.set_ylabel("share of shorter prompts (%)")
    upper.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
    upper.set_ylim(0, 1.02)
    upper.set_xlim(0, end)
    style.legend_beside(upper)
    _strips(lower, plan, end)
    return figure


def _curves(axes: Axes, plan: Plan, end: int) -> None:
    workload = plan.scenario.workload
    tokens = [length * p for length, p in zip(workload.input_tokens, workload.probabilities, strict=True)]
    for label, colour, weights in (
        ("of all requests", style.palette()[0], workload.probabilities),
        ("of all prompt tokens", style.palette()[1], tokens),
    ):
        total = sum(weights)
        shares = [0.0, *(sum_so_far / total for sum_so_far in accumulate(weights)), 1.0]
        lengths = [0, *workload.input_tokens, end]
        axes.plot(lengths, shares, color=colour, linewidth=1.6, drawstyle="steps-post", label=label)


def _cuts(axes: Axes, plan: Plan, end: int) -> None:
    for phase, dash in zip(PHASES, ("--", ":"), strict=True):
        for number, cut in enumerate(b.end for b in buckets_of(plan, phase) if b.end < end):
            label = f"cut of {phase}" if number == 0 else None
            axes.axvline(cut, color=style.ink(), linewidth=1.0, linestyle=dash, label=label)


def _strips(axes: Axes, plan: Plan, end: int) -> None:
    axes.set_ylim(0, 2)
    axes.grid(visible=False)
    axes.set_yticks([1.5, 0.5], [phase.value for phase in PHASES])
    axes.set_xlabel("input length (tokens)")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:,.0f}"))
    for phase, bottom in zip(PHASES, (1.1, 0.1), strict=True):
        for place, bucket in enumerate(buckets_of(plan, phase)):
            colour = style.mixed(style.PHASE_COLOURS[phase], style.paper(), 0.55 + 0.25 * (place % 2))
            width = bucket.end - bucket.start
            patch = Rectangle(
                (bucket.start, bottom), width, 0.8, facecolor=colour, edgecolor=style.paper(), linewidth=1.2
            )
            axes.add_patch(patch)
            if width >= ROOM * end:
                text = _shares(plan, bucket)
                axes.text(
                    bucket.start + width / 2, bottom + 0.4, text, ha="center", va="center", fontsize=style.points(7.0)
                )


def _shares(plan: Plan, bucket: BucketView) -> str:
    workload = plan.scenario.workload
    pairs = list(zip(workload.input_tokens, workload.probabilities, strict=True))
    tokens = sum(length * p for length, p in pairs if bucket.start <= length < bucket.end)
    of_tokens = tokens / workload.mean_input_tokens
    return f"{bucket.label}\n{percent(bucket.probability)} of requests, {percent(of_tokens)} of tokens"
