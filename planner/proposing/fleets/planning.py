"""Door: the plan of a fleet. Its nodes are divided, every deployment is planned on its own, and what is left fills
with work that waits."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from planner.assignment import cheapest_addition
from planner.domain import Plan, Scenario
from planner.domain.fleets import (
    BatchFill,
    Deployment,
    DivisionSearch,
    FleetAim,
    FleetJudge,
    FleetObjective,
    FleetPart,
    FleetPlan,
    FleetScenario,
    FleetService,
    on_gpus,
)
from planner.errors import InfeasibleError, InputError
from planner.proposing.fleets.accounts import node_worths, shares_of
from planner.proposing.fleets.deployments import batch_deployments, deployments_of
from planner.proposing.fleets.dividing import (
    MET,
    DividedFleet,
    FleetPricing,
    SharePlans,
    Tell,
    divided,
    promised_rps,
    worth_of_rates,
)
from planner.proposing.fleets.placing import PlaceOne, placed_parts

DAY_S = 86_400.0
PlanOne = Callable[[Scenario], Plan]

OF_FORMS = "the bound is of the forms of serving that the plans chose"
PARTIAL = "the bound is of divisible servers: not every cut of lengths was solved for with whole ones"
OFF_NODES = "the bound is of servers that lie as close together as can be: nodes only take from what formulas allow"
UNBOUNDED = "there is no bound: replays may hold more than formulas allow, and no programme knows what they hold"


def planned_fleet(
    fleet: FleetScenario, plan_one: PlanOne, place_one: PlaceOne, tell: Tell = lambda _: None
) -> FleetPlan:
    """The plan of a fleet; `plan_one` plans a deployment on its GPUs, `place_one` puts its plan on nodes. Raises
    InfeasibleError where demands or floors cannot be met together, with how far they can be and what would be added for
    least rent."""
    deployments, judge = deployments_of(fleet), fleet.objective.judged
    if len(deployments) == 1 and judge is FleetJudge.FORMULA:
        return alone(fleet, deployments[0], plan_one, tell)
    if len(deployments) == 1:
        raise InputError(
            f"fleet {fleet.name}: objective.judged: must be formula where there is one deployment, which has all "
            f"nodes: there is nothing to divide, got {judge.value}.",
            hint=f"Plan it as a scenario of one service, with objective.kind {judge.value}.",
        )
    division = best_division(fleet, deployments, tell)
    if judge is not FleetJudge.FORMULA:
        return _searched(division, plan_one, place_one, tell)
    return fleet_on(division, plan_one, tell)


def best_division(
    fleet: FleetScenario,
    deployments: Sequence[Deployment],
    tell: Tell = lambda _: None,
    plans: SharePlans | None = None,
) -> DividedFleet:
    """As `divided`; where demands or floors cannot be met, the error says how far they can be and what would do."""
    try:
        division = divided(fleet, deployments, tell, plans)
    except InfeasibleError:
        raise _not_met(fleet, deployments) from None
    if not math.isfinite(division.value):  # plans on their shares fall short of what the programme thought
        raise _not_met(fleet, deployments)
    return division


def fleet_on(division: DividedFleet, plan_one: PlanOne, tell: Tell = lambda _: None) -> FleetPlan:
    """The plan of a fleet on divided nodes; batches fill what is left."""
    parts = _planned(division, plan_one, tell)
    return _assembled(division, parts, _filled(division.pricing.fleet, parts, plan_one, tell))


def _assembled(
    division: DividedFleet,
    parts: tuple[FleetPart, ...],
    batches: tuple[BatchFill, ...],
    searched: DivisionSearch | None = None,
) -> FleetPlan:
    """The plan of these parts: what they promise, who pays, and how good that is at most."""
    fleet = division.pricing.fleet
    used, rates = [part.deployment for part in parts], [part.plan.throughput_rps for part in parts]
    rent = _rent(fleet, parts)
    _, promised_value = worth_of_rates(fleet, used, rates, rent)
    value = promised_value if searched is None else searched.value
    sign = -1.0 if fleet.objective.kind.row.minimises else 1.0
    promised = promised_rps(fleet, used, rates)
    bounded = fleet.objective.judged is not FleetJudge.REPLAYED
    return FleetPlan(
        fleet=fleet,
        parts=parts,
        shares=shares_of(replace(division, value=promised_value), promised, rent, used[0].scenario.search.seed),
        value=value,
        bound=sign * max(sign * division.bound, sign * value) if bounded else None,
        worths=node_worths(division),
        batches=batches,
        note="; ".join(_notes(fleet.objective.judged, partial=division.pricing.partial)),
        searched=searched,
    )


def _notes(judge: FleetJudge, *, partial: bool) -> Iterator[str]:
    """What the bound is of."""
    if judge is FleetJudge.REPLAYED:
        yield UNBOUNDED
        return
    yield OF_FORMS
    if judge is FleetJudge.PLACED:
        yield OFF_NODES
    if partial:
        yield PARTIAL


def _searched(division: DividedFleet, plan_one: PlanOne, place_one: PlaceOne, tell: Tell) -> FleetPlan:
    """The plan of the best division that a search finds, from the programme's on."""
    from planner.proposing.fleets.searching import search_division  # noqa: PLC0415  (few fleets are searched for)

    fleet = division.pricing.fleet
    outcome = search_division(division, plan_one, place_one, tell)
    parts = tuple(part for part in outcome.chosen.parts if part is not None)
    fills = _filled(fleet, parts, plan_one, tell)
    if fleet.objective.judged is FleetJudge.PLACED:
        fills = _placed_fills(fleet, parts, fills, place_one)
    return _assembled(division, parts, fills, outcome.search)


