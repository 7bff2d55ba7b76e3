"""A cluster's pods as tasks that come and go: those of a list, or copies of its own that keep it as full as it is.

| symbol | meaning | unit |
|---|---|---|
| N | pods with GPUs that lie on the cluster now | |
| L | mean life of a pod, exponential | h |
| N / L | pods that come an hour, so that as many are there on average as now (Little) | 1/h |

A pod that is there already has been so for a while. With lives drawn from L that makes no difference to what is left;
with those of a list, a long one is met in proportion to its length, at any point of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from planner.defragmentation.boards import tolerated
from planner.domain import Cluster, Pod
from planner.domain.turnover import MOST_TASKS, ChurnTask, Turnover
from planner.errors import InputError

Life = Callable[[], float]


def turnover_of(
    cluster: Cluster,
    seed: int,
    *,
    hours: int,
    life_hours: float,
    tasks: Sequence[ChurnTask] = (),
) -> Turnover:
    """What becomes of a cluster from now on. `tasks`: those that come, on nodes with any taints; without them copies of
    its own pods.

    Pods without GPUs, and those with parts of shared ones, stay for ever.

    InputError: no pods with GPUs whose copies could come, more than a million of them, tasks that fit on no node.
    """
    generator = np.random.default_rng([seed, 1])
    pods = [pod for pod in cluster.pods if pod.gpu_count and not pod.gpu_share]
    if not pods and not tasks:
        raise InputError(
            f"cluster {cluster.name}: must have pods with GPUs, whose copies come and go; has none.",
            hint="Give the tasks that come as a list.",
        )
    here = _templates(cluster, pods)
    lives = [task.life_h for task in tasks]
    weights = np.array(lives) / sum(lives) if lives else None
    _require_room(cluster, tasks)

    def life() -> float:
        if weights is None:
            return float(generator.exponential(life_hours))
        return lives[generator.choice(len(lives), p=weights)] * float(generator.random())

    placed = tuple((replace(task, life_h=life()), pod.node) for task, pod in zip(here, pods, strict=True))
    tolerating = frozenset(taint for node in cluster.nodes for taint in tolerated(node))
    coming = tuple(replace(task, taints=tolerating) for task in tasks) or _copies(
        here, hours, len(pods) / life_hours, life, generator
    )
    numbered = (replace(task, number=len(pods) + number) for number, task in enumerate(coming, start=1))
    return Turnover(
        nodes=tuple(node for node in cluster.nodes if node.gpus),
        staying=_staying(cluster, {pod.key for pod in pods}),
        placed=placed,
        coming=tuple(sorted(numbered, key=lambda task: (task.submit_h, task.number))),
        hours=hours,
    )


def _copies(
    here: Sequence[ChurnTask], hours: int, rate: float, life: Life, generator: np.random.Generator
) -> tuple[ChurnTask, ...]:
    """Copies of these tasks, drawn one by one, as they come over the hours."""
    if rate * hours > MOST_TASKS:
        raise InputError(
            f"Defragmentation over time: at most {MOST_TASKS:,} tasks, got about {rate * hours:,.0f}.",
            hint="Take fewer days, or longer lives.",
        )
    times = np.sort(generator.uniform(0, hours, generator.poisson(rate * hours))).tolist()
    return tuple(
        replace(here[int(at)], submit_h=time, life_h=life())
        for time, at in zip(times, generator.integers(len(here), size=len(times)), strict=True)
    )


def _templates(cluster: Cluster, pods: Sequence[Pod]) -> list[ChurnTask]:
    nodes = {node.name: node for node in cluster.nodes}
    bound = {budget.name for budget in cluster.disruption_budgets if budget.allowed < 1}
    return [
        ChurnTask(
            number=number,
            submit_h=0.0,
            life_h=0.0,
            gpus=pod.gpu_count,
            cpus=pod.cpu_count,
            memory_gb=pod.memory_gb,
            locked=pod.locked or pod.disruption_budget in bound,
            gpu=nodes[pod.node].gpu,
            node_selector=pod.node_selector,
            taints=tolerated(nodes[pod.node]),
            group=pod.anti_affinity,
        )
        for number, pod in enumerate(pods, start=1)
    ]


def _staying(cluster: Cluster, coming_and_going: set[str]) -> tuple[Pod, ...]:
    on_gpus = {node.name for node in cluster.nodes if node.gpus}
    return tuple(pod for pod in cluster.pods if pod.node in on_gpus and pod.key not in coming_and_going)


def _require_room(cluster: Cluster, tasks: Sequence[ChurnTask]) -> None:
    """Every task fits on some empty node; else it would wait for ever, and others be blamed for it."""
    for task in tasks:
        if not any(
            (not task.gpu or node.gpu == task.gpu)
            and len(node.gpus) >= task.gpus
            and node.cpus >= task.cpus
            and node.memory_gb >= task.memory_gb
            for node in cluster.nodes
        ):
            raise InputError(
                f"tasks: row {task.number} ({task.gpus} GPUs {task.gpu}, {task.cpus:g} CPUs, {task.memory_gb:g} GB) "
                f"must fit on an empty node of cluster {cluster.name}, fits on none.",
                hint="Drop the row, or mend it.",
            )
