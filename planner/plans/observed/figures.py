"""Promised beside measured: of the whole plan, its buckets and its islands.

| figure | promised |
|---|---|
| requests/s of all | the promise; less may be asked for, but then none may wait |
| prompt and answer tokens | the workload's means, give or take TOLERANCE |
| requests/s of an island | its share of what came, give or take TOLERANCE |
| TTFT, TPOT of a bucket | those at the plan's lowest load that is not below the measured one, within the band |
| step time of an island | the formulas' at the measured batch and lengths, within the band |

The band of a time is that of rates turned round: promised / high to promised / low. A quantile is as planned where the
class of the histogram that it lies in reaches into the band.
"""

import math
from collections.abc import Iterator, Sequence

from planner.domain import PHASES, Band, BucketLatency, BucketPool, Phase, Plan, halves_of
from planner.domain.serving.observed import ComparedFigure, ObservedIsland, Quantity, Verdict
from planner.plans.observed.loads import Loads, TimeHistogram, TimeQuantile
from planner.units import MS_PER_S

TOLERANCE = 0.1
"""Of figures that no band of the plan bears on."""

_SAME_LOAD = 0.99
ALL = "all requests"


def compared_figures(loads: Loads, islands: Sequence[ObservedIsland]) -> Iterator[ComparedFigure]:
    """Of the whole plan first, then buckets, then islands."""
    yield _whole_rate(loads, islands)
    yield from _lengths(loads)
    for row in _latency_rows(loads):
        yield from _bucket(loads, row)
    for island in islands:
        yield _island_rate(island)
        if (step := _step(loads.plan, island)) is not None:
            yield step


def _whole_rate(loads: Loads, islands: Sequence[ObservedIsland]) -> ComparedFigure:
    rate, promise = loads.rate_rps, loads.plan.outlook.promise_rps
    held_back = any((island.backlog or 0.0) >= TOLERANCE * 5 for island in islands)
    verdict, basis = Verdict.AS_PLANNED, "as many requests as promised"
    if rate < promise * _SAME_LOAD:
        verdict = Verdict.WORSE if held_back else Verdict.UNKNOWN
        basis = "requests wait at less than the promise" if held_back else "less was asked for than is promised"
    return ComparedFigure(
        subject=ALL,
        phase=None,
        name="requests",
        unit="requests/s",
        promised=promise,
        measured=rate,
        verdict=verdict,
        basis=basis,
    )


def _lengths(loads: Loads) -> Iterator[ComparedFigure]:
    workload = loads.plan.scenario.workload
    rows = (
        ("prompt tokens", Quantity.PROMPT_TOKENS, Phase.PREFILL, workload.mean_input_tokens),
        ("answer tokens", Quantity.GENERATED, Phase.DECODE, workload.mean_output_tokens),
    )
    for name, quantity, phase, planned in rows:
        requests, tokens = loads.total(Quantity.REQUESTS, phase), loads.total(quantity, phase)
        if requests and tokens:
            yield _within(
                ALL, phase, f"{name} of a request", "tokens", planned, tokens / requests, "the workload's mean"
            )


def _within(
    subject: str, phase: Phase | None, name: str, unit: str, promised: float, measured: float, basis: str
) -> ComparedFigure:
    """A figure that ought to be what it was planned as, neither more nor less."""
    low, high = promised * (1 - TOLERANCE), promised * (1 + TOLERANCE)
    return ComparedFigure(
        subject=subject,
        phase=phase,
        name=name,
        unit=unit,
        promised=promised,
        measured=measured,
        low=low,
        high=high,
        verdict=Verdict.AS_PLANNED if low <= measured <= high else Verdict.WORSE,
        basis=basis,
    )


def _island_rate(island: ObservedIsland) -> ComparedFigure:
    return _within(
        island.island,
        island.phase,
        "requests",
        "requests/s",
        island.planned_rps,
        island.requests_rps,
        "its share of what came",
    )


def _latency_rows(loads: Loads) -> list[BucketLatency]:
    """Of every phase and bucket, at the lowest load that is not below the measured one, else at the highest."""
    rows = loads.plan.outlook.latencies
    chosen: dict[tuple[Phase, int, int], BucketLatency] = {}
    for row in sorted(rows, key=lambda row: -row.rate_rps):
        key = (row.phase, row.start, row.end)
        if key not in chosen or row.rate_rps >= loads.rate_rps * _SAME_LOAD:
            chosen[key] = row
    return [chosen[key] for key in sorted(chosen, key=lambda key: (PHASES.index(key[0]), key[1]))]


def _bucket(loads: Loads, row: BucketLatency) -> Iterator[ComparedFigure]:
    histogram, later_s, basis = _ttft(loads, row) if row.phase is Phase.PREFILL else _tpot(loads, row)
    if histogram is None:
        return
    band = _band(loads.plan, row.phase, _pools(loads.plan, row, row.phase))
    name = "TTFT" if row.phase is Phase.PREFILL else "TPOT"
    at = f"{basis}; promised at {row.rate_rps:.4g} requests/s ({row.load})"
    slo = loads.plan.scenario.slo
    late = [] if slo.late_share is None else [(1 - slo.late_share, slo.statistic, row.late_ms)]
    for q, label, promised in [(0.5, "P50", row.p50_ms), *late]:
        measured = histogram.quantile(q)
        assert measured is not None
        yield _time(
            f"{row.start}-{row.end - 1} tokens",
            row.phase,
            f"{name} {label}",
            promised,
            measured,
            later_s,
            band,
            at,
        )


