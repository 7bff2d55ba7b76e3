"""Plots and pictures of a spot study: GPUs over time, policies against the baseline, the curve over spot loads."""

from collections.abc import Sequence
from dataclasses import replace

from planner.report.kit.plots import Kind, Plot, Series, series_of
from planner.studies.front import Draw, sheet
from planner.studies.intervals import Interval
from planner.studies.spot.capacity import change_of
from planner.studies.spot.records import SpotRun
from planner.studies.spot.study import SpotResults

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
APART = 0.012
"""Policies of a picture's curve stand so far beside each other, as a share of the axis, so that intervals show."""

TALLEST = 2.2
"""A picture's curve ends at so many times its highest mean; intervals of few seeds that go on are cut there."""


def spot_plots(done: SpotResults) -> tuple[Plot, ...]:
    """A plot a policy of its first seed, one of differences where policies are compared, one a figure of the curve."""
    firsts = [runs[0] for runs in done.by_policy.values()]
    over_time = [_over_time(number, run) for number, run in enumerate(firsts) if run.series]
    compared = [_compared(done)] if done.others else []
    return (*compared, *_curves(done), *over_time)


def spot_pictures(done: SpotResults) -> dict[str, Draw]:
    """What can be drawn, by name: `allocation` and, where jobs lend GPUs, `standby`, of each policy's first seed;
    `comparison` of several policies; `curve` where there are points."""
    firsts = [runs[0] for runs in done.by_policy.values()]
    over_time = [_over_time(number, run) for number, run in enumerate(firsts) if run.series]
    lent = any(sample.standby_gpus for run in firsts for sample in run.series)
    standby = [plot for number, run in enumerate(firsts) for plot in _standby(number, run)] if lent else []
    sheets = {
        "allocation": ("GPUs over time", over_time),
        "standby": ("GPUs lent out, and what of them is used", standby),
        "comparison": ("policies on the same jobs", [_compared(done)] if done.others else []),
        "curve": ("spot load that the cluster carries", [_side_by_side(plot) for plot in _curves(done)]),
    }
    nothing = "the run is shorter than a sample"
    drawable = {name: row for name, row in sheets.items() if row[1] or name == "allocation"}
    return {name: sheet("Spot capacity", words, plots, nothing) for name, (words, plots) in drawable.items()}


def _over_time(number: int, run: SpotRun) -> Plot:
    samples, gpus = run.series, run.gpus
    days = [sample.time_s / S_PER_DAY for sample in samples]
    rows = (
        ("guaranteed", [100 * sample.hp_gpus / gpus for sample in samples]),
        ("guaranteed and spot", [100 * (sample.hp_gpus + sample.spot_gpus) / gpus for sample in samples]),
        ("guaranteed and lent out", [100 * (sample.hp_gpus + sample.standby_gpus) / gpus for sample in samples]),
    )
    return Plot(
        name=f"gpus-over-time-{number}",
        title=f"GPUs over time: {run.policy}",
        says=f"Seed {run.seed}. What lies between the lines of guaranteed and of both is held by spot jobs.",
        kind=Kind.LINES,
        x="days",
        y="GPUs (%)",
        series=tuple(series_of(name, list(zip(days, shares, strict=True))) for name, shares in rows),
        rest="series.csv",
    )


def _standby(number: int, run: SpotRun) -> tuple[Plot, Plot]:
    """Lent GPUs and the used ones, and the share of them, ours and the paper's (ASI paper, figure 16)."""
    hours = [(sample.time_s / S_PER_DAY, sample) for sample in run.series]
    lent = [(day, sample) for day, sample in hours if sample.standby_gpus > 0]
    gpus = Plot(
        name=f"standby-{number}",
        title=f"GPUs lent out: {run.policy}, seed {run.seed}",
        says="",
        kind=Kind.LINES,
        x="days",
        y="GPUs",
        series=(
            series_of("lent out", [(day, sample.standby_gpus) for day, sample in hours]),
            series_of("used", [(day, sample.harvested_gpus) for day, sample in hours]),
        ),
    )
    ours = [(day, 100 * sample.harvested_gpus / sample.standby_gpus) for day, sample in lent]
    published = [(day, 100 * (sample.published_harvest or 0.0)) for day, sample in lent]
    series = (series_of("used, % of lent GPUs", ours), series_of("as the paper counts, %", published, tone="alarm"))
    title = f"What is used of them: {run.policy}, seed {run.seed}"
    return gpus, replace(gpus, name=f"used-{number}", title=title, kind=Kind.DOTS, y="used (%)", series=series)


def _compared(done: SpotResults) -> Plot:
    groups, base = done.by_policy, done.by_policy[done.baseline]
    return Plot(
        name="compared",
        title=f"Policies against {done.baseline}, on the same jobs",
        says="Percent by which each figure differs; an interval over 0 tells no difference.",
        kind=Kind.BARS,
        x="figure",
        y=f"against {done.baseline} (%)",
        series=tuple(
            _with_intervals(policy, [(words, change_of(groups[policy], base, name)) for name, words in COMPARED])
            for policy in done.others
        ),
        interval=INTERVAL,
        rest="spot.csv",
    )


def _curves(done: SpotResults) -> list[Plot]:
    return [_curve(done, *row) for row in CURVES] if done.points else []


def _curve(done: SpotResults, name: str, title: str, unit: str) -> Plot:
    policies = list(dict.fromkeys(point.policy for point in done.points))
    limit = done.limits.upper_limits().get(name)
    return Plot(
        name=f"curve-{name.replace('_', '-')}",
        title=f"{title} over the spot load",
        says="What is carried is the highest load that stays below the limits.",
        kind=Kind.LINES,
        x="GPUs that spot jobs ask for",
        y=unit,
        series=tuple(
            _with_intervals(
                policy, [(point.asked_gpus, point.figures[name]) for point in done.points if point.policy == policy], 0
            )
            for policy in policies
        ),
        interval=INTERVAL,
        bounds=() if limit is None else (("limit", limit),),
        rest="curve.csv",
    )


def _side_by_side(plot: Plot) -> Plot:
    """Each policy a little beside its loads, and intervals within what is drawn."""
    loads = [x for series in plot.series for x in series.x if isinstance(x, int | float)]
    means = [y for series in plot.series for y in series.y if y is not None]
    top = TALLEST * max([value for _, value in plot.bounds] + means, default=0.0) or 1.0
    apart = APART * ((max(loads, default=0.0) - min(loads, default=0.0)) or 1.0)
    return replace(
        plot,
        series=tuple(
            replace(
                series,
                x=tuple(
                    load + apart * (2 * turn - len(plot.series) + 1)
                    for load in series.x
                    if isinstance(load, int | float)
                ),
                high=tuple(None if high is None else min(top, high) for high in series.high),
            )
            for turn, series in enumerate(plot.series)
        ),
    )


def _with_intervals(
    name: str, rows: Sequence[tuple[str | float, Interval | None]], floor: float = float("-inf")
) -> Series:
    """Means and intervals, none below `floor`; points without a figure are left out."""
    pairs = [(x, interval) for x, interval in rows if interval is not None]
    return Series(
        name=name,
        x=tuple(x for x, _ in pairs),
        y=tuple(interval.mean for _, interval in pairs),
        low=tuple(None if i.half is None else max(floor, i.mean - i.half) for _, i in pairs),
        high=tuple(None if i.half is None else i.mean + i.half for _, i in pairs),
    )
