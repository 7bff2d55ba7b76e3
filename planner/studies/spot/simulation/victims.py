"""Which spot jobs end for a guaranteed job: least lost work, or at random.

| symbol | meaning | unit | source |
|---|---|---|---|
| G | GPUs of a spot job, all its pods: all of them lose their work | GPUs | ASI paper, 4.2 |
| C | cost of a job: G times the seconds since its last checkpoint | GPU-s | ASI paper, 4.2 |
| need | GPUs and CPUs asked for, less what is free on the node once what is ending has ended | - | ours |

On each node spot jobs are sorted by C, the shortest prefix that covers the need is its set of victims, its cost the sum
of their C; the cheapest node wins, then fewer victims, then the node's place. The paper leaves out what is free, which
evicts too many and refuses nodes that fit, and CPUs (facts on spot scheduling, 3). `prune` spares victims, the dearest
first, without whom the need is covered just as well: a prefix may hold cheap small jobs before the large one that does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.studies.spot.records import SpotJob, SpotNode
from planner.studies.spot.simulation.fleet import SpotFleet

EMPTY = -1
Array = np.ndarray


def since_checkpoint(ran_s: float, checkpoint_s: float) -> float:
    """Seconds of work since the last checkpoint of a run."""
    return ran_s % checkpoint_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A node, by its place, and the spot jobs that end there, by number."""

    place: int
    victims: tuple[int, ...]


class _Bench:
    """Running spot jobs of all nodes with as many GPUs: a row a node, a column a job on it."""

    __slots__ = ("checkpoint", "cpus", "gpus", "number", "places", "start", "total")

    def __init__(self, places: Sequence[int], width: int) -> None:
        self.places = np.array(places)
        shape = (len(places), width)
        self.number = np.full(shape, EMPTY)
        self.gpus, self.cpus = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        self.start, self.checkpoint = np.zeros(shape), np.ones(shape)
        self.total = np.zeros(shape)

    def clear(self, row: int, column: int) -> None:
        """Nobody there: covers nothing, comes last."""
        self.number[row, column] = EMPTY
        self.gpus[row, column] = self.cpus[row, column] = 0


