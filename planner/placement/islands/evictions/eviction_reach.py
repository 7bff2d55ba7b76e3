"""Whether islands could fit together at all: a quick no, were everybody gone who may go.

| symbol | meaning | unit |
|---|---|---|
| r_n | GPUs of node n that would be idle | 1 |
| t | GPUs of a group (tensor-parallel degree) | 1 |

Groups of t GPUs, or of a multiple of t, take at most t floor(r_n / t) GPUs of a node, whatever else is there; and of
what one ask wants there are no more groups than would fit if nobody else came.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.domain import PlacementDemand, Pod
from planner.domain.node_room import Ask
from planner.placement.islands.fleet import Occupancy
from planner.placement.islands.sites import ask_of


@dataclass(frozen=True, slots=True)
class Reach:
    """A state in which everybody is gone who may go."""

    emptied: Occupancy

    @classmethod
    def of(cls, occupancy: Occupancy, pods: Mapping[int, Iterable[Pod]]) -> "Reach":
        """The reach of `occupancy`, which is changed, once the `pods` of each node are gone."""
        for node, going in pods.items():
            occupancy.evict(node, going)
        return cls(occupancy)

    def may_hold(self, demands: Sequence[PlacementDemand]) -> bool:
        """False where these islands cannot all be placed; True says nothing."""
        groups: Counter[Ask] = Counter()
        by_type: dict[str, list[PlacementDemand]] = defaultdict(list)
        for demand in demands:
            # A spread only forbids more: without it a no is still right, and more asks are alike.
            groups[replace(ask_of(demand), spread=None)] += demand.replicas * demand.groups
            by_type[demand.gpu].append(demand)
        return all(sum(self.emptied.groups(ask).values()) >= count for ask, count in groups.items()) and all(
            self._gpus_suffice(gpu, same, tp) for gpu, same in by_type.items() for tp in {peer.tp for peer in same}
        )

    def _gpus_suffice(self, gpu: str, demands: Iterable[PlacementDemand], tp: int) -> bool:
        gpus_needed = sum(demand.size for demand in demands if demand.tp % tp == 0)
        nodes = self.emptied.fleet.of_type([gpu])
        return gpus_needed <= sum(self.emptied.free[node].idle // tp * tp for node in nodes)
