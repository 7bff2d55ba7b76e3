"""A cluster as the placer needs it: nodes by number, their hardware shared, and what is still free on each.

`Fleet` never changes; `Occupancy` does, and forgets nothing that `Fleet` could not give back. A `Site` says where an
island lies while others are being placed: groups held on nodes, by replica.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from planner.domain import Cluster, ClusterNode, PlacementDemand, Pod, Taint
from planner.domain.node_room import Ask, Left, Spread, left_on, parts_held
from planner.domain.shapes import Counts, GroupKind, Shape, Width, take, widest, width_of
from planner.domain.usable import gpus_known, may_lie_on
from planner.placement.fragmentation import Fragments


@dataclass(frozen=True)
class Places:
    """What islands are kept inside of, by number: NVLink domains, and switches with the nodes that are in none.

    `of`: the place of each node; `nodes`, `switch` and `domain` of each place ("": it is a switch's). A domain counts
    as under the switch of its first node. Without any domain places are switches, in their order.
    """

    of: tuple[int, ...]
    nodes: tuple[tuple[int, ...], ...]
    switch: tuple[int, ...]
    domain: tuple[str, ...]

    @classmethod
    def among(cls, nodes: Sequence[ClusterNode], switch_of: Sequence[int]) -> "Places":
        """The places of a fleet."""
        keys = [(node.nvlink_domain, "" if node.nvlink_domain else node.asw) for node in nodes]
        number = {key: place for place, key in enumerate(sorted(set(keys)))}
        of = tuple(number[key] for key in keys)
        members: list[list[int]] = [[] for _ in number]
        for k, place in enumerate(of):
            members[place].append(k)
        return cls(
            of=of,
            nodes=tuple(map(tuple, members)),
            switch=tuple(switch_of[place_nodes[0]] for place_nodes in members),
            domain=tuple(domain for domain, _ in number),
        )

    @cached_property
    def has_domains(self) -> bool:
        """Whether any place is an NVLink domain."""
        return any(self.domain)


@dataclass(frozen=True)
class Fleet:
    """Nodes by number; `switches` and `aggregations` by number, too, with the nodes under each switch.

    `places`: NVLink domains, and switches apart from them; `open`: nodes whose free GPUs are known one by one, not by
    number alone; `free`: what placing begins with; `pods_of`: nodes with pods.
    """

    cluster: Cluster
    nodes: tuple[ClusterNode, ...]
    shapes: tuple[Shape, ...]
    switch_of: tuple[int, ...]
    switches: tuple[str, ...]
    aggregation_of: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]
    places: Places
    open: tuple[bool, ...]
    free: tuple[Left, ...]
    pods_of: dict[int, tuple[Pod, ...]]

    @classmethod
    def of(cls, cluster: Cluster) -> "Fleet":
        """The fleet of a sound cluster (`require_sound`)."""
        number = {node.name: k for k, node in enumerate(cluster.nodes)}
        pods: dict[int, list[Pod]] = defaultdict(list)
        for pod in cluster.pods:
            pods[number[pod.node]].append(pod)
        shapes = _shapes(cluster.nodes)
        switches = sorted({node.asw for node in cluster.nodes})
        switch_number = {name: k for k, name in enumerate(switches)}
        switch_of = tuple(switch_number[node.asw] for node in cluster.nodes)
        members: list[list[int]] = [[] for _ in switches]
        for k, switch in enumerate(switch_of):
            members[switch].append(k)
        above = [cluster.nodes[nodes[0]].aggregation for nodes in members]
        aggregations = sorted(set(above))
        return cls(
            cluster=cluster,
            nodes=cluster.nodes,
            shapes=shapes,
            switch_of=switch_of,
            switches=tuple(switches),
            aggregation_of=tuple(aggregations.index(name) if name else -1 for name in above),
            members=tuple(map(tuple, members)),
            places=Places.among(cluster.nodes, switch_of),
            open=tuple(
                gpus_known(pods.get(k, ())) and not parts_held(node, pods.get(k, ()))
                for k, node in enumerate(cluster.nodes)
            ),
            free=tuple(left_on(node, shapes[k], pods.get(k, ())) for k, node in enumerate(cluster.nodes)),
            pods_of={k: tuple(node_pods) for k, node_pods in pods.items()},
        )

    @cached_property
    def fragments(self) -> Fragments:
        """What idle GPUs are worth to pods like the cluster's own."""
        return Fragments.of(self.cluster)

    @cached_property
    def types_with_domains(self) -> frozenset[str]:
        """GPU types of which some nodes form NVLink domains."""
        return frozenset(node.gpu for node in self.nodes if node.nvlink_domain)

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each node, by name."""
        return {node.name: k for k, node in enumerate(self.nodes)}

    def held_by(self, node: int, pods: Iterable[Pod]) -> Left:
        """What some pods of a node hold, which is what it has more once they are gone."""
        record, shape = self.nodes[node], self.shapes[node]
        return left_on(record, shape, ()).minus(left_on(record, shape, tuple(pods)))

    def width(self, node: int, gpus: Counts) -> Width:
        """(sockets, NUMA nodes) under a group's GPUs; the most where it is not known which GPUs are free."""
        shape = self.shapes[node]
        return width_of(shape, gpus) if self.open[node] else widest(shape, sum(gpus))

    def of_type(self, gpus: Iterable[str]) -> list[int]:
        """Numbers of the nodes with GPUs of these types."""
        types = set(gpus)
        return [k for k, node in enumerate(self.nodes) if node.gpus and node.gpu in types]


def _shapes(nodes: Sequence[ClusterNode]) -> tuple[Shape, ...]:
    shape_of: dict[object, Shape] = {}
    shapes = []
    for node in nodes:
        key = (node.numa_nodes, tuple(gpu.numa for gpu in node.gpus))
        if key not in shape_of:
            shape_of[key] = Shape.of(node)
        shapes.append(shape_of[key])
    # Equal shapes become one object: caches by shape then find it without comparing contents.
    shared = {shape: shape for shape in shapes}
    return tuple(shared[shape] for shape in shapes)


@dataclass(slots=True)
class Occupancy:
    """What is free on each node, and for every ask so far how many groups each node and place can take.

    Where nodes and asks are many, only what changed is counted anew.
    """

    fleet: Fleet
    tolerations: tuple[Taint, ...]
    free: dict[int, Left]
    _groups: dict[Ask, dict[int, int]] = field(default_factory=dict, init=False)
    _of_place: dict[Ask, dict[int, list[int]]] = field(default_factory=dict, init=False)
    _changed: dict[Ask, set[int]] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, fleet: Fleet, tolerations: Sequence[Taint] = ()) -> "Occupancy":
        """The state in which placing begins."""
        return cls(fleet, tuple(tolerations), dict(enumerate(fleet.free)))

    def groups(self, ask: Ask) -> dict[int, int]:
        """Groups that each suitable node can take."""
        self._know(ask)
        return self._groups[ask]

    def of_place(self, ask: Ask, unit: int = 1) -> list[int]:
        """Bundles of `unit` groups, each inside one node, that the nodes of each NVLink domain, or of each switch apart
        from those, can take."""
        self._know(ask)
        bundles = self._of_place[ask]
        if unit not in bundles:
            bundles[unit] = [0] * len(self.fleet.places.nodes)
            for node, groups in self._groups[ask].items():
                bundles[unit][self.fleet.places.of[node]] += groups // unit
        return bundles[unit]

    def suits(self, node: int, ask: Ask) -> bool:
        """Whether groups of this ask may lie on the node at all, however full it is."""
        record = self.fleet.nodes[node]
        return (
            record.gpu == ask.gpu
            and (not ask.selector or set(ask.selector) <= set(record.labels))
            and may_lie_on(record, all_known=self.fleet.open[node], kind=ask.kind, tolerations=self.tolerations)
        )

    def _know(self, ask: Ask) -> None:
        """What nodes and places can take is counted when it is asked for, of nodes that changed since."""
        if ask not in self._groups:
            # Labels and taints do not change while placing, so this is asked once an ask.
            suited = (node for node in range(len(self.fleet.nodes)) if self.suits(node, ask))
            self._groups[ask] = dict.fromkeys(suited, 0)
            self._of_place[ask] = {}
            self._changed[ask] = set(self._groups[ask])
        groups, bundles = self._groups[ask], self._of_place[ask].items()
        for node in self._changed[ask]:
            now = self.room(node, ask)
            for unit, by_place in bundles:
                by_place[self.fleet.places.of[node]] += now // unit - groups[node] // unit
            groups[node] = now
        self._changed[ask].clear()

    def room(self, node: int, ask: Ask) -> int:
        """Groups that a node has room for now; of islands that are spread, those of one island and in whole servers."""
        groups = self.free[node].room(self.fleet.shapes[node], ask)
        if ask.spread is None:
            return groups
        return min(groups // ask.spread.groups, ask.spread.servers(self.fleet.nodes[node].name)) * ask.spread.groups

    def taken(self, node: int, ask: Ask) -> Counts | None:
        """What the next group takes of a suitable node; None where there is no room. A server that is spread takes its
        groups one by one."""
        shape = self.fleet.shapes[node]
        if not (self.free[node].room(shape, ask) if ask.spread else self.groups(ask).get(node)):
            return None
        return take(shape, self.free[node].offered(shape, ask.kind), ask.kind)

    def hold(self, node: int, ask: Ask, gpus: Counts) -> Counts:
        """Give `gpus` of a node to one group; returns the cores that go with them, by NUMA node."""
        shape = self.fleet.shapes[node]
        # A node that lists no cores has CPUs by number alone.
        cores = near_cores(self.free[node].cores, gpus, ask.cores) if shape.lists_cores else (0,) * len(gpus)
        self.take_back(node, ask, gpus, cores)
        return cores

    def take_back(self, node: int, ask: Ask, gpus: Counts, cores: Counts) -> None:
        """Undo one `give_back`: the same GPUs with the same cores, which must still be free."""
        self._change(node, self.free[node].minus(_share(ask, gpus, cores)))

    def give_back(self, node: int, ask: Ask, gpus: Counts, cores: Counts) -> None:
        """Undo one `hold`."""
        self._change(node, self.free[node].plus(_share(ask, gpus, cores)))

    def alone(self, node: int) -> "Occupancy":
        """A copy in which only this node may be asked about and changed."""
        return Occupancy(self.fleet, self.tolerations, {node: self.free[node]})

    def evict(self, node: int, pods: Iterable[Pod]) -> None:
        """Free what some pods of a node hold."""
        self._change(node, self.free[node].plus(self.fleet.held_by(node, pods)))

    def admit(self, node: int, pods: Iterable[Pod]) -> None:
        """Undo one `evict`; what the pods held must be free."""
        self._change(node, self.free[node].minus(self.fleet.held_by(node, pods)))

    def copy(self) -> "Occupancy":
        """The same state, to try things on."""
        return Occupancy(self.fleet, self.tolerations, dict(self.free))

    def _change(self, node: int, free: Left) -> None:
        self.free[node] = free
        for ask, groups in self._groups.items():
            if node in groups:
                self._changed[ask].add(node)


def _share(ask: Ask, gpus: Counts, cores: Counts) -> Left:
    """What a group holds."""
    return Left(gpus, cores, ask.cores, ask.memory_gb)


def near_cores(free: Counts, gpus: Counts, needed: int) -> Counts:
    """`needed` of the free cores: near the GPUs first, in proportion, then wherever there are some."""
    total = sum(gpus)
    cores = [min(have, needed * count // total) for have, count in zip(free, gpus, strict=True)]
    # Shares are rounded down, and the cores still missing are to be near GPUs as well where they can.
    order = sorted(range(len(free)), key=lambda k: (gpus[k] == 0, k))
    for k in order:
        more = min(free[k] - cores[k], needed - sum(cores))
        cores[k] += more
    return tuple(cores)


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

    @classmethod
    def of(cls, demand: PlacementDemand, ask: Ask, groups: Sequence[HeldGroup]) -> "Site":
        """The island whose replicas are these groups, cut up in their order."""
        size = demand.groups
        return cls(demand, ask, tuple(tuple(groups[k : k + size]) for k in range(0, len(groups), size)))

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
