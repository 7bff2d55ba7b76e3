"""Figures over several seeds, and how much spot load a cluster carries by them.

| symbol | meaning | unit | source |
|---|---|---|---|
| n | seeds | - | - |

Policies are compared seed by seed, on the same jobs: the interval is that of the
n differences, which leaves out what the seeds' workloads differ by.

A load is carried only if its work gets done. A queue that keeps pace with its arrivals ends nearly all jobs that are
due; one that does not leaves a growing backlog, whatever else its figures say. What is judged is the share of due jobs
that are done, not goodput over work offered: jobs are few and long, and what happens to lie in the measured days moves
that ratio by tens of percent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from planner.studies.intervals import Interval, interval_of
from planner.studies.spot.records import SpotFigures, SpotRun

FIGURE_NAMES = tuple(field.name for field in fields(SpotFigures))


def values_of(runs: Sequence[SpotRun], name: str) -> dict[int, float]:
    """A figure by seed, where it is known."""
    by_seed = {run.seed: getattr(run.figures, name) for run in runs}
    return {seed: float(value) for seed, value in by_seed.items() if value is not None}


def mean_of(runs: Sequence[SpotRun], name: str) -> Interval | None:
    """A figure's mean over the seeds."""
    return interval_of(list(values_of(runs, name).values()))


def change_of(runs: Sequence[SpotRun], baseline: Sequence[SpotRun], name: str) -> Interval | None:
    """Percent by which a figure differs from the baseline's, seed by seed; None where no seed has both."""
    values, base_values = values_of(runs, name), values_of(baseline, name)
    return interval_of([100 * (values[seed] / base_values[seed] - 1) for seed in values if base_values.get(seed)])


def difference_of(runs: Sequence[SpotRun], baseline: Sequence[SpotRun], name: str) -> Interval | None:
    """By how much a figure differs from the baseline's, seed by seed; None where no seed has both."""
    values, base_values = values_of(runs, name), values_of(baseline, name)
    return interval_of([values[seed] - base_values[seed] for seed in values if seed in base_values])


CURVE_FIGURES = (
    "evictions_per_job",
    "evictions_per_gpu_h",
    "lost_percent",
    "due_done_percent",
    "spot_completion_mean_h",
    "spot_slowdown",
    "hp_wait_mean_s",
    "all_percent",
)
"""Figures of a point of the curve."""

LEAST_DONE_PERCENT = 90.0
"""Of the due jobs: short of it a load is not carried. Loads that are carried end 94 to 100 % in runs of a few days
(jobs evicted shortly before the end make up the rest); half as much again as fits ends 60 to 80 %."""

DONE = "due_done_percent"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A policy at one spot load. `asked_gpus`: the load in GPUs; `useful_gpus`: GPUs whose work was kept, mean over
    time. `figures`: means over the seeds by name, those of CURVE_FIGURES."""

    policy: str
    spot_load: float
    asked_gpus: float
    useful_gpus: Interval | None
    figures: dict[str, Interval | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotLimits:
    """What is still acceptable, as means over the seeds; None: does not matter. `least_done_percent` of due jobs."""

    most_evictions_per_job: float | None = None
    most_lost_percent: float | None = None
    most_slowdown: float | None = None
    least_done_percent: float = LEAST_DONE_PERCENT

    def upper_limits(self) -> dict[str, float]:
        """Upper limits that are set, by the figure that they bound."""
        listed = {
            "evictions_per_job": self.most_evictions_per_job,
            "lost_percent": self.most_lost_percent,
            "spot_slowdown": self.most_slowdown,
        }
        return {name: limit for name, limit in listed.items() if limit is not None}

    def broken_by(self, point: CurvePoint) -> tuple[str, ...]:
        """Figures that do not keep to the limits, DONE first; a figure that is not known keeps to none."""
        done = point.figures[DONE]
        backlog = done is None or done.mean < self.least_done_percent
        above = [name for name, limit in self.upper_limits().items() if _above(point.figures[name], limit)]
        return (DONE, *above) if backlog else tuple(above)

    def bound(self, name: str) -> float:
        """The limit of a figure that `broken_by` names."""
        return self.least_done_percent if name == DONE else self.upper_limits()[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotCapacity:
    """The answer for a policy: the last point of the curve up to which all keep to the limits, and the first that does
    not, with the figures that broke. None: there is no such point. `about_gpus`: where the first limit is met, on
    straight lines between the two. `unjudged`: loads of which no job was due in any seed; they are passed over."""

    policy: str
    carried: CurvePoint | None
    broken: CurvePoint | None
    broke: tuple[str, ...] = ()
    about_gpus: float | None = None
    unjudged: tuple[float, ...] = ()


def curve_of(runs: Sequence[SpotRun], measured_h: float) -> tuple[CurvePoint, ...]:
    """Points by policy, in the order in which they come, then by load; runs over given jobs have no load and no point.

    `measured_h`: hours that the figures are of.
    """
    by_point: dict[tuple[str, float], list[SpotRun]] = {}
    for run in runs:
        if run.spot_load is not None:
            by_point.setdefault((run.policy, run.spot_load), []).append(run)
    policies = list(dict.fromkeys(policy for policy, _ in by_point))
    ordered = sorted(by_point.items(), key=lambda item: (policies.index(item[0][0]), item[0][1]))
    return tuple(_point(policy, load, runs, measured_h) for (policy, load), runs in ordered)


def _point(policy: str, load: float, runs: Sequence[SpotRun], measured_h: float) -> CurvePoint:
    return CurvePoint(
        policy=policy,
        spot_load=load,
        asked_gpus=load * runs[0].gpus,
        useful_gpus=_scaled(mean_of(runs, "goodput_gpu_h"), 1 / measured_h),
        figures={name: mean_of(runs, name) for name in CURVE_FIGURES},
    )


def _scaled(interval: Interval | None, factor: float) -> Interval | None:
    if interval is None:
        return None
    half = None if interval.half is None else factor * interval.half
    return Interval(mean=factor * interval.mean, half=half, count=interval.count)


def capacity_of(points: Sequence[CurvePoint], policy: str, limits: SpotLimits) -> SpotCapacity:
    """Loads from the smallest on, as long as every limit holds and the work gets done."""
    own_points = [point for point in points if point.policy == policy]
    unjudged = tuple(point.spot_load for point in own_points if point.figures[DONE] is None)
    carried: CurvePoint | None = None
    for point in own_points:
        if point.figures[DONE] is None:
            continue
        broke = limits.broken_by(point)
        if broke:
            about = None if carried is None else min(_crossing(carried, point, name, limits) for name in broke)
            return SpotCapacity(
                policy=policy, carried=carried, broken=point, broke=broke, about_gpus=about, unjudged=unjudged
            )
        carried = point
    return SpotCapacity(policy=policy, carried=carried, broken=None, unjudged=unjudged)


def _crossing(below: CurvePoint, above: CurvePoint, name: str, limits: SpotLimits) -> float:
    """GPUs asked for where the straight line between two points meets the limit."""
    low, high = below.figures[name], above.figures[name]
    if low is None or high is None:
        return below.asked_gpus
    share = (limits.bound(name) - low.mean) / (high.mean - low.mean)
    return below.asked_gpus + share * (above.asked_gpus - below.asked_gpus)


def _above(interval: Interval | None, limit: float) -> bool:
    return interval is None or interval.mean > limit