def _placed_fills(
    fleet: FleetScenario, parts: Sequence[FleetPart], fills: Sequence[BatchFill], place_one: PlaceOne
) -> tuple[BatchFill, ...]:
    """Batches on nodes that no other has; one without room does nothing."""
    placements = [part.plan.placement for part in parts]
    busy = frozenset(piece.node for placement in placements if placement is not None for piece in placement.parts)
    outcome = placed_parts(fleet, [fill.part for fill in fills if fill.part is not None], place_one, busy)
    plans = iter(outcome.plans)
    placed = []
    for fill in fills:
        plan = None if fill.part is None else next(plans)
        if fill.part is None or plan is None or isinstance(plan, InfeasibleError):
            placed.append(replace(fill, part=None, tokens_a_day=0.0))
        else:
            placed.append(_fill_of(fill, replace(fill.part, plan=plan)))
    return tuple(placed)


def _planned(division: DividedFleet, plan_one: PlanOne, tell: Tell) -> tuple[FleetPart, ...]:
    """The plan of every deployment that has GPUs. Where several serve a service, each is planned for its part."""
    parts, fleet = [], division.pricing.fleet
    for deployment, gpus, rate in zip(division.pricing.deployments, division.gpus, division.rates_rps, strict=True):
        if not gpus:
            continue
        tell(f"planning {deployment.name}")
        objective = deployment.scenario.objective
        if fleet.objective.kind is FleetAim.TARGET and objective.target_rps > rate:
            objective = replace(objective, target_rps=rate * (1 - MET))
        posed = replace(deployment, scenario=replace(deployment.scenario, objective=objective))
        scenario = on_gpus(posed.scenario, gpus)
        parts.append(FleetPart(deployment=posed, gpus=scenario.inventory.counts, plan=plan_one(scenario)))
    return tuple(parts)


