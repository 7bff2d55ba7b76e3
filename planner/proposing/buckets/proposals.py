"""Proposals of pools behind buckets: solved for, searched for, near a plan that runs, or those of a saved plan.

How far a plan of buckets is from the best: among all that can be deployed, and among all layouts there are.

| bound | of |
|---|---|
| objective_bound | pools of servers that the engine accepts, on parts of a node or whole ones, so many buckets |
| bound_rps | layouts of any sizes, lengths and configurations of the plan's own GPUs, without queues |

What being deployable costs is at most the difference of the two.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from planner.domain import (
    BucketPlan,
    BucketPool,
    Certificate,
    Evaluation,
    FormChoice,
    Layout,
    LoadPoint,
    PlacedPart,
    Plan,
    Question,
    Reach,
    RouterPolicy,
    Scenario,
    SearchRecord,
    SimplerPlan,
)
from planner.domain.serving.promise import ReplayedChoice
from planner.domain.serving.routing import class_of_pools
from planner.errors import InconsistentPlanError, InfeasibleError
from planner.evaluation.buckets.drafts import drafts_of
from planner.evaluation.buckets.judging import layout_of, named_pools, pooled_assignment, pooled_evaluation
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.buckets.transfer import flows_of, transfer_of
from planner.evaluation.buckets.unrestricted import unrestricted_rps
from planner.evaluation.doubts.odds import promise_odds
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.pool_assembly import pool_estimates, pool_islands, pool_routes, unplaced_islands
from planner.proposing.buckets.pools import BucketChoice, chosen_near, solve_buckets
from planner.proposing.buckets.rivals import rivals_of
from planner.proposing.buckets.sensitivity import bucketed_sensitivity, prices_of
from planner.proposing.certificate import ONE_OF_SEVERAL, is_exact, objective_value
from planner.proposing.feasibility import require_saved_rate, require_target
from planner.proposing.proposals import ProposedPlan
from planner.proposing.search import given

STOPPED = "the solver stopped at its work limit: the best found so far"
SEARCHED = "searched, not solved for: the bound is the programme's"
UNBROKEN = "what was not solved for is bounded as if no node were lost"
REPLAYED = "the bounds and gaps are of the model of queues, nothing is claimed of the replayed rate"
PLACED = "without the placement, which the bound does not see"


def certify_buckets(
    scenario: Scenario,
    prices: BucketPrices,
    layout: Layout,
    rate_rps: float,
    choice: BucketChoice,
    *,
    searched: bool = False,
) -> Certificate:
    """Bounds for pools that form `layout` and serve `rate_rps`; where the choice has none (inf), that of all layouts is
    told for both."""
    value = objective_value(scenario, layout, rate_rps)
    counts = {item.gpu.name: item.count for item in scenario.inventory.items}
    if scenario.objective.rents:
        counts = dict(layout.gpus)
    unrestricted = unrestricted_rps(prices, counts)
    bound_rps = None if unrestricted is None else max(unrestricted, rate_rps)
    reached = bound_rps or value if math.isinf(choice.bound) else choice.bound_of_form
    bound = min(reached, value) if scenario.objective.minimises else max(reached, value)
    several = scenario.objective.kind.row.several
    notes = (
        f"the bound is of {class_of_pools(scenario.serving_form, choice.forms)} that can be deployed",
        "" if choice.proven else STOPPED,
        SEARCHED if searched else "",
        _of_one_family(scenario, prices),
        UNBROKEN if scenario.survive.share else "",
        REPLAYED if scenario.objective.kind.row.replayed else "",
        choice.note,
        ONE_OF_SEVERAL if several else "",
        PLACED if scenario.cluster is not None else "",
    )
    return Certificate(
        bound_rps=bound_rps,
        gap=None if bound_rps is None else 1 - rate_rps / bound_rps,
        objective_value=value,
        objective_bound=None if several else bound,
        objective_gap=None if several else abs(value - bound) / max(abs(bound), 1e-12),
        note="; ".join(filter(None, notes)),
    )


def _of_one_family(scenario: Scenario, prices: BucketPrices) -> str:
    """Why some GPU types are not used."""
    if len(prices.families) == 1:
        return ""
    names = " and ".join(", ".join(sorted(family)) for family in prices.families)
    return f"{scenario.engine} hands no KV caches between {names}: the pools are all of one of them"


def outlook(
    question: Question,
    pools: Sequence[BucketPool],
    rate_rps: float,
    *,
    simpler: Sequence[SimplerPlan],
    unrestricted_rps: float | None,
    survival_cost_rps: float | None,
    forms: FormChoice | None = None,
    reaches: Mapping[str, Reach] | None = None,
    replayed: ReplayedChoice | None = None,
) -> BucketPlan:
    """What a plan of buckets says beyond its islands and routes."""
    scenario, service = question.scenario, BucketService(question, reaches)
    sure, promise = scenario.promise.sure, rate_rps * scenario.routing.margin
    odds = promise_odds(question, pools, rate_rps, scenario.doubt.draws) if sure else None
    if sure and odds:
        promise = min(promise, odds.sure_rps(sure))
    burst_rps, burst_left_rps = _bunched(question, service, tuple(pools), rate_rps)
    if burst_rps is not None and promise < rate_rps * scenario.routing.margin:
        burst_rps *= promise / (rate_rps * scenario.routing.margin)  # as much is held back of both
    loads = {LoadPoint.PROMISE: promise, LoadPoint.CAPACITY: rate_rps}
    if question.demand_rps:
        loads = {LoadPoint.DEMAND: question.demand_rps, **loads}
    return BucketPlan(
        promise_rps=promise,
        burst_rps=burst_rps,
        burst_left_rps=burst_left_rps,
        least_work_rps=_behind_least_work(question, tuple(pools), reaches),
        unrestricted_rps=unrestricted_rps,
        survival_cost_rps=survival_cost_rps,
        forms=forms,
        levels_set=scenario.slo.bounds_anything,
        pools=tuple(pools),
        latencies=service.latencies(tuple(pools), loads),
        simpler=tuple(simpler),
        losses=tuple(service.losses(tuple(pools), scenario.survive.nodes)),
        transfer=transfer_of(question, pools, promise, reaches),
        drafts=tuple(drafts_of(question, pools, reaches)),
        odds=odds,
        replayed=replayed,
    )


def _behind_least_work(
    question: Question, pools: tuple[BucketPool, ...], reaches: Mapping[str, Reach] | None
) -> float | None:
    """What the same pools would serve behind a router that knows every server's work and speed; None where they are
    priced for a policy, and not for a program."""
    scenario = question.scenario
    if not scenario.deployed_router:
        return None
    knowing = replace(scenario, routing=replace(scenario.routing, policy=RouterPolicy.LEAST_WORK))
    return BucketService(replace(question, scenario=knowing), reaches).priced(pools).rate_rps


def _bunched(
    question: Question, service: BucketService, pools: Sequence[BucketPool], rate_rps: float
) -> tuple[float | None, float | None]:
    """What is promised, and what a loss leaves at worst, where arrivals bunch; None where that is not known.

    Of pools as they stand: none is used less because of a loss that has not come. Where a loss is to be survived no
    more is promised than without bursts, as the servers beyond that are spare. The margin is for what a calculation
    does not see, with bursts as without.
    """
    scenario = question.scenario
    counts, survive, margin = scenario.workload.counts, scenario.survive, scenario.routing.margin
    if counts is None:
        return None, None
    served = service.unbroken(pools, counts).rate_rps
    if not survive.share:
        return served * margin, None
    remaining_rps = min(loss.rate_rps for loss in service.losses(pools, survive.nodes, counts))
    return min(served, rate_rps) * margin, remaining_rps


def proposed_pools(
    evaluator: Evaluator,
    best: Evaluation,
    record: SearchRecord,
    choice: BucketChoice,
    *,
    replayed: ReplayedChoice | None = None,
    names: tuple[BucketPool, ...] = (),
    stays: tuple[PlacedPart, ...] = (),
) -> ProposedPlan:
    """The best pools; on nodes where the scenario names a cluster. `names`: the pools with the ids of their islands,
    where they have some already; `stays`: their servers that run where they are to be; `replayed`: what replays said
    of them."""
    assert best.assignment is not None, "pools that serve have an assignment"
    question, scenario = evaluator.question, evaluator.question.scenario
    assignment, pools, layout = best.assignment, names or named_pools(best.assignment.pools), best.layout
    placement, reaches, unplaced, advice = None, {}, {}, {}
    if evaluator.fleet is not None:
        from planner.evaluation.buckets.placing import place_pools  # noqa: PLC0415  (a plan on no nodes needs none of it)

        placed = place_pools(pools, question, evaluator.fleet, advises=True, stays=stays)
        placement, reaches, unplaced, advice = placed.placement, placed.reaches, placed.unplaced, placed.advice
        assignment = pooled_assignment(placed.priced, assignment.solver, optimal=assignment.optimal)
        pools, layout = placed.priced.pools, layout_of(placed.priced.pools)
        require_target(scenario, assignment.throughput_rps)
    rate = assignment.throughput_rps
    routes = pool_routes(question, pools, rate)
    searched = choice.searched and not is_exact(scenario)
    certificate = certify_buckets(scenario, evaluator.prices, layout, rate, choice, searched=searched)

    return ProposedPlan(
        assignment=assignment,
        islands=(
            *pool_islands(scenario, pools, routes, reaches, unplaced, advice),
            *unplaced_islands(scenario, () if placement is None else placement.shortfalls),
        ),
        routing=routes,
        record=record,
        certificate=certificate,
        estimates=pool_estimates(scenario, pools),
        worths=partial(bucketed_sensitivity, prices=evaluator.prices),
        rivals=partial(rivals_of, evaluator=evaluator),
        placement=placement,
        flows=flows_of(question, pools, rate),
        network_bottleneck=assignment.network_bottleneck,
        buckets=outlook(
            question,
            pools,
            rate,
            simpler=choice.simpler,
            unrestricted_rps=certificate.bound_rps,
            survival_cost_rps=choice.survival_cost_rps,
            forms=choice.forms,
            reaches=reaches,
            replayed=replayed,
        ),
    )


def saved_pools(evaluator: Evaluator, saved: Plan) -> ProposedPlan:
    """The pools of a saved plan. Raises InputError where they do not serve what the plan says."""
    assert saved.certificate is not None, "plans of buckets have a certificate"
    buckets = saved.outlook
    question, solver = evaluator.question, saved.provenance.solver
    evaluator.price_with(prices_of(saved, question))
    before = BucketService(question).priced(replace(pool, share=1.0) for pool in buckets.pools)
    require_saved_rate(saved, before.rate_rps, "pools serve")
    choice = BucketChoice(
        priced=before,
        value=before.rate_rps,
        bound=saved.certificate.objective_bound or before.rate_rps,
        proven=saved.optimal,
        solver=solver,
        simpler=buckets.simpler,
        survival_cost_rps=buckets.survival_cost_rps,
        forms=buckets.forms,
    )
    assignment = pooled_assignment(before, solver, optimal=saved.optimal)
    best = pooled_evaluation(layout_of(before.pools), assignment)
    return proposed_pools(evaluator, best, saved.search, choice, replayed=buckets.replayed, names=before.pools)


def pools_again(evaluator: Evaluator, saved: Plan, pools: Sequence[BucketPool] = ()) -> ProposedPlan:
    """The pools of a saved plan, which were chosen near another plan, or others on its servers: with the bound of all
    plans, where the search for pools looked at all."""
    return _as_they_are(evaluator, saved, pools or saved.outlook.pools, solve_buckets(evaluator))


def some_pools(evaluator: Evaluator, saved: Plan, pools: Sequence[BucketPool]) -> ProposedPlan:
    """Some of the servers of a saved plan, with no bound: they were chosen to stand with others."""
    return _as_they_are(evaluator, saved, pools, None)


def running_pools(evaluator: Evaluator, pools: Sequence[BucketPool]) -> ProposedPlan:
    """Servers that run without a plan, in buckets that the question knows, with the bound of all plans. Raises
    InfeasibleError where they serve nothing within the levels."""
    priced = BucketService(evaluator.question).priced(pools)
    if not priced.rate_rps:
        raise InfeasibleError(
            f"scenario {evaluator.question.scenario.name}: its servers must serve something within the levels, got "
            "none that do.",
            hint="Loosen the levels.",
        )
    scratch = solve_buckets(evaluator)
    return _of_priced(evaluator, priced, scratch, scratch.solver)


def _as_they_are(
    evaluator: Evaluator, saved: Plan, pools: Sequence[BucketPool], scratch: BucketChoice | None
) -> ProposedPlan:
    question = evaluator.question
    evaluator.price_with(prices_of(saved, question))
    priced = BucketService(question).priced(replace(pool, share=1.0) for pool in pools)
    return _of_priced(evaluator, priced, scratch, saved.provenance.solver)


def _of_priced(evaluator: Evaluator, priced: PricedPools, scratch: BucketChoice | None, solver: str) -> ProposedPlan:
    layout = layout_of(priced.pools)
    evaluator.remember_pools(layout, priced, solver)
    result = given(layout, evaluator)
    if result.best is None or result.best.assignment is None:
        raise InconsistentPlanError(
            f"plan {evaluator.question.scenario.name}: its pools serve nothing.",
            hint="Plan again, or restore the file.",
        )
    choice = chosen_near(priced, priced.rate_rps, scratch, solver)
    return proposed_pools(evaluator, result.best, result.record, choice, names=priced.pools)
