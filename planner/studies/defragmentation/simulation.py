"""Tasks that come and go on a cluster, placed best fit, which is defragmented every so often.

A migration takes no time here; its moves are carried out one by one, each with both copies up, and a move that finds no
room is a defect. Between two migrations nothing is moved. Who waits is tried again, in order of submission, whenever
something has become free.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from planner.defragmentation import consolidate
from planner.domain import Cluster, ClusterNode, NodeGpu, NumaNode, Pod
from planner.domain.defragmentation import DefragmentationSettings
from planner.errors import InconsistentPlanError
from planner.studies.defragmentation.workload import (
    HOST_CPUS,
    HOST_GPUS,
    HOURS_A_DAY,
    WHOLE_REQUEST_CPUS,
    ChurnFigures,
    ChurnRun,
    ChurnSample,
    ChurnTask,
    ChurnWorkload,
    draw_tasks,
)

POOL = "pool"
NOWHERE = -1


class ChurnedCluster:
    """What is idle on every node, and which tasks lie there."""

    def __init__(self, nodes: int) -> None:
        self.idle_gpus = [HOST_GPUS] * nodes
        self.idle_cpus = [HOST_CPUS] * nodes
        self.on_node: list[dict[int, ChurnTask]] = [{} for _ in range(nodes)]
        self.place: dict[int, int] = {}

    def best(self, task: ChurnTask) -> int:
        """The node with the fewest idle GPUs that takes the task; NOWHERE: none does."""
        best, fewest = NOWHERE, HOST_GPUS + 1
        for node, idle in enumerate(self.idle_gpus):
            if task.gpus <= idle < fewest and self.takes(task, node):
                best, fewest = node, idle
        return best

    def takes(self, task: ChurnTask, node: int) -> bool:
        """Whether a node has room for a task and its rules let it lie there."""
        return (
            self.idle_gpus[node] >= task.gpus
            and self.idle_cpus[node] >= task.cpus
            and task.pool in (-1, node % 2)
            and (task.group < 0 or all(other.group != task.group for other in self.on_node[node].values()))
        )

    def put(self, task: ChurnTask, node: int) -> None:
        """A task comes to a node."""
        self.idle_gpus[node] -= task.gpus
        self.idle_cpus[node] -= task.cpus
        self.on_node[node][task.number] = task
        self.place[task.number] = node

    def drop(self, task: ChurnTask) -> None:
        """A task leaves."""
        node = self.place.pop(task.number)
        self.idle_gpus[node] += task.gpus
        self.idle_cpus[node] += task.cpus
        del self.on_node[node][task.number]

    def move(self, number: int, target: int) -> int:
        """Its copy comes up, then the old one goes; the task's GPUs. A target without room is a defect."""
        source = self.place[number]
        task = self.on_node[source][number]
        if task.locked or not self.takes(task, target):
            raise InconsistentPlanError(
                f"Defragmentation study: task {number} cannot be moved to node {target}.",
                hint="The order of moves is wrong: please report it.",
            )
        self.drop(task)
        self.put(task, target)
        return task.gpus

    def as_cluster(self, name: str = "churned") -> Cluster:
        """The state as a cluster; GPUs of tasks one after the other."""
        nodes = tuple(_node(number) for number in range(len(self.idle_gpus)))
        return Cluster(name=name, nodes=nodes, pods=tuple(self._pods()))

    def _pods(self) -> Iterable[Pod]:
        for node, tasks in enumerate(self.on_node):
            first = 0
            for task in tasks.values():
                yield Pod(
                    name=str(task.number),
                    node=f"n-{node}",
                    gpus=tuple(range(first, first + task.gpus)),
                    cpus=task.cpus,
                    locked=task.locked,
                    node_selector=((POOL, str(task.pool)),) if task.pool >= 0 else (),
                    anti_affinity=f"g-{task.group}" if task.group >= 0 else "",
                )
                first += task.gpus


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


