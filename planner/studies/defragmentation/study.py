"""Rhythms compared over seeds, a process a run; IPC beside the exact optimum on small clusters."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from planner.defragmentation import consolidate, fewest_nodes
from planner.domain.defragmentation import DefragmentationSettings
from planner.errors import InputError
from planner.processes import Processes
from planner.studies.defragmentation.records import ChurnRun, ChurnWorkload, DefragmentationStudy, ExactComparison
from planner.studies.defragmentation.simulation import churned, simulate_churn
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
    yield from run_tasks("defragmentation", simulate_churn, tasks, processes=processes, listen=listen)


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
    cluster = churned(workload, seed)
    plan = consolidate(cluster, DefragmentationSettings(seed=seed))
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
