"""The communication graph of a cluster's idle GPUs, and its cuts.

| symbol | meaning | unit |
|---|---|---|
| G, w(a, b) | graph of the idle GPUs of one type; what joins GPUs a and b, by its rank | 1 |
| cut(r) | connected parts of G once all edges with w < r are removed | 1 |
| c, I_min | idle GPUs of a part, fewest GPUs of an island | GPUs |
| k, n | islands that a part has already, islands beside the first of each part | 1 |

w: 4 on one node, 3 in one NVLink domain, 2 under one access switch, 1 under one aggregation switch, 0 otherwise: the
order of the bandwidths, which is all that a cut asks for. A switch or domain that nobody names joins no nodes. cut(0)
is the whole type, cut(4) its nodes; cuts with the same parts count once. Parts with c < I_min cannot form an island and
are left out. Every other part has an island; each of the n further ones goes to the part with the largest c / (k + 1),
so that the islands of all parts stay as alike as their parts allow (d'Hondt).

Source: Rignall 2025, section 6.1 asks for such a cut (a graph of GPUs, bandwidths as edges); graph, ranks and rule are
ours.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from operator import itemgetter

from planner.domain import Cluster, ClusterNode, Inventory, InventoryItem, PlacementSettings, Pod, SizeSet, Stock
from planner.domain.scenario import SearchSettings
from planner.domain.stocks import stocks_of
from planner.domain.usable import usable_gpus
from planner.proposing.search.divider import Division

WHOLE_TYPE = "cluster"
LEVELS = ("aggregation", "asw", "nvlink_domain", "node")
"""What joins GPUs, the slowest first: w is 1 to 4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where islands are going to lie: a cluster, and what placement may use of it."""

    cluster: Cluster
    placement: PlacementSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRoom:
    """Idle GPUs of a node; `joins`: aggregation switch, access switch, NVLink domain and node ("": not known)."""

    name: str
    gpus: int
    joins: tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPart:
    """A part of a cut: the idle GPUs of its nodes by node, joined ones beside each other, as a stock for islands."""

    nodes: tuple[tuple[str, int], ...]
    stock: Stock

    @property
    def gpus(self) -> int:
        """Idle GPUs that islands may be made of."""
        return self.stock.units * self.stock.unit

    def division(self, islands: int) -> Division:
        """How that many islands divide the part."""
        return Division.of(self.stock, self.stock.units, islands)

    def sizes(self, islands: int, skew: float) -> tuple[int, ...]:
        """GPUs of each island. Where islands are larger than nodes, their ends move to the nearest end of a node."""
        sizes = self.division(islands).sizes(skew)
        # Hosts end where nodes do, one island has no inner end, and more islands than nodes must share some.
        if self.stock.unit > 1 or len(sizes) < 2 or len(sizes) > len(self.nodes):
            return sizes
        return _at_node_ends(sizes, list(accumulate(gpus for _, gpus in self.nodes)), self.stock.least)


def _at_node_ends(sizes: Sequence[int], node_ends: Sequence[int], min_size: int) -> tuple[int, ...]:
    """The sizes with each island's end at the nearest end of a node that leaves it and those behind it large enough."""
    total, start, moved = sum(sizes), 0, []
    for place, end in enumerate(accumulate(sizes[:-1]), start=1):
        highest = total - min_size * (len(sizes) - place)
        fitting = [edge for edge in node_ends if start + min_size <= edge <= highest]
        ideal_end = min(max(end, start + min_size), highest)
        nearest = min(fitting, key=lambda edge: (abs(edge - ideal_end), edge), default=ideal_end)
        moved.append(nearest - start)
        start = nearest
    return (*moved, total - start)


@dataclass(frozen=True, kw_only=True)
class GraphCut:
    """The parts of one cut that can form islands, the largest first; `level` is the slowest edge in them."""

    level: str
    parts: tuple[GraphPart, ...]

    @cached_property
    def turns(self) -> tuple[int, ...]:
        """Parts in the order in which their further islands come."""
        shares = [
            (-part.gpus / (k + 1), place)
            for place, part in enumerate(self.parts)
            for k in range(1, part.stock.most_islands)
        ]
        return tuple(place for _, place in sorted(shares))

    @property
    def most_islands(self) -> int:
        """Islands that all parts together can form."""
        return len(self.parts) + len(self.turns)

    def shares(self, further: int) -> list[tuple[GraphPart, int]]:
        """Each part with its number of islands: one, and those of the `further` ones that are its."""
        counts = [1] * len(self.parts)
        for place in self.turns[:further]:
            counts[place] += 1
        return list(zip(self.parts, counts, strict=True))


