"""Steps in the order of their worth, within the budget; their moves in waves, with the GPUs of each copy.

A step waits for those that make room for it, and for those whose pods it moves on. Of the others, the one with the most
GPUs a move comes first, so that an operator who stops early has the best of it.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from planner.defragmentation.boards import Board
from planner.defragmentation.waves import Waves
from planner.domain import Cluster
from planner.domain.defragmentation import (
    Defragmentation,
    DefragmentationRound,
    DefragmentationSettings,
    GatheredJob,
    MoveBudget,
    MoveStep,
)

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
