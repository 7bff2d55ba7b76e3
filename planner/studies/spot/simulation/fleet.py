"""Nodes: who holds what of them, and which node comes first for a pod.

The published order (ASI paper, 4.2): least idle GPUs, then no pods of the other class, then eviction history, then the
node's place. A node stands in one bucket (free GPUs, other class there or not), which is sorted by one integer:
history times the number of nodes plus the place, so that one comparison settles both.

Every node's GPUs (CPUs alike) are in four hands: `held` by guaranteed jobs (from the moment they have a claim), lent
out on `standby`, taken by `spot` jobs, still with evicted pods that are `ending`. Two rules hold at all times: held +
standby <= GPUs, so that whoever lends gets back without moving; held + spot <= GPUs, so that a claim comes true when
what is ending has ended. What is free now (GPUs - held - spot - ending) is below 0 while a claim waits.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

import numpy as np

from planner.studies.spot.records import JobClass, SpotJob, SpotNode, SpotPolicy
from planner.studies.spot.simulation.meters import Meters

NOWHERE = -1


class Ranking:
    """Nodes of one pool as one class of jobs ranks them. `most_gpus`: GPUs of its largest node."""

    __slots__ = ("_at", "_buckets", "_keys", "_most", "_nodes", "_packing")

    def __init__(self, nodes: int, most_gpus: int, *, packing: bool) -> None:
        self._nodes, self._most, self._packing = nodes, most_gpus, packing
        self._buckets: list[list[int]] = [[] for _ in range(2 * (most_gpus + 1))]
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

    def room(self, gpus: int, pods: int) -> bool:
        """Whether `pods` pods of so many GPUs could lie here at once, were there no CPUs to look at."""
        for free in range(self._most, gpus - 1, -1):
            count = len(self._buckets[2 * free]) + len(self._buckets[2 * free + 1])
            pods -= count * (free // gpus)
            if pods <= 0:
                return True
        return False


class Pool:
    """Nodes that one GPU model names, or all of them: the two rankings, and the places as an array."""

    __slots__ = ("hp", "members", "spot")

    def __init__(self, places: Sequence[int], nodes: Sequence[SpotNode], policy: SpotPolicy) -> None:
        most_gpus = max(nodes[place].gpus for place in places)
        self.members = np.zeros(len(nodes), dtype=bool)
        self.members[list(places)] = True
        self.hp = Ranking(len(nodes), most_gpus, packing=policy.packing)
        self.spot = Ranking(len(nodes), most_gpus, packing=policy.packing)


class SpotFleet:
    """Counts a node, lists of ints by place. `guests`: running spot jobs on a node, number of the job to its pods.

    `unclaimed`: what no guaranteed job has a claim on; `soon`: what nobody has once all that is ending has ended.
    """

    def __init__(self, nodes: Sequence[SpotNode], jobs: Sequence[SpotJob], policy: SpotPolicy, meters: Meters) -> None:
        count = len(nodes)
        self.policy, self.meters = policy, meters
        self.gpus, self.cpus = [node.gpus for node in nodes], [node.cpus for node in nodes]
        self.held, self.held_cpus = [0] * count, [0] * count
        self.standby, self.standby_cpus = [0] * count, [0] * count
        self.spot, self.spot_cpus = [0] * count, [0] * count
        self.ending, self.ending_cpus = [0] * count, [0] * count
        self.hp_pods, self.evictions = [0] * count, [0] * count
        self.ended_by = [0.0] * count
        self.guests: list[dict[int, int]] = [{} for _ in range(count)]
        self.unclaimed = np.array(self.gpus, dtype=np.int64)
        self.unclaimed_cpus = np.array(self.cpus, dtype=np.int64)
        self.soon, self.soon_cpus = self.unclaimed.copy(), self.unclaimed_cpus.copy()
        self.free_cpus, self.hp_cpus = list(self.cpus), list(self.cpus)
        self.pools = self._pools(nodes, {job.gpu_model for job in jobs}, policy)
        self._pools_of = [[pool for pool in self.pools.values() if pool.members[k]] for k in range(count)]
        for place in range(count):
            self.update(place)

    @staticmethod
    def _pools(nodes: Sequence[SpotNode], models: set[str], policy: SpotPolicy) -> dict[str, Pool]:
        places = {
            model: [k for k, node in enumerate(nodes) if model in ("", node.gpu_model)] for model in sorted(models)
        }
        return {model: Pool(members, nodes, policy) for model, members in places.items()}

    def waits(self, place: int) -> bool:
        """Whether claims on the node wait for something that is ending."""
        return self.free_cpus[place] < 0 or self.gpus[place] - self.held[place] - self.spot[place] < self.ending[place]

    def short(self, place: int) -> bool:
        """Whether running spot jobs have what guaranteed jobs claim: someone must be told to end."""
        return bool(self.soon[place] < 0 or self.soon_cpus[place] < 0)

    def best(self, job: SpotJob) -> int:
        """The node that a pod of the job takes without anybody leaving; NOWHERE if there is none."""
        pool = self.pools[job.gpu_model]
        if job.kind is JobClass.HP:
            return pool.hp.best(job.gpus, job.cpus, self.hp_cpus)
        return pool.spot.best(job.gpus, job.cpus, self.free_cpus)

    def room(self, job: SpotJob) -> bool:
        """Whether GPUs for all pods of a spot job are free; its CPUs may still be missing."""
        return self.pools[job.gpu_model].spot.room(job.gpus, job.pods)

    def claimable(self, job: SpotJob) -> bool:
        """Whether a guaranteed job could have its nodes if every spot job left: exact, pods being alike."""
        pods = np.minimum(self.unclaimed // job.gpus, self.unclaimed_cpus // max(1, job.cpus))
        if not job.cpus:
            pods = self.unclaimed // job.gpus
        return int(pods[self.pools[job.gpu_model].members].sum()) >= job.pods

    def take(self, job: SpotJob, number: int, place: int) -> None:
        """A pod gets its GPUs on a node: held by a guaranteed job, taken by a spot job."""
        if job.kind is JobClass.HP:
            self.hp_pods[place] += 1
            self._hold(job, place, 1)
        else:
            self.guests[place][number] = self.guests[place].get(number, 0) + 1
            self._use(job, place, 1)
        self.update(place)

    def give_back(self, job: SpotJob, number: int, place: int, *, lent: bool = False) -> None:
        """A pod leaves by itself. `lent`: a guaranteed one that ends on standby."""
        if job.kind is JobClass.HP:
            self.hp_pods[place] -= 1
            if lent:
                self._lend(job, place, -1)
            else:
                self._hold(job, place, -1)
        else:
            self._forget(number, place)
            self._use(job, place, -1)
        self.update(place)

    def lend(self, job: SpotJob, place: int) -> None:
        """A guaranteed pod goes on standby."""
        self._hold(job, place, -1)
        self._lend(job, place, 1)
        self.update(place)

    def reclaim(self, job: SpotJob, place: int) -> None:
        """A guaranteed pod wants back what it lent; who has it must be told to end at once."""
        self._lend(job, place, -1)
        self._hold(job, place, 1)
        self.update(place)

    def tell(self, job: SpotJob, number: int, place: int, until_s: float) -> None:
        """A spot pod is told to end, and will have by `until_s`."""
        self._forget(number, place)
        self._use(job, place, -1)
        self.ending[place] += job.gpus
        self.ending_cpus[place] += job.cpus
        self.ended_by[place] = max(self.ended_by[place], until_s)
        self.update(place)

    def gone(self, job: SpotJob, place: int) -> None:
        """A pod that was told to end has ended."""
        self.ending[place] -= job.gpus
        self.ending_cpus[place] -= job.cpus
        self.update(place)

    def _hold(self, job: SpotJob, place: int, sign: int) -> None:
        self.held[place] += sign * job.gpus
        self.held_cpus[place] += sign * job.cpus

    def _lend(self, job: SpotJob, place: int, sign: int) -> None:
        self.standby[place] += sign * job.gpus
        self.standby_cpus[place] += sign * job.cpus

    def _use(self, job: SpotJob, place: int, sign: int) -> None:
        self.spot[place] += sign * job.gpus
        self.spot_cpus[place] += sign * job.cpus

    def _forget(self, number: int, place: int) -> None:
        pods_left = self.guests[place].pop(number) - 1
        if pods_left:
            self.guests[place][number] = pods_left

    def update(self, place: int) -> None:
        """Bring rankings, arrays and meters up to date with a node's counts."""
        hp_gpus, standby, spot, ending = self.held[place], self.standby[place], self.spot[place], self.ending[place]
        gpus, cpus = self.gpus[place], self.cpus[place]
        unclaimed, unclaimed_cpus = gpus - hp_gpus - standby, cpus - self.held_cpus[place] - self.standby_cpus[place]
        self.unclaimed[place], self.unclaimed_cpus[place] = unclaimed, unclaimed_cpus
        soon, soon_cpus = gpus - hp_gpus - spot, cpus - self.held_cpus[place] - self.spot_cpus[place]
        self.soon[place], self.soon_cpus[place] = soon, soon_cpus
        free = max(0, soon - ending)
        self.free_cpus[place] = soon_cpus - self.ending_cpus[place]
        self.hp_cpus[place] = min(self.free_cpus[place], unclaimed_cpus)
        past = self.evictions[place] if self.policy.history else 0
        apart = self.policy.colocation
        for pool in self._pools_of[place]:
            pool.spot.put(place, free, apart and self.hp_pods[place] > 0, past)
            pool.hp.put(place, min(free, unclaimed), apart and bool(self.guests[place]), -past)
        self.meters.note(place, hp_gpus, standby, spot, ending)


__all__ = ["NOWHERE", "Pool", "SpotFleet"]
