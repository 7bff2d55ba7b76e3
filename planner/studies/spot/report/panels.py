"""The panels of a spot study's figures."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from planner.report.kit import style
from planner.report.kit.colours import PALETTE
from planner.studies.spot.capacity import CurvePoint, SpotLimits
from planner.studies.spot.means import Interval, SpotSeedRun, change_of
from planner.studies.spot.report.page import by_policies
from planner.studies.spot.report.plots import COMPARED, S_PER_DAY

PANEL_IN, CURVE_IN = 2.6, 4.2
CURVES = (
    ("evictions_per_job", "evictions a spot job"),
    ("lost_percent", "spot GPU-hours lost (%)"),
    ("spot_completion_mean_h", "completion, mean (h)"),
)
HP, STANDBY, SPOT = PALETTE[0], PALETTE[5], PALETTE[1]
SPOT_HATCH = "...."
DODGE = 0.012
"""Policies stand so far beside each other, as a share of the axis."""

TALLEST = 2.2
"""A panel of the curve ends at so many times its highest mean; intervals that go on are cut, and marked."""


def draw_allocation(runs: Sequence[SpotSeedRun]) -> Figure:
    """GPUs by who has them over the days, a panel a policy, each of its first seed."""
    firsts = [seed_runs[0] for seed_runs in by_policies(runs).values()]
    figure = style.blank(1.0 + PANEL_IN * len(firsts))
    style.heading(figure, "GPUs over time")
    panels = figure.subplots(len(firsts), 1, squeeze=False, sharex=True)
    for seed_run, axes in zip(firsts, panels[:, 0], strict=True):
        _allocation(axes, seed_run)
    panels[-1, 0].set_xlabel("days")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    panels[0, 0].legend(
        handles[::-1], labels[::-1], loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0, alignment="left"
    )
    return figure


def _allocation(axes: Axes, seed_run: SpotSeedRun) -> None:
    samples, gpus = seed_run.run.series, seed_run.run.gpus
    if not samples:
        style.nothing_to_show(axes, "the run is shorter than a sample")
        return
    days = [sample.time_s / S_PER_DAY for sample in samples]
    hp = [100 * sample.hp_gpus / gpus for sample in samples]
    both = [at + 100 * sample.spot_gpus / gpus for at, sample in zip(hp, samples, strict=True)]
    lent = [at + 100 * sample.standby_gpus / gpus for at, sample in zip(hp, samples, strict=True)]
    axes.fill_between(days, 0, hp, color=HP, linewidth=0, label="guaranteed")
    axes.fill_between(
        days, hp, both, facecolor=SPOT, hatch=SPOT_HATCH, edgecolor=style.paper(), linewidth=0, label="spot"
    )
    axes.plot(days, lent, color=style.ink(), linewidth=1.0, label="guaranteed\nand lent out")
    axes.set_ylim(0, 102)
    axes.set_xlim(days[0], days[-1] if len(days) > 1 else days[0] + 1)
    axes.set_ylabel("GPUs (%)")
    axes.set_title(f"{style.shown(seed_run.policy)}, seed {seed_run.seed}")


def draw_standby(runs: Sequence[SpotSeedRun]) -> Figure:
    """Lent GPUs over the days and the share of them that spot jobs use, ours and the paper's (ASI paper, figure 16)."""
    firsts = [seed_runs[0] for seed_runs in by_policies(runs).values()]
    figure = style.blank(1.0 + PANEL_IN * len(firsts))
    style.heading(figure, "Standby: GPUs lent out, and what of them is used")
    panels = figure.subplots(len(firsts), 1, squeeze=False, sharex=True)
    for seed_run, axes in zip(firsts, panels[:, 0], strict=True):
        _standby(axes, seed_run)
    panels[-1, 0].set_xlabel("days")
    return figure


def _standby(axes: Axes, seed_run: SpotSeedRun) -> None:
    samples = seed_run.run.series
    days = [sample.time_s / S_PER_DAY for sample in samples]
    axes.fill_between(
        days, 0, [sample.standby_gpus for sample in samples], color=STANDBY, linewidth=0, label="lent out"
    )
    used = [sample.harvested_gpus for sample in samples]
    axes.fill_between(
        days, 0, used, facecolor=SPOT, hatch=SPOT_HATCH, edgecolor=style.paper(), linewidth=0, label="used"
    )
    axes.set_ylabel("GPUs")
    axes.set_ylim(bottom=0)
    share = axes.twinx()
    lent = [sample for sample in samples if sample.standby_gpus > 0]
    at = [sample.time_s / S_PER_DAY for sample in lent]
    ours = [100 * sample.harvested_gpus / sample.standby_gpus for sample in lent]
    published = [100 * (sample.published_harvest or 0.0) for sample in lent]
    share.plot(at, ours, ".", color=style.ink(), markersize=3, label="used, % of lent GPUs")
    share.plot(at, published, "+", color=style.ALARM, markersize=4, label="as the paper counts, %")
    share.set_ylim(0, 105)
    share.grid(visible=False)
    share.set_ylabel("used (%)")
    axes.set_title(f"{style.shown(seed_run.policy)}, seed {seed_run.seed}")
    handles, labels = axes.get_legend_handles_labels()
    more, words = share.get_legend_handles_labels()
    axes.legend([*handles, *more], [*labels, *words], loc="upper left", bbox_to_anchor=(1.06, 1.0), borderaxespad=0)


