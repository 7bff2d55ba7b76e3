"""Room for an island where pods have to go.

The island is placed as if every pod that may be evicted were gone, on nodes where few would have to; then, node by
node, pods are let back in, the most important first, as long as the island still fits: what remains is a set of
victims of which none could be spared (the reprieve of Kubernetes' and Gödel's preemption).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from planner.domain import PlacementDemand, PlacementWeights, Pod
from planner.placement.fleet import Occupancy
from planner.placement.islands import hold_group, place_island
from planner.placement.sites import Site


@dataclass(slots=True)
class Evictions:
    """Pods that have to go, each with the island that it makes room for."""

    pods: list[tuple[Pod, str]] = field(default_factory=list)


def may_go(pod: Pod, priority: int) -> bool:
    """Whether a pod may be evicted for work of this priority."""
    return pod.preemptible and not pod.locked and pod.priority < priority and pod.gpus_known


def importance(pod: Pod) -> tuple[int, float, int, str]:
    """Evicted last: high priority, much work to lose, many GPUs; names settle ties."""
    return pod.priority, (pod.checkpoint_age_s or 0.0) * pod.gpu_count, pod.gpu_count, pod.key


@dataclass(slots=True)
class Drained:
    """A cluster as if every pod that may be evicted were gone, kept in step with what really happens."""

    real: Occupancy
    empty: Occupancy
    candidates: dict[int, list[Pod]]

    @classmethod
    def of(cls, occupancy: Occupancy, gpus: Iterable[str], priority: int) -> "Drained":
        """The nodes of these GPU types drained of pods below a priority."""
        fleet, types = occupancy.fleet, set(gpus)
        candidates = {
            node: [pod for pod in pods if may_go(pod, priority)]
            for node, pods in fleet.pods_of.items()
            if fleet.open[node] and fleet.nodes[node].gpu in types
        }
        empty = occupancy.copy()
        for node, pods in candidates.items():
            if pods:
                empty.evict(node, pods)
                empty.burden[node] = sum(pod.gpu_count for pod in pods)
        return cls(occupancy, empty, candidates)

    def place(self, demand: PlacementDemand, weights: PlacementWeights, evictions: Evictions) -> Site | None:
        """Place an island with evictions, which are added to `evictions`; None where not even that makes room."""
        site = place_island(self.empty, demand, weights)
        if site is None:
            return None
        for node in sorted(site.nodes):
            for pod in _victims(site, node, self.real, self.candidates.get(node, [])):
                self.real.evict(node, [pod])
                self.candidates[node].remove(pod)
                self.empty.burden[node] -= pod.gpu_count
                evictions.pods.append((pod, demand.island))
        site.leave(self.empty)
        settled = _settled(site, self.real)
        settled.enter(self.empty)
        return settled


def _victims(site: Site, node: int, occupancy: Occupancy, candidates: Sequence[Pod]) -> list[Pod]:
    """The pods of one node that cannot be spared."""
    groups = Counter(held.node for held in site.groups)[node]
    going = list(candidates)
    for pod in sorted(candidates, key=importance, reverse=True):
        spared = [other for other in going if other is not pod]
        if _fits(site, node, occupancy, spared, groups):
            going = spared
    return going


def _fits(site: Site, node: int, occupancy: Occupancy, going: Sequence[Pod], groups: int) -> bool:
    trial = occupancy.alone(node)
    trial.evict(node, going)
    return trial.room(node, site.ask) >= groups


def _settled(site: Site, occupancy: Occupancy) -> Site:
    """The site's groups on the same nodes, as what is now free there suits them."""
    replicas = (tuple(hold_group(occupancy, site.ask, held.node) for held in replica) for replica in site.replicas)
    return Site(site.demand, site.ask, tuple(replicas))
