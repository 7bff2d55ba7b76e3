"""Plan records from a solved assignment: islands with names, and the routing table."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from planner.domain import (
    PHASES,
    SPARE_NOTE,
    Assignment,
    ClassPerformance,
    Duty,
    Estimate,
    Flow,
    Inventory,
    IslandClass,
    KvFlow,
    Layout,
    LengthRange,
    ModelSpec,
    PerformanceTable,
    Phase,
    PlannedIsland,
    Route,
    kv_gb,
    named_duties,
)

LEAST_SHARE = 1e-6  # what is less may be the solver's tolerance
Names = Mapping[tuple[IslandClass, Phase], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamedIsland:
    """One island of a duty, with its name."""

    id: str
    duty: Duty
    row: ClassPerformance


def assemble(
    inventory: Inventory,
    layout: Layout,
    table: PerformanceTable,
    assignment: Assignment,
    names: Names | None = None,
) -> tuple[tuple[PlannedIsland, ...], tuple[Route, ...]]:
    """Islands (every one of `layout`, idle ones last) and routes at the assignment's throughput.

    `names`: those of the islands of each duty, where they have some already.
    """
    members = [
        _NamedIsland(id=name, duty=duty, row=table.row(duty.island))
        for duty, island_ids in _names(assignment.duties, names)
        for name in island_ids
    ]
    routes = tuple(
        route
        for phase in PHASES
        for j, span in enumerate(table.ranges)
        for route in _range_routes(members, phase, j, span, assignment.throughput_rps)
    )
    by_island: dict[str, list[Route]] = {member.id: [] for member in members}
    for route in routes:
        by_island[route.island].append(route)
    islands = [_island(inventory, member, by_island[member.id]) for member in members]
    islands.extend(_unassigned(inventory, layout, table, assignment, names or {}))
    return tuple(sorted(islands, key=lambda island: island.phase is None)), routes


def assemble_flows(
    model: ModelSpec, table: PerformanceTable, assignment: Assignment, names: Names | None = None
) -> tuple[KvFlow, ...]:
    """Flows between named islands at the assignment's throughput: a class's flow is parted evenly, so that each of its
    prefill islands feeds each decode island of the other class alike."""
    sums: dict[int, float] = defaultdict(float)
    for flow in assignment.flows:
        sums[flow.range_index] += flow.rate_rps
    of_duty = {(duty.island, duty.phase): list(island_ids) for duty, island_ids in _names(assignment.duties, names)}
    return tuple(
        kv_flow
        for flow in sorted(assignment.flows, key=lambda flow: flow.range_index)
        for kv_flow in _island_flows(
            model, table, assignment.throughput_rps, flow, flow.rate_rps / sums[flow.range_index], of_duty
        )
    )


def network_bottleneck(table: PerformanceTable, assignment: Assignment) -> str:
    """What holds the flows back; nothing where bounds on TTFT keep them below what the network carries."""
    carried = sum(flow.rate_rps for flow in assignment.flows if flow.range_index == 0) / table.ranges[0].probability
    return assignment.network_bottleneck if assignment.throughput_rps > carried * (1 - LEAST_SHARE) else ""


def _island_flows(
    model: ModelSpec,
    table: PerformanceTable,
    throughput_rps: float,
    flow: Flow,
    share: float,
    names: dict[tuple[IslandClass, Phase], list[str]],
) -> Iterator[KvFlow]:
    """`share`: the flow's part of its range."""
    span = table.ranges[flow.range_index]
    senders, receivers = names[flow.prefill, Phase.PREFILL], names[flow.decode, Phase.DECODE]
    # all islands of a class are alike, so the class's flow is theirs in equal parts
    rate = share * span.probability * throughput_rps / (len(senders) * len(receivers))
    for sender in senders:
        for receiver in receivers:
            yield KvFlow(
                prefill=sender,
                decode=receiver,
                range_start=span.start,
                range_end=span.end,
                rate_rps=rate,
                gb_s=rate * kv_gb(model, span.mean_input_tokens),
            )


