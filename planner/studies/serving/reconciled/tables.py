"""The thesis' main setting under both readings, and every reading that a calibration ran, as raw tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from planner.report.kit.tables import csv_table
from planner.studies.serving.measures import FIGURE_NAMES, missed
from planner.studies.serving.page import Comparison, comparisons
from planner.studies.serving.policies.named import POLICIES
from planner.studies.serving.reconciled.calibration import ALTERNATIVES, Attempt, constants_at
from planner.studies.serving.reconciled.readings import PUBLISHED, SCOPES, law_as_read, settings_as_read
from planner.studies.serving.records import Reading, ServingPool
from planner.studies.serving.study import ServingSeedRun, ServingStudy, requests_of_seed, run_serving_seed
from planner.studies.serving.warsaw import DNNS, MACHINES, dnn_models, machines

FIRST_S = 90.0
"""The first bar of the notebook's histogram of misses."""

FULL = "rr-deadline"
READINGS_COLUMNS = ("reading", "policy", "seed", *FIGURE_NAMES)
MISSES_COLUMNS = ("reading", "seed", "model", "requests", "missed", "missed_at_first")
CHOICE_NAMES = tuple(name for name, _ in ALTERNATIVES)
CALIBRATION_COLUMNS = (
    *("trial", "stage", *CHOICE_NAMES),
    *(scope.name for scope in SCOPES),
    *(row.name for row in PUBLISHED),
    "distance",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRun:
    """A policy's run over a seed's requests under a reading."""

    reading: Reading
    seed_run: ServingSeedRun


def run_readings(
    seeds: Sequence[int], *, scale: float = 1.0, listen: Callable[[ReadRun], None] = lambda _: None
) -> Iterator[ReadRun]:
    """Every policy over every seed under both readings; `scale`: so many times the thesis' requests."""
    for reading in Reading:
        for seed in seeds:
            study = ServingStudy(
                pool=ServingPool(types=machines(MACHINES), models=dnn_models()),
                policies=tuple(POLICIES),
                seeds=(seed,),
                law=replace(law_as_read(reading), scale=scale),
                settings=settings_as_read(reading),
            )
            study = replace(study, requests=requests_of_seed(study, seed))
            for policy in POLICIES:
                run = ReadRun(reading=reading, seed_run=run_serving_seed(study, policy, seed))
                listen(run)
                yield run


def calibration_csv(attempts: Iterable[Attempt]) -> bytes:
    """A row a reading that was run: its choices, constants, figures and distance."""
    rows = []
    for number, attempt in enumerate(attempts):
        choices = [getattr(attempt.choices, name) for name in CHOICE_NAMES]
        constants = constants_at(attempt.steps).values()
        rows.append([number, attempt.stage, *choices, *constants, *attempt.figures, attempt.distance])
    return csv_table(CALIBRATION_COLUMNS, rows)


def readings_csv(runs: Iterable[ReadRun]) -> bytes:
    """A row a run with its figures of merit."""
    rows = (
        [run.reading.value, seed_run.policy, seed_run.seed, *(getattr(seed_run.figures, name) for name in FIGURE_NAMES)]
        for run in runs
        for seed_run in (run.seed_run,)
    )
    return csv_table(READINGS_COLUMNS, rows)


def misses_csv(runs: Iterable[ReadRun]) -> bytes:
    """The full Round Robin's misses by model, and how many of them arrived in the first FIRST_S seconds."""
    rows = []
    for run in runs:
        if run.seed_run.policy != FULL:
            continue
        columns = run.seed_run.run.requests
        late = missed(columns)
        for place, (name, *_) in enumerate(DNNS):
            of_model = columns.model == place
            first = late & of_model & (columns.arrival_s < FIRST_S)
            counts = (int(of_model.sum()), int((late & of_model).sum()), int(first.sum()))
            rows.append([run.reading.value, run.seed_run.seed, name, *counts])
    return csv_table(MISSES_COLUMNS, rows)


def means_by_reading(rows: Iterable[Mapping[str, str]]) -> dict[Reading, dict[str, dict[str, float]]]:
    """Each figure's mean over the seeds, from rows of readings.csv."""
    listed = list(rows)
    return {
        reading: {
            policy: {
                name: fmean(
                    float(row[name]) for row in listed if (row["reading"], row["policy"]) == (reading.value, policy)
                )
                for name in FIGURE_NAMES
            }
            for policy in POLICIES
        }
        for reading in Reading
    }


def findings_by_reading(rows: Iterable[Mapping[str, str]]) -> dict[Reading, tuple[Comparison, ...]]:
    """The thesis' findings under each reading."""
    return {reading: comparisons(means) for reading, means in means_by_reading(rows).items()}


def is_calibrated(comparison: Comparison) -> bool:
    """Whether it is not held out: both of its figures were calibrated, or it is of Baseline's misses, by which section
    6.3 decides for whom Baseline loads."""
    finding = comparison.finding
    names = {row.name for row in PUBLISHED}
    sides = {f"{finding.less}.{finding.figure}", f"{finding.more}.{finding.figure}"}
    return sides <= names or "baseline.misses_per_100" in sides
