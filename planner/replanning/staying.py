"""Servers that are placed anew lie where they run: nodes that are alike change places with each other.

Placing knows nothing of where servers run. Where two nodes are alike in everything but their names, and no pods run on
them, what lies on them may be exchanged, and no figure of the placement changes. Who gets whose place is a pairing: the
most GPUs of servers of the same phase and configuration stay. Servers over several nodes stay where they were placed.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from planner.domain import Phase, Plan
from planner.domain.cluster import Cluster, ClusterNode
from planner.domain.serving.server import ServerConfig
from planner.replanning.matching import best_pairs

HOSTNAME = "kubernetes.io/hostname"

_Servers = frozenset[tuple[tuple[Phase, ServerConfig], int]]
"""How many servers of each kind lie on a node."""


def staying(before: Plan, after: Plan) -> Plan:
    """`after` with servers on those of alike nodes that run such servers in `before`; as it is where one of the plans
    is not placed."""
    cluster, placement = after.scenario.cluster, after.placement
    if cluster is None or placement is None or before.placement is None:
        return after
    old, new = _on_nodes(before), _on_nodes(after)
    bound = _bound(after)
    names: dict[str, str] = {}
    for alike in _alike(cluster):
        names |= _renamed([name for name in alike if name not in bound], old, new)
    parts = tuple(replace(part, node=names.get(part.node, part.node)) for part in placement.parts)
    return replace(after, placement=replace(placement, parts=parts))


def _alike(cluster: Cluster) -> Iterator[list[str]]:
    """Names of nodes that differ in nothing else, and have no pods."""
    busy = {pod.node for pod in cluster.pods}
    groups: dict[ClusterNode, list[str]] = {}
    for node in cluster.nodes:
        if node.name not in busy:
            gpus = tuple(replace(gpu, uuid="") for gpu in node.gpus)
            labels = tuple(label for label in node.labels if label[0] != HOSTNAME)
            groups.setdefault(replace(node, name="", gpus=gpus, labels=labels), []).append(node.name)
    yield from groups.values()


def _bound(plan: Plan) -> set[str]:
    """Nodes of servers that lie on several."""
    assert plan.placement is not None, "the plan is placed"
    nodes: dict[tuple[str, int], set[str]] = {}
    for part in plan.placement.parts:
        nodes.setdefault((part.island, part.replica), set()).add(part.node)
    return set().union(*(lying for lying in nodes.values() if len(lying) > 1))


def _on_nodes(plan: Plan) -> dict[str, _Servers]:
    """What lies on each node, servers over several nodes left aside."""
    assert plan.placement is not None, "the plan is placed"
    assert plan.buckets is not None, "plans are of buckets"
    kinds = {pool.island: (pool.phase, pool.server) for pool in plan.buckets.pools}
    bound, counts = _bound(plan), dict[str, Counter[tuple[Phase, ServerConfig]]]()
    for node, island, _ in sorted({(part.node, part.island, part.replica) for part in plan.placement.parts}):
        if node not in bound:
            counts.setdefault(node, Counter())[kinds[island]] += 1
    return {node: frozenset(count.items()) for node, count in counts.items()}


def _renamed(names: list[str], old: dict[str, _Servers], new: dict[str, _Servers]) -> dict[str, str]:
    """The node that what lies on each node is to lie on."""
    sources, sinks = _by_servers(names, new), _by_servers(names, old)
    gains = [[_staying_gpus(came, ran) or None for ran in sinks] for came in sources]
    pairs = best_pairs([len(group) for group in sources.values()], [len(group) for group in sinks.values()], gains)
    places: dict[str, str] = {}
    came, ran = list(sources.values()), list(sinks.values())
    for (i, j), count in pairs.items():
        here = [name for name in came[i] if name in ran[j]]
        moving = [name for name in came[i] if name not in here]
        for name in [*here, *moving][:count]:
            target = name if name in ran[j] else ran[j][-1]
            came[i].remove(name)
            ran[j].remove(target)
            places[name] = target
    return places | _rest(names, places)


def _rest(names: list[str], places: dict[str, str]) -> dict[str, str]:
    """Where the others lie: where they are, if that is free, else on what is."""
    free = [name for name in names if name not in places.values()]
    rest = {name: name for name in names if name not in places and name in free}
    others = iter(name for name in free if name not in rest)
    return rest | {name: next(others) for name in names if name not in places and name not in rest}


def _by_servers(names: list[str], servers: dict[str, _Servers]) -> dict[_Servers, list[str]]:
    """Names of nodes by what lies on them, empty ones left out."""
    groups: dict[_Servers, list[str]] = {}
    for name in names:
        if name in servers:
            groups.setdefault(servers[name], []).append(name)
    return groups


def _staying_gpus(came: _Servers, ran: _Servers) -> int:
    common = Counter(dict(came)) & Counter(dict(ran))
    return sum(count * server.parallel.devices for (_, server), count in common.items())
