"""A layout on real nodes: placed, priced where its islands lie, and assigned anew. Joins placement and cost.

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
from dataclasses import dataclass, replace

from planner.assembly import SPARE, island_names
from planner.cost import tabulate_placed
from planner.domain import (
    Assignment,
    ClassPerformance,
    ClusterNode,
    CostSettings,
    Duty,
    Evaluation,
    GpuSpec,
    IslandClass,
    Layout,
    ModelSpec,
    ParallelConfig,
    PerformanceTable,
    Phase,
    PhasePerformance,
    PlacedPart,
    Placement,
    PlacementDemand,
    PlacementSettings,
    Plan,
    Reach,
    Scenario,
    SloSettings,
    Workload,
)
from planner.errors import InfeasibleError
from planner.goodput import at_goodput, bounds_ttft, duties_at_work, goodput_of, phase_rps
from planner.judging import Terms, judge
from planner.placement import Fleet, place

CLIQUE = "nvidia.com/gpu.clique"
"""Label of nodes that share an NVLink domain larger than a host (GPU feature discovery)."""

DIGITS = 4
"""Reaches are told apart to so many decimals: what lies alike is priced alike."""

MOST_TOLD = 3
"""Shortfalls that an error tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacingTerms:
    """What every layout of a scenario is placed on and priced by."""

    fleet: Fleet
    settings: PlacementSettings
    gpus: tuple[GpuSpec, ...]
    model: ModelSpec
    workload: Workload
    cost: CostSettings
    slo: SloSettings
    terms: Terms

    @classmethod
    def of(cls, scenario: Scenario, workload: Workload, terms: Terms) -> "PlacingTerms | None":
        """The terms of a scenario; None where it names no cluster."""
        if scenario.cluster is None:
            return None
        return cls(
            fleet=Fleet.of(scenario.cluster),
            settings=scenario.placement,
            gpus=tuple(item.gpu for item in scenario.inventory.items),
            model=scenario.model,
            workload=workload,
            cost=scenario.cost,
            slo=scenario.slo,
            terms=replace(terms, goals=None),
        )

    def gpu(self, name: str) -> GpuSpec:
        """The figures of a GPU type."""
        return next(gpu for gpu in self.gpus if gpu.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A placed layout: its islands told apart by where they lie, their table, who serves what, and their names."""

    placement: Placement
    layout: Layout
    table: PerformanceTable
    assignment: Assignment
    names: Mapping[tuple[IslandClass, Phase], tuple[str, ...]]


def judge_placed(table: PerformanceTable, layout: Layout, terms: PlacingTerms) -> Evaluation:
    """The rate of a layout once its islands lie on nodes; those that find no room serve nothing.

    The assignment is that of before, from which the placement follows.
    """
    found = judge(table, layout, terms.terms)
    if found.assignment is None:
        return found
    try:
        placed = placed_layout(table, layout, found.assignment, terms)
    except InfeasibleError as error:
        return replace(found, throughput_rps=0.0, assignment=None, error=error.message)
    return replace(found, throughput_rps=placed.assignment.throughput_rps)


def placed_layout(table: PerformanceTable, layout: Layout, assignment: Assignment, terms: PlacingTerms) -> Placed:
    """Put the islands of an assigned layout on nodes and assign anew.

    Raises InfeasibleError where those that find room do not serve the workload; it says what is short.
    """
    islands = list(_islands(table, assignment))
    demands = _demands(islands, assignment, terms.settings)
    watts = {gpu.name: (gpu.idle_w, gpu.max_w) for gpu in terms.gpus}
    placement = place(demands, terms.fleet, terms.settings, watts)
    reaches = _reaches(placement, demands, terms)
    classes = [_class(island, reaches.get(island.name)) for island in islands]
    idle = Counter(dict(layout.counts))
    idle.subtract(island.duty.island for island in islands)
    placed = Layout.of([*classes, *idle.elements()])
    priced = replace(table, classes=tuple(_rows(islands, classes, idle, placement, terms)))
    found = _assigned(priced, placed, islands, classes, placement, terms)
    names: dict[tuple[IslandClass, Phase], list[str]] = defaultdict(list)
    for island, kind in zip(islands, classes, strict=True):
        names[kind, island.duty.phase].append(island.name)
    return Placed(
        placement=replace(placement, unplaced_rps=assignment.throughput_rps, placed_rps=found.throughput_rps),
        layout=placed,
        table=priced,
        assignment=found,
        names={key: tuple(listed) for key, listed in names.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Island:
    """One island that serves something, before it is placed."""

    name: str
    duty: Duty
    performance: PhasePerformance


def _islands(table: PerformanceTable, assignment: Assignment) -> Iterator[_Island]:
    for duty in duties_at_work(assignment, table):
        performance = table.row(duty.island).phase(duty.phase)
        for name in island_names(duty):
            yield _Island(name=name, duty=duty, performance=performance)


def _demands(islands: Sequence[_Island], assignment: Assignment, settings: PlacementSettings) -> list[PlacementDemand]:
    feeds = _feeds(islands, assignment)
    demands = []
    for island in islands:
        parallel = island.performance.parallel
        assert parallel is not None, "an island at work has degrees"
        kind = (island.duty.island, island.duty.phase)
        demands.append(_demand(island.name, kind[0].gpu, kind[1], parallel, settings, feeds[kind]))
    return demands


def demands_of(plan: Plan) -> tuple[PlacementDemand, ...]:
    """What the islands of a placed plan ask for, those that found no room left out."""
    return tuple(
        _demand(island.id, island.gpu, island.phase, island.parallel, plan.scenario.placement)
        for island in plan.islands
        if island.phase is not None and island.parallel is not None
    )


def _demand(
    island: str,
    gpu: str,
    phase: Phase,
    parallel: ParallelConfig,
    settings: PlacementSettings,
    feeds: tuple[tuple[str, float], ...] = (),
) -> PlacementDemand:
    return PlacementDemand(
        island=island,
        gpu=gpu,
        phase=phase,
        replicas=parallel.replicas,
        groups=parallel.dp * parallel.pp,
        tp=parallel.tp,
        qos=settings.qos(phase),
        cpus_per_gpu=settings.cpus_per_gpu,
        memory_gb_per_gpu=settings.memory_gb_per_gpu,
        feeds=feeds,
    )


def _feeds(
    islands: Sequence[_Island], assignment: Assignment
) -> dict[tuple[IslandClass, Phase], tuple[tuple[str, float], ...]]:
    """Partners of the islands of each duty with the rate of what they exchange: by flow, or by what each serves."""
    named: dict[tuple[IslandClass, Phase], list[str]] = defaultdict(list)
    rates: dict[tuple[IslandClass, Phase], float] = {}
    for island in islands:
        kind = (island.duty.island, island.duty.phase)
        named[kind].append(island.name)
        rates[kind] = sum(
            share * rate for share, rate in zip(island.duty.time_shares, island.performance.rates_rps, strict=True)
        )
    pairs: dict[tuple[IslandClass, IslandClass], float] = defaultdict(float)
    for flow in assignment.flows:
        sender, receiver = (flow.prefill, Phase.PREFILL), (flow.decode, Phase.DECODE)
        if sender in named and receiver in named:
            pairs[flow.prefill, flow.decode] += flow.rate_rps / len(named[sender]) / len(named[receiver])
    if not assignment.flows:
        decoded = sum(rates[kind] * len(named[kind]) for kind in named if kind[1] is Phase.DECODE)
        for sender, receiver in ((a, b) for a in named for b in named):
            if sender[1] is Phase.PREFILL and receiver[1] is Phase.DECODE:
                pairs[sender[0], receiver[0]] = rates[sender] * rates[receiver] / decoded
    return {
        kind: tuple(
            (name, rate)
            for (sender, receiver), rate in pairs.items()
            if rate > 0 and kind[0] == (sender if kind[1] is Phase.PREFILL else receiver)
            for name in named[_partner(kind, sender, receiver)]
        )
        for kind in named
    }


def _partner(kind: tuple[IslandClass, Phase], sender: IslandClass, receiver: IslandClass) -> tuple[IslandClass, Phase]:
    return (receiver, Phase.DECODE) if kind[1] is Phase.PREFILL else (sender, Phase.PREFILL)


def _reaches(placement: Placement, demands: Iterable[PlacementDemand], terms: PlacingTerms) -> dict[str, Reach]:
    """Where each placed island lies, as the cost model needs it."""
    parts: dict[str, list[PlacedPart]] = defaultdict(list)
    for part in placement.parts:
        parts[part.island].append(part)
    shares = {site.island: {asw: gpus / site.gpus for asw, gpus in site.switches} for site in placement.sites}
    return {
        demand.island: _reach(demand, parts[demand.island], shares, terms)
        for demand in demands
        if demand.island in shares
    }


def _reach(
    demand: PlacementDemand, parts: Iterable[PlacedPart], shares: Mapping[str, Mapping[str, float]], terms: PlacingTerms
) -> Reach:
    gpu, fleet = terms.gpu(demand.gpu), terms.fleet
    domains: dict[int, Counter[str]] = defaultdict(Counter)
    switches: dict[int, Counter[str]] = defaultdict(Counter)
    for part in parts:
        domain = _domain(gpu, fleet.nodes[fleet.number[part.node]])
        domains[part.replica][domain] += len(part.gpu_indices)
        switches[part.replica][part.asw] += len(part.gpu_indices)
    return Reach(
        foreign=round(max(_elsewhere(counts) for counts in domains.values()), DIGITS),
        crossing=round(max(_elsewhere(counts) for counts in switches.values()), DIGITS),
        path=round(_path(demand, shares, terms.cost.cross_switch_bandwidth), DIGITS),
    )


def _elsewhere(counts: Counter[str]) -> float:
    """Largest share of a replica that one of its GPUs finds elsewhere."""
    return 1 - min(counts.values()) / counts.total()


def _domain(gpu: GpuSpec, node: ClusterNode) -> str:
    """The NVLink domain of a node's GPUs: the node, or where a domain is larger, the clique that its label names."""
    if gpu.gpus_per_nvlink_domain > gpu.gpus_per_host:
        return dict(node.labels).get(CLIQUE, node.name)
    return node.name


def _path(demand: PlacementDemand, shares: Mapping[str, Mapping[str, float]], left: float) -> float:
    own, away, whole = shares[demand.island], 0.0, 0.0
    for partner, rate in demand.feeds:
        if partner in shares:
            whole += rate
            away += rate * (1 - sum(share * shares[partner].get(asw, 0.0) for asw, share in own.items()))
    return 1 / (1 + away / whole * (1 / left - 1)) if whole else 1.0


def _class(island: _Island, reach: Reach | None) -> IslandClass:
    """The island's class where it lies; without a reach it was not placed."""
    duty = island.duty
    return replace(duty.island, phase=(duty.phase,), reach=() if reach is None else (reach,))


def _rows(
    islands: Iterable[_Island],
    classes: Iterable[IslandClass],
    idle: Counter[IslandClass],
    placement: Placement,
    terms: PlacingTerms,
) -> Iterator[ClassPerformance]:
    """A row a class: of the phase that it was placed for, at the degrees that it was placed with."""
    why = {short.island: f"not placed: {short.reason}" for short in placement.shortfalls}
    ranges = len(terms.workload.ranges)
    known: set[IslandClass] = set()
    for island, kind in zip(islands, classes, strict=True):
        if kind not in known:
            known.add(kind)
            nothing = _nothing(ranges, "" if kind.reach else why[island.name])
            own = _priced(island, kind.reach[0], terms) if kind.reach else nothing
            prefills = island.duty.phase is Phase.PREFILL
            yield ClassPerformance(
                island=kind, prefill=own if prefills else nothing, decode=nothing if prefills else own
            )
    for kind in +idle:
        nothing = _nothing(ranges, SPARE)
        yield ClassPerformance(island=kind, prefill=nothing, decode=nothing)


def _nothing(ranges: int, reason: str) -> PhasePerformance:
    none = (0.0,) * ranges
    return PhasePerformance(parallel=None, rates_rps=none, batch_sizes=(0,) * ranges, step_ms=none, reason=reason)


def _priced(island: _Island, reach: Reach, terms: PlacingTerms) -> PhasePerformance:
    assert island.performance.parallel is not None, "an island at work has degrees"
    return tabulate_placed(
        terms.gpu(island.duty.island.gpu),
        island.duty.phase,
        island.performance.parallel,
        model=terms.model,
        workload=terms.workload,
        settings=replace(terms.cost, reach=reach),
        slo=terms.slo,
    )


def _assigned(
    table: PerformanceTable,
    layout: Layout,
    islands: Sequence[_Island],
    classes: Sequence[IslandClass],
    placement: Placement,
    terms: PlacingTerms,
) -> Assignment:
    """The better of an assignment made anew and, where queues count, of the shares of time that there were before."""
    found = judge(table, layout, terms.terms)
    best = found.assignment
    if bounds_ttft(terms.slo) and terms.terms.network is None:
        kept = _as_before(table, islands, classes)
        service = goodput_of(kept, table, terms.slo, terms.workload.mean_output_tokens)
        if service.goodput_rps > (0.0 if best is None else best.throughput_rps):
            best = at_goodput(kept, service)
    if best is None:
        short = "; ".join(f"{one.island}: {one.reason}" for one in placement.shortfalls[:MOST_TOLD])
        remedies = [remedy for one in placement.shortfalls for remedy in one.remedies]
        raise InfeasibleError(
            f"placement: the islands that find room on cluster {placement.cluster} do not serve the workload: "
            f"{short or found.error}.",
            hint=f"It would help: {remedies[0]}." if remedies else "Offer a cluster with more room, or fewer GPUs.",
        )
    return best


def _as_before(table: PerformanceTable, islands: Sequence[_Island], classes: Sequence[IslandClass]) -> Assignment:
    """The placed islands with the shares of time that they had."""
    counts = Counter((kind, island.duty) for island, kind in zip(islands, classes, strict=True) if kind.reach)
    duties = tuple(replace(duty, island=kind, count=count) for (kind, duty), count in counts.items())
    bare = Assignment(duties=duties, throughput_rps=0.0, prefill_rps=0.0, decode_rps=0.0, objective_rps=0.0)
    rates = {phase: phase_rps(bare, table, phase) for phase in Phase}
    slower = min(rates.values())
    return replace(
        bare,
        throughput_rps=slower,
        prefill_rps=rates[Phase.PREFILL],
        decode_rps=rates[Phase.DECODE],
        objective_rps=slower,
        solver="shares of time as before placement",
    )
