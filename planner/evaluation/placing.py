"""A layout on real nodes: placed, priced where its islands lie, and assigned anew. Joins placement and cost."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.cost import tabulate_placed
from planner.domain import (
    PHASES,
    SPARE_NOTE,
    Assignment,
    ClassPerformance,
    Duty,
    Evaluation,
    IslandClass,
    Layout,
    ParallelConfig,
    PerformanceTable,
    Phase,
    PhasePerformance,
    Placement,
    PlacementDemand,
    PlacementSettings,
    Plan,
    Question,
    Reach,
    Shortfall,
    named_duties,
)
from planner.errors import InfeasibleError, InputError
from planner.evaluation.goodput import at_goodput, bounds_ttft, duties_at_work, goodput_of, phase_rps
from planner.evaluation.hosting import with_moves
from planner.evaluation.judging import broken_off, judge
from planner.evaluation.reaches import forms_of, reaches_of
from planner.placement import Fleet, place

MOST_TOLD = 3
"""Shortfalls that an error tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A placed layout: its islands told apart by where they lie, their table, who serves what, and their names."""

    placement: Placement
    layout: Layout
    table: PerformanceTable
    assignment: Assignment
    names: Mapping[tuple[IslandClass, Phase], tuple[str, ...]]


def judge_placed(table: PerformanceTable, layout: Layout, question: Question, fleet: Fleet) -> Evaluation:
    """The rate of a layout once its islands lie on nodes, less what the work that evictions lose counts; islands that
    find no room serve nothing.

    The assignment is that of before, from which the placement follows.
    """
    start = time.process_time()
    evaluation = judge(table, layout, question.of_rate)
    if evaluation.assignment is None:
        return evaluation
    try:
        placed = placed_layout(table, layout, evaluation.assignment, question, fleet)
        rps, judged_rps = placed.assignment.throughput_rps, placed.placement.judged_rps
        evaluation = replace(evaluation, throughput_rps=rps if judged_rps is None else judged_rps)
        # evictions count more than the layout serves: it would be better not to place it
        if not evaluation.throughput_rps > 0:
            evaluation = replace(evaluation, throughput_rps=0.0, assignment=None, error=_not_worth(placed.placement))
    except InfeasibleError as error:
        evaluation = replace(evaluation, throughput_rps=0.0, assignment=None, error=error.message)
    except Exception as error:  # noqa: BLE001  (one layout must not end the search; the reason is recorded)
        evaluation = broken_off(layout, error)
    return replace(evaluation, cpu_s=time.process_time() - start)


def _not_worth(placement: Placement) -> str:
    lost = sum(victim.lost_gpu_hours or 0.0 for victim in placement.victims)
    return (
        f"placement: its {placement.placed_rps:.6g} requests/s count less than the {lost:.3g} GPU-hours and more that "
        "its evictions lose (placement.lost_gpu_hour_rps)"
    )


def placed_layout(
    table: PerformanceTable,
    layout: Layout,
    assignment: Assignment,
    question: Question,
    fleet: Fleet,
    *,
    advises: bool = False,
) -> Placed:
    """Put the islands of an assigned layout on nodes and assign anew. `advises`: shortfalls name other configurations
    that would fit, with their rates, and moves that would make room.

    Raises InfeasibleError where those that find room do not serve the workload; it says what is short.
    """
    islands = list(_islands(table, assignment))
    scenario = question.scenario
    if scenario.placement.exchange:
        raise InputError(
            "placement.exchange: goes with pools behind buckets: their servers have names that last.",
            hint="Leave it out, or set routing.form to buckets.",
        )
    demands, gpus = _demands(islands, assignment, scenario.placement), [item.gpu for item in scenario.inventory.items]
    watts = {gpu.name: (gpu.idle_w, gpu.max_w) for gpu in gpus}
    placement = place(demands, fleet, scenario.placement, watts)
    # other forms and moves cost many placements: they are looked for once, for the plan, not in a search
    if advises and placement.shortfalls:
        placement = place(_with_forms(demands, islands, placement, question), fleet, scenario.placement, watts)
        placement = with_moves(placement, demands, fleet.cluster, scenario.placement, watts)
    reaches = reaches_of(placement, demands, fleet, gpus, scenario.cost.cross_switch_bandwidth)
    classes = [_class(island, reaches.get(island.name)) for island in islands]
    # what served nothing before asks for no room, and stays in the plan as idle
    idle = Counter(dict(layout.counts))
    idle.subtract(island.duty.island.plain for island in islands)
    placed = Layout.of([*classes, *idle.elements()])
    priced = replace(table, classes=(*_rows(islands, classes, placement, question), *_idle_rows(table, idle)))
    new_assignment = _assigned(priced, placed, islands, classes, placement, question)
    names: dict[tuple[IslandClass, Phase], list[str]] = defaultdict(list)
    for island, kind in zip(islands, classes, strict=True):
        names[kind, island.duty.phase].append(island.name)
    if advises:
        actual = {row.island: row for row in priced.classes}
        rates = {
            island.name: (
                _served_rps(replace(island, performance=actual[kind].phase(island.duty.phase))),
                _served_rps(island),
            )
            for island, kind in zip(islands, classes, strict=True)
        }
        placement = placement.priced(rates)
    return Placed(
        placement=replace(
            placement,
            unplaced_rps=assignment.throughput_rps,
            placed_rps=new_assignment.throughput_rps,
            judged_rps=judged_rps(placement, new_assignment.throughput_rps, scenario.placement, fleet),
        ),
        layout=placed,
        table=priced,
        assignment=new_assignment,
        names={key: tuple(listed) for key, listed in names.items()},
    )


def judged_rps(placement: Placement, placed_rps: float, settings: PlacementSettings, fleet: Fleet) -> float | None:
    """The placed rate less what the lost work of victims counts; None where it does not count."""
    weight = settings.lost_gpu_hour_rps
    if not weight:
        return None
    pods = {pod.key: pod for pod in fleet.cluster.pods} if placement.victims else {}
    lost = (settings.lost_gpu_hours(pods[victim.pod]) for victim in placement.victims)
    return placed_rps - weight * sum(hours or 0.0 for hours in lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Island:
    """One island that serves something, before it is placed."""

    name: str
    duty: Duty
    performance: PhasePerformance


def _islands(table: PerformanceTable, assignment: Assignment) -> Iterator[_Island]:
    for duty, names in named_duties(duties_at_work(assignment, table)):
        performance = table.row(duty.island).phase(duty.phase)
        for name in names:
            yield _Island(name=name, duty=duty, performance=performance)


def _demands(islands: Sequence[_Island], assignment: Assignment, settings: PlacementSettings) -> list[PlacementDemand]:
    feeds = _feeds(islands, assignment)
    demands = []
    for island in islands:
        parallel = island.performance.parallel
        assert parallel is not None, "an island at work has degrees"
        kind = (island.duty.island, island.duty.phase)
        demand = _demand(island.name, kind[0].gpu, kind[1], parallel, settings, feeds[kind])
        demands.append(replace(demand, rate_rps=_served_rps(island)))
    return demands


def _with_forms(
    demands: Sequence[PlacementDemand], islands: Sequence[_Island], placement: Placement, question: Question
) -> list[PlacementDemand]:
    """The demands, with forms of the islands that found no room."""
    short = {shortfall.island for shortfall in placement.shortfalls}
    forms = forms_of(
        {
            island.name: (island.duty, island.performance.parallel)
            for island in islands
            if island.name in short and island.performance.parallel is not None
        },
        question,
    )
    return [replace(demand, forms=forms.get(demand.island, ())) for demand in demands]


def _served_rps(island: _Island) -> float:
    """Requests/s of all ranges that it serves."""
    return sum(share * rate for share, rate in zip(island.duty.time_shares, island.performance.rates_rps, strict=True))


def demands_of(plan: Plan) -> tuple[PlacementDemand, ...]:
    """What the islands of a placed plan ask for, those that found no room left out."""
    return tuple(
        replace(
            _demand(island.id, island.gpu, island.phase, island.parallel, plan.scenario.placement),
            per_node=plan.per_node(island.id),
        )
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
    names: dict[tuple[IslandClass, Phase], list[str]] = defaultdict(list)
    rates: dict[tuple[IslandClass, Phase], float] = {}
    for island in islands:
        kind = (island.duty.island, island.duty.phase)
        names[kind].append(island.name)
        rates[kind] = _served_rps(island)
    pairs: dict[tuple[IslandClass, IslandClass], float] = defaultdict(float)
    for flow in assignment.flows:
        sender, receiver = (flow.prefill, Phase.PREFILL), (flow.decode, Phase.DECODE)
        if sender in names and receiver in names:
            pairs[flow.prefill, flow.decode] += flow.rate_rps / len(names[sender]) / len(names[receiver])
    # without a network nobody says who feeds whom: each in proportion to what it serves
    if not assignment.flows:
        decoded = sum(rates[kind] * len(names[kind]) for kind in names if kind[1] is Phase.DECODE)
        for sender, receiver in ((a, b) for a in names for b in names):
            if sender[1] is Phase.PREFILL and receiver[1] is Phase.DECODE:
                pairs[sender[0], receiver[0]] = rates[sender] * rates[receiver] / decoded
    return {
        kind: tuple(
            (name, rate)
            for (sender, receiver), rate in pairs.items()
            if rate > 0 and kind[0] == (sender if kind[1] is Phase.PREFILL else receiver)
            for name in names[_partner(kind, sender, receiver)]
        )
        for kind in names
    }


def _partner(kind: tuple[IslandClass, Phase], sender: IslandClass, receiver: IslandClass) -> tuple[IslandClass, Phase]:
    return (receiver, Phase.DECODE) if kind[1] is Phase.PREFILL else (sender, Phase.PREFILL)


def _class(island: _Island, reach: Reach | None) -> IslandClass:
    """The island's class where it lies; without a reach it was not placed."""
    duty = island.duty
    return replace(duty.island, phase=(duty.phase,), reach=() if reach is None else (reach,))


