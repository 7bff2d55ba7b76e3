"""Steps in the order of their worth, within the budget; their moves in waves, with the GPUs of each copy.

A step waits for those that make room for it, and for those whose pods it moves on. Of the others, the one with the most
GPUs a move comes first, so that an operator who stops early has the best of it.

Within a wave moves run side by side: every copy comes up while every pod that leaves is still there. A move begins a
new wave where it needs what another one of the wave leaves, where its pod is still on its way, where the wave has as
many moves as may run at once, or as many pods of a disruption budget as it lets go.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from planner.defragmentation.boards import Board
from planner.defragmentation.partitions import NO_GROUP, ROUNDING
from planner.domain import Cluster
from planner.domain.defragmentation import (
    Defragmentation,
    DefragmentationRound,
    DefragmentationSettings,
    GatheredJob,
    Move,
    MoveBudget,
    MoveStep,
)


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


RawMove = tuple[int, int, int]
"""Task, source and target by number."""


@dataclass(frozen=True, slots=True)
class RawStep:
    """Moves that gain `goal` together; `node` is the number of the node whose type and GPUs they free (of a job: one of
    its nodes); `gpus`: those of the job (0: those of the node)."""

    goal: str
    node: int
    moves: tuple[RawMove, ...]
    gpus: int = 0


def ordered(
    cluster: Cluster,
    board: Board,
    steps: Sequence[RawStep],
    settings: DefragmentationSettings,
    rounds: tuple[DefragmentationRound, ...],
    gathered: Sequence[GatheredJob] = (),
) -> Defragmentation:
    """Steps as a plan that can be carried out on `board`, which becomes the board after it."""
    before = board.occupation()
    chosen = [steps[at] for at in _affordable(board, steps, settings)]
    waves = Waves(cluster, board, settings)
    rows = []
    for number, step in enumerate(chosen, start=1):
        for move in step.moves:
            waves.add(number, *move)
        rows.append(_row(board, number, step, waves.count))
    goals = {step.goal for step in chosen}
    return Defragmentation(
        cluster=cluster.name,
        settings=settings,
        moves=tuple(waves.moves),
        steps=tuple(rows),
        rounds=rounds,
        before=before,
        after=board.occupation(),
        gathered=tuple(job for job in gathered if job.job in goals),
        problems=board.problems,
        left_out=board.left_out,
    )


def _row(board: Board, number: int, step: RawStep, last_move: int) -> MoveStep:
    node = board.nodes[step.node]
    return MoveStep(
        number=number,
        goal=step.goal,
        gpu=node.gpu,
        gpus=step.gpus or len(node.gpus),
        moves=len(step.moves),
        last_move=last_move,
    )


def _affordable(board: Board, steps: Sequence[RawStep], settings: DefragmentationSettings) -> list[int]:
    """Places of the steps that the budget covers, in the order in which they are taken."""
    before = _earlier(steps)
    chosen: set[int] = set()
    order = []
    purse = _Purse(settings.budget, settings.overlap_hours)
    # A step too dear is passed over, not the end: cheaper ones behind it may still be paid.
    for at in _by_worth(board, steps, before):
        gpus = sum(board.tasks[task].gpus for task, _, _ in steps[at].moves)
        # Where a step that it waits for is not carried out, its moves have no room.
        if before[at] <= chosen and purse.pays(len(steps[at].moves), gpus):
            chosen.add(at)
            order.append(at)
    return order


def _earlier(steps: Sequence[RawStep]) -> list[set[int]]:
    """For each step, those before it that it waits for.

    Pods that come to a node may come in any order, as all of them fit; where a pod leaves a node, everything before and
    after it stays so.
    """
    leaving: dict[int, int] = {}
    coming: dict[int, list[int]] = defaultdict(list)
    earlier = []
    for at, step in enumerate(steps):
        sources = {source for _, source, _ in step.moves}
        # A node that a step both fills and leaves counts as left, which is the stricter rule.
        targets = {target for _, _, target in step.moves} - sources
        waits = {leaving[node] for node in sources | targets if node in leaving}
        for node in sources:
            # They are behind this step now: whoever comes next waits for it, and so for them.
            waits.update(coming.pop(node, ()))
            leaving[node] = at
        for node in targets:
            coming[node].append(at)
        earlier.append(waits)
    return earlier


def _by_worth(board: Board, steps: Sequence[RawStep], before: Sequence[set[int]]) -> list[int]:
    """All places, each after those that it waits for; of those that may come, the most GPUs a move first."""
    after: dict[int, list[int]] = defaultdict(list)
    waiting = [len(earlier) for earlier in before]
    for at, earlier in enumerate(before):
        for place in earlier:
            after[place].append(at)
    # Of equal worth the one found first, whatever the heap: the place stands second.
    heap = [(_worth(board, steps[at]), at) for at, count in enumerate(waiting) if not count]
    heapify(heap)
    order = []
    while heap:
        _, at = heappop(heap)
        order.append(at)
        for follower in after[at]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heappush(heap, (_worth(board, steps[follower]), follower))
    return order


def _worth(board: Board, step: RawStep) -> float:
    return -(step.gpus or len(board.nodes[step.node].gpus)) / len(step.moves)


class _Purse:
    """What is left of a budget."""

    def __init__(self, budget: MoveBudget, overlap_hours: float) -> None:
        self._moves, self._gpu_hours, self._overlap_hours = budget.most_moves, budget.most_gpu_hours, overlap_hours

    def pays(self, moves: int, gpus: int) -> bool:
        """Whether so many moves of so many GPUs are still covered; they are then spent."""
        # The hours left are a rounded difference: a budget that is met exactly must not fail by its last digit.
        hours = gpus * self._overlap_hours
        if (self._moves is not None and moves > self._moves) or (
            self._gpu_hours is not None and hours > self._gpu_hours * (1 + 1e-9)
        ):
            return False
        self._moves = None if self._moves is None else self._moves - moves
        self._gpu_hours = None if self._gpu_hours is None else max(0.0, self._gpu_hours - hours)
        return True
