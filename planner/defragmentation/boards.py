"""A cluster as consolidation sees it: nodes with GPUs, what is idle there, who may be moved, and where to.

A pod may come to a node of the same GPU type that has the labels which it selects and no taint that its own node lacks
(tolerations are not part of a cluster file). Pods without GPUs stay, and so do locked ones, those whose disruption
budget lets nobody go, those with parts of shared GPUs, and those of contradictory rules. Nodes with a fault (cordoned,
not ready, ...) are left alone.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from math import ceil
from operator import and_, or_

from planner.defragmentation.partitions import NO_GROUP, ROUNDING, Partition, Task
from planner.domain import Cluster, ClusterNode, Pod, Taint
from planner.domain.defragmentation import Occupation
from planner.domain.node_room import parts_held
from planner.domain.soundness import require_sound
from planner.domain.usable import REPELLING, fault_of

Taints = frozenset[Taint]
MOST_NAMED = 3
"""Pods or nodes that a sentence lists by name."""


@dataclass(frozen=True, slots=True)
class Need:
    """Labels that a pod's node must have (numbers of pairs), and taints that the pod lives with."""

    pairs: tuple[int, ...]
    taints: Taints


@dataclass(slots=True)
class Board:
    """Nodes and tasks by number. `seats`: the node of each task; `idle_*` of each node; `pods`: of each task.

    `pairs`: numbers of the selected labels that each node has; `sound`: nodes without a fault; `groups`: anti-affinity
    groups of the pods without GPUs on each node.
    """

    nodes: tuple[ClusterNode, ...]
    pods: tuple[Pod, ...]
    tasks: list[Task]
    seats: list[int]
    idle_gpus: list[int]
    idle_cpus: list[float]
    idle_memory_gb: list[float]
    needs: list[Need]
    pairs: list[tuple[int, ...]]
    taints: list[Taints]
    sound: list[bool]
    groups: list[tuple[int, ...]]
    problems: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    on_node: list[set[int]] = field(default_factory=list)

    def move(self, number: int, target: int) -> None:
        """A task goes to another node."""
        task, source = self.tasks[number], self.seats[number]
        for node, sign in ((source, 1), (target, -1)):
            self.idle_gpus[node] += sign * task.gpus
            self.idle_cpus[node] += sign * task.cpus
            self.idle_memory_gb[node] += sign * task.memory_gb
        self.on_node[source].discard(number)
        self.on_node[target].add(number)
        self.seats[number] = target

    def copy(self) -> "Board":
        """The same board, to be changed on its own."""
        return replace(
            self,
            seats=list(self.seats),
            idle_gpus=list(self.idle_gpus),
            idle_cpus=list(self.idle_cpus),
            idle_memory_gb=list(self.idle_memory_gb),
            on_node=[set(tasks) for tasks in self.on_node],
        )

    def occupation(self) -> Occupation:
        """How full the nodes are."""
        idle, sizes = sum(self.idle_gpus), [len(node.gpus) for node in self.nodes]
        full = sum(free == 0 for free in self.idle_gpus)
        empty = sum(not tasks for tasks in self.on_node)
        return Occupation(nodes=len(sizes), full=full, empty=empty, gpus=sum(sizes), allocated=sum(sizes) - idle)

    def partition(self, nodes: Sequence[int], *, opened: bool = False) -> tuple[Partition, list[int]]:
        """These nodes as a partition, and the numbers of its tasks; `opened`: empty nodes may be filled, too."""
        local = {node: at for at, node in enumerate(nodes)}
        # A set keeps the order in which tasks came and went; the same cluster must give the same moves.
        tasks = [number for node in nodes for number in sorted(self.on_node[node])]
        needs = {need: at for at, need in enumerate(dict.fromkeys(self.tasks[number].need for number in tasks))}
        allowing = self._allowing(nodes)
        return Partition(
            idle_gpus=tuple(self.idle_gpus[node] for node in nodes),
            idle_cpus=tuple(self.idle_cpus[node] for node in nodes),
            idle_memory_gb=tuple(self.idle_memory_gb[node] for node in nodes),
            tasks=tuple(replace(self.tasks[number], need=needs[self.tasks[number].need]) for number in tasks),
            nodes_of_tasks=tuple(local[self.seats[number]] for number in tasks),
            allowed=tuple(allowing(self.needs[need]) for need in needs),
            groups=tuple((local[node], group) for node in nodes for group in self.groups[node]),
            goals=_bits(local[node] for node in nodes if self.may_be_vacated(node)),
            opened=opened,
        ), tasks

    def may_be_vacated(self, node: int) -> bool:
        """Whether it holds tasks, and all of them may be moved."""
        return bool(self.on_node[node]) and all(self.tasks[number].movable for number in self.on_node[node])

    def allowed(self, need: int, nodes: Sequence[int]) -> int:
        """Bits of those among `nodes`, by their place, that may take a task of that need."""
        return self._allowing(nodes)(self.needs[need])

    def _allowing(self, nodes: Sequence[int]) -> Callable[[Need], int]:
        """What gives the bits of those nodes that may take a pod of a need."""
        everywhere = (1 << len(nodes)) - 1
        by_pair: dict[int, int] = defaultdict(int)
        by_taints: dict[Taints, int] = defaultdict(int)
        for at, node in enumerate(nodes):
            for pair in self.pairs[node]:
                by_pair[pair] |= 1 << at
            by_taints[self.taints[node]] |= 1 << at

        def bits_for(need: Need) -> int:
            # Few sets of taints cover many nodes: each is compared once, and its nodes come in as one mask.
            labelled = reduce(and_, (by_pair.get(pair, 0) for pair in need.pairs), everywhere)
            return labelled & reduce(or_, (bits for taints, bits in by_taints.items() if taints <= need.taints), 0)

        return bits_for


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in numbers)


