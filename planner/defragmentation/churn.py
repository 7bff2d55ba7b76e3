"""Tasks that come and go on a cluster, placed best fit, which is defragmented every so often.

A migration takes no time here; its moves are carried out one by one, each with both copies up, and a move that finds no
room is a defect. Between two migrations nothing is moved. Who waits is tried again, in order of submission, whenever
something has become free.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import ceil
from statistics import fmean

from planner.defragmentation.boards import Taints, is_sound, tolerated
from planner.defragmentation.consolidation import consolidate
from planner.defragmentation.partitions import NOWHERE, ROUNDING
from planner.domain import Cluster, ClusterNode, Pod
from planner.domain.defragmentation import SLOT_GPUS, DefragmentationSettings
from planner.domain.node_room import parts_held
from planner.domain.turnover import ChurnFigures, ChurnRun, ChurnSample, ChurnTask, Turnover
from planner.errors import InconsistentPlanError

SLOT_CPUS = 64
"""CPUs of the 8-GPU request that is counted (8G64C: ASI paper, figure 13)."""


class ChurnedCluster:
    """What is idle on every node, and which tasks lie there."""

    def __init__(self, nodes: Sequence[ClusterNode], staying: Sequence[Pod] = ()) -> None:
        self.nodes, self.staying = tuple(nodes), tuple(staying)
        self.numbers = {node.name: number for number, node in enumerate(nodes)}
        self.idle_gpus = [len(node.gpus) for node in nodes]
        self.idle_cpus = [node.cpus for node in nodes]
        self.idle_memory_gb = [node.memory_gb for node in nodes]
        self.on_node: list[dict[int, ChurnTask]] = [{} for _ in nodes]
        self.place: dict[int, int] = {}
        self._allowed: dict[tuple[str, tuple[tuple[str, str], ...], Taints], list[int]] = {}
        by_node = defaultdict[str, list[Pod]](list)
        for pod in self.staying:
            by_node[pod.node].append(pod)
        for name, pods in by_node.items():
            number = self.numbers[name]
            shares = ceil(parts_held(nodes[number], pods) - ROUNDING)
            self.idle_gpus[number] = max(0, self.idle_gpus[number] - sum(pod.gpu_count for pod in pods) - shares)
            self.idle_cpus[number] -= sum(pod.cpu_count for pod in pods)
            self.idle_memory_gb[number] -= sum(pod.memory_gb for pod in pods)

    def best(self, task: ChurnTask) -> int:
        """The node with the fewest idle GPUs that takes the task; NOWHERE: none does."""
        best, fewest = NOWHERE, None
        for node in self._nodes_for(task):
            idle = self.idle_gpus[node]
            if task.gpus <= idle and (fewest is None or idle < fewest) and self._has_room(task, node):
                best, fewest = node, idle
        return best

    def _nodes_for(self, task: ChurnTask) -> list[int]:
        """Nodes whose type, labels and taints let the task lie there."""
        key = task.gpu, task.node_selector, task.taints
        nodes = self._allowed.get(key)
        if nodes is None:
            nodes = self._allowed[key] = [
                number
                for number, node in enumerate(self.nodes)
                if (not task.gpu or node.gpu == task.gpu)
                and set(task.node_selector) <= set(node.labels)
                and tolerated(node) <= task.taints
                and is_sound(node)
            ]
        return nodes

    def _has_room(self, task: ChurnTask, node: int) -> bool:
        return (
            self.idle_gpus[node] >= task.gpus
            and self.idle_cpus[node] + ROUNDING >= task.cpus
            and self.idle_memory_gb[node] + ROUNDING >= task.memory_gb
            and (not task.group or all(other.group != task.group for other in self.on_node[node].values()))
        )

    def put(self, task: ChurnTask, node: int) -> None:
        """A task comes to a node."""
        self.idle_gpus[node] -= task.gpus
        self.idle_cpus[node] -= task.cpus
        self.idle_memory_gb[node] -= task.memory_gb
        self.on_node[node][task.number] = task
        self.place[task.number] = node

    def drop(self, task: ChurnTask) -> None:
        """A task leaves."""
        node = self.place.pop(task.number)
        self.idle_gpus[node] += task.gpus
        self.idle_cpus[node] += task.cpus
        self.idle_memory_gb[node] += task.memory_gb
        del self.on_node[node][task.number]

    def move(self, number: int, target: int) -> int:
        """Its copy comes up, then the old one goes; the task's GPUs. A target without room is a defect."""
        source = self.place[number]
        task = self.on_node[source][number]
        if task.locked or target not in self._nodes_for(task) or not self._has_room(task, target):
            raise InconsistentPlanError(
                f"Defragmentation over time: task {number} cannot be moved to node {self.nodes[target].name}.",
                hint="The order of moves is wrong: please report it.",
            )
        self.drop(task)
        self.put(task, target)
        return task.gpus

    def as_cluster(self, name: str = "churned") -> Cluster:
        """The state as a cluster; tasks are pods called by their number, whose GPUs are counted, not named."""
        return Cluster(name=name, nodes=self.nodes, pods=(*self.staying, *self._pods()))

    def _pods(self) -> Iterable[Pod]:
        for node, tasks in zip(self.nodes, self.on_node, strict=True):
            for task in tasks.values():
                yield Pod(
                    name=str(task.number),
                    node=node.name,
                    namespace="churn",
                    gpu_request=task.gpus,
                    cpus=task.cpus,
                    memory_gb=task.memory_gb,
                    locked=task.locked,
                    node_selector=task.node_selector,
                    anti_affinity=task.group,
                )


