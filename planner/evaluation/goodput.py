"""Throughput under service levels: how much of what an assignment could serve keeps to the bounds on TTFT.

The table caps each range as if its island served nothing else. An island's real queue holds all of its ranges, and
long prompts delay short ones: its mixture may bear less. Every island then gets the same share of the whole load.
TPOT needs nothing here: the batches of the table keep to it, whatever the mixture.
Arrivals reach an island by its routing shares, spread evenly over its replicas.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.cost import FIRST_STEP_MS, PLACE_SHARE, Queue, largest_share, mixture, predicted_wait, time_band
from planner.domain import (
    PHASES,
    Assignment,
    Duty,
    IslandClass,
    LengthRange,
    ParallelConfig,
    PerformanceTable,
    Phase,
    PhasePerformance,
    Question,
    Scenario,
    SloSettings,
)
from planner.domain.service import RangeService, Service, range_bounds

LEAST_SHARE = 1e-6
FULL = 1 - 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """One island class in one phase at the assignment's capacity; `ranges` are those that it serves."""

    duty: Duty
    performance: PhasePerformance
    ranges: tuple[int, ...]
    queue: Queue
    utilisation: float


def goodput_of(assignment: Assignment, table: PerformanceTable, slo: SloSettings, mean_output_tokens: float) -> Service:
    """The largest share of what `assignment` could serve at which every range on every island keeps to its bounds.

    Shares of time count, not the assignment's own rates: an assignment `at_goodput` gives the same answer.
    """
    islands = list(_loaded(assignment, table, max(1.0, mean_output_tokens)))
    first = _first_steps(table, islands, slo)
    factor, binding = 1.0, None
    for island in islands:
        # a share of the whole load, so the island that bears least sets it for all
        share = _share(island, table, slo, first)
        if share < factor:
            factor, binding = share, island.duty
    return Service(
        goodput_rps=factor * capacity_rps(assignment, table),
        factor=factor,
        percentile=slo.percentile,
        binding=binding.island if binding else None,
        binding_phase=binding.phase if binding else None,
        ranges=tuple(_services(table, islands, slo, first, factor)),
    )


def service_at(
    assignment: Assignment, table: PerformanceTable, slo: SloSettings, mean_output_tokens: float, rate_rps: float
) -> tuple[RangeService, ...]:
    """What each range waits at a total rate of `rate_rps`, spread as the assignment spreads what it could serve.

    TPOT is that of the table's batches, however many places are taken: it does not fall with the rate.
    """
    islands = list(_loaded(assignment, table, max(1.0, mean_output_tokens)))
    factor = rate_rps / capacity_rps(assignment, table)
    return tuple(_services(table, islands, slo, _first_steps(table, islands, slo), factor))


def duties_at_work(assignment: Assignment, table: PerformanceTable) -> Iterator[Duty]:
    """Duties whose islands serve something; those of the others are idle in the plan."""
    return (island.duty for island in _loaded(assignment, table, 1.0))


def at_goodput(assignment: Assignment, service: Service) -> Assignment:
    """The assignment with the rates that keep to the bounds; the shares of time stay."""
    return replace(
        assignment,
        throughput_rps=service.goodput_rps,
        prefill_rps=assignment.prefill_rps * service.factor,
        decode_rps=assignment.decode_rps * service.factor,
    )


def bounds_ttft(slo: SloSettings) -> bool:
    """Whether any prompt's TTFT is bounded: only then can queues cost throughput."""
    return slo.ttft_ms is not None or any(limits.ttft_ms is not None for limits in slo.ranges)


def capacity_rps(assignment: Assignment, table: PerformanceTable) -> float:
    """Rate of the whole mix that the duties' shares of time serve, before mixtures are looked at."""
    return min(phase_rps(assignment, table, phase) for phase in PHASES)


def phase_rps(assignment: Assignment, table: PerformanceTable, phase: Phase) -> float:
    """Rate of the whole mix that the duties' shares of time serve in one phase."""
    return min(
        total / span.probability for total, span in zip(_totals(assignment, table, phase), table.ranges, strict=True)
    )


