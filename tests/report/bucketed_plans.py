"""A hand-made plan of buckets over the fleet and the lengths of the usual plan; its rates follow from shares."""

from dataclasses import replace

from planner.domain import (
    BucketLatency,
    BucketPlan,
    BucketPool,
    Certificate,
    LoadPoint,
    NodeLoss,
    ObjectiveSettings,
    ParallelConfig,
    Phase,
    Plan,
    PlannedIsland,
    Route,
    SearchRecord,
    ServerConfig,
    SimplerPlan,
    SloSettings,
)

CAPACITY_RPS, PROMISE_RPS, DEMAND_RPS, BURST_RPS = 180.0, 162.0, 120.0, 90.5
UNRESTRICTED_RPS, DEPLOYABLE_RPS = 225.0, 182.5
PREFILL, DECODE = Phase.PREFILL, Phase.DECODE

# (type, phase, from, to, servers, tp, dp, tokens a step, batch, overlapped, share of the bucket, requests/s of the mix)
POOLS = (
    ("H200", PREFILL, 0, 2048, 4, 1, 8, 8192, 64, False, 0.6, 200.0),
    ("H20", PREFILL, 0, 2048, 2, 2, 8, 8192, 64, False, 0.4, 200.0),
    ("H200", PREFILL, 2048, 6400, 4, 2, 4, 16384, 32, False, 0.25, 180.0),
    ("H800", PREFILL, 2048, 6400, 4, 1, 16, 16384, 32, True, 0.75, 180.0),
    ("H20", DECODE, 0, 6400, 3, 1, 32, 0, 96, True, 1.0, 225.0),
)
THREE = (
    ("H200", PREFILL, 0, 6144, 8, 1, 8, 8192, 64, False, 1.0, 200.0),
    ("H800", PREFILL, 6144, 6400, 4, 1, 16, 16384, 32, True, 1.0, 180.0),
    ("H20", DECODE, 0, 256, 1, 1, 32, 0, 96, True, 1.0, 225.0),
    ("H20", DECODE, 256, 1024, 1, 1, 32, 0, 96, True, 1.0, 225.0),
    ("H20", DECODE, 1024, 6400, 2, 1, 32, 0, 96, True, 1.0, 225.0),
)


def bucketed(plan: Plan, rows=POOLS, *, levels: bool = True, **changes) -> Plan:
    """The plan with these pools in place of its islands and routes; `changes` are of its buckets."""
    chances = {span: _chance(plan, *span) for span in {(row[2], row[3]) for row in rows}}
    pools = tuple(_pool(row, number, chances[row[2], row[3]]) for number, row in enumerate(rows))
    buckets = BucketPlan(
        promise_rps=PROMISE_RPS,
        burst_rps=BURST_RPS if levels else CAPACITY_RPS,
        unrestricted_rps=UNRESTRICTED_RPS,
        survival_cost_rps=None,
        levels_set=levels,
        pools=pools,
        latencies=tuple(_latencies(pools, chances, levels=levels)),
        simpler=SIMPLER,
        losses=tuple(
            NodeLoss(island=pool.island, nodes=1, servers=1, rate_rps=150.0 - 10 * number)
            for number, pool in enumerate(pools)
        ),
    )
    scenario = replace(
        plan.scenario,
        name="bucketed",
        slo=SloSettings(ttft_ms=4000, tpot_ms=60, percentile=99) if levels else SloSettings(),
        objective=ObjectiveSettings(demand_rps=DEMAND_RPS),
    )
    trial = replace(plan.search.trials[0], index=0, iteration=0, throughput_rps=CAPACITY_RPS, generator="exact")
    return replace(
        plan,
        scenario=scenario,
        islands=tuple(_island(plan, pool) for pool in pools),
        routing=tuple(_route(pool, chances[pool.start, pool.end]) for pool in pools),
        search=SearchRecord(trials=(trial,), best_trial=0),
        certificate=certificate(CAPACITY_RPS, DEPLOYABLE_RPS),
        buckets=replace(buckets, **changes),
    )