def _names(duties: Iterable[Duty], names: Names | None) -> Iterator[tuple[Duty, Sequence[str]]]:
    return named_duties(duties) if names is None else ((duty, names[duty.island, duty.phase]) for duty in duties)


def _range_routes(
    members: list[_NamedIsland], phase: Phase, j: int, span: LengthRange, throughput_rps: float
) -> Iterator[Route]:
    """Rows of one range and phase; shares follow what each island would serve, slivers left out."""
    served = {
        member.id: member.duty.time_shares[j] * member.row.phase(phase).rates_rps[j]
        for member in members
        if member.duty.phase is phase
    }
    total = sum(served.values())
    rates = {name: rate for name, rate in served.items() if rate > LEAST_SHARE * total}
    # shares are of what is listed, so that they sum to 1 without the slivers
    total_kept = sum(rates.values())
    for member in members:
        if member.id in rates:
            performance, share = member.row.phase(phase), rates[member.id] / total_kept
            yield Route(
                phase=phase,
                range_start=span.start,
                range_end=span.end,
                probability=span.probability,
                island=member.id,
                share=share,
                rate_rps=share * span.probability * throughput_rps,
                assigned_rps=rates[member.id],
                capacity_rps=performance.rates_rps[j],
                batch_size=performance.batch_sizes[j],
                step_ms=performance.step_ms[j],
            )


def _island(inventory: Inventory, member: _NamedIsland, routes: list[Route]) -> PlannedIsland:
    price = inventory.item(member.duty.island.gpu).rent_usd_per_gpu_hour * member.duty.island.size
    return PlannedIsland(
        id=member.id,
        gpu=member.duty.island.gpu,
        size=member.duty.island.size,
        phase=member.duty.phase if routes else None,
        parallel=member.row.phase(member.duty.phase).parallel if routes else None,
        batch_size=max((route.batch_size for route in routes), default=0),
        longest_prompt=max((route.range_end - 1 for route in routes), default=0),
        rate_rps=sum(route.rate_rps for route in routes),
        utilisation=sum(route.rate_rps / route.capacity_rps for route in routes),
        price_usd_per_hour=price,
        note="" if routes else SPARE_NOTE,
        reach=member.duty.island.reach[0] if member.duty.island.reach else None,
    )


def _unassigned(
    inventory: Inventory, layout: Layout, table: PerformanceTable, assignment: Assignment, names: Names
) -> Iterator[PlannedIsland]:
    """Islands of classes that can do neither phase, with the table's reason."""
    numbers: Counter[str] = Counter()
    for island, count in layout.counts:
        # placed islands of a duty are told apart from the layout's by their reach
        missing = count - sum(duty.count for duty in assignment.duties if island in (duty.island, duty.island.plain))
        earlier = [name for phase in island.phase for name in names.get((island, phase), ())]
        for k in range(missing):
            stem = f"{island.gpu.lower()}-{island.size}g-idle"
            numbers[stem] += 1
            yield _idle(inventory, island, earlier[k] if earlier else f"{stem}-{numbers[stem]}", table.row(island))


def _idle(inventory: Inventory, island: IslandClass, name: str, row: ClassPerformance) -> PlannedIsland:
    price = inventory.item(island.gpu).rent_usd_per_gpu_hour * island.size
    return PlannedIsland.idle(name, island.gpu, island.size, price, row.decode.reason or row.prefill.reason)


def estimates_of(table: PerformanceTable, islands: Iterable[PlannedIsland]) -> tuple[Estimate, ...]:
    """How firm the rates of every GPU type and phase that `islands` use are."""
    used = {(island.gpu, island.phase) for island in islands if island.phase is not None}
    rows = {
        (row.island.gpu, phase): row.phase(phase)
        for row in table.classes
        for phase in PHASES
        if row.phase(phase).serves
    }
    return tuple(
        Estimate(gpu=gpu, phase=phase, origin=row.origin, source=row.origin_source, band=row.band)
        for gpu, phase in sorted(used)
        for row in (rows[gpu, phase],)
    )