def _totals(assignment: Assignment, table: PerformanceTable, phase: Phase) -> list[float]:
    """Requests/s per range that all islands of a phase serve together."""
    of_phase = [(duty, table.row(duty.island).phase(phase)) for duty in assignment.duties if duty.phase is phase]
    return [
        sum(duty.count * duty.time_shares[j] * performance.rates_rps[j] for duty, performance in of_phase)
        for j in range(len(table.ranges))
    ]


def _loaded(assignment: Assignment, table: PerformanceTable, tokens: float) -> Iterator[_Loaded]:
    """Every island class that serves something, with its queue at `capacity_rps`."""
    rate = capacity_rps(assignment, table)
    totals = {phase: _totals(assignment, table, phase) for phase in PHASES}
    for duty in assignment.duties:
        performance, total = table.row(duty.island).phase(duty.phase), totals[duty.phase]
        served = [share * alone for share, alone in zip(duty.time_shares, performance.rates_rps, strict=True)]
        # slivers are the solver's tolerance: a range of theirs would bound a queue that never sees it
        indices = [j for j, here in enumerate(served) if here > LEAST_SHARE * total[j]]
        if indices and performance.parallel:
            due = {j: rate * table.ranges[j].probability * served[j] / total[j] for j in indices}
            yield _island(duty, performance, performance.parallel, due, tokens)


def _island(
    duty: Duty, performance: PhasePerformance, parallel: ParallelConfig, due_rps: dict[int, float], tokens: float
) -> _Loaded:
    """`due_rps`: what each of the islands is to serve of each range."""
    busy = {j: rate * performance.utilisation_limit(j) / performance.rates_rps[j] for j, rate in due_rps.items()}
    utilisation = sum(busy.values())
    # prefill batches follow each other through the stages; a token of decode passes all of them
    stages = parallel.pp if duty.phase is Phase.PREFILL else 1
    queue = mixture(
        duty.phase,
        [float(parallel.dp * performance.batch_sizes[j]) for j in busy],
        [performance.step_ms[j] / stages for j in busy],
        [part / utilisation for part in busy.values()],
        tokens,
    )
    return _Loaded(duty=duty, performance=performance, ranges=tuple(busy), queue=queue, utilisation=utilisation)


def _first_steps(table: PerformanceTable, islands: list[_Loaded], slo: SloSettings) -> list[float]:
    """First decode step per range: the TPOT bound; without one what the slowest island that decodes it takes (ms)."""
    steps = []
    for j, span in enumerate(table.ranges):
        bound = range_bounds(slo, span)[1]
        times = [
            island.performance.step_ms[j]
            for island in islands
            if island.duty.phase is Phase.DECODE and j in island.ranges
        ]
        steps.append(bound if bound is not None else max(times, default=FIRST_STEP_MS))
    return steps


def misses_of(slo: SloSettings) -> float | None:
    """A percentile's misses, shared evenly by the two queues; None where bounds hold for the mean."""
    # either queue may be late for half of them: the two need not be late together
    return None if slo.percentile is None else (1 - slo.percentile / 100) / 2


def _share(island: _Loaded, table: PerformanceTable, slo: SloSettings, first: list[float]) -> float:
    """Share of its load at which an island's queue leaves all its ranges within their bounds."""
    slack = _least_slack(island, table, slo, first)
    return 1.0 if slack is None else largest_share(island.queue, island.utilisation, slack, misses_of(slo))


def _least_slack(island: _Loaded, table: PerformanceTable, slo: SloSettings, first: list[float]) -> float | None:
    """That of the range which can wait least (ms); None where TTFT is not bounded."""
    slacks = (slack_ms(island.duty.phase, island.performance, j, table.ranges[j], slo, first[j]) for j in island.ranges)
    return min((slack for slack in slacks if slack is not None), default=None)


