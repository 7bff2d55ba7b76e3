"""Where islands lie, while they are being placed: groups held on nodes, by replica."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from planner.domain import PlacementDemand
from planner.domain.node_room import Ask, Spread
from planner.domain.shapes import Counts, GroupKind
from planner.placement.islands.fleet import Occupancy


@dataclass(frozen=True, slots=True)
class HeldGroup:
    """One group: its node, GPUs and cores by NUMA node."""

    node: int
    gpus: Counts
    cores: Counts


@dataclass(frozen=True, slots=True)
class Site:
    """A placed island: the groups of each replica."""

    demand: PlacementDemand
    ask: Ask
    replicas: tuple[tuple[HeldGroup, ...], ...]

    @property
    def groups(self) -> Iterator[HeldGroup]:
        """Every group."""
        return (group for replica in self.replicas for group in replica)

    @property
    def nodes(self) -> Counter[int]:
        """GPUs on each node."""
        counts: Counter[int] = Counter()
        for group in self.groups:
            counts[group.node] += self.demand.tp
        return counts

    def leave(self, occupancy: Occupancy) -> None:
        """Give everything back."""
        for group in self.groups:
            occupancy.give_back(group.node, self.ask, group.gpus, group.cores)

    def enter(self, occupancy: Occupancy) -> None:
        """Take everything again, after `leave`."""
        for group in self.groups:
            occupancy.take_back(group.node, self.ask, group.gpus, group.cores)


def ask_of(demand: PlacementDemand) -> Ask:
    """What the groups of an island ask for."""
    kind = GroupKind(demand.tp, demand.cpus_per_gpu, demand.qos)
    spread = Spread(demand.per_node, demand.groups, demand.running) if demand.per_node else None
    return Ask(demand.gpu, tuple(sorted(demand.selector)), kind, demand.memory_gb_per_gpu, spread)


def under_switches(nodes: Iterable[tuple[int, int]], switch_of: tuple[int, ...]) -> dict[int, int]:
    """GPUs under each switch, of (node, GPUs) pairs."""
    counts: dict[int, int] = {}
    for node, gpus in nodes:
        counts[switch_of[node]] = counts.get(switch_of[node], 0) + gpus
    return counts
