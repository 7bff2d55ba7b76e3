"""Door: why a plan, or a pool or an island of it, is what it is.

Of a plan: what binds, and what no plan of another form can exceed.

A bound of an alternative below the plan's rate says what the alternative loses at least; one above it says what it may
serve at most. Bounds are relaxations: servers divisible, over all buckets that the scenario admits.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from planner.assignment import Partition, relaxed_values
from planner.domain import ObjectiveSettings, Plan, Scenario, ServingForm, SloSettings
from planner.domain.explanations import SECONDS, Alternative, IslandExplanation, PlanExplanation, PoolExplanation
from planner.domain.stocks import Stock
from planner.errors import InfeasibleError, InputError, SolverError
from planner.evaluation.buckets.prices import BucketPrices
from planner.proposing.buckets.sensitivity import prices_of
from planner.proposing.certificate import RATE
from planner.proposing.explaining.islands import explain_island, most_of_table
from planner.proposing.explaining.pools import explain_pool
from planner.proposing.feasibility import posed

_RATE = ObjectiveSettings()


def explained(
    plan: Plan, island: str | None = None, seconds: float = SECONDS
) -> PlanExplanation | PoolExplanation | IslandExplanation:
    """The plan as a whole, or its pool or island of that name. Raises InputError where there is none."""
    if island is None:
        return explain_plan(plan)
    return explain_pool(plan, island, seconds) if plan.outlook.pools else explain_island(plan, island)


def explain_plan(plan: Plan) -> PlanExplanation:
    """The plan as a whole. Raises InputError where its scenario cannot be posed any more."""
    certificate, outlook = plan.certificate, plan.outlook
    rows = _of_buckets(plan) if outlook.pools else _of_table(plan)
    return PlanExplanation(
        plan=plan.scenario.name,
        rate_rps=plan.throughput_rps,
        prefill_rps=plan.prefill_rps,
        decode_rps=plan.decode_rps,
        bound=certificate.objective_bound if certificate else None,
        unit=plan.scenario.objective.kind.row.unit,
        sensitivity=plan.sensitivity,
        survival_cost_rps=outlook.survival_cost_rps,
        alternatives=(*(_of_the_fleet(plan, row) for row in rows), *_any_layout(plan)),
        cuts=outlook.simpler,
        notes=tuple(_notes(plan)),
    )


def _of_the_fleet(plan: Plan, row: Alternative) -> Alternative:
    """A plan of some of the GPU types is also one of all, and none of all passes the bound that was proven."""
    certificate, objective = plan.certificate, plan.scenario.objective.kind.row
    if not row.fewer_gpus or row.bound_rps is None or certificate is None or certificate.objective_bound is None:
        return row
    if objective.several or objective.unit != RATE.kind.row.unit:
        return row
    # both hold, and the sharper one is told
    return replace(row, bound_rps=min(row.bound_rps, certificate.objective_bound))


def _notes(plan: Plan) -> Iterator[str]:
    if plan.placement is not None:
        yield "where islands lie on nodes is not looked at"
    if plan.outlook.forms is not None:
        margin = 100 * plan.outlook.forms.margin
        yield f"split pools have to win by {margin:.0f} %, the cost model's bias towards them"
    if plan.scenario.objective.rents:
        yield "the GPUs are those that the plan rents: nothing is rented in place of those that are left out"


def _any_layout(plan: Plan) -> Iterator[Alternative]:
    if plan.certificate is not None and plan.certificate.bound_rps is not None:
        yield Alternative(name="islands of any size and routing, served as here", bound_rps=plan.certificate.bound_rps)


def _of_buckets(plan: Plan) -> Iterator[Alternative]:
    scenario, prices = plan.scenario, prices_of(plan, posed(plan.scenario))
    types = [gpu for gpu, count in plan.fleet.items() if count]
    if len(types) > 1:
        for gpu in types:
            yield Alternative(name=f"without {gpu}", fewer_gpus=True, bound_rps=_bound(prices, plan.fleet | {gpu: 0}))
    yield from _fewer_buckets(plan, prices)
    for form in (ServingForm.AGGREGATED, ServingForm.SPLIT):
        # the form that was asked for is the plan's own, and no alternative
        if form is not scenario.serving_form:
            bound_rps = _of_scenario(plan, replace(scenario, serving=form))
            yield Alternative(name=f"{form.value} serving", bound_rps=bound_rps, reached_rps=_reached(plan, form))
    if scenario.slo.bounds_anything:
        unbounded = replace(scenario, slo=SloSettings())
        yield Alternative(name="without service levels", bound_rps=_of_scenario(plan, unbounded))
    if plan.outlook.survival_cost_rps:
        free = plan.throughput_rps + plan.outlook.survival_cost_rps
        yield Alternative(name="without a loss to survive", bound_rps=_bound(prices, plan.fleet), reached_rps=free)


def _reached(plan: Plan, form: ServingForm) -> float | None:
    """What pools of the form were found to serve when the plan's own was chosen; None where that is not known."""
    forms, row = plan.outlook.forms, plan.scenario.objective.kind.row
    comparable = forms is not None and forms.other is form and row.unit == RATE.kind.row.unit and not row.several
    return forms.other_value if comparable and forms is not None else None


def _fewer_buckets(plan: Plan, prices: BucketPrices) -> Iterator[Alternative]:
    chosen = next((point for point in plan.outlook.simpler if point.chosen), None)
    if chosen is None or chosen.prefill_buckets + chosen.decode_buckets <= 2:
        return
    # of either phase: which one goes is left to the bound
    most_buckets = chosen.prefill_buckets + chosen.decode_buckets - 1
    fewer = [partition for partition in prices.partitions if sum(partition.counts) <= most_buckets]
    solved = [
        point.rate_rps for point in plan.outlook.simpler if point.prefill_buckets + point.decode_buckets <= most_buckets
    ]
    yield Alternative(
        name="one bucket less",
        bound_rps=_bound(prices, plan.fleet, fewer),
        reached_rps=max(solved, default=None),
    )


def _of_scenario(plan: Plan, scenario: Scenario) -> float | None:
    """The bound of another scenario on the plan's GPUs; None where nothing serves."""
    try:
        return _bound(BucketPrices(posed(scenario)), plan.fleet)
    except (InputError, InfeasibleError):
        return None


def _bound(prices: BucketPrices, fleet: Mapping[str, int], among: Sequence[Partition] = ()) -> float | None:
    """What no pools of so many GPUs serve more than, over all buckets; None where nothing serves."""
    stocks = tuple(Stock(gpu=gpu, units=count) for gpu, count in fleet.items() if count)
    partitions = list(among) or list(prices.partitions)
    settings = prices.question.scenario.assignment
    values = [
        value
        for offer in prices.offers(stocks, partitions)
        for value in relaxed_values(offer, partitions, _RATE, settings).values()
    ]
    return max(values, default=None)


def _of_table(plan: Plan) -> Iterator[Alternative]:
    """Without each GPU type, by the relaxation over all layouts of the others."""
    types = [gpu for gpu, count in plan.fleet.items() if count]
    for gpu in types if len(types) > 1 else ():
        with suppress(SolverError):
            yield Alternative(
                name=f"without {gpu}", fewer_gpus=True, bound_rps=most_of_table(plan, plan.fleet | {gpu: 0})
            )
