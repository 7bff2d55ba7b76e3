"""Which labels of nodes name their switches, where the user does not say.

Families of labels, each from the nearest switch outwards, with who sets them:

| family | set by |
|---|---|
| network.topology.nvidia.com/leaf, block, spine, core, datacenter; fabric.topograph.run/tier-N | topograph |
| topology.k8s.aws/network-node-layer-3, -2, -1 | AWS (layer 3 is the nearest to the host) |
| cloud.google.com/gce-topology-subblock, -block | Google (the host itself is no switch) |
| topology.gke.io/rack, cluster | Google's topology scheduler before that |
| oci.oraclecloud.com/rdma.local_block_id, network_block_id, hpc_island_id | Oracle |
| backend.coreweave.cloud/leafgroup, superpod, fabric; ib.coreweave.cloud/... | CoreWeave |
| alibabacloud.com/asw-id, point-of-delivery | Alibaba Cloud |
| topology.kubernetes.io/rack, topology.kubernetes.io/block, ... | by hand, in this wide-spread form |

Zones and regions are no switches: they stand above one family's levels, or part nodes where nothing else does.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

FAMILIES = (
    tuple(f"network.topology.nvidia.com/{level}" for level in ("leaf", "block", "spine", "core", "datacenter")),
    tuple(f"fabric.topograph.run/tier-{tier}" for tier in range(5)),
    tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (3, 2, 1)),
    ("cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block"),
    ("topology.gke.io/rack", "topology.gke.io/cluster"),
    tuple(f"oci.oraclecloud.com/rdma.{level}" for level in ("local_block_id", "network_block_id", "hpc_island_id")),
    tuple(f"backend.coreweave.cloud/{level}" for level in ("leafgroup", "superpod", "fabric")),
    tuple(f"ib.coreweave.cloud/{level}" for level in ("leafgroup", "superpod", "fabric")),
    ("alibabacloud.com/asw-id", "alibabacloud.com/point-of-delivery"),
    tuple(
        f"topology.kubernetes.io/{level}" for level in ("switch", "leaf", "rack", "row", "block", "spine", "datacenter")
    ),
)
ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
NOBODY = "access switches are not known: no label names them (--level asw=LABEL, if one does)"
ZONED = "no label names switches: {zone} parts nodes, and nodes of one zone are taken as under one switch"

Labels = Mapping[str, str]


def levels_of(nodes: Sequence[Labels]) -> tuple[tuple[tuple[str, str], ...], str]:
    """(level, label) pairs by the labels of nodes with GPUs, and what to say of them.

    The family on most nodes counts. The nearest of its levels that groups nodes names access switches, the next above
    aggregation switches.
    """
    if not nodes:
        return (), ""
    # Of a tie the first family: labels that a vendor sets stand before those set by hand.
    family = max(FAMILIES, key=lambda labels: sum(any(node.get(label) for label in labels) for node in nodes))
    present = [label for label in family if any(node.get(label) for node in nodes)]
    zones = next(([zone] for zone in ZONES if any(node.get(zone) for node in nodes)), [])
    if not present:
        # One zone for all nodes parts nothing.
        parted = bool(zones) and len({node.get(zones[0], "") for node in nodes}) > 1
        return ((("asw", zones[0]),), ZONED.format(zone=zones[0])) if parted else ((), NOBODY)
    # A level with a label of its own on every node, as that of hosts, joins nobody.
    near = next((label for label in present if _groups(nodes, label)), present[0])
    above = [*present[present.index(near) + 1 :], *zones]
    levels = (("asw", near), *((("aggregation", above[0]),) if above else ()))
    and_above = f", {above[0]} aggregation switches" if above else ""
    return levels, f"{near} names access switches{and_above} (no --level says otherwise)"


def _groups(nodes: Sequence[Labels], label: str) -> bool:
    counts = Counter(value for node in nodes if (value := node.get(label)))
    return max(counts.values(), default=0) > 1


def split_switches(switches: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Access switches that lie under several aggregation switches, of (access, aggregation) pairs."""
    above: dict[str, set[str]] = {}
    for asw, aggregation in switches:
        if asw:
            above.setdefault(asw, set()).add(aggregation)
    return tuple(sorted(asw for asw, names in above.items() if len(names) > 1))
