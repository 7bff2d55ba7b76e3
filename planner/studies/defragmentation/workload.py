"""A churned cluster and its tasks: what they are drawn from, and those that come."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from planner.domain import ClusterNode, NodeGpu, NumaNode
from planner.domain.turnover import MOST_TASKS, ChurnTask, Turnover
from planner.errors import InputError

HOST_GPUS = 8
HOST_CPUS = 192
POOL = "pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnWorkload:
    """What tasks are drawn from: facts on defragmentation, section 2, for shares and sizes.

    Tasks come at a rate that would hold `load` of the GPUs, live `life_hours` on average (exponential), and queue in
    order where they find no room; smaller ones may pass. Pairs are values and weights. `affine` tasks select one of
    two labels, each on half of the nodes; `exclusive` ones come in groups of `group` that never share a node.
    """

    nodes: int = 200
    load: float = 0.87
    days: float = 7.0
    warm_up_days: float = 1.0
    life_hours: float = 24.0
    sizes: tuple[tuple[int, float], ...] = ((1, 0.50), (2, 0.20), (4, 0.12), (8, 0.18))
    cpus_per_gpu: tuple[tuple[int, float], ...] = ((8, 0.5), (12, 0.3), (16, 0.2))
    locked: float = 0.40
    affine: float = 0.15
    exclusive: float = 0.15
    group: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactComparison:
    """A churned cluster as it is, after IPC, and the exact optimum: nodes in use and moves. `proven`: in time."""

    seed: int
    nodes: int
    in_use: int
    ipc_in_use: int
    exact_in_use: int
    ipc_moves: int
    exact_moves: int | None
    proven: bool

    @property
    def excess(self) -> int:
        """Nodes that IPC needs more than the optimum."""
        return self.ipc_in_use - self.exact_in_use


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragmentationStudy:
    """What is compared: rhythms in hours (None: never) over seeds; exact optima of `exact_nodes` over `exact_seeds`."""

    workload: ChurnWorkload = field(default_factory=ChurnWorkload)
    every_hours: tuple[float | None, ...] = (None, 24.0, 6.0)
    seeds: tuple[int, ...] = (0, 1, 2)
    exact_nodes: int = 25
    exact_seeds: tuple[int, ...] = ()


HOURS_A_DAY = 24.0


def turnover(workload: ChurnWorkload, seed: int) -> Turnover:
    """The study's cluster, empty at first, and a seed's tasks; those of hour 0 come largest first."""
    tasks = sorted(draw_tasks(workload, seed), key=lambda task: (task.submit_h, -task.gpus, task.number))
    return Turnover(
        nodes=tuple(map(_node, range(workload.nodes))),
        coming=tuple(tasks),
        hours=round(HOURS_A_DAY * workload.days),
        warm_up_h=HOURS_A_DAY * workload.warm_up_days,
    )


def _node(number: int) -> ClusterNode:
    return ClusterNode(
        name=f"n-{number}",
        gpu="GPU",
        gpus=tuple(NodeGpu(index=k, uuid=f"{number}-{k}", numa=0) for k in range(HOST_GPUS)),
        numa_nodes=(NumaNode(id=0, socket=0),),
        cpus=HOST_CPUS,
        memory_gb=0.0,
        asw="",
        labels=((POOL, str(number % 2)),),
    )


def draw_tasks(workload: ChurnWorkload, seed: int) -> tuple[ChurnTask, ...]:
    """Tasks by submission; those of hour 0 hold the load. Lives are exponential, so that those left are alike.

    InputError: values out of range, more than `MOST_TASKS` tasks.
    """
    _require(workload)
    generator = np.random.default_rng([seed, 0])
    mean_gpus = _mean(workload.sizes)
    hours = HOURS_A_DAY * workload.days
    rate = workload.load * HOST_GPUS * workload.nodes / (mean_gpus * workload.life_hours)
    if rate * hours > MOST_TASKS:
        raise InputError(
            f"Defragmentation study: at most {MOST_TASKS:,} tasks, got about {rate * hours:,.0f}.",
            hint="Take fewer nodes or days, or longer lives.",
        )
    draw = _Draw(workload, generator)
    begin = draw.until(workload.load * HOST_GPUS * workload.nodes)
    arrivals = np.sort(generator.uniform(0, hours, generator.poisson(rate * hours))).tolist()
    return (*begin, *(draw.task(at) for at in arrivals))


class _Draw:
    """Tasks one after the other, numbered."""

    def __init__(self, workload: ChurnWorkload, generator: np.random.Generator) -> None:
        self.workload, self.generator = workload, generator
        self.count = self.grouped = 0

    def until(self, gpus: float) -> list[ChurnTask]:
        """Tasks of hour 0 that hold so many GPUs together."""
        tasks, total = [], 0
        while total < gpus:
            task = self.task(0.0)
            if total + task.gpus <= gpus + HOST_GPUS:
                tasks.append(task)
                total += task.gpus
        return tasks

    def task(self, at_h: float) -> ChurnTask:
        """One task."""
        workload, generator = self.workload, self.generator
        gpus = self._one_of(workload.sizes)
        chances = generator.random(4).tolist()
        exclusive = gpus < HOST_GPUS and chances[2] < workload.exclusive
        self.grouped += exclusive
        self.count += 1
        return ChurnTask(
            number=self.count,
            submit_h=at_h,
            life_h=float(generator.exponential(workload.life_hours)),
            gpus=gpus,
            cpus=gpus * self._one_of(workload.cpus_per_gpu),
            locked=chances[0] < workload.locked,
            node_selector=((POOL, str(int(2 * chances[3]))),) if chances[1] < workload.affine else (),
            group=f"g-{self.grouped // workload.group}" if exclusive else "",
        )

    def _one_of(self, listed: Sequence[tuple[int, float]]) -> int:
        at = self.generator.random() * sum(weight for _, weight in listed)
        for value, weight in listed:
            at -= weight
            if at < 0:
                return value
        return listed[-1][0]


def _mean(listed: Sequence[tuple[int, float]]) -> float:
    return sum(value * weight for value, weight in listed) / sum(weight for _, weight in listed)


def _require(workload: ChurnWorkload) -> None:
    shares = (workload.locked, workload.affine, workload.exclusive)
    checks = (
        ("nodes", 2 <= workload.nodes <= 10_000, "2 to 10,000", workload.nodes),
        ("load", 0 < workload.load <= 1, "above 0, at most 1", workload.load),
        ("days", 0 < workload.days <= 365, "above 0, at most 365", workload.days),
        ("warm-up days", 0 <= workload.warm_up_days < workload.days, "from 0, less than days", workload.warm_up_days),
        ("hours of life", 0 < workload.life_hours < inf, "above 0", workload.life_hours),
        ("shares", all(0 <= share <= 1 for share in shares), "from 0 to 1", shares),
    )
    for name, holds, rule, received in checks:
        if not holds:
            raise InputError(
                f"Defragmentation study: {name} must be {rule}, got {received}.", hint="Correct the value."
            )
