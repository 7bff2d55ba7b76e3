"""Nodes in the order in which a class of jobs wants them, kept up to date: buckets by free GPUs, lists within.

The published order (ASI paper, 4.2): least idle GPUs, then no pods of the other class, then eviction history, then the
node's place. A node stands in one bucket (free GPUs, other class there or not), which is sorted by one integer:
history times the number of nodes plus the place, so that one comparison settles both.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

NOWHERE = -1


class Ranking:
    """Nodes of one pool as one class of jobs ranks them. `most`: GPUs of its largest node."""

    __slots__ = ("_at", "_buckets", "_keys", "_most", "_nodes", "_packing")

    def __init__(self, nodes: int, most: int, *, packing: bool) -> None:
        self._nodes, self._most, self._packing = nodes, most, packing
        self._buckets: list[list[int]] = [[] for _ in range(2 * (most + 1))]
        self._at: dict[int, int] = {}
        self._keys: dict[int, int] = {}

    def put(self, node: int, free: int, strangers: bool, history: int) -> None:
        """Note a node as it is now. `history`: what is smaller is better."""
        at, key = 2 * free + strangers, history * self._nodes + node
        old = self._at.get(node, NOWHERE)
        if old == at and self._keys[node] == key:
            return
        if old != NOWHERE:
            bucket = self._buckets[old]
            del bucket[bisect_left(bucket, self._keys[node])]
        insort(self._buckets[at], key)
        self._at[node], self._keys[node] = at, key

    def best(self, gpus: int, cpus: int, free_cpus: Sequence[int]) -> int:
        """The first node with so many GPUs and CPUs free; NOWHERE if there is none."""
        if not self._packing:
            return self._best_of_any(gpus, cpus, free_cpus)
        for bucket in self._buckets[2 * gpus :]:
            for key in bucket:
                node = key % self._nodes
                if free_cpus[node] >= cpus:
                    return node
        return NOWHERE

    def _best_of_any(self, gpus: int, cpus: int, free_cpus: Sequence[int]) -> int:
        for strangers in (0, 1):
            firsts = []
            for bucket in self._buckets[2 * gpus + strangers :: 2]:
                fitting = (key for key in bucket if free_cpus[key % self._nodes] >= cpus)
                firsts.extend(self._first(fitting))
            if firsts:
                return min(firsts) % self._nodes
        return NOWHERE

    @staticmethod
    def _first(keys: Iterator[int]) -> list[int]:
        key = next(keys, None)
        return [] if key is None else [key]

    def room(self, gpus: int, wanted: int) -> bool:
        """Whether `wanted` pods of so many GPUs could lie here at once, were there no CPUs to look at."""
        for free in range(self._most, gpus - 1, -1):
            count = len(self._buckets[2 * free]) + len(self._buckets[2 * free + 1])
            wanted -= count * (free // gpus)
            if wanted <= 0:
                return True
        return False
