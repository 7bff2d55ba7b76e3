"""The figures of one plan that others are held against."""

from collections.abc import Iterator, Sequence

from planner.domain import Plan, Route, halves_of
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
        promise_rps=outlook.promise_rps,
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


def pool_figures(plan: Plan) -> Iterator[PoolFigures]:
    """Islands that serve, each with the lengths that come to it and its share of their requests."""
    for island in plan.islands:
        if island.phase is None or island.parallel is None:
            continue
        half, parallel = halves_of(island.phase)[0], island.parallel
        routes = [route for route in plan.routing if route.island == island.id and route.phase is half]
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
            share=_share(routes),
            utilisation=island.utilisation,
        )


def _share(routes: Sequence[Route]) -> float:
    """Of the requests of all their ranges; that of a single route is told as it stands, without rounding."""
    if len(routes) == 1:
        return routes[0].share
    requests = sum(route.probability for route in routes)
    return sum(route.share * route.probability for route in routes) / requests if requests else 0.0


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
