"""Nodes vacated round by round, each round with partitions of its own (IPC: ASI paper, section 4.1); of a GPU type with
few nodes in use by the fewest moves that vacate the most, which an exhaustive search finds."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from planner.defragmentation.boards import Board, board_of, parts_of
from planner.defragmentation.exhaustive import best_moves
from planner.defragmentation.ordering import RawStep, ordered
from planner.defragmentation.partitions import Chainwork, Partition, vacated_nodes
from planner.domain import Cluster
from planner.domain.defragmentation import Defragmentation, DefragmentationRound, DefragmentationSettings

Answer = TypeVar("Answer")


class Runner(Protocol):
    """Calls `function` with the arguments of each task and gives the answers in that order."""

    def __call__(self, function: Callable[..., Answer], tasks: Sequence[tuple[Any, ...]]) -> Iterable[Answer]:
        """The answers."""
        ...


def in_turn(function: Callable[..., Answer], tasks: Sequence[tuple[Any, ...]]) -> Iterator[Answer]:
    """One task after the other, in this process."""
    return (function(*task) for task in tasks)


def consolidate(
    cluster: Cluster, settings: DefragmentationSettings | None = None, *, run: Runner = in_turn
) -> Defragmentation:
    """The moves that vacate nodes, in an order in which each is safe, within the budget.

    `run` may work on partitions in several processes; the moves are the same in any number. No empty node is opened.

    Raises:
        InputError: the cluster contradicts itself: a pod without a node, a node that gives away more than it has.
    """
    settings = settings or DefragmentationSettings()
    board = board_of(cluster)
    # On a copy: the steps found are then put in order from where the tasks are today.
    work = _Rounds(board.copy(), settings, run)
    work.all()
    steps, fewest, proven = _best(board, work.steps, settings)
    plan = ordered(cluster, board, steps, settings, tuple(work.rounds))
    return replace(plan, proven=proven, fewest_in_use=fewest)


def _best(board: Board, steps: list[RawStep], settings: DefragmentationSettings) -> tuple[list[RawStep], int, bool]:
    """The steps, or better ones of the types that are searched; the nodes that stay in use at least; whether that and
    the moves are proven the fewest."""
    fewest, proven = sum(map(bool, board.on_node)), True
    best: list[RawStep] = []
    for nodes in parts_of(board, len(board.nodes), range(len(board.nodes))):
        ours = [step for step in steps if step.node in set(nodes)]
        partition, numbers = board.partition(nodes)
        optimum = best_moves(partition, len(ours), sum(len(step.moves) for step in ours), settings.states)
        best += ours if optimum.works is None else _raw(board, nodes, numbers, optimum.works)
        fewest, proven = fewest - optimum.bound, proven and optimum.proven
    return best, fewest, proven


def _raw(board: Board, nodes: list[int], numbers: list[int], works: Iterable[Chainwork]) -> Iterator[RawStep]:
    """What was found in a partition, by the board's numbers."""
    for node, local_moves in works:
        moves = tuple((numbers[task], nodes[source], nodes[target]) for task, source, target in local_moves)
        yield RawStep(board.nodes[nodes[node]].name, nodes[node], moves)


@dataclass(slots=True)
class _Rounds:
    """Rounds until one gains nothing."""

    board: Board
    settings: DefragmentationSettings
    run: Runner
    steps: list[RawStep] = field(default_factory=list)
    rounds: list[DefragmentationRound] = field(default_factory=list)

    def all(self) -> None:
        """Every round; the last one may have gained nothing."""
        for number in range(1, self.settings.rounds + 1):
            steps = self._round(number)
            self.steps += steps
            moves = sum(len(step.moves) for step in steps)
            self.rounds.append(DefragmentationRound(number=number, steps=len(steps), moves=moves))
            # As in the paper: after a round without gain another shuffle hardly ever finds one.
            if not steps:
                return

    def _round(self, number: int) -> list[RawStep]:
        # A stream a round: its shuffle does not depend on what the rounds before it drew.
        generator = np.random.default_rng((self.settings.seed, number))
        shuffled = generator.permutation(len(self.board.nodes)).tolist()
        parts = list(parts_of(self.board, self.settings.partition_nodes, shuffled))
        steps: list[RawStep] = []
        for nodes, numbers, works in self._solved(parts):
            steps += _raw(self.board, nodes, numbers, works)
        # Partitions share no node, so all are solved from the same state, side by side, before any task moves.
        for step in steps:
            for task, _, target in step.moves:
                self.board.move(task, target)
        return steps

    def _solved(self, parts: list[list[int]]) -> Iterator[tuple[list[int], list[int], tuple[Chainwork, ...]]]:
        """Nodes and tasks of each partition, and what vacates nodes of it."""
        cut: list[tuple[Partition, list[int]]] = [self.board.partition(nodes) for nodes in parts]
        tasks = [(partition, self.settings.depth, self.settings.width) for partition, _ in cut]
        for nodes, (_, numbers), works in zip(parts, cut, self.run(vacated_nodes, tasks), strict=True):
            yield nodes, numbers, works
