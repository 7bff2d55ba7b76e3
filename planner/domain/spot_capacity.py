"""How much spot load a cluster carries: figures over loads, limits, and the largest load that keeps to them."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.domain.spot_means import Interval, SpotSeedRun, mean_of

CURVE_FIGURES = (
    "evictions_per_job",
    "evictions_per_gpu_h",
    "lost_percent",
    "spot_completion_mean_h",
    "spot_slowdown",
    "hp_wait_mean_s",
    "all_percent",
)
"""Figures of a point of the curve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A policy at one spot load. `asked_gpus`: the load in GPUs; `useful_gpus`: GPUs whose work was kept, mean over
    time; `done_percent` of the spot jobs ended in time. `figures`: means by name, those of CURVE_FIGURES."""

    policy: str
    spot_load: float
    asked_gpus: float
    useful_gpus: Interval | None
    done_percent: Interval | None
    figures: dict[str, Interval | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotLimits:
    """What is still acceptable, as means over the seeds; None: does not matter."""

    most_evictions_per_job: float | None = None
    most_lost_percent: float | None = None
    most_slowdown: float | None = None

    def named(self) -> dict[str, float]:
        """Limits that are set, by the figure that they bound."""
        listed = {
            "evictions_per_job": self.most_evictions_per_job,
            "lost_percent": self.most_lost_percent,
            "spot_slowdown": self.most_slowdown,
        }
        return {name: most for name, most in listed.items() if most is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotCapacity:
    """The answer for a policy: the last point of the curve up to which all keep to the limits, and the first that does
    not, with the figures that broke. None: there is no such point. `about_gpus`: where the first limit is met, on
    straight lines between the two."""

    policy: str
    carried: CurvePoint | None
    broken: CurvePoint | None
    broke: tuple[str, ...] = ()
    about_gpus: float | None = None


def curve_of(runs: Sequence[SpotSeedRun], measured_h: float) -> tuple[CurvePoint, ...]:
    """Points by policy, in the order in which they come, then by load; runs over given jobs have no load and no point.

    `measured_h`: hours that the figures are of.
    """
    by_point: dict[tuple[str, float], list[SpotSeedRun]] = {}
    for one in runs:
        if one.spot_load is not None:
            by_point.setdefault((one.policy, one.spot_load), []).append(one)
    policies = list(dict.fromkeys(policy for policy, _ in by_point))
    ordered = sorted(by_point.items(), key=lambda item: (policies.index(item[0][0]), item[0][1]))
    return tuple(_point(policy, load, found, measured_h) for (policy, load), found in ordered)


def _point(policy: str, load: float, runs: Sequence[SpotSeedRun], measured_h: float) -> CurvePoint:
    return CurvePoint(
        policy=policy,
        spot_load=load,
        asked_gpus=load * runs[0].run.gpus,
        useful_gpus=_scaled(mean_of(runs, "goodput_gpu_h"), 1 / measured_h),
        done_percent=_done(runs),
        figures={name: mean_of(runs, name) for name in CURVE_FIGURES},
    )


def _scaled(found: Interval | None, factor: float) -> Interval | None:
    if found is None:
        return None
    half = None if found.half is None else factor * found.half
    return Interval(mean=factor * found.mean, half=half, count=found.count)


def _done(runs: Sequence[SpotSeedRun]) -> Interval | None:
    jobs, done = mean_of(runs, "spot_jobs"), mean_of(runs, "spot_done")
    if jobs is None or done is None or not jobs.mean:
        return None
    return Interval(mean=100 * done.mean / jobs.mean, half=None, count=done.count)


def capacity_of(points: Sequence[CurvePoint], policy: str, limits: SpotLimits) -> SpotCapacity:
    """Loads from the smallest on, as long as every limit holds; a figure that is not known breaks none."""
    carried: CurvePoint | None = None
    for point in points:
        if point.policy == policy:
            broke = tuple(name for name, most in limits.named().items() if _above(point.figures[name], most))
            if broke:
                about = None if carried is None else min(_crossing(carried, point, name, limits) for name in broke)
                return SpotCapacity(policy=policy, carried=carried, broken=point, broke=broke, about_gpus=about)
            carried = point
    return SpotCapacity(policy=policy, carried=carried, broken=None)


def _crossing(below: CurvePoint, above: CurvePoint, name: str, limits: SpotLimits) -> float:
    """GPUs asked for where the straight line between two points meets the limit."""
    low, high, most = below.figures[name], above.figures[name], limits.named()[name]
    if low is None or high is None:
        return below.asked_gpus
    share = (most - low.mean) / (high.mean - low.mean)
    return below.asked_gpus + share * (above.asked_gpus - below.asked_gpus)


def _above(found: Interval | None, most: float) -> bool:
    return found is not None and found.mean > most
