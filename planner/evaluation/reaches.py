"""Where placed islands lie, in the terms of the cost model.

| symbol | meaning | unit |
|---|---|---|
| D, q(n), p(s) | GPUs of a replica; share of them in NVLink domain n, under switch s | 1 |
| c | what is left of the NIC rate between access switches (`cost.cross_switch_bandwidth`) | 1 |
| phi | share of an island's KV traffic that changes switches: 1 - sum_s q_i(s) q_p(s), mean over its partners | 1 |

foreign = 1 - min q(n), crossing = 1 - min p(s): the GPU with the fewest neighbours sends most over its NIC, and all
wait for it; of an island's replicas the worst counts, as requests are spread evenly. path = 1 / (1 + phi (1 / c - 1)).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from planner.domain import ClusterNode, GpuSpec, PlacedPart, Placement, PlacementDemand, Reach
from planner.placement import Fleet

CLIQUE = "nvidia.com/gpu.clique"
"""Label of nodes that share an NVLink domain larger than a host (GPU feature discovery)."""

DIGITS = 4
"""Reaches are told apart to so many decimals: what lies alike is priced alike."""


def reaches_of(
    placement: Placement, demands: Iterable[PlacementDemand], fleet: Fleet, gpus: Iterable[GpuSpec], bandwidth: float
) -> dict[str, Reach]:
    """Where each placed island lies, as the cost model needs it; `bandwidth` is c."""
    specs = {gpu.name: gpu for gpu in gpus}
    parts: dict[str, list[PlacedPart]] = defaultdict(list)
    for part in placement.parts:
        parts[part.island].append(part)
    shares = {site.island: {asw: gpus / site.gpus for asw, gpus in site.switches} for site in placement.sites}
    return {
        demand.island: _reach(demand, parts[demand.island], shares, fleet, specs[demand.gpu], bandwidth)
        for demand in demands
        if demand.island in shares
    }


def _reach(
    demand: PlacementDemand,
    parts: Iterable[PlacedPart],
    shares: Mapping[str, Mapping[str, float]],
    fleet: Fleet,
    gpu: GpuSpec,
    bandwidth: float,
) -> Reach:
    domains: dict[int, Counter[str]] = defaultdict(Counter)
    switches: dict[int, Counter[str]] = defaultdict(Counter)
    for part in parts:
        domain = _domain(gpu, fleet.nodes[fleet.number[part.node]])
        domains[part.replica][domain] += len(part.gpu_indices)
        switches[part.replica][part.asw] += len(part.gpu_indices)
    return Reach(
        foreign=round(max(_elsewhere(counts) for counts in domains.values()), DIGITS),
        crossing=round(max(_elsewhere(counts) for counts in switches.values()), DIGITS),
        path=round(_path(demand, shares, bandwidth), DIGITS),
    )


def _elsewhere(counts: Counter[str]) -> float:
    """Largest share of a replica that one of its GPUs finds elsewhere."""
    return 1 - min(counts.values()) / counts.total()


def _domain(gpu: GpuSpec, node: ClusterNode) -> str:
    """The NVLink domain of a node's GPUs: the node, or where a domain is larger, the cluster's, or the clique that its
    label names."""
    if gpu.gpus_per_nvlink_domain > gpu.gpus_per_host:
        return node.nvlink_domain or dict(node.labels).get(CLIQUE) or node.name
    return node.name


def _path(demand: PlacementDemand, shares: Mapping[str, Mapping[str, float]], bandwidth: float) -> float:
    switches, away, total = shares[demand.island], 0.0, 0.0
    for partner, rate in demand.feeds:
        if partner in shares:
            total += rate
            away += rate * (1 - sum(share * shares[partner].get(asw, 0.0) for asw, share in switches.items()))
    return 1 / (1 + away / total * (1 / bandwidth - 1)) if total else 1.0