def board_of(cluster: Cluster) -> Board:
    """The cluster as numbers.

    Raises:
        InputError: the cluster contradicts itself: a pod without a node, a node that gives away more than it has.
    """
    require_sound(cluster, f"cluster {cluster.name}")
    nodes = tuple(node for node in cluster.nodes if node.gpus)
    contradictory, problems = contradictions_of(cluster)
    still = _still(cluster, contradictory)
    numbers = {node.name: at for at, node in enumerate(nodes)}
    on_gpus = [pod for pod in cluster.pods if pod.node in numbers]
    # Labels that no pod selects decide nothing; without them a mask is made for few pairs.
    builder = _Builder(nodes, {pair for pod in on_gpus for pair in pod.node_selector})
    for pod in on_gpus:
        builder.add(pod, numbers[pod.node], movable=not still.get(pod.key))
    return replace(builder.board(), problems=problems, left_out=_left_out(on_gpus, still))


def tolerated(node: ClusterNode) -> Taints:
    """Taints that keep pods off a node, and that those on it live with."""
    return frozenset(taint for taint in node.taints if taint.effect in REPELLING)


def is_sound(node: ClusterNode) -> bool:
    """Whether no taint of the node tells of a fault."""
    return fault_of(node) is None


def contradictions_of(cluster: Cluster) -> tuple[frozenset[str], tuple[str, ...]]:
    """Keys of pods on nodes where their own rules do not allow them, and each case in words."""
    nodes = {node.name: node for node in cluster.nodes}
    keys: set[str] = set()
    problems = []
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pod in cluster.pods:
        labels = dict(nodes[pod.node].labels) if pod.node_selector else {}
        missing = [f"{key}={value}" for key, value in pod.node_selector if labels.get(key) != value]
        if missing:
            keys.add(pod.key)
            problems.append(f"pod {pod.key}: node {pod.node} lacks the label {missing[0]} that it selects")
        if pod.anti_affinity:
            groups[pod.node, pod.anti_affinity].append(pod.key)
    for (node, group), members in groups.items():
        if len(members) > 1:
            keys.update(members)
            shown = ", ".join(members[:MOST_NAMED])
            problems.append(f"node {node}: {len(members)} pods of anti-affinity group {group} share it: {shown}")
    return frozenset(keys), tuple(f"{problem}; left where they are" for problem in problems)


def _still(cluster: Cluster, contradictory: frozenset[str]) -> dict[str, str]:
    """Pods that are not moved: key -> why."""
    budgets = {budget.name for budget in cluster.disruption_budgets if budget.allowed < 1}
    faulty = {node.name for node in cluster.nodes if not is_sound(node)}
    still = {}
    for pod in cluster.pods:
        if why := _why_still(pod, pod.key in contradictory, pod.disruption_budget in budgets, pod.node in faulty):
            still[pod.key] = why
    return still