def _time(
    subject: str,
    phase: Phase,
    name: str,
    promised: float | None,
    measured: TimeQuantile,
    later_s: float,
    band: Band | None,
    basis: str,
) -> ComparedFigure:
    low, high = _time_band(promised, band)
    verdict = Verdict.UNKNOWN
    if low is not None and high is not None:
        low_ms, high_ms = ((edge + later_s) * MS_PER_S for edge in (measured.low, measured.high))
        verdict = Verdict.WORSE if low_ms > high else Verdict.BETTER if high_ms < low else Verdict.AS_PLANNED
        value = (measured.value + later_s) * MS_PER_S
        if verdict is Verdict.AS_PLANNED and not low <= value <= high and not math.isinf(measured.high):
            basis += f"; the histogram's class is {low_ms:.4g} to {high_ms:.4g} ms"
    return ComparedFigure(
        subject=subject,
        phase=phase,
        name=name,
        unit="ms",
        promised=promised,
        measured=(measured.value + later_s) * MS_PER_S,
        low=low,
        high=high,
        verdict=verdict,
        basis=basis,
    )


def _time_band(promised: float | None, band: Band | None) -> tuple[float | None, float | None]:
    """A band of rates turned round."""
    if promised is None:
        return None, None
    if band is None:
        return promised * (1 - TOLERANCE), promised * (1 + TOLERANCE)
    return promised / band.high, promised / band.low


def _ttft(loads: Loads, row: BucketLatency) -> tuple[TimeHistogram | None, float, str]:
    """Of the servers that take the bucket's prompts in, with the mean of those that decode them on top; where only the
    latter tell, theirs alone is the user's."""
    first = _pools(loads.plan, row, Phase.PREFILL)
    first_tokens = loads.histogram(first, Quantity.TTFT)
    touching = [pool for pool in _bucket_pools(loads.plan, row) if pool.phase is Phase.DECODE]
    decoders = [pool.island for pool in touching]
    later = loads.histogram(decoders, Quantity.TTFT)
    if first_tokens is not None:
        if not decoders or set(decoders) & set(first):
            return first_tokens, 0.0, "of the servers that do both phases"
        mean = later.mean if later is not None else None
        if mean is None:
            return (
                first_tokens,
                0.0,
                "of the prefill servers: the cache's way and the first step of decode are not told",
            )
        return (
            first_tokens,
            mean,
            f"of the prefill servers, and {mean * MS_PER_S:.4g} ms on top, the mean of the decode servers'",
        )
    if later is not None and all(row.start <= pool.start and pool.end <= row.end for pool in touching):
        return later, 0.0, "of the decode servers, which tell the user's own"
    return None, 0.0, ""


def _tpot(loads: Loads, row: BucketLatency) -> tuple[TimeHistogram | None, float, str]:
    return loads.histogram(_pools(loads.plan, row, Phase.DECODE), Quantity.TPOT), 0.0, "of the servers that decode"


def _bucket_pools(plan: Plan, row: BucketLatency) -> list[BucketPool]:
    pools = plan.outlook.pools
    return [pool for pool in pools if pool.start < row.end and row.start < pool.end]


def _pools(plan: Plan, row: BucketLatency, phase: Phase) -> list[str]:
    return [pool.island for pool in _bucket_pools(plan, row) if pool.serves(phase)]


def _band(plan: Plan, phase: Phase, islands: Sequence[str]) -> Band | None:
    """The widest of the GPU types there."""
    gpus = {island.gpu for island in plan.islands if island.id in islands}
    bands = [
        estimate.band
        for estimate in plan.provenance.estimates
        if estimate.gpu in gpus and phase in (estimate.phase, *halves_of(estimate.phase)) and estimate.band is not None
    ]
    if not bands:
        return None
    return Band(low=min(band.low for band in bands), high=max(band.high for band in bands))


def _step(plan: Plan, island: ObservedIsland) -> ComparedFigure | None:
    if island.measurement is None or island.predicted_ms is None:
        return None
    step = island.measurement
    band = _band(plan, island.phase, [island.island])
    low, high = _time_band(island.predicted_ms, band)
    assert low is not None
    assert high is not None
    return ComparedFigure(
        subject=island.island,
        phase=island.phase,
        name=f"{island.phase} step",
        unit="ms",
        promised=island.predicted_ms,
        measured=step.ms,
        low=low,
        high=high,
        verdict=Verdict.WORSE if step.ms > high else Verdict.BETTER if step.ms < low else Verdict.AS_PLANNED,
        basis=f"{step.batch:.4g} sequences of {step.length} tokens on an attention group",
    )
