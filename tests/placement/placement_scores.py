"""The score of a complete placement, worked out anew from records alone, after the notation table of `scoring`."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
from math import ceil, log

from planner.domain import Cluster, ClusterNode, PlacedPart, PlacementDemand, PlacementWeights

T = {"numa": 1.0, "socket": 0.5, "cross": 0.1}


def score(
    cluster: Cluster, demands: Sequence[PlacementDemand], parts: Sequence[PlacedPart], weights: PlacementWeights
) -> float:
    """Weighted mean of topology, proximity, fragmentation, packing and power; nobody is evicted."""
    nodes = {node.name: node for node in cluster.nodes}
    asked = {demand.island: demand for demand in demands}
    gpus = sum(demand.size for demand in demands)
    held: dict[str, int] = Counter()
    cpus: dict[str, float] = Counter()
    for part in parts:
        held[part.node] += len(part.gpu_indices)
        cpus[part.node] += asked[part.island].cpus_per_gpu * len(part.gpu_indices)
    before = {name: idle(cluster, nodes[name]) for name in held}
    used = {name: sum(max(p.cpus, len(p.cores)) for p in cluster.pods if p.node == name) for name in held}
    sizes = requests(cluster)
    terms = {
        "topology": sum(
            asked[name].size / gpus * topology(nodes, asked[name], [part for part in parts if part.island == name])
            for name in asked
        ),
        "proximity": proximity(nodes, asked, parts),
        "fragmentation": -sum(fragment(before[n] - held[n], sizes) - fragment(before[n], sizes) for n in held)
        / (most_stranded(sizes) * gpus),
        "packing": -sum((before[n] - held[n]) / len(nodes[n].gpus) for n in held) / gpus,
        "power": -min(
            1, sum(watts(nodes[n], used[n] + cpus[n]) - watts(nodes[n], used[n]) for n in held) / (120 * gpus)
        ),
        "preemption": 0.0,
    }
    whole = sum(getattr(weights, name) for name in terms)
    return sum(getattr(weights, name) * value for name, value in terms.items()) / whole


def idle(cluster: Cluster, node: ClusterNode) -> int:
    return len(node.gpus) - sum(len(pod.gpus) for pod in cluster.pods if pod.node == node.name)


def requests(cluster: Cluster) -> dict[int, float]:
    """Sizes of the cluster's pods by how often they come, until 95 % are among them; 1, 2, 4, 8 where it has none."""
    counts = Counter(pod.gpu_count for pod in cluster.pods if pod.gpu_count)
    chosen: dict[int, float] = {}
    for size in sorted(counts, key=lambda size: (-counts[size], -size)):
        if sum(chosen.values()) < 0.95 * counts.total():
            chosen[size] = counts[size]
    return {size: count / sum(chosen.values()) for size, count in chosen.items()} or dict.fromkeys((1, 2, 4, 8), 0.25)


def most_stranded(sizes: dict[int, float]) -> float:
    return max(2.0, *(fragment(idle - 1, sizes) - fragment(idle, sizes) for idle in range(1, 17)))


def fragment(count: int, sizes: dict[int, float]) -> float:
    return sum(count * share for request, share in sizes.items() if count < request)


def watts(node: ClusterNode, used: float) -> float:
    at_work = ceil(used / 32 - 1e-9)
    return 120 * at_work + 15 * (ceil(node.cpus / 32) - at_work)


def topology(nodes: dict[str, ClusterNode], demand: PlacementDemand, parts: Sequence[PlacedPart]) -> float:
    shares = []
    by_switch: Counter[str] = Counter()
    by_place: Counter[str] = Counter()
    by_node: Counter[str] = Counter()
    for part in parts:
        by_switch[part.asw] += len(part.gpu_indices)
        by_place[place_of(nodes[part.node])] += len(part.gpu_indices)
        by_node[part.node] += len(part.gpu_indices)
        best = max(T[lies(nodes[part.node], chosen)] for chosen in groups_of(nodes[part.node], demand))
        shares += [T[lies(nodes[part.node], group)] / best for group in part.groups]
    aligned = sum(min(1.0, share) for share in shares) / len(shares)
    if demand.size == 1:
        return 0.4 * aligned + 0.6
    island = 1 - (entropy(by_switch) + entropy(by_place)) / 2 / log(demand.size)
    spread = 1 - entropy(by_node) / log(demand.size)
    return 0.4 * aligned + 0.2 * island + 0.2 * wholeness(nodes, demand, parts) + 0.2 * spread


