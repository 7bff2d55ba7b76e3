"""The fewest moves found that make room for an island: nodes gain room for one more of its groups until all fit.

Room is counted in GPUs, CPUs and memory; whether GPUs and cores of a node also lie as the island's QoS asks is for the
placer to say, on the cluster after the moves.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from planner.defragmentation.boards import Board, board_of
from planner.defragmentation.ordering import RawStep, ordered
from planner.defragmentation.partitions import ROUNDING, Floor
from planner.domain import Cluster, PlacementDemand, Taint
from planner.domain.defragmentation import Defragmentation, DefragmentationRound, DefragmentationSettings
from planner.domain.usable import untolerated

MOST_LEAVERS = 3
"""Pods that leave one node for one more group, at most; chains come on top."""

MOST_TRIED = 16
"""Sets of pods that are tried for one more group before the best of them is taken."""


def moves_for(
    cluster: Cluster,
    demand: PlacementDemand,
    settings: DefragmentationSettings | None = None,
    *,
    tolerations: Sequence[Taint] = (),
) -> Defragmentation | None:
    """Moves after which as many groups fit as the island has; None where none are found, or none are needed.

    Steps are the nodes that gain room. A budget that does not cover all of them leaves steps out.

    Raises:
        InputError: the cluster contradicts itself.
    """
    settings = settings or DefragmentationSettings()
    board = board_of(cluster)
    nodes = [
        at
        for at, node in enumerate(board.nodes)
        if node.gpu == demand.gpu and board.sound[at] and not untolerated(node, tolerations)
    ]
    host = _Host(board, nodes, demand, settings)
    steps = host.steps()
    if not steps:
        return None
    moves = sum(len(step.moves) for step in steps)
    rounds = (DefragmentationRound(number=1, steps=len(steps), moves=moves),)
    return ordered(cluster, board, steps, settings, rounds)


@dataclass(slots=True)
class _Host:
    """Nodes that may hold the island's groups, and the tasks on them."""

    board: Board
    nodes: list[int]
    demand: PlacementDemand
    settings: DefragmentationSettings
    floor: Floor = field(init=False)
    numbers: list[int] = field(init=False)
    labelled: list[bool] = field(init=False)
    fits: list[int] = field(init=False)
    closed: int = 0

    def __post_init__(self) -> None:
        partition, self.numbers = self.board.partition(self.nodes)
        self.floor = Floor(partition, self.settings.depth, self.settings.width)
        labels = [dict(self.board.nodes[node].labels) for node in self.nodes]
        self.labelled = [all(row.get(key) == value for key, value in self.demand.selector) for row in labels]
        self.fits = [self._fits(place) for place in range(len(self.nodes))]

    def steps(self) -> tuple[RawStep, ...]:
        """A step a group that does not fit yet; none where they all fit, or one of them never does."""
        groups = self.demand.replicas * self.demand.groups
        missing = groups - sum(self.fits)
        steps = []
        for _ in range(missing):
            start = len(self.floor.log)
            node = self._one_more()
            # Room for a part of the island helps nobody.
            if node is None:
                return ()
            moves = tuple((self.numbers[t], self.nodes[a], self.nodes[b]) for t, a, b in self.floor.log[start:])
            steps.append(RawStep(self.board.nodes[self.nodes[node]].name, self.nodes[node], moves, self.demand.tp))
        return tuple(steps)

    def _fits(self, node: int) -> int:
        """Groups that the node takes as it is, by counts."""
        demand, free = self.demand, self.floor.idle(node)
        if not self.labelled[node]:
            return 0
        cpus, memory_gb = demand.tp * demand.cpus_per_gpu, demand.tp * demand.memory_gb_per_gpu
        groups = free[0] // demand.tp
        groups = min(groups, int((free[1] + ROUNDING) // cpus)) if cpus else groups
        return min(groups, int((free[2] + ROUNDING) // memory_gb)) if memory_gb else groups

    def _one_more(self) -> int | None:
        """The node that takes one more group after the fewest moves found, which are then made."""
        best: tuple[int, int, tuple[int, ...]] | None = None
        for tried, (node, leavers) in enumerate(self._options()):
            start = len(self.floor.log)
            if self._made_room(node, leavers):
                moves = len(self.floor.log) - start
                # Nobody else had to move, and options come fewest leavers first: fewer moves are not to be had.
                if moves == len(leavers):
                    return self._accepted(node)
                if best is None or moves < best[0]:
                    best = moves, node, leavers
            self.floor.undo(start)
            # While nothing was found the search goes on: dear room is better than none.
            if tried + 1 >= MOST_TRIED and best is not None:
                break
        if best is None:
            return None
        # Each try was undone, this one is done for good.
        self._made_room(best[1], best[2])
        return self._accepted(best[1])

    def _options(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Nodes and tasks that would have to leave them: fewest tasks first, then fewest GPUs."""
        for count in range(1, MOST_LEAVERS + 1):
            options = [
                (sum(self.floor.tasks[task].gpus for task in leavers), node, leavers)
                for node in range(len(self.nodes))
                if self.labelled[node]
                for leavers in combinations([t for t in self.floor.on_node[node] if self.floor.tasks[t].movable], count)
                if self._would_fit(node, leavers)
            ]
            yield from ((node, leavers) for _, node, leavers in sorted(options))

    def _would_fit(self, node: int, leavers: Sequence[int]) -> bool:
        # GPUs alone, which is quick and rules most nodes out; the rest is counted once the tasks have left.
        gpus = self.floor.idle(node)[0] + sum(self.floor.tasks[task].gpus for task in leavers)
        return gpus // self.demand.tp > self.fits[node]

    def _made_room(self, node: int, leavers: Sequence[int]) -> bool:
        """Whether the tasks leave the node, and one group more fits on all nodes together."""
        start = len(self.floor.log)
        if not all(self.floor.eject(task, self.settings.depth, self.closed | 1 << node) for task in leavers):
            return False
        # Who leaves may fill a node that had room for a group: only a gain over all of them is one.
        touched = {end for _, source, target in self.floor.log[start:] for end in (source, target)}
        return sum(map(self._fits, touched)) > sum(self.fits[place] for place in touched)

    def _accepted(self, node: int) -> int:
        # Tasks that leave other nodes must not take the room just made.
        self.closed |= 1 << node
        self.fits = [self._fits(place) for place in range(len(self.nodes))]
        return node