def draw_comparison(runs: Sequence[SpotSeedRun], baseline: str) -> Figure:
    """Percent by which figures differ from the baseline's, with 95 % intervals."""
    by_policy = by_policies(runs)
    others = [policy for policy in by_policy if policy != baseline]
    figure = style.blank(CURVE_IN)
    axes = figure.subplots()
    for turn, policy in enumerate(others):
        changes = [change_of(by_policy[policy], by_policy[baseline], name) for name, _ in COMPARED]
        high = 0.8 / len(others)
        places = [row + high * (turn - (len(others) - 1) / 2) for row in range(len(COMPARED))]
        means = [0.0 if change is None else change.mean for change in changes]
        axes.barh(places, means, height=0.9 * high, label=style.shown(policy), **style.bar_of(turn))
        axes.errorbar(means, places, xerr=_halves(changes), fmt="none", ecolor=style.ink(), capsize=2.5)
    axes.axvline(0, color=style.ink(), linewidth=0.8)
    axes.set_yticks(range(len(COMPARED)), [words for _, words in COMPARED])
    axes.invert_yaxis()
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"against {style.shown(baseline)} (%); bars: 95 % intervals of the seeds' differences")
    style.legend_beside(axes)
    style.heading(figure, "Policies compared on the same jobs")
    return figure


def _halves(changes: Sequence[Interval | None]) -> list[float]:
    return [0.0 if change is None or change.half is None else change.half for change in changes]


def draw_curve(points: Sequence[CurvePoint], limits: SpotLimits) -> Figure:
    """Evictions, lost work and completion over the GPUs that spot jobs ask for, with 95 % intervals; limits broken."""
    figure = style.blank(CURVE_IN)
    style.heading(figure, "Spot load that the cluster carries")
    panels = figure.subplots(1, len(CURVES))
    policies = list(dict.fromkeys(point.policy for point in points))
    for (name, words), axes in zip(CURVES, panels, strict=True):
        limit = limits.upper_limits().get(name)
        top = TALLEST * max([limit or 0.0, *_means(points, name)]) or 1.0
        gpus = [point.asked_gpus for point in points]
        apart = DODGE * ((max(gpus) - min(gpus)) or 1.0)
        for turn, policy in enumerate(policies):
            beside = apart * (2 * turn - len(policies) + 1)
            _curve(axes, [point for point in points if point.policy == policy], name, turn, beside, top)
        if limit is not None:
            axes.axhline(limit, color=style.ALARM, linestyle="--", linewidth=1.0, label="limit")
        axes.set_title(words)
        axes.set_xlabel("GPUs that spot jobs ask for")
        axes.set_ylim(0, min(top, axes.get_ylim()[1]))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    lines = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    labels = list(lines)
    panels[-1].legend(
        [lines[label] for label in labels], labels, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0
    )
    return figure


def _means(points: Sequence[CurvePoint], name: str) -> list[float]:
    return [interval.mean for point in points if (interval := point.figures[name]) is not None]


def _curve(axes: Axes, points: Sequence[CurvePoint], name: str, turn: int, beside: float, top: float) -> None:
    """A line through the means, which stand `beside` their loads; whiskers from 0 to `top` at most, an arrow beyond."""
    pairs = [(point.asked_gpus, interval) for point in points if (interval := point.figures[name]) is not None]
    at, means = [gpus + beside for gpus, _ in pairs], [interval.mean for _, interval in pairs]
    halves = [interval.half or 0.0 for _, interval in pairs]
    look, marker = style.line_of(turn), style.MARKERS[turn % len(style.MARKERS)]
    axes.plot(at, means, marker=marker, markersize=4.0, linewidth=1.4, label=style.shown(points[0].policy), **look)
    low = [max(0.0, mean - half) for mean, half in zip(means, halves, strict=True)]
    high = [min(top, mean + half) for mean, half in zip(means, halves, strict=True)]
    axes.vlines(at, low, high, color=look["color"], linewidth=1.1)
    ends = [(x, end, "_") for x, end in zip(at, low, strict=True)]
    ends += [(x, end, "^" if end == top else "_") for x, end in zip(at, high, strict=True)]
    for cap in ("_", "^"):
        shown = [(x, end) for x, end, kind in ends if kind == cap]
        axes.scatter([x for x, _ in shown], [y for _, y in shown], marker=cap, s=26, color=look["color"], clip_on=False)
