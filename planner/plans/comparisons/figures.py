"""The figures of one plan that others are held against."""

from collections.abc import Iterator

from planner.domain import BucketPlan, Plan
from planner.domain.comparisons import LatencyFigures, PlanFigures, PoolFigures
from planner.domain.serving.levels import judged_levels


def plan_figures(plan: Plan, name: str) -> PlanFigures:
    """What is compared of a plan; `name` is what it is called beside others."""
    certificate, outlook = plan.certificate, plan.outlook
    serving = [island for island in plan.islands if island.phase is not None]
    losses = outlook.losses
    items = plan.scenario.inventory.items
    return PlanFigures(
        name=name,
        form=plan.scenario.routing_form.value,
        rate_rps=plan.throughput_rps,
        promise_rps=outlook.promise_rps if outlook.pools else None,
        burst_rps=outlook.burst_rps if outlook.bursts_bind else None,
        band=plan.rate_band,
        price_usd_per_hour=plan.price_usd_per_hour if plan.priced else None,
        price_usd_per_million_tokens=plan.price_usd_per_million_tokens if plan.priced else None,
        watts=sum(item.gpu.max_w * plan.fleet[item.gpu.name] for item in items),
        unit=plan.scenario.objective.kind.row.unit,
        value=certificate.objective_value if certificate else None,
        bound=certificate.objective_bound if certificate else None,
        gap=certificate.objective_gap if certificate else None,
        unrestricted_rps=certificate.bound_rps if certificate else None,
        levels=judged_levels(plan),
        fleet=tuple(plan.fleet.items()),
        idle_gpus=sum(plan.fleet.values()) - sum(island.size for island in serving),
        pools=len(serving),
        kinds=len({(island.gpu, island.parallel, island.batch_size, island.tokens_per_step) for island in serving}),
        lost_nodes=min((loss.nodes for loss in losses), default=plan.scenario.survive.nodes),
        remaining_rps=min((loss.rate_rps for loss in losses), default=None),
        survive_share=plan.scenario.survive.share,
    )


def pool_figures(plan: Plan) -> tuple[PoolFigures, ...]:
    """Pools of a plan of buckets, islands of any other, those that serve."""
    busy = {island.id: island.utilisation for island in plan.islands}
    return tuple(_of_buckets(plan.buckets, busy) if plan.buckets is not None else _of_islands(plan))


def _of_buckets(buckets: BucketPlan, busy: dict[str, float]) -> Iterator[PoolFigures]:
    for pool in buckets.pools:
        parallel = pool.server.parallel
        yield PoolFigures(
            island=pool.island,
            phase=pool.phase,
            gpu=pool.gpu,
            servers=pool.count,
            gpus=parallel.devices,
            tp=parallel.tp,
            dp=parallel.dp,
            pp=parallel.pp,
            tokens_per_step=pool.server.tokens_per_step,
            batch_size=pool.server.batch_size,
            start=pool.start,
            end=pool.end,
            share=pool.share,
            utilisation=busy.get(pool.island, 0.0),
        )


def _of_islands(plan: Plan) -> Iterator[PoolFigures]:
    for island in plan.islands:
        if island.phase is None or island.parallel is None:
            continue
        routes = [route for route in plan.routing if route.island == island.id]
        parallel = island.parallel
        yield PoolFigures(
            island=island.id,
            phase=island.phase,
            gpu=island.gpu,
            servers=parallel.replicas,
            gpus=parallel.devices,
            tp=parallel.tp,
            dp=parallel.dp,
            pp=parallel.pp,
            tokens_per_step=island.tokens_per_step,
            batch_size=island.batch_size,
            start=min((route.range_start for route in routes), default=0),
            end=max((route.range_end for route in routes), default=island.longest_prompt + 1),
            share=island.rate_rps / plan.throughput_rps if plan.throughput_rps else 0.0,
            utilisation=island.utilisation,
        )


def latency_figures(plan: Plan) -> tuple[LatencyFigures, ...]:
    """Times by bucket and load; none where the plan has no buckets."""
    rows = plan.outlook.latencies
    return tuple(
        LatencyFigures(
            load=row.load.value,
            rate_rps=row.rate_rps,
            phase=row.phase,
            start=row.start,
            end=row.end,
            p50_ms=row.p50_ms,
            statistic=plan.scenario.slo.statistic,
            late_ms=row.late_ms,
        )
        for row in rows
    )
