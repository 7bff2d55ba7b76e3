"""Plans beside each other: who is likely better, and what keeps them from being compared."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from planner.cost import shares_of_best
from planner.domain import Plan, Route, halves_of
from planner.domain.comparisons import (
    ComparedPlan,
    KeyDifference,
    LatencyFigures,
    PlanComparison,
    PlanFigures,
    PoolFigures,
)
from planner.domain.serving.levels import judged_levels
from planner.plans.rate_bands import compare_rates, uncertain_rate

LONGEST_VALUE = 48
_OF_TYPES = ("prices_usd_per_gpu_hour.", "node_selectors.")
ABSENT, LONG = "–", "differs (too long to show)"


def compare_plans(plans: Mapping[str, Plan], keys: Sequence[Mapping[str, object]]) -> PlanComparison:
    """Plans by name, in their order. `keys`: the scenario of each, dotted key -> value."""
    rows = [
        ComparedPlan(figures=plan_figures(plan, name), pools=tuple(pool_figures(plan)), latencies=latency_figures(plan))
        for name, plan in plans.items()
    ]
    return PlanComparison(
        plans=tuple(_with_odds(rows, list(plans.values()))),
        same_work=len({(plan.scenario.model, plan.scenario.workload) for plan in plans.values()}) == 1,
        differences=tuple(key_differences(keys)),
        warnings=tuple(_warnings(list(plans.values()))),
    )


def _with_odds(rows: Sequence[ComparedPlan], plans: Sequence[Plan]) -> list[ComparedPlan]:
    """The rows with how likely each is better than the first, and best of all."""
    comparisons = [compare_rates(plans[0], plan) for plan in plans]
    odds = [None if comparison is None else comparison.probability_faster for comparison in comparisons]
    shares: Sequence[float | None] | None = None
    if all(value is not None for value in odds):
        shares = shares_of_best([uncertain_rate(plan) for plan in plans], [1.0] * len(plans))
    best = shares or [None] * len(rows)
    return [
        replace(row, better_than_first=chance, best_probability=best_chance)
        for row, chance, best_chance in zip(rows, odds, best, strict=True)
    ]


def key_differences(keys: Sequence[Mapping[str, object]]) -> list[KeyDifference]:
    """Keys that are not the same in all scenarios; of GPU types that some lack, the inventory alone."""
    names = dict.fromkeys(key for scenario in keys for key in scenario)
    differing = [name for name in names if any(scenario.get(name) != keys[0].get(name) for scenario in keys)]
    return [
        KeyDifference(key=name, values=tuple(_shown(scenario, name) for scenario in keys))
        for name in differing
        if not (name.startswith(_OF_TYPES) and len({scenario[name] for scenario in keys if name in scenario}) == 1)
    ]


def _shown(scenario: Mapping[str, object], key: str) -> str:
    value = scenario.get(key)
    text = ABSENT if value is None else str(value)
    return text if len(text) <= LONGEST_VALUE else LONG


_ASPECTS: Mapping[str, Callable[[Plan], object]] = {
    "models": lambda plan: plan.scenario.model.name,
    "workloads": lambda plan: plan.scenario.workload.name,
    "service levels": lambda plan: plan.scenario.slo,
    "cost modes": lambda plan: plan.scenario.cost.mode.value,
    "calibrations": lambda plan: plan.provenance.calibration,
    "planner versions": lambda plan: plan.provenance.planner_version,
    "routing forms": lambda plan: plan.scenario.routing_form.value,
}
_WHY = {
    "models": "their requests/s are of different work",
    "workloads": "their requests/s are of different work",
    "service levels": "a looser level allows a higher rate",
    "cost modes": "their rates follow different rules",
    "calibrations": "their rates follow different efficiency factors",
    "planner versions": "their rates may follow different formulas",
    "routing forms": "rates of buckets count queues, and those of a table only under levels",
}


def _warnings(plans: Sequence[Plan]) -> list[str]:
    """What makes the plans answers to different questions, a sentence each."""
    sentences = []
    for aspect, read in _ASPECTS.items():
        values = [read(plan) for plan in plans]
        distinct = list(dict.fromkeys(values))
        if len(distinct) > 1:
            listed = "" if aspect == "service levels" else f" ({', '.join(map(str, distinct))})"
            sentences.append(f"The plans have different {aspect}{listed}: {_WHY[aspect]}.")
    contents = {plan.scenario.workload.name: plan.scenario.workload for plan in plans}
    if any(contents[plan.scenario.workload.name] != plan.scenario.workload for plan in plans):
        sentences.append("Workloads of one name have different lengths: their requests/s are of different work.")
    if any(plan.provenance.unverified for plan in plans):
        sentences.append("A plan was saved without digests, so it may have been edited: plan it again.")
    return sentences


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
