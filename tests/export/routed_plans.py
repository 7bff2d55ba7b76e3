"""Bucketed plans, drawn cheaply: one to four buckets a phase, one to four pools in each, every figure made up."""

import random
from dataclasses import replace

from export_plans import gpu, island, plan_of, route

from planner.domain import (
    PHASES,
    BucketLatency,
    BucketPlan,
    BucketPool,
    LengthProfile,
    LoadPoint,
    ParallelConfig,
    Phase,
    Plan,
    PlannedIsland,
    Route,
    RouterPolicy,
    ServerConfig,
)

LONGEST = 16_384
_SHAPES = (ParallelConfig(tp=8, dp=1), ParallelConfig(tp=4, dp=2, replicas=2), ParallelConfig(tp=8, dp=1, replicas=3))


def cuts(draw: random.Random, count: int) -> list[int]:
    """Ends of `count` buckets that begin at 0."""
    return [*sorted(draw.sample(range(64, LONGEST, 64), count - 1)), LONGEST]


def bucketed_plan(
    seed: int, *, mixed: bool = False, policy: RouterPolicy = RouterPolicy.LEAST_WORK, most: int = 4
) -> Plan:
    """The `seed`-th drawn plan, of `most` buckets a phase at most; `mixed`: every island does both phases."""
    draw = random.Random(seed)  # no secret
    islands: list[PlannedIsland] = []
    routes: list[Route] = []
    pools: list[BucketPool] = []
    latencies: list[BucketLatency] = []
    for phase in (Phase.MIXED,) if mixed else PHASES:
        start = 0
        for bucket, end in enumerate(cuts(draw, draw.randint(1, most))):
            shares = [draw.random() + 0.1 for _ in range(draw.randint(1, 4))]
            for pool, share in enumerate(shares):
                name = f"{phase.value[0]}{bucket}-{pool}"
                kind = draw.choice(("H20", "H200"))
                planned = replace(
                    island(name, kind, phase, draw.choice(_SHAPES)), longest_prompt=end - 1, tokens_per_step=8192
                )
                islands.append(planned)
                pools.append(_pool(planned, phase, start, end, share / sum(shares)))
                routes += [
                    route(name, half, start, share / sum(shares), end - start)
                    for half in (PHASES if mixed else (phase,))
                ]
            latencies += [_latency(half, start, end) for half in (PHASES if mixed else (phase,))]
            start = end
    plan = plan_of(tuple(islands), gpus=(gpu("H20"), gpu("H200")), name=f"drawn-{seed}", routing=tuple(routes))
    scenario = replace(
        plan.scenario,
        workload=_workload(plan),
        routing=replace(plan.scenario.routing, policy=policy),
        slo=replace(plan.scenario.slo, ttft_ms=2000.0, tpot_ms=50.0),
    )
    return replace(plan, scenario=scenario, buckets=_buckets(tuple(pools), tuple(latencies)))


def _workload(plan: Plan) -> LengthProfile:
    """Prompts at both ends of every bucket, and in its middle."""
    spans = {(route.range_start, route.range_end) for route in plan.routing}
    lengths = sorted({max(1, tokens) for start, end in spans for tokens in (start, (start + end) // 2, end - 1)})
    chances = tuple(1 / len(lengths) for _ in lengths)
    return replace(plan.scenario.workload, input_tokens=tuple(lengths), probabilities=chances)


def _pool(planned: PlannedIsland, phase: Phase, start: int, end: int, share: float) -> BucketPool:
    assert planned.parallel is not None
    return BucketPool(
        gpu=planned.gpu,
        phase=phase,
        server=ServerConfig(parallel=replace(planned.parallel, replicas=1), tokens_per_step=8192),
        count=planned.parallel.replicas,
        start=start,
        end=end,
        capacity_rps=4.0,
        full_rps=5.0,
        share=share,
        island=planned.id,
    )


def _latency(phase: Phase, start: int, end: int) -> BucketLatency:
    late = 900.0 if phase is Phase.PREFILL else 40.0
    return BucketLatency(
        load=LoadPoint.CAPACITY,
        rate_rps=10.0,
        phase=phase,
        start=start,
        end=end,
        part=1.0,
        p50_ms=late / 3,
        late_ms=late,
        bound_ms=None,
        kept_share=None,
    )


def _buckets(pools: tuple[BucketPool, ...], latencies: tuple[BucketLatency, ...]) -> BucketPlan:
    return BucketPlan(
        promise_rps=9.0,
        burst_rps=None,
        unrestricted_rps=None,
        survival_cost_rps=None,
        levels_set=True,
        pools=pools,
        latencies=latencies,
        simpler=(),
        losses=(),
    )