def cuts_of(ground: Ground, item: InventoryItem, settings: SearchSettings) -> tuple[GraphCut, ...]:
    """The cuts of one GPU type, from the whole type to its nodes; none where no part can form an island."""
    rooms = _walked(list(_rooms(ground, item.gpu.name)))
    cuts: dict[tuple[GraphPart, ...], GraphCut] = {}
    for rank, level in enumerate((WHOLE_TYPE, *LEVELS)):
        parts = _parts(_joined(rooms, LEVELS[rank - 1 :] if rank else ()), item, settings)
        if parts:
            cuts[parts] = GraphCut(level=level, parts=parts)
    return tuple(cuts.values())


def _rooms(ground: Ground, gpu: str) -> Iterator[NodeRoom]:
    pods: Mapping[str, list[Pod]] = defaultdict(list)
    for pod in ground.cluster.pods:
        pods[pod.node].append(pod)
    for node in ground.cluster.nodes:
        if node.gpu == gpu and (gpus := usable_gpus(node, pods[node.name], ground.placement)):
            yield NodeRoom(name=node.name, gpus=gpus, joins=_joins(node))


def _joins(node: ClusterNode) -> tuple[str, str, str, str]:
    return node.aggregation, node.asw, node.nvlink_domain, node.name


def _walked(rooms: Sequence[NodeRoom]) -> list[NodeRoom]:
    """Nodes that are joined the narrower the nearer to each other, else as they come: a walk over the graph."""
    walked = list(rooms)
    for rank in reversed(range(1, len(LEVELS))):
        walked = [room for part in _joined(walked, LEVELS[rank - 1 :]) for room in part]
    return walked


def _joined(rooms: Sequence[NodeRoom], levels: Sequence[str]) -> list[list[NodeRoom]]:
    """Nodes joined by what they have in common at any of these levels; all of them where there is no level."""
    if not levels:
        return [list(rooms)]
    part_of = list(range(len(rooms)))
    first_at: dict[tuple[str, str], int] = {}
    for number, room in enumerate(rooms):
        for level in levels:
            name = room.joins[LEVELS.index(level)]
            if name:
                _join(part_of, number, first_at.setdefault((level, name), number))
    parts: dict[int, list[NodeRoom]] = defaultdict(list)
    for number, room in enumerate(rooms):
        parts[_root(part_of, number)].append(room)
    return list(parts.values())


def _join(part_of: list[int], node: int, other: int) -> None:
    """Both parts get the number of their first node."""
    low, high = sorted((_root(part_of, node), _root(part_of, other)))
    # Parts so keep the order of their first nodes, whatever joins them.
    part_of[high] = low


def _root(part_of: list[int], number: int) -> int:
    while part_of[number] != number:
        # Halving the way: long ones would else be walked again for every node.
        part_of[number] = part_of[part_of[number]]
        number = part_of[number]
    return number


def _parts(
    joined: Iterable[Sequence[NodeRoom]], item: InventoryItem, settings: SearchSettings
) -> tuple[GraphPart, ...]:
    """Parts with room for an island, the largest first, of no more GPUs than the inventory has."""
    counted = [(sum(room.gpus for room in rooms), rooms) for rooms in joined]
    remaining, parts = item.count, []
    # Where the inventory has fewer GPUs than are idle, the large parts are the last to lose some.
    for _, rooms in sorted(counted, key=itemgetter(0), reverse=True):
        part = _part(rooms, remaining, item, settings)
        if part is not None:
            parts.append(part)
            remaining -= part.gpus
    return tuple(parts)


def _part(rooms: Sequence[NodeRoom], gpu_limit: int, item: InventoryItem, settings: SearchSettings) -> GraphPart | None:
    """A part of at most so many GPUs; whole nodes where islands are made of them and there are any."""
    host = item.gpu.gpus_per_host
    if settings.sizes is SizeSet.WHOLE_NODES and any(room.gpus == host for room in rooms):
        rooms = [room for room in rooms if room.gpus == host]
    nodes: list[tuple[str, int]] = []
    for room in rooms:
        gpus = min(room.gpus, gpu_limit - sum(count for _, count in nodes))
        if gpus:
            nodes.append((room.name, gpus))
    available = sum(count for _, count in nodes)
    stocks = stocks_of(replace(item, count=available), settings.sizes, settings.min_island_size) if available else ()
    stock = next((stock for stock in stocks if stock.most_islands), None)
    return None if stock is None else GraphPart(nodes=tuple(nodes), stock=stock)


def all_cuts(ground: Ground, inventory: Inventory, settings: SearchSettings) -> dict[str, tuple[GraphCut, ...]]:
    """The cuts of every GPU type that can form an island where its idle GPUs lie."""
    cuts = {item.gpu.name: cuts_of(ground, item, settings) for item in inventory.items}
    return {gpu: levels for gpu, levels in cuts.items() if levels}