def _rows(
    islands: Iterable[_Island],
    classes: Iterable[IslandClass],
    placement: Placement,
    question: Question,
) -> Iterator[ClassPerformance]:
    """A row a class: of the phase that it was placed for, at the degrees that it was placed with."""
    why = {short.island: f"not placed: {short.reason}" for short in placement.shortfalls}
    ranges = len(question.workload.ranges)
    yielded: set[IslandClass] = set()
    for island, kind in zip(islands, classes, strict=True):
        # islands that lie alike are one class, priced once
        if kind not in yielded:
            yielded.add(kind)
            nothing = _nothing(ranges, "" if kind.reach else why[island.name])
            performance = _priced(island, kind.reach[0], question) if kind.reach else nothing
            prefills = island.duty.phase is Phase.PREFILL
            yield ClassPerformance(
                island=kind, prefill=performance if prefills else nothing, decode=nothing if prefills else performance
            )


def _idle_rows(table: PerformanceTable, idle: Counter[IslandClass]) -> Iterator[ClassPerformance]:
    """Islands that served nothing before, with the reason that they had."""
    for kind in +idle:
        row = table.row(kind)
        why = SPARE_NOTE if row.prefill.serves or row.decode.serves else row.decode.reason or row.prefill.reason
        nothing = _nothing(len(table.ranges), why)
        yield ClassPerformance(island=kind, prefill=nothing, decode=nothing)


