"""Plots of a spot study: GPUs over time, policies against the baseline, the curve over spot loads."""

from collections.abc import Sequence

from planner.report.kit.html.plots import Kind, Plot, Series, series_of
from planner.studies.spot.capacity import CurvePoint, SpotLimits
from planner.studies.spot.means import Interval, SpotSeedRun, change_of
from planner.studies.spot.report.page import by_policies

S_PER_DAY = 86_400.0
COMPARED = (
    ("spot_completion_mean_h", "completion, mean"),
    ("spot_completion_p95_h", "completion, P95"),
    ("evictions", "evictions"),
    ("lost_gpu_h", "lost GPU-hours"),
    ("goodput_gpu_h", "goodput"),
    ("hp_completion_mean_h", "completion of guaranteed jobs"),
)
CURVES = (
    ("evictions_per_job", "Evictions a spot job", "evictions a spot job"),
    ("lost_percent", "Spot GPU-hours lost", "spot GPU-hours lost (%)"),
    ("spot_completion_mean_h", "Completion of spot jobs", "completion, mean (h)"),
)
INTERVAL = "95 % interval"


def spot_plots(
    runs: Sequence[SpotSeedRun], baseline: str, points: Sequence[CurvePoint], limits: SpotLimits
) -> tuple[Plot, ...]:
    """A plot a policy of its first seed, one of differences where policies are compared, one a figure of the curve."""
    groups = by_policies(runs)
    over_time = [_over_time(number, group[0]) for number, group in enumerate(groups.values()) if group[0].run.series]
    compared = [_compared(runs, baseline)] if len(groups) > 1 else []
    curves = [_curve(points, limits, *row) for row in CURVES] if points else []
    return (*compared, *curves, *over_time)


def _over_time(number: int, seed_run: SpotSeedRun) -> Plot:
    samples, gpus = seed_run.run.series, seed_run.run.gpus
    days = [sample.time_s / S_PER_DAY for sample in samples]
    rows = (
        ("guaranteed", [100 * sample.hp_gpus / gpus for sample in samples]),
        ("guaranteed and spot", [100 * (sample.hp_gpus + sample.spot_gpus) / gpus for sample in samples]),
        ("guaranteed and lent out", [100 * (sample.hp_gpus + sample.standby_gpus) / gpus for sample in samples]),
    )
    return Plot(
        name=f"gpus-over-time-{number}",
        title=f"GPUs over time: {seed_run.policy}",
        says=f"Seed {seed_run.seed}. What lies between the lines of guaranteed and of both is held by spot jobs.",
        kind=Kind.LINES,
        x="days",
        y="GPUs (%)",
        series=tuple(series_of(name, list(zip(days, shares, strict=True))) for name, shares in rows),
        rest="series.csv",
    )


def _compared(runs: Sequence[SpotSeedRun], baseline: str) -> Plot:
    groups = by_policies(runs)
    others = [policy for policy in groups if policy != baseline]
    return Plot(
        name="compared",
        title=f"Policies against {baseline}, on the same jobs",
        says="Percent by which each figure differs; an interval over 0 tells no difference.",
        kind=Kind.BARS,
        x="figure",
        y=f"against {baseline} (%)",
        series=tuple(
            _with_intervals(
                policy, [(words, change_of(groups[policy], groups[baseline], name)) for name, words in COMPARED]
            )
            for policy in others
        ),
        interval=INTERVAL,
        rest="spot.csv",
    )


def _curve(points: Sequence[CurvePoint], limits: SpotLimits, name: str, title: str, unit: str) -> Plot:
    policies = list(dict.fromkeys(point.policy for point in points))
    limit = limits.upper_limits().get(name)
    return Plot(
        name=f"curve-{name.replace('_', '-')}",
        title=f"{title} over the spot load",
        says="What is carried is the highest load that stays below the limits.",
        kind=Kind.LINES,
        x="GPUs that spot jobs ask for",
        y=unit,
        series=tuple(
            _with_intervals(
                policy, [(point.asked_gpus, point.figures[name]) for point in points if point.policy == policy], 0.0
            )
            for policy in policies
        ),
        interval=INTERVAL,
        bounds=() if limit is None else (("limit", limit),),
        rest="curve.csv",
    )


def _with_intervals(
    name: str, rows: Sequence[tuple[str | float, Interval | None]], least: float = float("-inf")
) -> Series:
    """Means and intervals, none below `least`; points without a figure are left out."""
    pairs = [(x, interval) for x, interval in rows if interval is not None]
    halves = [interval.half for _, interval in pairs]
    return Series(
        name=name,
        x=tuple(x for x, _ in pairs),
        y=tuple(interval.mean for _, interval in pairs),
        low=tuple(
            max(least, i.mean - half) if half is not None else None for (_, i), half in zip(pairs, halves, strict=True)
        ),
        high=tuple(i.mean + half if half is not None else None for (_, i), half in zip(pairs, halves, strict=True)),
    )