def _why_still(pod: Pod, contradictory: bool, bound: bool, faulty: bool) -> str:
    # The first reason alone counts, so that pods by reason add up to all that stay.
    for holds, why in (
        (pod.locked, "locked"),
        (faulty, "on nodes with a fault (cordoned, not ready, ...)"),
        (contradictory, "where their own rules do not allow it"),
        (bound, "in a disruption budget that lets nobody go"),
        (pod.gpu_share > 0, "sharing GPUs with others"),
    ):
        if holds:
            return why
    return ""


def _left_out(pods: Iterable[Pod], still: Mapping[str, str]) -> tuple[str, ...]:
    # Pods without GPUs never move: a sentence about each of them would hide the others.
    counts = Counter(still[pod.key] for pod in pods if (pod.gpu_count or pod.gpu_share) and pod.key in still)
    return tuple(f"{count:,} pod{'s' * (count > 1)} with GPUs: {why}" for why, count in counts.items())


class _Builder:
    """Fills a board pod by pod."""

    def __init__(self, nodes: tuple[ClusterNode, ...], selected: set[tuple[str, str]]) -> None:
        self._pairs = {pair: number for number, pair in enumerate(sorted(selected))}
        self._needs: dict[Need, int] = {}
        self._groups: dict[str, int] = {}
        taints = [tolerated(node) for node in nodes]
        self._board = Board(
            nodes=nodes,
            pods=(),
            tasks=[],
            seats=[],
            idle_gpus=[len(node.gpus) for node in nodes],
            idle_cpus=[node.cpus for node in nodes],
            idle_memory_gb=[node.memory_gb for node in nodes],
            needs=[],
            pairs=[tuple(self._pairs[pair] for pair in node.labels if pair in self._pairs) for node in nodes],
            taints=taints,
            sound=[is_sound(node) for node in nodes],
            groups=[() for _ in nodes],
            on_node=[set() for _ in nodes],
        )
        self._pods: list[Pod] = []
        self._sharing: dict[int, list[Pod]] = defaultdict(list)

    def add(self, pod: Pod, node: int, *, movable: bool) -> None:
        """A pod on a node; with GPUs it is a task."""
        board = self._board
        group = self._groups.setdefault(pod.anti_affinity, len(self._groups)) if pod.anti_affinity else NO_GROUP
        board.idle_gpus[node] -= pod.gpu_count
        self._sharing[node].append(pod)
        board.idle_cpus[node] -= pod.cpu_count
        board.idle_memory_gb[node] -= pod.memory_gb
        # It never moves, and goes on keeping others of its group off the node.
        if not pod.gpu_count and not pod.gpu_share:
            board.groups[node] = (*board.groups[node], group) if group != NO_GROUP else board.groups[node]
            return
        # Tolerations are not in the file: that it runs here is all that shows which taints it bears.
        need = Need(tuple(sorted(self._pairs[pair] for pair in pod.node_selector)), board.taints[node])
        number = self._needs.setdefault(need, len(self._needs))
        board.on_node[node].add(len(board.tasks))
        board.tasks.append(Task(pod.gpu_count, pod.cpu_count, pod.memory_gb, group, number, movable))
        board.seats.append(node)
        self._pods.append(pod)

    def board(self) -> Board:
        """The board."""
        for node, pods in self._sharing.items():  # which GPUs are shared is not known: as few as can be
            shares = ceil(parts_held(self._board.nodes[node], pods) - ROUNDING)
            self._board.idle_gpus[node] = max(0, self._board.idle_gpus[node] - shares)
        return replace(self._board, pods=tuple(self._pods), needs=list(self._needs))


def parts_of(board: Board, largest: int, shuffled: Sequence[int]) -> Iterator[list[int]]:
    """The nodes that have no fault, in the order given, cut into even parts of one GPU type each."""
    by_type: dict[str, list[int]] = defaultdict(list)
    for node in shuffled:
        if board.sound[node]:
            by_type[board.nodes[node].gpu].append(node)
    for gpu in sorted(by_type):
        nodes = by_type[gpu]
        # Even parts: a short last one would have hardly any destinations.
        parts = -(-len(nodes) // largest)
        ends = [len(nodes) * part // parts for part in range(parts + 1)]
        yield from (nodes[begin:end] for begin, end in pairwise(ends))