class _Churn:
    """Everything that changes in a run."""

    def __init__(self, workload: ChurnWorkload, seed: int) -> None:
        self.workload, self.seed = workload, seed
        self.cluster = ChurnedCluster(workload.nodes)
        self.waiting: list[ChurnTask] = []
        self.waits: dict[int, tuple[ChurnTask, float | None]] = {}
        self.leaving: list[tuple[float, int, ChurnTask]] = []
        self.vacated = self.moves = self.moved_gpus = 0
        self.reductions: list[float] = []

    def come(self, task: ChurnTask) -> None:
        """A task is placed, or waits."""
        self.waits[task.number] = task, None
        if not self._place(task, task.submit_h):
            self.waiting.append(task)

    def _place(self, task: ChurnTask, now_h: float) -> bool:
        node = self.cluster.best(task)
        if node == NOWHERE:
            return False
        self.cluster.put(task, node)
        self.waits[task.number] = task, now_h - task.submit_h
        heapq.heappush(self.leaving, (now_h + task.life_h, task.number, task))
        return True

    def retry(self, now_h: float) -> None:
        """Whoever waits, in order."""
        self.waiting = [task for task in self.waiting if not self._place(task, now_h)]

    def leave_until(self, until_h: float) -> None:
        """Tasks whose time is over go; after each the waiting ones are tried."""
        while self.leaving and self.leaving[0][0] <= until_h:
            at, _, task = heapq.heappop(self.leaving)
            self.cluster.drop(task)
            if self.waiting:
                self.retry(at)

    def defragment(self, now_h: float) -> None:
        """IPC over the cluster as it is, carried out at once."""
        settings = DefragmentationSettings(seed=self.seed)
        plan = consolidate(self.cluster.as_cluster(), settings)
        for move in plan.moves:
            self.moved_gpus += self.cluster.move(int(move.pod.rpartition("/")[2]), int(move.target[2:]))
        if plan.before.not_full:
            self.reductions.append(100 * (1 - plan.after.not_full / plan.before.not_full))
        self.moves += len(plan.moves)
        self.vacated += len(plan.vacated)
        self.retry(now_h)

    def sample(self, hour: int, vacated: int, moves: int) -> ChurnSample:
        """The cluster now."""
        pairs = list(zip(self.cluster.idle_gpus, self.cluster.idle_cpus, strict=True))
        return ChurnSample(
            hour=hour,
            held_gpus=HOST_GPUS * len(pairs) - sum(self.cluster.idle_gpus),
            not_full=sum(gpus > 0 for gpus, _ in pairs),
            empty=sum(gpus == HOST_GPUS for gpus, _ in pairs),
            placeable=sum(gpus == HOST_GPUS and cpus >= WHOLE_REQUEST_CPUS for gpus, cpus in pairs),
            waiting_gpus=sum(task.gpus for task in self.waiting),
            vacated=vacated,
            moves=moves,
        )


def simulate_churn(
    workload: ChurnWorkload,
    seed: int,
    every_hours: float | None,
    progress: Callable[[float], None] | None = None,
) -> ChurnRun:
    """One seed's tasks under one rhythm; the same tasks under every rhythm. `every_hours` None: never defragmented."""
    churn, series = _Churn(workload, seed), list[ChurnSample]()
    coming = sorted(draw_tasks(workload, seed), key=lambda task: (task.submit_h, -task.gpus, task.number))
    hours, place, due = round(HOURS_A_DAY * workload.days), 0, every_hours
    counted = runs = 0
    for hour in range(1, hours + 1):
        while place < len(coming) and coming[place].submit_h < hour:
            churn.leave_until(coming[place].submit_h)
            churn.come(coming[place])
            place += 1
        churn.leave_until(hour)
        before = churn.vacated, churn.moves
        if due is not None and every_hours is not None and hour >= due:
            churn.defragment(hour)
            due, runs = due + every_hours, runs + 1
        series.append(churn.sample(hour, churn.vacated - before[0], churn.moves - before[1]))
        counted = hour
        if progress is not None:
            progress(hour / hours)
    figures = _figures(churn, series, runs, float(counted))
    return ChurnRun(every_hours=every_hours, seed=seed, figures=figures, series=tuple(series))


def _figures(churn: _Churn, series: Sequence[ChurnSample], runs: int, end_h: float) -> ChurnFigures:
    warm_h = HOURS_A_DAY * churn.workload.warm_up_days
    late = [sample for sample in series if sample.hour > warm_h]
    gpus = HOST_GPUS * churn.workload.nodes
    moves = sum(sample.moves for sample in series)
    return ChurnFigures(
        held_percent=100 * fmean(sample.held_gpus for sample in late) / gpus,
        not_full=fmean(sample.not_full for sample in late),
        empty=fmean(sample.empty for sample in late),
        placeable=fmean(sample.placeable for sample in late),
        waiting_gpus=fmean(sample.waiting_gpus for sample in late),
        host_wait_h=_wait(churn, warm_h, end_h, whole_hosts=True),
        other_wait_h=_wait(churn, warm_h, end_h, whole_hosts=False),
        runs=runs,
        vacated=churn.vacated,
        moves=moves,
        moved_gpus=churn.moved_gpus,
        moves_per_node=moves / churn.vacated if churn.vacated else None,
        reduction_percent=fmean(churn.reductions) if churn.reductions else None,
    )


def _wait(churn: _Churn, warm_h: float, end_h: float, *, whole_hosts: bool) -> float | None:
    """Mean wait (h) of tasks of a host's GPUs, or of the others, that came after the warm-up."""
    waits = [
        end_h - task.submit_h if wait_h is None else wait_h
        for task, wait_h in churn.waits.values()
        if task.submit_h >= warm_h and (task.gpus == HOST_GPUS) is whole_hosts
    ]
    return fmean(waits) if waits else None


def churned(workload: ChurnWorkload, seed: int) -> Cluster:
    """The cluster of a seed at the end of its days, never defragmented."""
    churn = _Churn(workload, seed)
    for task in sorted(draw_tasks(workload, seed), key=lambda task: (task.submit_h, -task.gpus, task.number)):
        churn.leave_until(task.submit_h)
        churn.come(task)
    return churn.cluster.as_cluster(f"churned-{workload.nodes}-{seed}")