def _nothing(ranges: int, reason: str) -> PhasePerformance:
    none = (0.0,) * ranges
    return PhasePerformance(parallel=None, rates_rps=none, batch_sizes=(0,) * ranges, step_ms=none, reason=reason)


def _priced(island: _Island, reach: Reach, question: Question) -> PhasePerformance:
    assert island.performance.parallel is not None, "an island at work has degrees"
    scenario = question.scenario
    priced = tabulate_placed(
        scenario.inventory.item(island.duty.island.gpu).gpu,
        island.duty.phase,
        island.performance.parallel,
        model=scenario.model,
        workload=question.workload,
        settings=replace(scenario.cost, reach=reach),
        slo=scenario.slo,
    )
    # an island in a role serves its interval of lengths alone, wherever it lies
    if not island.duty.island.role:
        return priced
    return priced.among([island.duty.island.role[0].covers(span) for span in question.workload.ranges])


def _assigned(
    table: PerformanceTable,
    layout: Layout,
    islands: Sequence[_Island],
    classes: Sequence[IslandClass],
    placement: Placement,
    question: Question,
) -> Assignment:
    """The better of an assignment made anew and, where queues count, of the shares of time that there were before."""
    scenario = question.scenario
    evaluation = judge(table, layout, question.of_rate)
    best = evaluation.assignment
    # patience is a heuristic: where islands lie a little worse it may find less than the shares it had; flows are
    # solved for
    if bounds_ttft(scenario.slo) and scenario.network is None:
        earlier = _as_before(table, islands, classes)
        if earlier.throughput_rps > (0.0 if best is None else best.throughput_rps):
            service = goodput_of(earlier, table, scenario.slo, question.workload.mean_output_tokens)
            if best is None or service.goodput_rps > best.throughput_rps:
                best = at_goodput(earlier, service)
    if best is None or not best.throughput_rps > 0:
        raise _too_little(placement, evaluation.error)
    return best


def _too_little(placement: Placement, error: str) -> InfeasibleError:
    """What is short, and the remedy of the first that is told."""
    shortfalls = placement.shortfalls[:MOST_TOLD]
    short = "; ".join(f"{shortfall.island}: {shortfall.reason}" for shortfall in shortfalls)
    more = len(placement.shortfalls) - len(shortfalls)
    return InfeasibleError(
        f"placement: the islands that find room on cluster {placement.cluster} do not serve the workload: "
        f"{short or error}{f'; and {more} more islands' if more else ''}.",
        hint=remedy(shortfalls),
    )


def remedy(shortfalls: Sequence[Shortfall]) -> str:
    """The remedy of the first shortfall that has any, as a hint."""
    helps = (f"for {shortfall.island}, {shortfall.remedies[0]}" for shortfall in shortfalls if shortfall.remedies)
    first = next(helps, "")
    return f"It would help: {first}." if first else "Offer a cluster with more room, or plan for fewer GPUs."


def _as_before(table: PerformanceTable, islands: Sequence[_Island], classes: Sequence[IslandClass]) -> Assignment:
    """The placed islands with the shares of time that they had."""
    counts = Counter((kind, island.duty) for island, kind in zip(islands, classes, strict=True) if kind.reach)
    duties = tuple(replace(duty, island=kind, count=count) for (kind, duty), count in counts.items())
    bare = Assignment(duties=duties, throughput_rps=0.0, prefill_rps=0.0, decode_rps=0.0, objective_rps=0.0)
    rates = {phase: phase_rps(bare, table, phase) for phase in PHASES}
    slower = min(rates.values())
    return replace(
        bare,
        throughput_rps=slower,
        prefill_rps=rates[Phase.PREFILL],
        decode_rps=rates[Phase.DECODE],
        objective_rps=slower,
        solver="shares of time as before placement",
    )
