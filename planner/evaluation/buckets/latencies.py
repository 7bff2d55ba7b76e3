"""Times that requests see of the pools of a plan, by bucket, at a rate of the whole mix."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.cost import time_band
from planner.cost.serving import DecodeServers, Levels, MixedServers, PrefillServers, RestOfStep, WaitTail, late_share
from planner.domain import PHASES, BucketLatency, BucketPool, LoadPoint, Phase, Question, Scenario
from planner.evaluation.buckets.priced import PricedBucket, Span
from planner.evaluation.buckets.transfer import UplinkLoad

FULL = 1 - 1e-9
MEDIAN = 0.5
UNASKED_DEVIATIONS = 2.3263  # quantile of the normal distribution at `UNASKED`
_RAREST = 1e-4  # share of the requests beyond which a mean is not summed up
_POINTS = 400
_HALVINGS = 40

_Waits = tuple[np.ndarray, WaitTail, RestOfStep]
_Queue = tuple[float, np.ndarray, _Waits]  # weight of its requests, then as servers say


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTimes:
    """What times are held against: bounds by range, and the share that may be later than the time that is told (None:
    the mean is told). `deviations`: standard ones of the load above its mean that so few moments pass. `scenario`: it
    decides how far off times may be."""

    scenario: Scenario
    levels: Levels
    late: float | None
    deviations: float

    @classmethod
    def of(cls, question: Question) -> "JudgedTimes":
        """As the scenario asks; P99 where nothing is bounded."""
        slo = question.scenario.slo
        levels = Levels.of(slo, question.workload)
        deviations = levels.spread if slo.bounds_anything else UNASKED_DEVIATIONS
        return cls(scenario=question.scenario, levels=levels, late=slo.late_share, deviations=deviations)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """Times of a bucket (ms; None: no end), its bound, and the share of its requests that keeps it."""

    p50_ms: float | None = None
    late_ms: float | None = None
    bound_ms: float | None = None
    kept_share: float | None = None


def latencies_at(
    load: LoadPoint, rate: float, buckets: Sequence[PricedBucket], judged: JudgedTimes, crossing: Sequence[UplinkLoad]
) -> Iterator[BucketLatency]:
    """TTFT of every prefill bucket and TPOT of every decode bucket; None where a queue has no end. `crossing`: what
    uplinks carry; the late time has all that so few caches wait longer for, the median time what they wait for on
    average."""
    first_ms = first_step_ms(buckets, rate, judged)
    usual_ms, late_ms = (
        first_ms + max((uplink.delay_ms(rate, late) for uplink in crossing), default=0.0)
        for late in (None, judged.late)
    )
    for phase in PHASES:
        for span, of_span in _by_span(buckets, phase):
            if phase is Phase.DECODE:
                times = _tpot(of_span, rate, judged)
            else:
                times = _ttft(of_span, rate, late_ms, judged)
                if crossing:
                    times = replace(times, p50_ms=_ttft(of_span, rate, usual_ms, judged).p50_ms)
            low_ms, high_ms = _ends(times.late_ms, phase, of_span, judged.scenario)
            yield BucketLatency(
                load=load,
                rate_rps=rate,
                phase=phase,
                start=span[0],
                end=span[1],
                part=float(of_span[0].buckets.probabilities[0]),
                p50_ms=times.p50_ms,
                late_ms=times.late_ms,
                bound_ms=times.bound_ms,
                kept_share=times.kept_share,
                low_ms=low_ms,
                high_ms=high_ms,
            )


def _ends(
    late_ms: float | None, phase: Phase, groups: Sequence[PricedBucket], scenario: Scenario
) -> tuple[float | None, float | None]:
    """P10 and P90 of a late time, the widest of the GPU types that serve the bucket; None where nothing has a band.

    P90 of a TTFT is of steps of prefill that last as long as lies between their starts. Which is true is not known:
    without queues first tokens took 1.4 to 2.3 steps of kernels on NVIDIA's GPUs, fixed parts aside, 0.8 on MI355X."""
    gpus = sorted({pool.gpu for bucket in groups for pool in bucket.pools})
    specs = (scenario.inventory.item(gpu).gpu for gpu in gpus)
    bands = [band for spec in specs if (band := time_band(spec, scenario.model, phase, scenario.cost)) is not None]
    if late_ms is None or not bands:
        return None, None
    paces = [s.pace for bucket in groups for s in bucket.servers if isinstance(s, PrefillServers)]
    longest_ms = late_ms / min(paces, default=1.0)
    return late_ms * min(band.low for band in bands), longest_ms * max(band.high for band in bands)


def first_step_ms(buckets: Sequence[PricedBucket], rate: float, judged: JudgedTimes) -> float:
    """What the first decode step takes of a TTFT at a rate of the whole mix: a step of the slowest decode pool."""
    decoding = [bucket for bucket in buckets if bucket.phase is Phase.DECODE]
    return max((_tpot([bucket], rate, judged).p50_ms or 0.0 for bucket in decoding), default=0.0)


