"""Who holds each GPU of a node, as figures colour it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from planner.domain import Cluster, ClusterNode, PlacedPart, Pod
from planner.report.cluster.cluster_state import crosses_sockets

MOST_ROWS = 600
"""Rows that one density drawing can hold and still be read."""


class Owner(StrEnum):
    """A class of pods, the plan, a pod whose GPUs are not known, or nobody."""

    PLANNED = "planned"
    ONLINE = "online"
    OFFLINE = "offline"
    SPOT = "spot"
    UNKNOWN = "held, not known by whom"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldGroup:
    """GPUs (places in the node, ascending) that one pod or one group of an island holds together."""

    owner: Owner
    places: tuple[int, ...]
    crossing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOwners:
    """A node as it is drawn: the owner of each GPU, and which of them belong together."""

    node: ClusterNode
    owners: tuple[Owner, ...]
    groups: tuple[HeldGroup, ...]


def owners_of(cluster: Cluster, parts: Iterable[PlacedPart] = ()) -> list[NodeOwners]:
    """The nodes with GPUs, in the cluster's order; `parts` of a plan hold what they were given."""
    pods: Mapping[str, list[Pod]] = defaultdict(list)
    for pod in cluster.pods:
        if pod.gpu_count:
            pods[pod.node].append(pod)
    planned: Mapping[str, list[tuple[int, ...]]] = defaultdict(list)
    for part in parts:
        planned[part.node] += part.groups
    return [_of_node(node, pods.get(node.name, []), planned.get(node.name, [])) for node in cluster.nodes if node.gpus]


def _of_node(node: ClusterNode, pods: Sequence[Pod], planned: Sequence[tuple[int, ...]]) -> NodeOwners:
    place = {gpu.index: at for at, gpu in enumerate(node.gpus)}
    owners = [Owner.IDLE] * len(node.gpus)
    holders = [(Owner(pod.kind.value), pod.gpus) for pod in pods] + [(Owner.PLANNED, gpus) for gpus in planned]
    groups = []
    for owner, gpus in holders:
        mine = tuple(sorted(place[gpu] for gpu in gpus))
        for at in mine:
            owners[at] = owner
        if len(mine) > 1:
            groups.append(HeldGroup(owner=owner, places=mine, crossing=bool(crosses_sockets(node, gpus))))
    for _ in range(sum(pod.gpu_count - len(pod.gpus) for pod in pods)):
        if Owner.IDLE in owners:
            owners[owners.index(Owner.IDLE)] = Owner.UNKNOWN
    return NodeOwners(node=node, owners=tuple(owners), groups=tuple(groups))


def by_switch(nodes: Iterable[NodeOwners]) -> dict[tuple[str, str], list[NodeOwners]]:
    """Nodes under each access switch (name, GPU type), as the switches first appear."""
    switches: dict[tuple[str, str], list[NodeOwners]] = {}
    for row in nodes:
        switches.setdefault((row.node.asw or "no switch", row.node.gpu), []).append(row)
    return switches


def by_level(nodes: Sequence[NodeOwners]) -> tuple[str, dict[tuple[str, str], list[NodeOwners]]]:
    """Nodes by access switch, or where these are too many by aggregation switch, or by type; the level's name first."""
    switches = by_switch(nodes)
    if len(switches) <= MOST_ROWS:
        return "access switch", switches
    above: dict[tuple[str, str], list[NodeOwners]] = {}
    for row in nodes:
        above.setdefault((row.node.aggregation or "no switch", row.node.gpu), []).append(row)
    if len(above) <= MOST_ROWS:
        return "aggregation switch", above
    types: dict[tuple[str, str], list[NodeOwners]] = {}
    for row in nodes:
        types.setdefault(("all nodes", row.node.gpu), []).append(row)
    return "GPU type", types
