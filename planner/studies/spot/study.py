"""Spot policies compared: every policy over the same seeds' jobs at every load, a process a run; what came of it.

A seed's jobs are drawn where they are used: they cost less than being sent to another process. Guaranteed jobs of a
seed are the same at every load.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from planner.errors import InputError
from planner.processes.workers import Processes
from planner.studies.runner import RunsDone, require_each_once, run_tasks
from planner.studies.spot.capacity import CurvePoint, SpotCapacity, SpotLimits, capacity_of, curve_of
from planner.studies.spot.records import EvictionLaw, SpotJob, SpotNode, SpotPolicy, SpotRun, SpotWorkload
from planner.studies.spot.simulation.checks import require_span
from planner.studies.spot.simulation.runs import simulate_spot
from planner.studies.spot.workload import draw_jobs

MOST_LOAD = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotStudy:
    """What is compared. `loads`: spot loads, shares of the GPUs; `jobs` stand in for what seeds would draw, and then
    there is no load. `check`: see `simulate_spot`."""

    nodes: tuple[SpotNode, ...]
    policies: tuple[SpotPolicy, ...]
    seeds: tuple[int, ...]
    loads: tuple[float, ...] = ()
    jobs: tuple[SpotJob, ...] | None = None
    workload: SpotWorkload = field(default_factory=SpotWorkload)
    days: float = 6.0
    warm_up_days: float = 1.0
    law: EvictionLaw = field(default_factory=EvictionLaw)
    sample_s: float = 3600.0
    check: bool = True

    @property
    def measured_h(self) -> float:
        """Hours that the figures are of."""
        return 24 * (self.days - self.warm_up_days)


Task = tuple[SpotStudy, SpotPolicy, int, float | None]
Listen = Callable[[RunsDone[SpotRun]], None]


def run_spot_study(study: SpotStudy, *, processes: Processes = 1, listen: Listen = lambda _: None) -> Iterator[SpotRun]:
    """Every policy's run at every load over every seed, in this order; the same ones in any number of processes.

    InputError: nothing to compare, the same twice, loads out of range, and what `draw_jobs` and `simulate_spot` refuse.
    SolverError where a process died twice over its run.
    """
    _require_comparable(study)
    require_span(study.days, study.warm_up_days, study.sample_s)  # before jobs of so many days are drawn
    loads: Sequence[float | None] = study.loads if study.jobs is None else (None,)
    tasks: list[Task] = [
        (study, policy, seed, load) for policy in study.policies for load in loads for seed in study.seeds
    ]
    yield from run_tasks("spot", run_spot_seed, tasks, processes=processes, listen=listen)


def run_spot_seed(
    study: SpotStudy,
    policy: SpotPolicy,
    seed: int,
    load: float | None,
    progress: Callable[[float], None] | None = None,
) -> SpotRun:
    """One policy over one seed's jobs. `progress` hears the share of the time that has passed."""
    jobs = study.jobs
    if jobs is None:
        jobs = draw_jobs(study.nodes, study.workload, study.days, seed, load)
    run = simulate_spot(
        study.nodes,
        jobs,
        policy,
        days=study.days,
        warm_up_days=study.warm_up_days,
        seed=seed,
        law=study.law,
        sample_s=study.sample_s,
        check=study.check,
        progress=progress,
    )
    return replace(run, spot_load=load)


def _require_comparable(study: SpotStudy) -> None:
    require_each_once("policies", [policy.name for policy in study.policies])
    require_each_once("seeds", study.seeds)
    if study.jobs is None:
        require_each_once("spot loads", study.loads)
    for load in study.loads:
        if not 0 < load <= MOST_LOAD:
            raise InputError(
                f"spot load: must be above 0 and at most {MOST_LOAD:g}, a share of the GPUs, got {load:g}.",
                hint="Give 0.245.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotResults:
    """A study that has run. `compared`: runs at the load that policies are compared at, against `baseline`'s; `points`
    of the curve; `answers`: a capacity a policy, within `limits`; none without a curve."""

    study: SpotStudy
    runs: Sequence[SpotRun]
    compared: Sequence[SpotRun]
    baseline: str
    points: Sequence[CurvePoint] = ()
    answers: Sequence[SpotCapacity] = ()
    limits: SpotLimits = field(default_factory=SpotLimits)

    @classmethod
    def of(
        cls,
        study: SpotStudy,
        runs: Sequence[SpotRun],
        baseline: str,
        load: float,
        loads: Sequence[float],
        limits: SpotLimits,
    ) -> Self:
        """Runs sorted by use: those at `load` are compared, those at `loads` make the curve."""
        points = curve_of([run for run in runs if run.spot_load in loads], study.measured_h)
        return cls(
            study=study,
            runs=runs,
            compared=[run for run in runs if run.spot_load in (None, load)],
            baseline=baseline,
            points=points,
            answers=[capacity_of(points, policy.name, limits) for policy in study.policies] if points else [],
            limits=limits,
        )

    @property
    def by_policy(self) -> dict[str, list[SpotRun]]:
        """Compared runs by policy, in the order in which they come."""
        by_policy: dict[str, list[SpotRun]] = {}
        for run in self.compared:
            by_policy.setdefault(run.policy, []).append(run)
        return by_policy

    @property
    def others(self) -> list[str]:
        """The policies that are held against the baseline."""
        return [policy for policy in self.by_policy if policy != self.baseline]
