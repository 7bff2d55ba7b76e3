"""Where placed islands lie, in the terms of the cost model, and the forms that they may take on their nodes.

| symbol | meaning | unit |
|---|---|---|
| D, q(n), p(s) | GPUs of a replica; share of them in NVLink domain n, under switch s | 1 |
| c | what is left of the NIC rate between access switches (`cost.cross_switch_bandwidth`) | 1 |
| phi | share of an island's KV traffic that changes switches: 1 - sum_s q_i(s) q_p(s), mean over its partners | 1 |

foreign = 1 - min q(n), crossing = 1 - min p(s): the GPU with the fewest neighbours sends most over its NIC, and all
wait for it; of an island's replicas the worst counts, as requests are spread evenly. path = 1 / (1 + phi (1 / c - 1)).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from planner.cost import CostContext, configurations, tabulate_placed
from planner.domain import (
    ClusterNode,
    Duty,
    GpuSpec,
    IslandForm,
    ParallelConfig,
    PlacedPart,
    Placement,
    PlacementDemand,
    Question,
    Reach,
)
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
        # of what the cluster tells the most definite first; a node that says nothing is a domain of its own
        return node.nvlink_domain or dict(node.labels).get(CLIQUE) or node.name
    return node.name


def _path(demand: PlacementDemand, shares: Mapping[str, Mapping[str, float]], bandwidth: float) -> float:
    switches, away, total = shares[demand.island], 0.0, 0.0
    for partner, rate in demand.feeds:
        if partner in shares:
            total += rate
            away += rate * (1 - sum(share * shares[partner].get(asw, 0.0) for asw, share in switches.items()))
    return 1 / (1 + away / total * (1 / bandwidth - 1)) if total else 1.0


MOST_FORMS = 6
"""Forms of an island that placement tries, those that serve most first."""


def forms_of(
    duties: Mapping[str, tuple[Duty, ParallelConfig]], question: Question
) -> dict[str, tuple[IslandForm, ...]]:
    """Forms of each island by name, those that serve most first; alike islands are priced once.

    `duties`: what each island does, and at which degrees.
    """
    priced: dict[tuple[Duty, ParallelConfig], tuple[IslandForm, ...]] = {}
    for duty, parallel in duties.values():
        if (duty, parallel) not in priced:
            forms = sorted(_forms(duty, parallel, question), key=lambda form: (-form.rate_rps, form.replicas, -form.tp))
            priced[duty, parallel] = tuple(forms[:MOST_FORMS])
    return {island: priced[key] for island, key in duties.items()}


def _forms(duty: Duty, parallel: ParallelConfig, question: Question) -> Iterator[IslandForm]:
    """Configurations of as many GPUs in smaller attention groups that serve every range it has time for."""
    scenario = question.scenario
    gpu = scenario.inventory.item(duty.island.gpu).gpu
    context = CostContext(gpu=gpu, model=scenario.model, settings=scenario.cost)
    for other in configurations(context, parallel.size):
        # larger attention groups need what there is no room for
        if other.tp < parallel.tp:
            performance = tabulate_placed(
                gpu,
                duty.phase,
                other,
                model=scenario.model,
                workload=question.workload,
                settings=scenario.cost,
                slo=scenario.slo,
            )
            rates = _served(duty.time_shares, performance.rates_rps)
            if rates:
                yield IslandForm(replicas=other.replicas, groups=other.dp * other.pp, tp=other.tp, rate_rps=rates)


def _served(time_shares: Sequence[float], rates_rps: Sequence[float]) -> float:
    """Requests/s in the same time; 0 where a range that there is time for is not served."""
    pairs = [(share, rate) for share, rate in zip(time_shares, rates_rps, strict=True) if share > 0]
    return sum(share * rate for share, rate in pairs) if all(rate > 0 for _, rate in pairs) else 0.0