class _Churn:
    """Everything that changes in a run."""

    def __init__(self, turnover: Turnover, settings: DefragmentationSettings) -> None:
        self.cluster = ChurnedCluster(turnover.nodes, turnover.staying)
        self.settings = settings
        self.waiting: list[ChurnTask] = []
        self.waits: dict[int, tuple[ChurnTask, float | None]] = {}
        self.leaving: list[tuple[float, int, ChurnTask]] = []
        self.vacated = self.moves = self.moved_gpus = 0
        for task, node in turnover.placed:
            self._put(task, self.cluster.numbers[node], 0.0)

    def come(self, task: ChurnTask) -> None:
        """A task is placed, or waits."""
        self.waits[task.number] = task, None
        if not self._place(task, task.submit_h):
            self.waiting.append(task)

    def _place(self, task: ChurnTask, now_h: float) -> bool:
        node = self.cluster.best(task)
        if node == NOWHERE:
            return False
        self._put(task, node, now_h)
        self.waits[task.number] = task, now_h - task.submit_h
        return True

    def _put(self, task: ChurnTask, node: int, now_h: float) -> None:
        self.cluster.put(task, node)
        heapq.heappush(self.leaving, (now_h + task.life_h, task.number, task))

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

    def defragment(self, now_h: float) -> float | None:
        """IPC over the cluster as it is, carried out at once: by how many percent it lowers the nodes with an idle GPU;
        None where there are none."""
        plan = consolidate(self.cluster.as_cluster(), self.settings)
        for move in plan.moves:
            number, target = int(move.pod.rpartition("/")[2]), self.cluster.numbers[move.target]
            self.moved_gpus += self.cluster.move(number, target)
        self.moves += len(plan.moves)
        self.vacated += len(plan.vacated)
        self.retry(now_h)
        return 100 * (1 - plan.after.not_full / plan.before.not_full) if plan.before.not_full else None

    def levels(self) -> dict[str, int]:
        """The cluster now, by the names of a sample."""
        cluster = self.cluster
        sizes = [len(node.gpus) for node in cluster.nodes]
        empty = [size for size, idle in zip(sizes, cluster.idle_gpus, strict=True) if size and idle == size]
        idle_pairs = zip(cluster.idle_gpus, cluster.idle_cpus, strict=True)
        return {
            "held_gpus": sum(sizes) - sum(cluster.idle_gpus),
            "not_full": sum(gpus > 0 for gpus in cluster.idle_gpus),
            "empty": len(empty),
            "empty_gpus": sum(empty),
            "placeable": sum(gpus >= SLOT_GPUS and cpus >= SLOT_CPUS for gpus, cpus in idle_pairs),
            "waiting_gpus": sum(task.gpus for task in self.waiting),
        }