def place_of(node: ClusterNode) -> str:
    """Its NVLink domain, or its switch: the two entropies are the same where there are no domains."""
    return f"domain {node.nvlink_domain}" if node.nvlink_domain else node.asw


def splits(cluster: Cluster, parts: Sequence[PlacedPart]) -> tuple[int, int]:
    """(replicas, islands) on several nodes that no NVLink domain joins; the type has domains."""
    nodes = {node.name: node for node in cluster.nodes}
    replicas: dict[tuple[str, int], set[str]] = defaultdict(set)
    islands: dict[str, set[str]] = defaultdict(set)
    for part in parts:
        replicas[part.island, part.replica].add(part.node)
        islands[part.island].add(part.node)

    def apart(names: set[str]) -> bool:
        domains = {nodes[name].nvlink_domain for name in names}
        return len(names) > 1 and (len(domains) > 1 or domains == {""})

    return sum(map(apart, replicas.values())), sum(map(apart, islands.values()))


def wholeness(nodes: dict[str, ClusterNode], demand: PlacementDemand, parts: Sequence[PlacedPart]) -> float:
    size = demand.size // demand.replicas
    whole = 0.0
    for replica in {part.replica for part in parts}:
        counts: Counter[str] = Counter()
        by_place: Counter[str] = Counter()
        for part in parts:
            if part.replica == replica:
                counts[part.asw] += len(part.gpu_indices)
                by_place[place_of(nodes[part.node])] += len(part.gpu_indices)
        whole += 1 - ((entropy(counts) + entropy(by_place)) / 2 / log(size) if size > 1 else 0.0)
    return whole / demand.replicas


def groups_of(node: ClusterNode, demand: PlacementDemand) -> list[tuple[int, ...]]:
    """Every group that an empty node could give, each GPU with its cores near."""
    found = []
    for chosen in combinations([gpu.index for gpu in node.gpus], demand.tp):
        numas = Counter(gpu.numa for gpu in node.gpus if gpu.index in chosen)
        cores = {numa.id: len(numa.cores) for numa in node.numa_nodes}
        if all(count * demand.cpus_per_gpu <= cores[numa] for numa, count in numas.items()) or not any(cores.values()):
            found.append(chosen)
    return found or [tuple(gpu.index for gpu in node.gpus[:1])]


def lies(node: ClusterNode, group: Sequence[int]) -> str:
    numas = {gpu.numa for gpu in node.gpus if gpu.index in group}
    sockets = {numa.socket for numa in node.numa_nodes if numa.id in numas}
    return "numa" if len(numas) == 1 else "socket" if len(sockets) == 1 else "cross"


def entropy(counts: Counter[str]) -> float:
    total = counts.total()
    return -sum(count / total * log(count / total) for count in counts.values())


def proximity(nodes: dict[str, ClusterNode], asked: dict[str, PlacementDemand], parts: Sequence[PlacedPart]) -> float:
    shares: dict[str, Counter[str]] = defaultdict(Counter)
    above = {node.asw: node.aggregation for node in nodes.values()}
    for part in parts:
        shares[part.island][part.asw] += len(part.gpu_indices)
    near, weight = 0.0, 0.0
    for demand in asked.values():
        for partner, rate in demand.feeds:
            weight += rate
            for one, mine in shares[demand.island].items():
                for other, theirs in shares[partner].items():
                    both = mine / demand.size * theirs / asked[partner].size
                    same = 1.0 if one == other else 0.5 if above[one] and above[one] == above[other] else 0.0
                    near += rate * both * same
    return near / weight if weight else 1.0
