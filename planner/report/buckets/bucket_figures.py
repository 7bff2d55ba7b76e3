"""Buckets drawn as wide as their share of the requests: who serves them, and what their pools could serve."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import PercentFormatter

from planner.domain import PHASES, BucketPool, LoadPoint, Phase, Plan
from planner.report.buckets.view import BucketView, buckets_of, latencies_at
from planner.report.buckets.whiteboard import degrees
from planner.report.kit import style
from planner.report.kit.bands import banded_rate
from planner.report.kit.quantities import percent, significant
from planner.report.plan.groups import groups, of_phase
from planner.report.plan.islands_figure import spread

HEIGHT_IN = 7.0
WIDE = 0.2
"""A bucket's name stands upright where some bucket is a smaller part of the panel."""

UPRIGHT = 0.03
"""Part of the panel that an upright name takes."""

AT_THE_EDGE = 0.975
"""Where the band of the capacity stands in a panel."""

_DASHES: Mapping[LoadPoint, str] = {LoadPoint.DEMAND: ":", LoadPoint.PROMISE: "--", LoadPoint.CAPACITY: "-"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketBar:
    """A bucket and where its bar begins and ends, as shares of all requests."""

    bucket: BucketView
    left: float
    right: float


def bars_of(plan: Plan, phase: Phase) -> tuple[BucketBar, ...]:
    """The bars of a panel, side by side."""
    bars, left = [], 0.0
    for bucket in buckets_of(plan, phase):
        bars.append(BucketBar(bucket=bucket, left=left, right=left + bucket.probability))
        left += bucket.probability
    return tuple(bars)


def draw_shares(plan: Plan) -> Figure:
    """Which pool takes what share of each bucket; as wide as a bar is its bucket's share of all requests."""
    figure, panels = _panels(plan, "who serves which prompts")
    for axes, phase in zip(panels, PHASES, strict=True):
        _stack(axes, plan, phase, lambda _bucket, pool: pool.share)
        axes.set_ylabel(f"{phase}: share of\nthe bucket's requests (%)")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
        axes.set_ylim(0, 1)
        style.legend_beside(axes, f"{phase} pools\n(servers × GPUs each)")
    return figure


def draw_rates(plan: Plan) -> Figure:
    """Requests/s of the whole mix that each bucket's pools could serve; the lowest bar of both panels is the plan's."""
    figure, panels = _panels(plan, "what each bucket's pools could serve")
    tops = [_stack(axes, plan, phase, _of_the_mix) for axes, phase in zip(panels, PHASES, strict=True)]
    for axes, phase in zip(panels, PHASES, strict=True):
        highest = _loads(axes, plan)
        axes.set_ylabel(f"{phase}: could serve\n(requests/s of the whole mix)")
        axes.set_ylim(0, 1.06 * max(*tops, highest))
        style.legend_beside(axes, f"{phase} pools\n(servers × GPUs each)")
    return figure


def _of_the_mix(bucket: BucketView, pool: BucketPool) -> float:
    return pool.count * pool.capacity_rps / bucket.probability if bucket.probability else 0.0


def _loads(axes: Axes, plan: Plan) -> float:
    """Lines at demand, promise and capacity, and the capacity's band; returns the highest."""
    for load in LoadPoint:
        rows = latencies_at(plan, load, Phase.PREFILL)
        if rows:
            rate = rows[0].rate_rps
            label = f"{load} ({significant(rate)})"
            line = axes.axhline(rate, color=style.ink(), linewidth=1.4, linestyle=_DASHES[load], label=label)
            line.set_path_effects([withStroke(linewidth=3.2, foreground=style.paper())])
    banded = banded_rate(plan)
    if banded is None:
        return plan.throughput_rps
    style.rate_bar(axes, AT_THE_EDGE, banded)
    return banded.high


def _panels(plan: Plan, title: str) -> tuple[Figure, Sequence[Axes]]:
    figure = style.blank(HEIGHT_IN)
    panels: Sequence[Axes] = figure.subplots(2, 1)
    style.titled(figure, plan, title)
    for axes, phase in zip(panels, PHASES, strict=True):
        _name_buckets(axes, bars_of(plan, phase))
    panels[-1].set_xlabel("buckets of prompt length (tokens), as wide as their share of all requests")
    return figure, panels


def _name_buckets(axes: Axes, bars: Sequence[BucketBar]) -> None:
    axes.set_xlim(0, 1)
    centres = [(bar.left + bar.right) / 2 for bar in bars]
    labels = [f"{bar.bucket.label} ({percent(bar.bucket.probability)})" for bar in bars]
    if all(bar.right - bar.left >= WIDE for bar in bars):
        axes.set_xticks(centres, labels)
        return
    axes.set_xticks(spread(centres, [UPRIGHT] * len(bars), 1.0), labels, rotation=90, fontsize=style.points(7.0))


def _stack(axes: Axes, plan: Plan, phase: Phase, height: Callable[[BucketView, BucketPool], float]) -> float:
    """Draws the bars, a pool above the other; returns the height of the tallest."""
    listed = (*of_phase(groups(plan), phase), *of_phase(groups(plan), Phase.MIXED))
    colours = dict(zip((g.islands[0].id for g in listed), style.group_colours(plan, listed), strict=True))
    bars, tallest = bars_of(plan, phase), 0.0
    hatches = style.type_hatches(plan.scenario.inventory)
    for bar in bars:
        base = 0.0
        for pool in bar.bucket.pools[::-1]:
            value = height(bar.bucket, pool)
            axes.bar(
                bar.left,
                value,
                width=bar.right - bar.left,
                bottom=base,
                align="edge",
                color=colours[pool.island],
                edgecolor=style.paper(),
                linewidth=0.8,
                hatch=hatches[pool.gpu],
                label=_pool_label(plan, bar.bucket, pool, alone=len(bars) == 1),
            )
            base += value
        tallest = max(tallest, base)
    return tallest


def _pool_label(plan: Plan, bucket: BucketView, pool: BucketPool, *, alone: bool) -> str:
    """`8 × 8 H200, TP1 DP8`, and its bucket where there are several."""
    server = f"{pool.count} × {pool.server.parallel.devices} {style.shown(pool.gpu)}, {degrees(plan, pool)}"
    return server if alone else f"{server}\n   {bucket.label}"
