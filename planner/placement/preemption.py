"""Room for an island where pods have to go.

The island is placed as if every pod that may be evicted were gone, on nodes where few would have to; then, node by
node, pods are let back in, the most important first, as long as the island still fits: what remains is a set of
victims of which none could be spared (the reprieve of Kubernetes' and Gödel's preemption).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.domain import PlacementDemand, PlacementSettings, Pod
from planner.placement.fleet import Occupancy
from planner.placement.islands import place_island
from planner.placement.shapes import Counts
from planner.placement.sites import Held, Site


@dataclass(slots=True)
class Evictions:
    """Pods that have to go, each with the island that it makes room for."""

    pods: list[tuple[Pod, str]] = field(default_factory=list)

    @property
    def keys(self) -> set[str]:
        """Their names."""
        return {pod.key for pod, _ in self.pods}


def may_go(pod: Pod, priority: int) -> bool:
    """Whether a pod may be evicted for work of this priority."""
    return pod.preemptible and not pod.locked and pod.priority < priority and pod.gpus_known


def importance(pod: Pod) -> tuple[int, float, int, str]:
    """Evicted last: high priority, much work to lose, many GPUs; names settle ties."""
    return pod.priority, (pod.checkpoint_age_s or 0.0) * pod.gpu_count, pod.gpu_count, pod.key


def make_room(
    demand: PlacementDemand, occupancy: Occupancy, settings: PlacementSettings, evictions: Evictions
) -> Site | None:
    """Place an island with evictions, which are added to `evictions`; None where not even that makes room."""
    fleet, gone = occupancy.fleet, evictions.keys
    candidates = {
        node: [pod for pod in pods if may_go(pod, settings.priority) and pod.key not in gone]
        for node, pods in fleet.pods_of.items()
        if fleet.open[node] and fleet.nodes[node].gpu == demand.gpu
    }
    drained = occupancy.copy()
    for node, pods in candidates.items():
        drained.evict(node, pods)
        drained.burden[node] = sum(pod.gpu_count for pod in pods)
    site = place_island(drained, demand, settings.weights)
    if site is None:
        return None
    victims = [pod for node in sorted(site.nodes) for pod in _victims(site, node, occupancy, candidates.get(node, []))]
    for pod in victims:
        occupancy.evict(fleet.number[pod.node], [pod])
        evictions.pods.append((pod, demand.island))
    return _settled(site, occupancy)


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
    return Site(
        site.demand,
        site.ask,
        tuple(tuple(_hold(held, site, occupancy) for held in replica) for replica in site.replicas),
    )


def _hold(held: Held, site: Site, occupancy: Occupancy) -> Held:
    gpus: Counts | None = occupancy.taken(held.node, site.ask)
    assert gpus is not None, "room for every group of the node was made"
    return Held(held.node, gpus, occupancy.hold(held.node, site.ask, gpus))