def slack_ms(
    phase: Phase, performance: PhasePerformance, j: int, span: LengthRange, slo: SloSettings, first_step_ms: float
) -> float | None:
    """What the other parts of TTFT leave for the wait in this queue (ms); None where TTFT is not bounded.

    `span`: the table's range j.
    """
    bound = range_bounds(slo, span)[0]
    if bound is None:
        return None
    # means add up, so the wait for a place gets a part of the bound; a percentile shares its misses instead
    set_aside = PLACE_SHARE * bound if slo.percentile is None else 0.0
    if phase is Phase.DECODE:
        return set_aside
    return bound - performance.service_ms[j] - first_step_ms - set_aside


def admitted(
    assignment: Assignment, table: PerformanceTable, slo: SloSettings, mean_output_tokens: float
) -> dict[tuple[IslandClass, Phase], float]:
    """The utilisation that the queue of each class at work admits, in the mixture that it has now."""
    islands = list(_loaded(assignment, table, max(1.0, mean_output_tokens)))
    first = _first_steps(table, islands, slo)
    slacks = [(island, _least_slack(island, table, slo, first)) for island in islands]
    return {
        (island.duty.island, island.duty.phase): island.queue.largest_at(slack, misses_of(slo))
        for island, slack in slacks
        if slack is not None
    }


def _services(
    table: PerformanceTable, islands: list[_Loaded], slo: SloSettings, first: list[float], factor: float
) -> Iterator[RangeService]:
    waits = {id(i): _wait(i, i.utilisation * factor, slo) for i in islands}
    for phase in PHASES:
        for j in range(len(table.ranges)):
            rows = [
                _service(table, island, j, slo, first[j], waits[id(island)])
                for island in islands
                if island.duty.phase is phase and j in island.ranges
            ]
            if rows:
                # what holds for the slowest class of a range holds for all
                yield max(rows, key=_slowness)


def _slowness(row: RangeService) -> float:
    return math.inf if row.told_ms is None else row.told_ms


def _wait(island: _Loaded, utilisation: float, slo: SloSettings) -> tuple[float | None, float | None]:
    """(mean, percentile) of the wait (ms); nothing where the queue has no end."""
    # busy all the time: the queue grows without end, and any figure would be the rounding's
    return (None, None) if utilisation > FULL else predicted_wait(island.queue, utilisation, misses_of(slo))


def _service(
    table: PerformanceTable,
    island: _Loaded,
    j: int,
    slo: SloSettings,
    first_ms: float,
    wait: tuple[float | None, float | None],
) -> RangeService:
    """TTFT (without the wait for a place in a decode batch) or TPOT of one range on one island class."""
    span, performance = table.ranges[j], island.performance
    ttft_bound, tpot_bound = range_bounds(slo, span)
    judged = performance.service_ms[j] if performance.service_ms else performance.step_ms[j]
    prefills = island.duty.phase is Phase.PREFILL
    mean = None if wait[0] is None else judged + wait[0] + first_ms
    late = None if wait[1] is None else judged + wait[1] + first_ms
    if not prefills:
        # tokens of a batch do not queue: its step is the time, and the mean tells as much as a percentile
        mean, late = performance.step_ms[j], None if slo.percentile is None else judged
    return RangeService(
        phase=island.duty.phase,
        start=span.start,
        end=span.end,
        bound_ms=ttft_bound if prefills else tpot_bound,
        mean_ms=mean,
        percentile_ms=late,
        island=island.duty.island,
    )


def service_of(question: Question, assignment: Assignment, table: PerformanceTable) -> Service | None:
    """What a plan promises under the scenario's service levels; None where it sets none."""
    slo = question.scenario.slo
    if not slo.bounds_anything:
        return None
    service = goodput_of(assignment, table, slo, question.workload.mean_output_tokens)
    return replace(
        service,
        binding=service.binding.plain if service.binding else None,
        ranges=tuple(_banded(replace(row, island=row.island.plain), question.scenario) for row in service.ranges),
    )


def _banded(row: RangeService, scenario: Scenario) -> RangeService:
    band = time_band(scenario.inventory.item(row.island.gpu).gpu, scenario.model, row.phase, scenario.cost)
    if row.told_ms is None or band is None:
        return row
    return replace(row, low_ms=row.told_ms * band.low, high_ms=row.told_ms * band.high)