def _by_span(buckets: Sequence[PricedBucket], phase: Phase) -> list[tuple[Span, list[PricedBucket]]]:
    """The buckets of a phase with the pools of that phase and of both."""
    spans: dict[Span, list[PricedBucket]] = {}
    for bucket in buckets:
        if bucket.phase in (phase, Phase.MIXED):
            spans.setdefault(bucket.span, []).append(bucket)
    return sorted(spans.items())


def _rate_of_server(bucket: PricedBucket, pool: BucketPool, rate: float) -> float:
    """Requests/s of the bucket that one server of the pool gets."""
    return rate * bucket.probability * pool.share / pool.count


def _ttft(groups: Sequence[PricedBucket], rate: float, first_ms: float, judged: JudgedTimes) -> _Times:
    """TTFT over the requests of a bucket, those of its pools together."""
    weights, bounds = groups[0].buckets.weights[0], judged.levels.ttft_ms
    bounded = np.where(np.isfinite(bounds), weights, 0.0)
    bound_ms = float((np.where(bounded > 0, bounds, 0.0) * bounded).sum() / bounded.sum()) if bounded.any() else None
    queues: list[_Queue] = []
    if not math.isfinite(first_ms):
        return _Times(bound_ms=bound_ms, kept_share=None if bound_ms is None or judged.late is None else 0.0)
    for bucket in groups:
        for pool, servers, together_rps in zip(bucket.pools, bucket.servers, bucket.seen_rps, strict=True):
            assert not isinstance(servers, DecodeServers)
            served = _rate_of_server(bucket, pool, rate)
            if served > pool.full_rps * FULL:
                return _Times(bound_ms=bound_ms, kept_share=None if bound_ms is None or judged.late is None else 0.0)
            if pool.share:
                queues.append(_queue(bucket, pool, servers, served, together_rps, first_ms))
    of_bucket = sum(part for part, *_ in queues)

    def later(limit_ms: float | np.ndarray, of: np.ndarray = weights) -> float:
        """Share of the requests whose TTFT passes the limit, one for all ranges or one each."""
        return sum(part / of_bucket * _late(limit_ms - service, of, *waits) for part, service, waits in queues)

    kept_share = None
    if bound_ms is not None and judged.late is not None:
        kept_share = 1 - later(np.where(bounded > 0, bounds, 0.0), bounded / bounded.sum())
    return _Times(
        p50_ms=_quantile(later, MEDIAN),
        late_ms=_mean(later) if judged.late is None else _quantile(later, judged.late),
        bound_ms=bound_ms,
        kept_share=kept_share,
    )


def _late(slack: np.ndarray, weights: np.ndarray, rho: np.ndarray, tail: WaitTail, under_way: RestOfStep) -> float:
    """Share of a pool's requests whose wait passes the slack of their range."""
    return float(late_share(slack, rho, tail.at(slack @ weights), under_way)[0, 0] @ weights)


def _queue(
    bucket: PricedBucket,
    pool: BucketPool,
    servers: PrefillServers | MixedServers,
    served: float,
    together_rps: float,
    first_ms: float,
) -> _Queue:
    """A pool's queue among so much X; the first token of a split request comes with the first step of its decode."""
    service, rho, tail, under_way = servers.queue(
        bucket.buckets,
        np.array([[served]]),
        np.array([[pool.full_rps]]),
        np.array([together_rps]),
        bucket.arrivals,
    )
    later_ms = 0.0 if isinstance(servers, MixedServers) else first_ms
    return pool.share, service + later_ms, (rho, tail, under_way)


def _quantile(later: Callable[[float], float], misses: float) -> float:
    high = 1.0
    while later(high) > misses:
        high *= 2
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if later(middle) > misses else (low, middle)
    return high


def _mean(later: Callable[[float], float]) -> float:
    """The mean of a time by the shares that are later, closer to each other where most requests are."""
    steps = _quantile(later, _RAREST) * (np.arange(_POINTS + 1) / _POINTS) ** 2
    return float(np.trapezoid([later(step) for step in steps], steps))


def _tpot(groups: Sequence[PricedBucket], rate: float, judged: JudgedTimes) -> _Times:
    """Times per output token at the mean load, and at a load that as few moments pass as may be late, of the slowest
    pool. A batch is of prompts of all lengths, so the tightest of their bounds is theirs."""
    members = groups[0].buckets.weights[0] > 0
    tightest = float(np.where(members, judged.levels.tpot_ms, np.inf).min())
    bound_ms = tightest if np.isfinite(tightest) else None
    times = []
    for bucket in groups:
        for pool, servers in zip(bucket.pools, bucket.servers, strict=True):
            assert not isinstance(servers, PrefillServers)
            served = np.array([[_rate_of_server(bucket, pool, rate)]])
            batch = np.array([[float(pool.server.batch_size)]])
            if served[0, 0] > pool.full_rps * (1 + 1e-9):
                return _Times(bound_ms=bound_ms)
            times.append(
                tuple(
                    float(servers.tpot_ms(bucket.buckets, served, batch, deviations)[0, 0])
                    for deviations in (0.0, judged.deviations)
                )
            )
    return _Times(p50_ms=max(mean for mean, _ in times), late_ms=max(late for _, late in times), bound_ms=bound_ms)
