"""Appendix A of the ASI paper as a programme for small instances, and what the heuristic of section 4.2 is worth by it.

| symbol | meaning | unit |
|---|---|---|
| T, S | slots of the horizon; GPUs of all nodes | slots, GPUs |
| p | a schedule of a job: its runs, each on one node from one slot to another | |
| n_p, E_p | slots in which it runs; number of its runs | slots, 1 |
| c_p | work that is kept at the end: the last checkpoint of its last run, all of it where it ends | slots |
| l_p | 1 where the job follows schedule p | 0/1 |
| N, D | sum of l_p n_p (E_p - 1) and of l_p n_p E_p | slots |
| W | sum of l_p n_p g c_p / (T S) | slots |

min N / D - alpha W, one schedule a job, every node's GPUs kept to in every slot, guaranteed jobs in one run from their
submission on. As printed, run times, runs and checkpoints are decisions that multiply each other, and the first term is
a ratio: no MILP. With schedules listed the products are constants. The ratio is taken apart: the most W with
N / D < r, for r from the last answer's ratio down to 0; as N and D are whole numbers this ends, and the best answer on
the way is the optimum.

Read so: (2f)'s f_{k+1} is the next checkpoint of the same run; a pod's work counts once (the printed second term has
w_i twice); jobs of one pod; a run may begin in the slot in which the one before was ended, where (2e) wants a slot
between them, as the heuristic may do so: the optimum is then no worse than the printed one.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pulp

from planner.domain import AssignmentSettings
from planner.errors import InfeasibleError, InputError, SolverError
from planner.milp import solve
from planner.studies.spot.records import EvictionLaw, JobClass, SpotAction, SpotEvent, SpotJob, SpotNode, SpotPolicy
from planner.studies.spot.simulation.runs import simulate_spot

SLOT_S = 3600.0
MOST_SLOTS, MOST_JOBS, MOST_NODES, MOST_RUNS = 8, 8, 4, 3
AT_ONCE = EvictionLaw(mu=-20.0, sigma=0.0)
"""Evicted pods are gone within nanoseconds: the programme knows no time of eviction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a job on the node at `place`, from `start` to before `end`."""

    place: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A job's runs, in order, and the work that is kept at the end."""

    runs: tuple[Run, ...]
    kept: int

    @property
    def slots(self) -> int:
        """n_p."""
        return sum(run.end - run.start for run in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What schedules of all jobs are worth: share of evicted runs, checkpointed work, and the objective of both."""

    evicted_share: float
    work: float
    alpha: float

    @property
    def objective(self) -> float:
        """Less is better."""
        return self.evicted_share - self.alpha * self.work


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Nodes, jobs of one pod in whole slots, and the number of slots."""

    nodes: tuple[SpotNode, ...]
    jobs: tuple[SpotJob, ...]
    slots: int

    @property
    def gpus(self) -> int:
        """S."""
        return sum(node.gpus for node in self.nodes)


def schedules_of(job: SpotJob, instance: Instance) -> tuple[Schedule, ...]:
    """Every schedule of a job: of a spot job also the one without a run; of a guaranteed job those of one run."""
    start, work = round(job.submit_s / SLOT_S), round(job.duration_s / SLOT_S)
    places = [k for k, node in enumerate(instance.nodes) if node.gpus >= job.gpus]
    if job.kind is JobClass.HP:
        end = min(start + work, instance.slots)
        return tuple(Schedule(runs=(Run(place=k, start=start, end=end),), kept=end - start) for k in places)
    checkpoint = round((job.checkpoint_s or SLOT_S) / SLOT_S)
    return tuple(_grown(Schedule(runs=(), kept=0), start, work, checkpoint, places, instance.slots))


def _grown(
    so_far: Schedule, free_from: int, work: int, checkpoint: int, places: Sequence[int], slots: int
) -> Iterator[Schedule]:
    """The schedule itself, and those with further runs."""
    yield so_far
    open_slots = work - so_far.kept
    if open_slots <= 0 or len(so_far.runs) == MOST_RUNS:
        return
    for start in range(free_from, slots):
        for end in range(start + 1, min(start + open_slots, slots) + 1):
            ran = end - start
            kept_slots = so_far.kept + (ran if ran == open_slots else ran - ran % checkpoint)
            for place in places:
                longer = Schedule(runs=(*so_far.runs, Run(place=place, start=start, end=end)), kept=kept_slots)
                yield from _grown(longer, end, work, checkpoint, places, slots)


def worth_of(instance: Instance, chosen: Sequence[Schedule], alpha: float) -> Worth:
    """The objective of schedules, one a job in their order."""
    evicted = sum(schedule.slots * max(len(schedule.runs) - 1, 0) for schedule in chosen)
    runs = sum(schedule.slots * len(schedule.runs) for schedule in chosen)
    work = sum(schedule.slots * job.gpus * schedule.kept for job, schedule in zip(instance.jobs, chosen, strict=True))
    return Worth(
        evicted_share=evicted / runs if runs else 0.0, work=work / (instance.slots * instance.gpus), alpha=alpha
    )


def optimum(instance: Instance, alpha: float, *, work_limit: float = 20.0) -> Worth:
    """The best that any schedules are worth.

    InputError: an instance above the sizes that can be listed, or not in whole slots. SolverError: guaranteed jobs that
    do not fit, or no answer within `work_limit`.
    """
    _require_small(instance)
    programme = _Programme(instance, work_limit)
    best: Worth | None = None
    ratio: tuple[int, int] | None = None
    while (chosen := programme.most_work(ratio)) is not None:
        worth = worth_of(instance, chosen, alpha)
        best = worth if best is None or worth.objective < best.objective else best
        evicted = sum(schedule.slots * max(len(schedule.runs) - 1, 0) for schedule in chosen)
        ratio = evicted, sum(schedule.slots * len(schedule.runs) for schedule in chosen)
        if not evicted:
            break
    if best is None:
        raise SolverError("Appendix A: guaranteed jobs do not fit.", hint="Give fewer, or more nodes.")
    return best


class _Programme:
    """Schedules of all jobs as columns."""

    def __init__(self, instance: Instance, work_limit: float) -> None:
        self.instance = instance
        self._settings = AssignmentSettings(solver="cbc", gap=0.0, work_limit=work_limit)
        self.columns = [schedules_of(job, instance) for job in instance.jobs]
        self.model = pulp.LpProblem("appendix_a", pulp.LpMaximize)
        self.follows = [
            [pulp.LpVariable(f"l_{i}_{k}", cat="Binary") for k in range(len(listed))]
            for i, listed in enumerate(self.columns)
        ]
        for i, chosen in enumerate(self.follows):
            self.model += pulp.lpSum(chosen) == 1, f"one_schedule_{i}"
        self._keep_to_gpus()
        self.model.setObjective(
            pulp.lpSum(
                schedule.slots * job.gpus * schedule.kept * follow
                for job, listed, chosen in zip(instance.jobs, self.columns, self.follows, strict=True)
                for schedule, follow in zip(listed, chosen, strict=True)
            )
        )

    def _keep_to_gpus(self) -> None:
        gpu_terms: dict[tuple[int, int], list[pulp.LpAffineExpression]] = defaultdict(list)
        for job, listed, chosen in zip(self.instance.jobs, self.columns, self.follows, strict=True):
            for schedule, follow in zip(listed, chosen, strict=True):
                for run in schedule.runs:
                    for slot in range(run.start, run.end):
                        gpu_terms[run.place, slot].append(job.gpus * follow)
        for (place, slot), terms in gpu_terms.items():
            self.model += pulp.lpSum(terms) <= self.instance.nodes[place].gpus, f"gpus_{place}_{slot}"

    def most_work(self, below: tuple[int, int] | None) -> list[Schedule] | None:
        """Schedules with the most W whose N / D is less than n / d (`below`); None: there are none."""
        if below is not None:
            evicted, runs = below
            terms = [
                (runs * schedule.slots * max(len(schedule.runs) - 1, 0) - evicted * schedule.slots * len(schedule.runs))
                * follow
                for listed, chosen in zip(self.columns, self.follows, strict=True)
                for schedule, follow in zip(listed, chosen, strict=True)
            ]
            self.model += pulp.lpSum(terms) <= -1
        try:
            solved = solve(self.model, self._settings)
        except InfeasibleError:
            return None
        if not solved.proven:
            raise SolverError("Appendix A: no proven answer within the work limit.", hint="Give a smaller instance.")
        return [
            listed[max(range(len(listed)), key=lambda k, chosen=chosen: chosen[k].value() or 0.0)]  # type: ignore[misc]
            for listed, chosen in zip(self.columns, self.follows, strict=True)
        ]


def _require_small(instance: Instance) -> None:
    sizes = (
        ("slots", instance.slots, MOST_SLOTS),
        ("jobs", len(instance.jobs), MOST_JOBS),
        ("nodes", len(instance.nodes), MOST_NODES),
    )
    for name, size, limit in sizes:
        if not 1 <= size <= limit:
            raise InputError(
                f"Appendix A: {name} must be from 1 to {limit}, got {size}.", hint="Take a small instance."
            )
    for job in instance.jobs:
        times = (job.submit_s, job.duration_s, job.checkpoint_s or SLOT_S)
        if job.pods != 1 or job.standby or any(abs(t / SLOT_S - round(t / SLOT_S)) > 1e-9 for t in times):
            raise InputError(
                f"Appendix A: job {job.name} must be of one pod in whole slots of an hour, without standby.",
                hint="Round its times.",
            )


def heuristic(instance: Instance, policy: SpotPolicy, alpha: float, seed: int = 0) -> Worth | None:
    """What a policy's schedules are worth; None where it made a guaranteed job wait, which the programme never does."""
    runs: dict[str, list[Run]] = defaultdict(list)
    began: dict[str, tuple[int, int]] = {}

    def note(event: SpotEvent) -> None:
        slot = round(event.time_s / SLOT_S)
        if event.action is SpotAction.START:
            began[event.job.name] = event.nodes[0], slot
        elif event.action in (SpotAction.EVICT, SpotAction.FINISH):
            place, start = began.pop(event.job.name)
            if slot > start:
                runs[event.job.name].append(Run(place=place, start=start, end=slot))

    days = instance.slots * SLOT_S / 86_400
    simulate_spot(instance.nodes, instance.jobs, policy, days=days, seed=seed, law=AT_ONCE, watch=note)
    for name, (place, start) in began.items():
        if start < instance.slots:
            runs[name].append(Run(place=place, start=start, end=instance.slots))
    chosen = [_as_schedule(job, runs[job.name]) for job in instance.jobs]
    for job, schedule in zip(instance.jobs, chosen, strict=True):
        if job.kind is JobClass.HP and (not schedule.runs or schedule.runs[0].start * SLOT_S != job.submit_s):
            return None
    return worth_of(instance, chosen, alpha)


def _as_schedule(job: SpotJob, runs: Sequence[Run]) -> Schedule:
    kept_slots, work = 0, round(job.duration_s / SLOT_S)
    checkpoint = 1 if job.kind is JobClass.HP else round((job.checkpoint_s or SLOT_S) / SLOT_S)
    for run in runs:
        ran = run.end - run.start
        kept_slots += ran if kept_slots + ran >= work else ran - ran % checkpoint
    return Schedule(runs=tuple(runs), kept=kept_slots)


def drawn_instance(seed: int, *, nodes: int = 2, spot_jobs: int = 4, hp_jobs: int = 2, slots: int = 6) -> Instance:
    """Nodes of 4 GPUs, spot jobs from the first slots on, guaranteed jobs that come into the full cluster."""
    generator = np.random.default_rng([seed, 16])

    def job(name: str, kind: JobClass, start: int, gpus: int, work: int, checkpoint: int) -> SpotJob:
        return SpotJob(
            name=name,
            kind=kind,
            submit_s=start * SLOT_S,
            pods=1,
            gpus=gpus,
            cpus=0,
            duration_s=work * SLOT_S,
            checkpoint_s=None if kind is JobClass.HP else checkpoint * SLOT_S,
        )

    def between(low: int, high: int) -> int:
        return int(generator.integers(low, high + 1))

    spot = [
        job(f"s{k}", JobClass.SPOT, between(0, 1), between(1, 4), between(2, slots - 1), between(1, 3))
        for k in range(spot_jobs)
    ]
    hp = [job(f"h{k}", JobClass.HP, between(2, slots - 2), between(1, 4), between(1, 3), 1) for k in range(hp_jobs)]
    return Instance(
        nodes=tuple(SpotNode(name=f"n{k}", gpus=4, cpus=64) for k in range(nodes)), jobs=(*spot, *hp), slots=slots
    )
