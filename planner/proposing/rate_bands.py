"""How far the rates of a frontier may be off, and which of its points serves most per USD in how many draws.

The work of a phase on one GPU type is what its islands serve in the time assigned to them: prompt tokens in prefill, in
decode requests. Draws and what comes of them: `planner.cost.residuals.band_draws`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from planner.cost import UncertainRate, WorkShare, band_of, rate_band, shares_of_best
from planner.domain import (
    PHASES,
    Assignment,
    Band,
    FrontierPoint,
    PerformanceTable,
    Phase,
    Question,
    halves_of,
)
from planner.evaluation.evaluator import Evaluator

_Place = tuple[str, Phase, Phase]
"""GPU type, phase of the work, phase of the islands that do it: mixed ones do both."""
_Work = dict[_Place, float]
_Bands = dict[_Place, Band | None]


def with_bands(points: Sequence[FrontierPoint], evaluator: Evaluator) -> tuple[FrontierPoint, ...]:
    """The points with the bands of their rates, and how likely each serves most per USD; as they are where nothing has
    a band."""
    rates = [_rate(point, evaluator) for point in points]
    likely = shares_of_best(rates, [1 / point.price_usd_per_hour for point in points])
    if likely is None:
        return tuple(points)
    return tuple(
        replace(point, band=rate_band(rate), most_per_usd_probability=probability)
        for point, rate, probability in zip(points, rates, likely, strict=True)
    )


def _rate(point: FrontierPoint, evaluator: Evaluator) -> UncertainRate:
    assignment = evaluator.evaluate(point.layout).assignment
    assert assignment is not None, "a point of the frontier serves"
    if assignment.pools:
        return uncertain_rate_of_pools(evaluator.question, assignment)
    return uncertain_rate(evaluator.table(point.layout), assignment)


def uncertain_rate(table: PerformanceTable, assignment: Assignment) -> UncertainRate:
    """What the rate of an assignment rests on."""
    work: _Work = defaultdict(float)
    bands: _Bands = {}
    for duty in assignment.duties:
        performance, key = table.row(duty.island).phase(duty.phase), (duty.island.gpu, duty.phase, duty.phase)
        bands[key] = performance.band
        for share, rate, span in zip(duty.time_shares, performance.rates_rps, table.ranges, strict=True):
            work[key] += duty.count * share * rate * (span.mean_input_tokens if duty.phase is Phase.PREFILL else 1.0)
    return _uncertain(assignment, work, bands)


def uncertain_rate_of_pools(question: Question, assignment: Assignment) -> UncertainRate:
    """The same of pools behind buckets."""
    scenario = question.scenario
    work: _Work = defaultdict(float)
    bands: _Bands = {}
    for pool in assignment.pools:
        spans = [span for span in question.workload.ranges if pool.start <= span.start and span.end <= pool.end]
        chance = sum(span.probability for span in spans)
        tokens = sum(span.probability * span.mean_input_tokens for span in spans) / chance
        rate = assignment.throughput_rps * chance * pool.share
        for phase in halves_of(pool.phase):
            key = (pool.gpu, phase, pool.phase)
            work[key] += rate * (tokens if phase is Phase.PREFILL else 1.0)
            bands[key] = band_of(scenario.inventory.item(pool.gpu).gpu, scenario.model, pool.phase, scenario.cost)
    return _uncertain(assignment, work, bands)


def _uncertain(assignment: Assignment, work: _Work, bands: _Bands) -> UncertainRate:
    totals = {phase: sum(amount for (_, of, _), amount in work.items() if of is phase) for phase in PHASES}
    return UncertainRate(
        rate_rps=assignment.throughput_rps,
        shares=tuple(
            WorkShare(gpu=gpu, phase=phase, share=amount / totals[phase], band=bands[gpu, phase, whose], whose=whose)
            for (gpu, phase, whose), amount in work.items()
            if amount > 0
        ),
        utilisations=tuple((phase, assignment.throughput_rps / assignment.phase_rps(phase)) for phase in PHASES),
    )
