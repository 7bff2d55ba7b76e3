"""Tables of a defragmentation study as CSV: runs, hours, exact comparisons; means over seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from statistics import fmean

from planner.report.kit.tables import csv_table
from planner.studies.defragmentation.records import ChurnFigures, ChurnRun, ChurnSample, ExactComparison

RUNS_FILE, SERIES_FILE, EXACT_FILE = "runs.csv", "series.csv", "exact.csv"
FIGURE_NAMES = tuple(field.name for field in fields(ChurnFigures))
_SAMPLE = tuple(field.name for field in fields(ChurnSample))
_EXACT = tuple(field.name for field in fields(ExactComparison))
NEVER = "never"


def rhythm(every_hours: float | None) -> str:
    """As `never` or `every 24 h`."""
    return NEVER if every_hours is None else f"every {every_hours:g} h"


def runs_csv(runs: Iterable[ChurnRun]) -> bytes:
    """A row a run."""
    rows = ([run.every_hours, run.seed, *(getattr(run.figures, name) for name in FIGURE_NAMES)] for run in runs)
    return csv_table(("every_hours", "seed", *FIGURE_NAMES), rows)


def series_csv(runs: Iterable[ChurnRun]) -> bytes:
    """A row an hour of a run."""
    rows = (
        [run.every_hours, run.seed, *(getattr(sample, name) for name in _SAMPLE)]
        for run in runs
        for sample in run.series
    )
    return csv_table(("every_hours", "seed", *_SAMPLE), rows)


def exact_csv(comparisons: Iterable[ExactComparison]) -> bytes:
    """A row a cluster."""
    return csv_table(_EXACT, ([getattr(row, name) for name in _EXACT] for row in comparisons))


def by_rhythm(runs: Iterable[ChurnRun]) -> dict[float | None, list[ChurnRun]]:
    """Runs of each rhythm, in the order in which they come."""
    grouped: dict[float | None, list[ChurnRun]] = {}
    for run in runs:
        grouped.setdefault(run.every_hours, []).append(run)
    return grouped


def mean_of(runs: Sequence[ChurnRun], name: str) -> float | None:
    """The mean of a figure over runs that have it."""
    values = [value for run in runs if (value := getattr(run.figures, name)) is not None]
    return fmean(values) if values else None