def alone(fleet: FleetScenario, deployment: Deployment, plan_one: PlanOne, tell: Tell) -> FleetPlan:
    """One service has all nodes, and the plan that it would have without a fleet."""
    tell(f"planning {deployment.name}")
    finished = plan_one(deployment.scenario)
    used = {gpu: 0 for gpu, _ in fleet.inventory.counts}
    for island in finished.islands:
        used[island.gpu] += island.size if island.phase else 0
    host = {gpu: fleet.host(gpu) for gpu in used}
    gpus = {gpu: min(count, -(-used[gpu] // host[gpu]) * host[gpu]) for gpu, count in fleet.inventory.counts}
    part = FleetPart(deployment=deployment, gpus=tuple((g, n) for g, n in gpus.items() if n), plan=finished)
    rent = _rent(fleet, (part,))
    _, value = worth_of_rates(fleet, [deployment], [finished.throughput_rps], rent)
    pricing = FleetPricing(fleet, [deployment])
    division = DividedFleet(
        pricing=pricing,
        gpus=(gpus,),
        rates_rps=(finished.throughput_rps,),
        value=value,
        bound=value,
        prices=pricing.relaxed(),
    )
    promised = promised_rps(fleet, [deployment], [finished.throughput_rps])
    return FleetPlan(
        fleet=fleet,
        parts=(part,),
        shares=shares_of(division, promised, rent, deployment.scenario.search.seed),
        value=value,
        bound=_bound_alone(fleet, finished, value),
        worths=node_worths(division),
        batches=_filled(fleet, (part,), plan_one, tell),
        note="" if finished.certificate is None else finished.certificate.note,
    )


def _bound_alone(fleet: FleetScenario, finished: Plan, value: float) -> float:
    """Of a fleet of one: its plan's own, scaled to the fleet's value."""
    certificate = finished.certificate
    if certificate is None or not certificate.objective_bound or not certificate.objective_value:
        return value
    ratio = certificate.objective_bound / certificate.objective_value
    if fleet.objective.kind in (FleetAim.MULTIPLE, FleetAim.TARGET):
        return value * ratio
    return value


def _rent(fleet: FleetScenario, parts: Sequence[FleetPart]) -> float:
    prices = {item.gpu.name: item.rent_usd_per_gpu_hour for item in fleet.inventory.items}
    return sum(prices[gpu] * count for part in parts for gpu, count in part.gpus)


def _filled(fleet: FleetScenario, parts: Sequence[FleetPart], plan_one: PlanOne, tell: Tell) -> tuple[BatchFill, ...]:
    """What batches do with the nodes that nobody has, one after the other."""
    spare = dict(fleet.inventory.counts)
    for part in parts:
        for gpu, count in part.gpus:
            spare[gpu] -= count
    fills = []
    for service in fleet.batches:
        tell(f"filling what is left with {service.name}")
        fill = fill_with(service, spare, plan_one)
        for gpu, count in () if fill.part is None else fill.part.gpus:
            spare[gpu] -= count
        fills.append(fill)
    return tuple(fills)


def fill_with(service: FleetService, gpus: Mapping[str, int], plan_one: PlanOne) -> BatchFill:
    """What work that waits makes of these GPUs: the checkpoint that does most tokens."""
    assert service.batch is not None, "a batch has terms"
    best = BatchFill(service=service.name, part=None, tokens_a_day=0.0, asked_tokens_a_day=service.batch.tokens_a_day)
    for deployment in batch_deployments(service) if any(gpus.values()) else ():
        try:
            finished = plan_one(on_gpus(deployment.scenario, gpus))
        except InfeasibleError:
            continue
        part = FleetPart(deployment=deployment, gpus=tuple((gpu, n) for gpu, n in gpus.items() if n), plan=finished)
        fill = _fill_of(best, part)
        best = fill if fill.tokens_a_day > best.tokens_a_day else best
    return best


def _fill_of(fill: BatchFill, part: FleetPart) -> BatchFill:
    """The same work by this plan."""
    workload = part.plan.scenario.workload
    tokens = workload.mean_input_tokens + workload.mean_output_tokens
    return replace(fill, part=part, tokens_a_day=part.promise_rps * tokens * DAY_S)


def _not_met(fleet: FleetScenario, deployments: Sequence[Deployment]) -> InfeasibleError:
    """How far the demands, or their floors, can be met together, and the least that would have to be added."""
    floor = fleet.objective.floor
    scale = 1.0 if fleet.objective.kind is FleetAim.TARGET else floor
    by_multiple = replace(fleet, objective=FleetObjective(kind=FleetAim.MULTIPLE))
    what = "demands" if scale == 1.0 else f"floors of {100 * floor:g} %"
    where = f"fleet {fleet.name}: services: the {what} cannot be met together"
    try:
        division = divided(by_multiple, deployments)
    except InfeasibleError as error:
        return InfeasibleError(f"{where}: {error.message}", hint=error.hint)
    promised = promised_rps(by_multiple, deployments, division.rates_rps)
    services = fleet.interactive
    share, tightest = min((rps / s.demand_rps, s.name) for rps, s in zip(promised, services, strict=True))
    return InfeasibleError(
        f"{where}: at most {100 * share:.3g} % of every demand is promised at once, {tightest} is short of it.",
        hint=_addition_words(division.pricing, scale) or "Lower a demand, or add GPUs.",
    )


def _addition_words(pricing: FleetPricing, scale: float) -> str:
    pricing.price_below(1.0)
    offer = pricing.offer(pricing.needed(1.0), ())
    terms_met = tuple(replace(terms, demand_rps=scale * terms.demand_rps) for terms in offer.services)
    try:
        added = cheapest_addition(replace(offer, services=terms_met), pricing.settings)
    except InfeasibleError:
        return ""
    words = [f"{count} {stock.gpu}" for stock, count in zip(pricing.stocks, added, strict=True) if count]
    rent = sum(stock.charge * count for stock, count in zip(pricing.stocks, added, strict=True))
    cost = f" ({rent:.2f} USD/hour)" if rent else ""
    return (
        f"Add {' and '.join(words)}{cost}, the cheapest that the programme knows, or lower a demand." if words else ""
    )
