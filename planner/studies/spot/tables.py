"""Tables of a spot study as CSV: figures of every run, the cluster over time, the curve over loads."""

from collections.abc import Iterable, Sequence
from dataclasses import fields

from planner.report.kit.csv_tables import csv_table
from planner.studies.spot.capacity import CURVE_FIGURES, CurvePoint
from planner.studies.spot.means import FIGURE_NAMES, Interval, SpotSeedRun
from planner.studies.spot.records import SpotSample

SPOT_FILE, SERIES_FILE, CURVE_FILE = "spot.csv", "series.csv", "curve.csv"
_RUN = ("policy", "seed", "spot_load")
_SAMPLE = tuple(field.name for field in fields(SpotSample))
_POINT = ("policy", "spot_load", "asked_gpus", "seeds")


def spot_csv(runs: Iterable[SpotSeedRun]) -> bytes:
    """A row a run; a figure that there is none of is empty, and so is the load where jobs were given."""
    rows = (
        [
            seed_run.policy,
            seed_run.seed,
            seed_run.spot_load,
            *(getattr(seed_run.run.figures, name) for name in FIGURE_NAMES),
        ]
        for seed_run in runs
    )
    return csv_table((*_RUN, *FIGURE_NAMES), rows)


def series_csv(runs: Iterable[SpotSeedRun]) -> bytes:
    """A row a stretch of time of a run, GPUs as means over it."""
    rows = (
        [seed_run.policy, seed_run.seed, seed_run.spot_load, *(getattr(sample, name) for name in _SAMPLE)]
        for seed_run in runs
        for sample in seed_run.run.series
    )
    return csv_table((*_RUN, *_SAMPLE), rows)


def curve_csv(points: Iterable[CurvePoint]) -> bytes:
    """A row a policy and load: means over the seeds, and half of their 95 % intervals (empty for one seed)."""
    names = ("useful_gpus", *CURVE_FIGURES)
    header = [*_POINT, *(column for name in names for column in (name, f"{name}_half"))]
    return csv_table(header, map(_point, points))


def _point(point: CurvePoint) -> Sequence[object]:
    intervals: list[Interval | None] = [point.useful_gpus]
    intervals.extend(point.figures[name] for name in CURVE_FIGURES)
    count = max(interval.count if interval else 0 for interval in intervals)
    pairs = [
        value for interval in intervals for value in ((interval.mean, interval.half) if interval else (None, None))
    ]
    return [point.policy, point.spot_load, point.asked_gpus, count, *pairs]