class VictimBoard:
    """Running spot jobs by node, kept as arrays, and the choice among them."""

    def __init__(self, nodes: Sequence[SpotNode], generator: np.random.Generator) -> None:
        sizes = sorted({node.gpus for node in nodes})
        by_size = {size: [k for k, node in enumerate(nodes) if node.gpus == size] for size in sizes}
        self._benches = {size: _Bench(places, size) for size, places in by_size.items()}
        self._row = {place: (size, row) for size, places in by_size.items() for row, place in enumerate(places)}
        self._columns: dict[tuple[int, int], int] = {}
        self._generator = generator

    def seat(self, number: int, job: SpotJob, place: int, pods: int, start_s: float) -> None:
        """A spot job runs on a node with so many of its pods."""
        assert job.checkpoint_s is not None, "spot jobs have checkpoints"
        size, row = self._row[place]
        bench = self._benches[size]
        column = int(np.argmin(bench.number[row]))
        bench.number[row, column] = number
        bench.gpus[row, column], bench.cpus[row, column] = pods * job.gpus, pods * job.cpus
        bench.start[row, column], bench.checkpoint[row, column] = start_s, job.checkpoint_s
        bench.total[row, column] = job.total_gpus
        self._columns[number, place] = column

    def leave(self, number: int, place: int) -> None:
        """It runs there no longer."""
        size, row = self._row[place]
        self._benches[size].clear(row, self._columns.pop((number, place)))

    def cheapest(self, fleet: SpotFleet, job: SpotJob, now_s: float) -> Choice | None:
        """The node for a pod of a guaranteed job, and who ends there; None where nothing but guaranteed jobs is in
        the way."""
        best: tuple[float, int, int] | None = None
        chosen: Choice | None = None
        for bench in self._benches.values():
            rows = self._feasible(fleet, job, bench)
            if len(rows):
                key, choice = self._scored(fleet, bench, rows, (job.gpus, job.cpus), now_s)
                if best is None or key < best:
                    best, chosen = key, choice
        return chosen

    def cheapest_on(self, fleet: SpotFleet, place: int, now_s: float) -> Choice:
        """Who ends on a node so that what is claimed there comes true."""
        size, row = self._row[place]
        bench = self._benches[size]
        return self._scored(fleet, bench, np.array([row]), (0, 0), now_s)[1]

    def any(self, fleet: SpotFleet, job: SpotJob) -> Choice | None:
        """A node at random out of those that could take a pod, and victims at random until it fits."""
        fits = (fleet.unclaimed >= job.gpus) & (fleet.unclaimed_cpus >= job.cpus)
        places = np.flatnonzero(fits & fleet.pools[job.gpu_model].members)
        if not len(places):
            return None
        place = int(self._generator.choice(places))
        return self._at_random(fleet, place, job.gpus, job.cpus)

    def any_on(self, fleet: SpotFleet, place: int) -> Choice:
        """Victims at random on a node until what is claimed there comes true."""
        return self._at_random(fleet, place, 0, 0)

    def _at_random(self, fleet: SpotFleet, place: int, gpus: int, cpus: int) -> Choice:
        need, need_cpus = gpus - int(fleet.soon[place]), cpus - int(fleet.soon_cpus[place])
        size, row = self._row[place]
        bench = self._benches[size]
        victims: list[int] = []
        columns = np.flatnonzero(bench.number[row] != EMPTY)
        for column in self._generator.permutation(columns).tolist():
            if need <= 0 and need_cpus <= 0:
                break
            victims.append(column)
            need -= int(bench.gpus[row, column])
            need_cpus -= int(bench.cpus[row, column])
        if fleet.policy.prune:
            victims = self._pruned(bench, row, victims, (-need, -need_cpus))
        return Choice(place=place, victims=tuple(int(bench.number[row, column]) for column in victims))

    @staticmethod
    def _pruned(bench: _Bench, row: int, victims: list[int], spare: tuple[int, int]) -> list[int]:
        """Without those that the spare GPUs and CPUs can do without, the last chosen first."""
        needed = []
        for column in reversed(victims):
            remainder = spare[0] - int(bench.gpus[row, column]), spare[1] - int(bench.cpus[row, column])
            if min(remainder) >= 0:
                spare = remainder
            else:
                needed.append(column)
        return needed[::-1]

    @staticmethod
    def _feasible(fleet: SpotFleet, job: SpotJob, bench: _Bench) -> Array:
        at = bench.places
        fits = (fleet.unclaimed[at] >= job.gpus) & (fleet.unclaimed_cpus[at] >= job.cpus)
        return np.flatnonzero(fits & fleet.pools[job.gpu_model].members[at])

    def _scored(
        self, fleet: SpotFleet, bench: _Bench, rows: Array, need: tuple[int, int], now_s: float
    ) -> tuple[tuple[float, int, int], Choice]:
        """The best of some rows, and its key: cost, victims, place."""
        places = bench.places[rows]
        numbers = bench.number[rows]
        cost = bench.total[rows] * np.mod(now_s - bench.start[rows], bench.checkpoint[rows])
        cost[numbers == EMPTY] = np.inf
        order = np.argsort(cost, axis=1, kind="stable")
        gpus = np.take_along_axis(bench.gpus[rows], order, axis=1)
        cpus = np.take_along_axis(bench.cpus[rows], order, axis=1)
        cost = np.take_along_axis(cost, order, axis=1)
        prune = fleet.policy.prune
        evicted = _prefixes(gpus, cpus, need[0] - fleet.soon[places], need[1] - fleet.soon_cpus[places], prune=prune)
        sums, counts = np.where(evicted, cost, 0.0).sum(axis=1), evicted.sum(axis=1)
        first = int(np.lexsort((places, counts, sums))[0])
        victims = np.take_along_axis(numbers, order, axis=1)[first][evicted[first]]
        place = int(places[first])
        return (float(sums[first]), int(counts[first]), place), Choice(place=place, victims=tuple(victims.tolist()))


def _prefixes(gpus: Array, cpus: Array, need: Array, need_cpus: Array, *, prune: bool) -> Array:
    """Which jobs of each row end, jobs sorted by cost: the shortest prefix that covers the need, perhaps pruned."""
    before = np.cumsum(gpus, axis=1) - gpus
    before_cpus = np.cumsum(cpus, axis=1) - cpus
    evicted: Array = ((before < need[:, None]) | (before_cpus < need_cpus[:, None])) & (gpus > 0)
    if prune:
        spare = (gpus * evicted).sum(axis=1) - need
        spare_cpus = (cpus * evicted).sum(axis=1) - need_cpus
        for column in reversed(range(gpus.shape[1])):
            drop = evicted[:, column] & (spare >= gpus[:, column]) & (spare_cpus >= cpus[:, column])
            evicted[drop, column] = False
            spare -= np.where(drop, gpus[:, column], 0)
            spare_cpus -= np.where(drop, cpus[:, column], 0)
    return evicted
