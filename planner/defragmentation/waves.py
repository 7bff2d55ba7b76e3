"""Moves side by side: within a wave every copy comes up while every pod that leaves is still there.

A move begins a new wave where it needs what another one of the wave leaves, where its pod is still on its way, where
the wave has as many moves as may run at once, or as many pods of a disruption budget as it lets go.
"""

from collections import Counter, defaultdict

from planner.defragmentation.boards import Board
from planner.defragmentation.partitions import NO_GROUP, ROUNDING
from planner.domain import Cluster
from planner.domain.defragmentation import DefragmentationSettings, Move


class Waves:
    """Moves put into waves one by one, in their order; `board` goes along."""

    def __init__(self, cluster: Cluster, board: Board, settings: DefragmentationSettings) -> None:
        self._board, self._settings = board, settings
        self._allowed = {budget.name: budget.allowed for budget in cluster.disruption_budgets}
        self._indices = Indices(board)
        self._members = _members(board)
        self._leaving: list[tuple[int, int]] = []
        self._budgets: Counter[str] = Counter()
        self._wave = 1
        self.moves: list[Move] = []

    @property
    def count(self) -> int:
        """Moves so far."""
        return len(self.moves)

    def add(self, step: int, task: int, source: int, target: int) -> None:
        """The next move."""
        if self._leaving and not self._joins(task, target):
            self._wave += 1
            self._leaving.clear()
            self._budgets.clear()
        board, pod = self._board, self._board.pods[task]
        gpus = board.tasks[task].gpus
        # GPUs of earlier waves are free by now; those that leave in this one are not.
        self._indices.settle(source, keep={number for number, node in self._leaving if node == source})
        self._indices.settle(target, keep={number for number, node in self._leaving if node == target})
        self.moves.append(
            Move(
                order=len(self.moves) + 1,
                wave=self._wave,
                step=step,
                pod=pod.key,
                source=board.nodes[source].name,
                target=board.nodes[target].name,
                gpus=gpus,
                gpu_indices=self._indices.move(task, source, target),
                gpu_hours=gpus * self._settings.overlap_hours,
            )
        )
        self._leaving.append((task, source))
        self._budgets[pod.disruption_budget] += 1
        self._members[target][board.tasks[task].group] += 1
        self._members[source][board.tasks[task].group] -= 1
        board.move(task, target)

    def _joins(self, task: int, target: int) -> bool:
        """Whether the move may run beside the others of the wave: none of those that leave has made room yet."""
        board, pod, work = self._board, self._board.pods[task], self._board.tasks[task]
        at_once = self._settings.budget.most_at_once
        leavers = [board.tasks[number] for number, source in self._leaving if source == target]
        # Members are counted as if all had left: those of this wave still stand beside the copy.
        in_group = self._members[target][work.group] + sum(other.group == work.group for other in leavers)
        return (
            (at_once is None or len(self._leaving) < at_once)
            # Without a budget all may go at once.
            and self._budgets[pod.disruption_budget] < self._allowed.get(pod.disruption_budget, len(board.tasks))
            and all(number != task for number, _ in self._leaving)
            and board.idle_gpus[target] - sum(other.gpus for other in leavers) >= work.gpus
            and board.idle_cpus[target] - sum(other.cpus for other in leavers) + ROUNDING >= work.cpus
            and board.idle_memory_gb[target] - sum(other.memory_gb for other in leavers) + ROUNDING >= work.memory_gb
            and (work.group == NO_GROUP or not in_group)
        )


def _members(board: Board) -> list[Counter[int]]:
    """Pods of each anti-affinity group on each node."""
    return [
        Counter([*(board.tasks[task].group for task in tasks), *groups])
        for tasks, groups in zip(board.on_node, board.groups, strict=True)
    ]


class Indices:
    """GPUs by index of the nodes on which it is known who holds which; a copy gets the lowest free ones."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._held: dict[int, tuple[int, ...]] = {}
        self._free: dict[int, set[int]] = {}
        self._unknown: dict[int, set[int]] = {}
        self._gone: dict[int, dict[int, tuple[int, ...]]] = defaultdict(dict)

    def move(self, task: int, source: int, target: int) -> tuple[int, ...]:
        """GPUs of the copy on `target`; () where it is not known which are free there."""
        self._look_at(source)
        self._look_at(target)
        gpus = self._board.tasks[task].gpus
        # One pod whose GPUs are not known could be on any of those that look free.
        indices = () if self._unknown[target] else tuple(sorted(self._free[target])[:gpus])
        self._gone[source][task] = self._held.pop(task)
        self._unknown[source].discard(task)
        self._free[target].difference_update(indices)
        self._held[task] = indices
        if len(indices) < gpus:
            self._unknown[target].add(task)
        return indices

    def settle(self, node: int, keep: set[int]) -> None:
        """GPUs of pods that have left the node by now are free; those in `keep` are still there."""
        gone = self._gone[node]
        for task in [task for task in gone if task not in keep]:
            self._free[node].update(gone.pop(task))

    def _look_at(self, node: int) -> None:
        if node in self._free:
            return
        board = self._board
        self._free[node] = {gpu.index for gpu in board.nodes[node].gpus}
        self._unknown[node] = set()
        for task in board.on_node[node]:
            pod = board.pods[task]
            self._held[task] = pod.gpus
            self._free[node] -= set(pod.gpus)
            if not pod.gpus_known or pod.gpu_share:
                self._unknown[node].add(task)
