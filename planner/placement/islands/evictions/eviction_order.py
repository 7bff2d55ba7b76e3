"""In which order pods go: island by island, those that gain most first, node by node, the cheapest pod of a node first.

An island needs what was freed for those that were placed before it on the same nodes, so it comes after them: whatever
is carried out from the beginning of the list, the islands whose pods are all gone can come up. An island for which
nobody goes may lie where others made room: `waits` says for whom it waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.domain import PlacementDemand, Pod
from planner.placement.islands.sites import Site
from planner.placement.victims.prices import Price


@dataclass(frozen=True, slots=True)
class Eviction:
    """An island that came late, its nodes in the order of its replicas, and who goes for it (it may be nobody)."""

    site: Site
    pods: tuple[Pod, ...]

    @property
    def island(self) -> str:
        """Its name."""
        return self.site.demand.island


def gains(demands: Sequence[PlacementDemand]) -> dict[str, float]:
    """Each island's share of the rate of its phase; of the GPUs of its phase where rates are not known."""
    # Rates and GPUs cannot be added up within one phase.
    rated = all(demand.rate_rps > 0 for demand in demands)
    worth = {demand.island: demand.rate_rps if rated else float(demand.size) for demand in demands}
    total: dict[str, float] = {}
    for demand in demands:
        total[demand.phase] = total.get(demand.phase, 0.0) + worth[demand.island]
    return {demand.island: worth[demand.island] / total[demand.phase] for demand in demands if total[demand.phase]}


def in_order(evictions: Sequence[Eviction], gain: Mapping[str, float]) -> list[Eviction]:
    """Evictions, given in the order of placing, as they are to be carried out."""
    waiting = list(range(len(evictions)))
    nodes = [set(eviction.site.nodes) for eviction in evictions]
    ordered = []
    while waiting:
        able = [k for k in waiting if not any(j < k and nodes[j] & nodes[k] for j in waiting)]
        # Most gain first; of equal ones who costs fewer pods, so that something is up soon.
        best = min(able, key=lambda k: (-gain.get(evictions[k].island, 0.0), len(evictions[k].pods), k))
        waiting.remove(best)
        ordered.append(evictions[best])
    return ordered


def pods_in_order(
    site: Site, pods: Sequence[Pod], prices: Mapping[str, Price], numbers: Mapping[str, int]
) -> list[Pod]:
    """Who goes for one island: node by node as its replicas lie, the cheapest first. `numbers`: of nodes, by name."""
    place: dict[int, int] = {}
    for group in site.groups:
        place.setdefault(group.node, len(place))
    return sorted(pods, key=lambda pod: (place[numbers[pod.node]], prices[pod.key], pod.key))