def simulate_churn(
    turnover: Turnover,
    seed: int,
    every_hours: float | None,
    settings: DefragmentationSettings | None = None,
    progress: Callable[[float], None] | None = None,
) -> ChurnRun:
    """A cluster's life under one rhythm: a run after the first hour and then `every_hours`; None: never. Runs are IPC's
    alone, of this seed."""
    # What an exhaustive search adds on small clusters is not worth its time at every run.
    settings = replace(settings or DefragmentationSettings(), seed=seed, states=0)
    churn, series, reductions = _Churn(turnover, settings), list[ChurnSample](), list[float]()
    coming, place, due, runs = turnover.coming, 0, 1.0, 0
    while place < len(coming) and coming[place].submit_h <= 0:
        churn.come(coming[place])
        place += 1
    first = churn.levels()
    for hour in range(1, turnover.hours + 1):
        while place < len(coming) and coming[place].submit_h < hour:
            churn.leave_until(coming[place].submit_h)
            churn.come(coming[place])
            place += 1
        churn.leave_until(hour)
        # Before the run: what the next tasks took of the last one's gain counts, not the instant after it alone.
        mean = {name: (first[name] + level) / 2 for name, level in churn.levels().items()}
        vacated, moves, moved_gpus = churn.vacated, churn.moves, churn.moved_gpus
        if every_hours is not None and hour >= due:
            reduction = churn.defragment(hour)
            due += every_hours
            if hour > turnover.warm_up_h:
                runs += 1
                reductions += [] if reduction is None else [reduction]
        first = churn.levels()
        done = churn.vacated - vacated, churn.moves - moves, churn.moved_gpus - moved_gpus
        series.append(ChurnSample(hour=hour, **mean, vacated=done[0], moves=done[1], moved_gpus=done[2]))
        if progress is not None:
            progress(hour / turnover.hours)
    figures = _figures(churn, turnover, series, runs, reductions)
    return ChurnRun(every_hours=every_hours, seed=seed, figures=figures, series=tuple(series))


def _figures(
    churn: _Churn, turnover: Turnover, series: Sequence[ChurnSample], runs: int, reductions: Sequence[float]
) -> ChurnFigures:
    late = [sample for sample in series if sample.hour > turnover.warm_up_h]
    gpus = sum(len(node.gpus) for node in turnover.nodes)
    vacated, moves = sum(sample.vacated for sample in late), sum(sample.moves for sample in late)
    return ChurnFigures(
        hours=len(late),
        held_percent=100 * fmean(sample.held_gpus for sample in late) / gpus,
        not_full=fmean(sample.not_full for sample in late),
        empty=fmean(sample.empty for sample in late),
        empty_gpus=fmean(sample.empty_gpus for sample in late),
        placeable=fmean(sample.placeable for sample in late),
        waiting_gpus=fmean(sample.waiting_gpus for sample in late),
        host_wait_h=_wait(churn, turnover, hosts=True),
        other_wait_h=_wait(churn, turnover, hosts=False),
        runs=runs,
        vacated=vacated,
        moves=moves,
        moved_gpus=sum(sample.moved_gpus for sample in late),
        moves_per_node=moves / vacated if vacated else None,
        reduction_percent=fmean(reductions) if reductions else None,
    )


def _wait(churn: _Churn, turnover: Turnover, *, hosts: bool) -> float | None:
    """Mean wait (h) of tasks of a host's eight GPUs, or of the others, that came after the warm-up."""
    waits = [
        turnover.hours - task.submit_h if wait_h is None else wait_h
        for task, wait_h in churn.waits.values()
        if task.submit_h >= turnover.warm_up_h and (task.gpus == SLOT_GPUS) is hosts
    ]
    return fmean(waits) if waits else None


def churned(turnover: Turnover, name: str) -> Cluster:
    """The cluster once all have come, never defragmented."""
    churn = _Churn(turnover, DefragmentationSettings())
    for task in turnover.coming:
        churn.leave_until(task.submit_h)
        churn.come(task)
    return churn.cluster.as_cluster(name)
