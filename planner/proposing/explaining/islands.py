"""Why an island of a plan of a table is what it is.

| symbol | meaning | unit |
|---|---|---|
| w[j] | share of the island's requests that are of range j | 1 |
| R[c, j] | rate of configuration c at the middle of the range, as `planner cost configurations` has it | requests/s |
| R[c] | rate of its mix: 1 / sum_j w / R | requests/s |
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from planner.assignment import relax
from planner.cost import compare_configurations
from planner.domain import ConfigurationRates, CostMode, InventoryItem, Plan, PlannedIsland, SizeSet, halves_of
from planner.domain.explanations import IslandExplanation, RivalIsland
from planner.errors import InfeasibleError, InputError, SolverError
from planner.evaluation.evaluator import Evaluator
from planner.proposing.certificate import RATE, is_exact, layout_settings, offer_of
from planner.proposing.feasibility import posed

MOST_RIVALS = 6
Mix = tuple[tuple[int, float], ...]


def explain_island(plan: Plan, island_id: str) -> IslandExplanation:
    """Why an island that serves is what it is. Raises InputError where the plan has none of that name that serves."""
    island = _island(plan, island_id)
    assert island.phase is not None, "an island that serves has a phase"
    assert island.parallel is not None, "an island that serves has a configuration"
    mix = _mix(plan, island)
    rates = _rates(plan, plan.scenario.inventory.item(island.gpu), island, mix)
    rivals = [_rival(plan, row, mix, row.parallel == island.parallel) for row in rates]
    serving = sorted((r for r in rivals if r.rate_rps > 0), key=lambda rival: -rival.rate_rps)
    bound = plan.certificate.bound_rps if plan.certificate else None
    return IslandExplanation(
        plan=plan.scenario.name,
        island=island.id,
        gpu=island.gpu,
        size=island.size,
        phase=island.phase,
        lengths=mix,
        utilisation=island.utilisation,
        rivals=tuple(rival for rank, rival in enumerate(serving) if rank < MOST_RIVALS or rival.chosen),
        others=tuple(_others(plan, island, mix)),
        unfit=len(rivals) - len(serving),
        one_less_rps=_without(plan, island),
        bound_rps=bound,
        notes=tuple(_notes(plan)),
    )


def _island(plan: Plan, island_id: str) -> PlannedIsland:
    for island in plan.islands:
        if island.id == island_id:
            if island.phase is None:
                raise InputError(
                    f"plan {plan.scenario.name}: island {island_id} serves nothing: {island.note or 'it is idle'}.",
                    hint="Explain one that serves.",
                )
            return island
    names = ", ".join(island.id for island in plan.islands if island.phase is not None)
    raise InputError(
        f"plan {plan.scenario.name}: must have an island {island_id!r}, has none.", hint=f"Its islands are {names}."
    )


def _mix(plan: Plan, island: PlannedIsland) -> Mix:
    """Middles of the ranges that the island serves, with the share of its requests."""
    assert island.phase is not None, "an island that serves has a phase"
    half = halves_of(island.phase)[0]
    routes = [r for r in plan.routing if r.island == island.id and r.phase is half and r.rate_rps > 0]
    total = sum(route.rate_rps for route in routes)
    return tuple((max(1, (r.range_start + r.range_end) // 2), r.rate_rps / total) for r in routes)


def _rates(plan: Plan, item: InventoryItem, island: PlannedIsland, mix: Mix) -> Sequence[ConfigurationRates]:
    scenario = plan.scenario
    assert island.phase is not None, "an island that serves has a phase"
    return compare_configurations(
        item.gpu,
        scenario.model,
        halves_of(island.phase)[0],
        size=island.size,
        lengths=[length for length, _ in mix],
        mean_output_tokens=scenario.workload.mean_output_tokens,
        max_output_tokens=scenario.workload.max_output_tokens,
        settings=scenario.cost,
    )


def _rival(plan: Plan, row: ConfigurationRates, mix: Mix, chosen: bool) -> RivalIsland:
    parallel, price = row.parallel, plan.scenario.inventory.item(row.gpu).rent_usd_per_gpu_hour
    rate = mean_rate(row.rates_rps, mix)
    return RivalIsland(
        gpu=row.gpu,
        tp=parallel.tp,
        dp=parallel.dp,
        pp=parallel.pp,
        replicas=parallel.replicas,
        rate_rps=rate,
        per_gpu_rps=rate / parallel.size,
        per_usd=rate / (parallel.size * price) if price > 0 else None,
        chosen=chosen,
    )


def mean_rate(rates_rps: Sequence[float], mix: Mix) -> float:
    """R[c]; 0 where some range of the mix is not served."""
    if not all(rate > 0 for rate in rates_rps):
        return 0.0
    return 1 / sum(share / rate for rate, (_, share) in zip(rates_rps, mix, strict=True))


def _others(plan: Plan, island: PlannedIsland, mix: Mix) -> Iterator[RivalIsland]:
    """The best configuration of every GPU type on as many GPUs, the best per GPU first, or per USD where the objective
    counts them."""
    best = []
    for item in plan.scenario.inventory.items:
        rows = [_rival(plan, row, mix, False) for row in _rates(plan, item, island, mix)]
        if rows:
            best.append(max(rows, key=lambda row: row.rate_rps))
    priced = plan.scenario.objective.kind.row.priced
    yield from sorted(best, key=lambda row: -((row.per_usd or 0.0) if priced else row.rate_rps))


def _without(plan: Plan, island: PlannedIsland) -> float | None:
    fleet = plan.fleet | {island.gpu: plan.fleet[island.gpu] - island.size}
    with suppress(SolverError):
        return most_of_table(plan, fleet)
    return None


def _notes(plan: Plan) -> Iterator[str]:
    if plan.scenario.slo.bounds_anything:
        yield "rates are those without service levels"
    if plan.placement is not None:
        yield "where the island lies on nodes is not looked at"
    if plan.scenario.cost.mode is CostMode.REFERENCE:
        yield "rates follow the published paper and are not physical"


def most_of_table(plan: Plan, fleet: Mapping[str, int]) -> float | None:
    """What no layout of so many GPUs serves more than; None where nothing serves. Raises SolverError."""
    scenario = plan.scenario
    items = tuple(
        replace(item, count=fleet[item.gpu.name]) for item in scenario.inventory.items if fleet[item.gpu.name]
    )
    if not items:
        return None
    fewer = replace(scenario, inventory=replace(scenario.inventory, items=items))
    try:
        evaluator = Evaluator(posed(fewer))
        sizes = scenario.search.sizes if is_exact(scenario) else SizeSet.ALL
        return relax(offer_of(fewer, evaluator, sizes), RATE, layout_settings(scenario)).rate
    except InfeasibleError:
        return None
