"""`objective: placed` against the plan that is solved for and placed as it is, on clusters drawn anew with each seed.

| symbol | meaning | unit |
|---|---|---|
| e, p | rate of the plan that is solved for without looking at nodes and then placed; of the one of objective placed | requests/s |
| g | 1 - e / p: the part of p that the other plan lacks; 1 where its islands find no room that serves | 1 |

The search of p begins with the plan of e, so g is never below 0. The mean is over kinds of clusters, each with the mean
of its seeds, and so is its interval (Student's t): seeds of one kind are alike, and kinds are what others will differ in.
"""  # noqa: E501

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import fmean

from planner.domain import ObjectiveKind, ObjectiveSettings, Scenario
from planner.errors import InfeasibleError
from planner.pipeline import plan
from planner.processes.workers import Processes
from planner.report.kit.tables import csv_table
from planner.studies.intervals import Interval, interval_of
from planner.studies.placed.clusters import KINDS, ClusterKind
from planner.studies.runner import RunsDone, require_each_once, run_tasks

GAIN_FILE = "gain.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class GainRun:
    """Both plans on one cluster. Rates in requests/s, 0 where nothing serves; `unplaced_rps`: of the solved plan before
    it lay on nodes (0: not known, as no island of it found room)."""

    cluster: str
    seed: int
    idle_gpus: int
    unplaced_rps: float
    solved_rps: float
    placed_rps: float
    solved_cpu_s: float
    placed_cpu_s: float

    @property
    def gain(self) -> float:
        """g; 0 where neither serves."""
        return 1 - self.solved_rps / self.placed_rps if self.placed_rps else 0.0


COLUMNS = tuple(field.name for field in fields(GainRun))


def run_gains(
    seeds: Sequence[int],
    rounds: int,
    layouts: int,
    kinds: Sequence[ClusterKind] = KINDS,
    *,
    processes: Processes = 1,
    listen: Callable[[RunsDone[GainRun]], None] = lambda _: None,
) -> Iterator[GainRun]:
    """Every kind with every seed; `layouts` of a round. Equal seeds, equal rates."""
    require_each_once("seeds", seeds)
    tasks = [(kind, seed, rounds, layouts) for kind in kinds for seed in seeds]
    yield from run_tasks("placed", gain_on, tasks, processes=processes, listen=listen)


def gain_on(
    kind: ClusterKind, seed: int, rounds: int, layouts: int, progress: Callable[[float], None] = lambda _: None
) -> GainRun:
    """Both plans on one cluster."""
    scenario = kind.scenario(seed)
    search = replace(scenario.search, iterations=rounds, batch_size=layouts)
    (unplaced, solved, solved_s), (_, placed, placed_s) = (
        _served(replace(scenario, objective=ObjectiveSettings(kind=objective), search=search))
        for objective in (ObjectiveKind.RATE, ObjectiveKind.PLACED)
    )
    progress(1.0)
    return GainRun(
        cluster=kind.name,
        seed=seed,
        idle_gpus=sum(item.count for item in scenario.inventory.items),
        unplaced_rps=round(unplaced, 6),
        solved_rps=round(solved, 6),
        placed_rps=round(placed, 6),
        solved_cpu_s=round(solved_s, 2),
        placed_cpu_s=round(placed_s, 2),
    )


def _served(scenario: Scenario) -> tuple[float, float, float]:
    """Rates of a plan before and after it lies on nodes, and CPU-seconds."""
    start = time.process_time()
    try:
        placed_plan = plan(scenario)
    except InfeasibleError:
        return 0.0, 0.0, time.process_time() - start
    unplaced = placed_plan.placement.unplaced_rps if placed_plan.placement else 0.0
    return unplaced, placed_plan.throughput_rps, time.process_time() - start


def gains_csv(runs: Iterable[GainRun]) -> bytes:
    """A row a cluster."""
    return csv_table(COLUMNS, ([getattr(run, name) for name in COLUMNS] for run in runs))


def runs_of(rows: Iterable[Mapping[str, str]]) -> list[GainRun]:
    """The runs of a table that `gains_csv` wrote."""
    kinds = {"cluster": str, "seed": int, "idle_gpus": int}
    return [GainRun(**{name: kinds.get(name, float)(row[name]) for name in COLUMNS}) for row in rows]


def by_cluster(runs: Iterable[GainRun]) -> dict[str, list[GainRun]]:
    """Runs of each kind of cluster."""
    grouped: dict[str, list[GainRun]] = {}
    for run in runs:
        grouped.setdefault(run.cluster, []).append(run)
    return grouped


def mean_gain(runs: Iterable[GainRun]) -> Interval | None:
    """The mean of the kinds' means of g, with its interval."""
    return interval_of([fmean(run.gain for run in group) for group in by_cluster(runs).values()])
