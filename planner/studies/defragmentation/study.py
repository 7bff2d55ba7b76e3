"""Rhythms compared over seeds, a process a run; IPC beside the exact optimum on small clusters; both as CSV."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from statistics import fmean

from planner.defragmentation import consolidate, fewest_nodes, simulate_churn
from planner.defragmentation.churn import churned
from planner.domain.defragmentation import DefragmentationSettings
from planner.domain.turnover import ChurnFigures, ChurnRun, ChurnSample
from planner.errors import InputError
from planner.processes.workers import Processes
from planner.report.kit.tables import csv_table
from planner.studies.defragmentation.workload import ChurnWorkload, DefragmentationStudy, ExactComparison, turnover
from planner.studies.runner import RunsDone, require_each_once, run_tasks

Listen = Callable[[RunsDone[ChurnRun]], None]
ListenExact = Callable[[RunsDone[ExactComparison]], None]
SHORTEST_H, LONGEST_H = 1.0, 8_760.0
EXACT_S = 60.0


def run_churn(
    study: DefragmentationStudy, *, processes: Processes = 1, listen: Listen = lambda _: None
) -> Iterator[ChurnRun]:
    """Every rhythm over every seed, in this order; the same runs in any number of processes.

    InputError: nothing to compare, the same twice, rhythms or a workload out of range.
    """
    require_each_once("every hours", study.every_hours)
    require_each_once("seeds", study.seeds)
    for hours in study.every_hours:
        if hours is not None and not SHORTEST_H <= hours <= LONGEST_H:
            raise InputError(
                f"every hours: must be from {SHORTEST_H:g} to {LONGEST_H:,.0f}, or none, got {hours:g}.",
                hint="Give 24.",
            )
    tasks = [(study.workload, seed, hours) for hours in study.every_hours for seed in study.seeds]
    yield from run_tasks("defragmentation", _run, tasks, processes=processes, listen=listen)


def _run(
    workload: ChurnWorkload, seed: int, every_hours: float | None, progress: Callable[[float], None] | None = None
) -> ChurnRun:
    return simulate_churn(turnover(workload, seed), seed, every_hours, progress=progress)


def run_exact(
    study: DefragmentationStudy, *, processes: Processes = 1, listen: ListenExact = lambda _: None
) -> Iterator[ExactComparison]:
    """IPC and the optimum on each exact seed's cluster of `exact_nodes`; none without such seeds."""
    workload = replace(study.workload, nodes=study.exact_nodes)
    tasks = [(workload, seed) for seed in study.exact_seeds]
    if tasks:
        require_each_once("exact seeds", study.exact_seeds)
        yield from run_tasks("defragmentation", compare_exact, tasks, processes=processes, listen=listen)


def compare_exact(
    workload: ChurnWorkload, seed: int, progress: Callable[[float], None] | None = None
) -> ExactComparison:
    """One seed's churned cluster under both. `progress` hears when it is done."""
    cluster = churned(turnover(workload, seed), f"churned-{workload.nodes}-{seed}")
    plan = consolidate(cluster, DefragmentationSettings(seed=seed, states=0))
    exact = fewest_nodes(cluster, work_limit=EXACT_S)
    in_use = len({pod.node for pod in cluster.pods})
    if progress is not None:
        progress(1.0)
    return ExactComparison(
        seed=seed,
        nodes=workload.nodes,
        in_use=in_use,
        ipc_in_use=in_use - len(plan.vacated),
        exact_in_use=exact.in_use,
        ipc_moves=len(plan.moves),
        exact_moves=exact.moves,
        proven=exact.proven,
    )


RUNS_FILE, SERIES_FILE, EXACT_FILE = "runs.csv", "series.csv", "exact.csv"
FIGURE_NAMES = tuple(field.name for field in fields(ChurnFigures))
_SAMPLE = tuple(field.name for field in fields(ChurnSample))
_EXACT = tuple(field.name for field in fields(ExactComparison))


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