def certificate(rate_rps: float, bound_rps: float, note: str = "the bound is of pools that can be deployed"):
    """Both bounds of a plan for the rate."""
    return Certificate(
        bound_rps=UNRESTRICTED_RPS,
        gap=1 - rate_rps / UNRESTRICTED_RPS,
        objective_value=rate_rps,
        objective_bound=bound_rps,
        objective_gap=1 - rate_rps / bound_rps,
        note=note,
    )


SIMPLER = tuple(
    SimplerPlan(kinds=k, prefill_buckets=p, decode_buckets=d, pools=n, rate_rps=rate, chosen=chosen)
    for k, p, d, n, rate, chosen in (
        (2, 1, 1, 2, 90.0, False),
        (3, 1, 1, 3, 140.0, False),
        (4, 1, 1, 4, 160.0, False),
        (5, 2, 1, 5, 181.0, True),
        (6, 2, 2, 6, 181.0, False),  # no faster than the plan and less simple
        (7, 3, 1, 7, 182.0, False),
    )
)


def _chance(plan: Plan, start: int, end: int) -> float:
    workload = plan.scenario.workload
    return sum(
        p for length, p in zip(workload.input_tokens, workload.probabilities, strict=True) if start <= length < end
    )


def _pool(row, number: int, chance: float) -> BucketPool:
    gpu, phase, start, end, count, tp, dp, tokens, batch, overlapped, share, mix_rps = row
    capacity = mix_rps * chance * share / count
    return BucketPool(
        gpu=gpu,
        phase=phase,
        server=ServerConfig(
            parallel=ParallelConfig(tp=tp, dp=dp), tokens_per_step=tokens, batch_size=batch, overlapped=overlapped
        ),
        count=count,
        start=start,
        end=end,
        capacity_rps=capacity,
        full_rps=1.02 * capacity,
        share=share,
        late_share=0.01,
        island=f"{gpu.lower()}-{tp * dp}g-{phase}-{number + 1}",
    )


def _latencies(pools, chances, *, levels):
    spans = sorted({(pool.phase is DECODE, pool.start, pool.end) for pool in pools})
    loads = {LoadPoint.DEMAND: DEMAND_RPS, LoadPoint.PROMISE: PROMISE_RPS, LoadPoint.CAPACITY: CAPACITY_RPS}
    for load, rate in loads.items():
        for decode, start, end in spans:
            p50 = 0.2 * rate if decode else 5 * rate + end / 10
            yield BucketLatency(
                load=load,
                rate_rps=rate,
                phase=DECODE if decode else PREFILL,
                start=start,
                end=end,
                p50_ms=p50,
                late_ms=1.5 * p50,
                part=chances[start, end],
                bound_ms=(60.0 if decode else 4000.0) if levels else None,
                kept_share=float(1.5 * p50 <= 4000) if levels and not decode else None,
            )


def _island(plan: Plan, pool: BucketPool) -> PlannedIsland:
    price = plan.scenario.inventory.item(pool.gpu).price_usd_per_gpu_hour
    return PlannedIsland(
        id=pool.island,
        gpu=pool.gpu,
        size=pool.gpus,
        phase=pool.phase,
        parallel=replace(pool.server.parallel, replicas=pool.count),
        batch_size=pool.server.batch_size,
        longest_prompt=pool.end - 1,
        rate_rps=CAPACITY_RPS * pool.share,
        utilisation=0.9,
        price_usd_per_hour=price * pool.gpus,
        tokens_per_step=pool.server.tokens_per_step,
        overlapped=pool.server.overlapped,
    )


def _route(pool: BucketPool, chance: float) -> Route:
    return Route(
        phase=pool.phase,
        range_start=pool.start,
        range_end=pool.end,
        probability=chance,
        island=pool.island,
        share=pool.share,
        rate_rps=CAPACITY_RPS * chance * pool.share,
        assigned_rps=pool.count * pool.capacity_rps,
        capacity_rps=pool.count * pool.capacity_rps,
        batch_size=pool.server.batch_size,
        step_ms=40.0,
    )
