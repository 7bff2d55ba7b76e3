"""A replay as the engine would tell it: two buckets, three islands, a failure in the middle; and a sweep of rates."""

import math
from dataclasses import replace

from planner.domain import Phase
from planner.domain.replay import IslandUse, Moment, ReplayGroup, ReplayResult, ReplaySweep, Times
from planner.domain.serving.levels import LevelCheck, Spread
from planner.domain.serving.routing import RouterPolicy

PROMISE_RPS, CAPACITY_RPS = 90.0, 100.0


def spread(mean: float, *, half: float = 0.05) -> Spread:
    """A figure and an interval of `half` of it to either side."""
    return Spread(mean=mean, low=mean * (1 - half), high=mean * (1 + half))


def times(p50_ms: float) -> Times:
    """Times with a tail."""
    return Times(
        mean=spread(1.2 * p50_ms),
        p50=spread(p50_ms),
        p90=spread(2 * p50_ms),
        p95=spread(2.5 * p50_ms),
        p99=spread(4 * p50_ms),
    )


def group(start: int, end: int, requests: int, ttft_ms: float, kept: float) -> ReplayGroup:
    """The requests of a bucket; `end` 0: all."""
    return ReplayGroup(
        start=start,
        end=end,
        requests=requests,
        rate_rps=requests / 100,
        within_levels=Spread(mean=kept, low=kept - 0.004, high=min(1.0, kept + 0.004)),
        goodput_rps=spread(kept * requests / 100),
        ttft_ms=times(ttft_ms),
        tpot_ms=times(20.0),
        end_to_end_ms=times(ttft_ms + 4000),
        queue_ms=times(0.4 * ttft_ms),
        transfer_ms=times(12.0),
        place_ms=None,
        tokens_per_s_p05=spread(21.0),
        hit_share=Spread(mean=0.25, low=0.25, high=0.25),
    )


def island(name: str, gpu: str, phase: Phase, busy: float) -> IslandUse:
    """An island that is so busy."""
    return IslandUse(
        island=name,
        gpu=gpu,
        phase=phase,
        servers=3,
        requests=3000,
        rate_rps=30.0,
        utilisation=spread(busy),
        batch=spread(40.0 if phase is Phase.DECODE else 0.0),
        step_tokens=spread(0.0 if phase is Phase.DECODE else 9000.0),
        kv_share=spread(busy / 2),
        most_kv_share=spread(0.9),
        preempted=spread(0.3),
        wait_ms=times(100.0),
        hit_share=Spread(mean=0.25),
    )


def level(name: str, bound_ms: float, value_ms: float, kept: float) -> LevelCheck:
    """A bound of P99."""
    share = Spread(mean=kept, low=kept - 0.004, high=min(1.0, kept + 0.004))
    return LevelCheck(
        phase=Phase.PREFILL if name == "TTFT" else Phase.DECODE,
        bound_ms=bound_ms,
        needed=0.99,
        share=share,
        value_ms=spread(value_ms),
        requests=9000,
    )


def moments(failure_s: float) -> tuple[Moment, ...]:
    """Sixty stretches of 2 s, requests piling up for 20 s after the failure."""
    rows = []
    for at in range(60):
        start_s = 2.0 * at
        late = max(0.0, 1 - abs(start_s - failure_s - 10) / 10)
        rows.append(
            Moment(
                start_s=start_s,
                seconds=2.0,
                arrived=180 + at % 7,
                finished=round(180 * (1 - late / 2)),
                late=round(90 * late),
                waiting=3 + 400 * late,
                answering=300 - 100 * late,
                ttft_p99_ms=1000.0 + 5000 * late,
            )
        )
    return tuple(rows)


def replayed(rate_rps: float = PROMISE_RPS, *, ttft_ms: float = 500.0, kept: float = 0.995) -> ReplayResult:
    """A replay at a rate, with so many requests within their levels."""
    return ReplayResult(
        plan="two | buckets",
        trace="code",
        router=RouterPolicy.LEAST_WORK.value,
        arrivals="poisson",
        rate_rps=rate_rps,
        promise_rps=PROMISE_RPS,
        capacity_rps=CAPACITY_RPS,
        seeds=(0, 1, 2),
        warm_up_s=12.0,
        seconds=120.0,
        total=group(0, 0, 9000, ttft_ms, kept),
        buckets=(group(0, 2048, 6000, 0.8 * ttft_ms, kept), group(2048, 8192, 3000, 1.5 * ttft_ms, kept)),
        islands=(
            island("prefill-1", "H800", Phase.PREFILL, 0.82),
            island("decode-1", "H20", Phase.DECODE, 0.95),
            island("mixed-1", "H200", Phase.MIXED, 0.6),
        ),
        levels=(level("TTFT", 4000.0, 4 * ttft_ms, kept), level("TPOT", 100.0, 80.0, 0.999)),
        moments=moments(60.0),
        left_out=(("with prompts longer than the plan serves", 7),),
        bottleneck="prefill of prompts of 2,048–8,191 tokens",
        notes=("answers are the mean of their length",),
        events=((60.0, "prefill-1 loses 1 node"),),
    )


def swept() -> ReplaySweep:
    """Six rates; levels hold up to 96 requests/s."""
    rates = (50.0, 70.0, 85.0, 92.0, 96.0, 104.0)
    results = [replayed(rate, ttft_ms=300 / (1 - rate / 110), kept=0.999 if rate <= 96 else 0.9) for rate in rates]
    last = replace(results[-1], unfinished=120)
    return ReplaySweep(results=(*results[:-1], last), held_rps=96.0, step_rps=2.0)


def is_close(figure: float, other: float) -> bool:
    """Whether two figures agree but for rounding."""
    return math.isclose(figure, other, rel_tol=1e-9)
