"""The nodes while jobs come and go: who holds what, and which node a class of jobs wants next.

Every node's GPUs (CPUs alike) are in four hands: `held` by guaranteed jobs (from the moment they have a claim), lent
out on `standby`, taken by `spot` jobs, still with evicted pods that are `ending`. Two rules hold at all times: held +
standby <= GPUs, so that whoever lends gets back without moving; held + spot <= GPUs, so that a claim comes true when
what is ending has ended. What is free now (GPUs - held - spot - ending) is below 0 while a claim waits.
"""

from collections.abc import Sequence

import numpy as np

from planner.studies.spot.records import JobClass, SpotJob, SpotNode, SpotPolicy
from planner.studies.spot.simulation.meters import Meters
from planner.studies.spot.simulation.ranking import NOWHERE, Ranking


class Pool:
    """Nodes that one GPU model names, or all of them: the two rankings, and the places as an array."""

    __slots__ = ("hp", "members", "spot")

    def __init__(self, places: Sequence[int], nodes: Sequence[SpotNode], policy: SpotPolicy) -> None:
        most = max(nodes[place].gpus for place in places)
        self.members = np.zeros(len(nodes), dtype=bool)
        self.members[list(places)] = True
        self.hp = Ranking(len(nodes), most, packing=policy.packing)
        self.spot = Ranking(len(nodes), most, packing=policy.packing)


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
