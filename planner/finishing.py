"""The end of planning: assignments and pools become a plan, placed where there are nodes, audited."""

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.assignment import LayoutAnswer
from planner.domain import (
    Assignment,
    BucketPlan,
    BucketPool,
    Certificate,
    Evaluation,
    Layout,
    PlacedPart,
    Plan,
    SearchRecord,
)
from planner.domain.serving.replayed import ReplayedChoice
from planner.errors import InconsistentPlanError, InputError
from planner.evaluation.buckets.judging import layout_of, named_pools, pooled_assignment
from planner.evaluation.buckets.service import BucketService
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.goodput import service_of
from planner.layouts.buckets.certificate import certify_buckets
from planner.layouts.buckets.outlook import outlook
from planner.layouts.buckets.pools import BucketChoice, chosen_near, solve_buckets
from planner.layouts.buckets.sensitivity import bucketed_sensitivity, prices_of
from planner.layouts.certificate import certified_again, certify, is_exact
from planner.layouts.feasibility import require_target
from planner.layouts.sensitivity import sensitivity_of
from planner.plans.assembly import assemble, assemble_flows, network_bottleneck
from planner.plans.audit import audit
from planner.plans.bucketed import pool_estimates, pool_islands, pool_routes, unplaced_islands
from planner.plans.exact_lengths import recounted_rps
from planner.plans.prefix_shares import with_cached_shares
from planner.plans.provenance import estimates_of, provenance_of
from planner.plans.rate_bands import rate_band
from planner.search import given

if TYPE_CHECKING:
    from planner.evaluation.buckets.placing import PlacedPools


SAME = 1e-4
"""Relative difference of rates up to which a saved plan is the one that its layout gives: the solver's gap."""


def placed_pools(evaluator: Evaluator, saved: Plan, buckets: BucketPlan) -> Plan:
    """The pools of a saved plan on nodes."""
    from planner.evaluation.buckets.placing import place_pools

    assert evaluator.fleet is not None, "a plan is placed on a cluster"
    assert saved.certificate is not None, "plans of buckets have a certificate"
    question = evaluator.question
    evaluator.price_with(prices_of(saved, question))
    before = BucketService(question).priced(replace(pool, share=1.0) for pool in buckets.pools)
    _require_rate(saved, before.rate_rps, "pools serve")
    placed = place_pools(before.pools, question, evaluator.fleet, advises=True)
    assignment = pooled_assignment(placed.priced, saved.provenance.solver, optimal=saved.optimal)
    choice = BucketChoice(
        priced=before,
        value=before.rate_rps,
        bound=saved.certificate.objective_bound or before.rate_rps,
        proven=saved.optimal,
        solver=saved.provenance.solver,
        simpler=buckets.simpler,
        survival_cost_rps=buckets.survival_cost_rps,
        forms=buckets.forms,
    )
    plan_there = _of_pools(
        evaluator, placed.priced.pools, assignment, saved.search, choice, placed, replayed=buckets.replayed
    )
    provenance = replace(plan_there.provenance, unverified=saved.provenance.unverified)
    return replace(plan_there, provenance=provenance)


def plan_of_pools(evaluator: Evaluator, saved: Plan, buckets: BucketPlan) -> Plan:
    """The plan that follows from the pools of a saved one, which were chosen near another plan: with the bound of all
    plans, where the search for pools looked at all."""
    question = evaluator.question
    scratch = solve_buckets(evaluator)
    evaluator.price_with(prices_of(saved, question))
    service = BucketService(question)
    priced = service.priced(replace(pool, share=1.0) for pool in buckets.pools)
    layout = layout_of(priced.pools)
    evaluator.remember_pools(layout, priced, saved.provenance.solver)
    result = given(layout, evaluator)
    if result.best is None or result.best.assignment is None:
        raise InconsistentPlanError(
            f"plan {saved.scenario.name}: its pools serve nothing.", hint="Plan again, or restore the file."
        )
    choice = chosen_near(priced, priced.rate_rps, scratch, saved.provenance.solver)
    return pooled_plan(evaluator, result.best, result.record, choice, names=priced.pools)


def require_same(saved: Plan, evaluation: Evaluation) -> None:
    """The assignment that is placed is the one that the plan shows."""
    _require_rate(saved, evaluation.throughput_rps if evaluation.assignment else 0.0, "layout serves")


def _require_rate(saved: Plan, rate_rps: float, who: str) -> None:
    """What is placed serves what the plan showed before it lay anywhere.

    A placed plan holds only what found room: what was left out cannot be placed from it on another cluster.
    """
    was = saved.throughput_rps if saved.placement is None else saved.placement.unplaced_rps
    if abs(rate_rps - was) <= SAME * was:
        return
    lost = saved.placement is not None and rate_rps < was
    raise InputError(
        f"plan {saved.scenario.name}: throughput_rps must be what its {who}, {rate_rps:.6g} requests/s, got {was:.6g}.",
        hint="Servers or islands of it found no room when it was placed, and are not in it any more: place the plan as "
        "it was before that, or plan again, with the cluster in the scenario."
        if lost
        else "It was made by another version or edited: plan again, with the cluster in the scenario.",
    )


def finished_plan(
    evaluator: Evaluator,
    best: Evaluation,
    record: SearchRecord,
    answer: LayoutAnswer | None,
    saved: Certificate | None = None,
) -> Plan:
    """The plan of the best layout; its islands lie on nodes where the scenario names a cluster."""
    assert best.assignment is not None, "a layout that serves has an assignment"
    question, scenario = evaluator.question, evaluator.question.scenario
    layout, assignment, table, names, placement = best.layout, best.assignment, evaluator.table(best.layout), None, None
    if evaluator.fleet is not None:
        from planner.evaluation.placing import placed_layout

        placed = placed_layout(table, layout, assignment, question, evaluator.fleet, advises=True)
        assignment, table, names, placement = placed.assignment, placed.table, placed.names, placed.placement
        layout = placed.layout
        require_target(scenario, assignment.throughput_rps)
    islands, routing = assemble(scenario.inventory, layout, table, assignment, names)
    if saved is None:
        certificate = certify(scenario, evaluator, best.layout, assignment.throughput_rps, answer)
    else:
        certificate = certified_again(scenario, saved, best.layout, assignment.throughput_rps)
    finished = Plan(
        scenario=scenario,
        throughput_rps=assignment.throughput_rps,
        prefill_rps=assignment.prefill_rps,
        decode_rps=assignment.decode_rps,
        objective_rps=assignment.objective_rps,
        deviation_rps=assignment.deviation_rps,
        optimal=assignment.optimal,
        islands=islands,
        routing=routing,
        search=record,
        provenance=provenance_of(scenario, assignment.solver, estimates_of(table, islands)),
        certificate=certificate,
        service=service_of(question, assignment, table),
        flows=assemble_flows(scenario.model, table, assignment, names),
        network_bottleneck=network_bottleneck(table, assignment),
        placement=placement,
    )
    finished = with_cached_shares(finished, question.workload)
    finished = replace(
        finished,
        sensitivity=sensitivity_of(finished, evaluator),
        exact_rps=recounted_rps(finished),
        rate_band=rate_band(finished),
    )
    audit(finished, question.workload)
    _require_room(finished)
    return finished


def pooled_plan(
    evaluator: Evaluator,
    best: Evaluation,
    record: SearchRecord,
    choice: BucketChoice,
    replayed: ReplayedChoice | None = None,
    *,
    names: tuple[BucketPool, ...] = (),
    stays: tuple[PlacedPart, ...] = (),
) -> Plan:
    """The plan of pools behind buckets; on nodes where the scenario names a cluster. `names`: the pools with the ids of
    their islands, where they have some already; `stays`: their servers that run where they are to be."""
    assert best.assignment is not None, "pools that serve have an assignment"
    question, scenario = evaluator.question, evaluator.question.scenario
    assignment, pools = best.assignment, names or named_pools(best.assignment.pools)
    if evaluator.fleet is None:
        return _of_pools(evaluator, pools, assignment, record, choice, layout=best.layout, replayed=replayed)
    from planner.evaluation.buckets.placing import place_pools

    placed = place_pools(pools, question, evaluator.fleet, advises=True, stays=stays)
    assignment = pooled_assignment(placed.priced, assignment.solver, optimal=assignment.optimal)
    require_target(scenario, assignment.throughput_rps)
    return _of_pools(evaluator, placed.priced.pools, assignment, record, choice, placed, replayed=replayed)


def _of_pools(
    evaluator: Evaluator,
    pools: tuple[BucketPool, ...],
    assignment: Assignment,
    record: SearchRecord,
    choice: BucketChoice,
    placed: "PlacedPools | None" = None,
    *,
    layout: Layout | None = None,
    replayed: ReplayedChoice | None = None,
) -> Plan:
    """The plan of pools; `layout`: the islands that were searched for, where they are not the pools' own."""
    question, scenario = evaluator.question, evaluator.question.scenario
    layout = layout or layout_of(pools)
    reaches, unplaced, advice = ({}, {}, {}) if placed is None else (placed.reaches, placed.unplaced, placed.advice)
    rate = assignment.throughput_rps
    routes = pool_routes(question, pools, rate)
    searched = choice.searched and not is_exact(scenario)
    certificate = certify_buckets(scenario, evaluator.prices, layout, rate, choice, searched=searched)
    finished = Plan(
        scenario=scenario,
        throughput_rps=rate,
        prefill_rps=assignment.prefill_rps,
        decode_rps=assignment.decode_rps,
        objective_rps=assignment.objective_rps,
        deviation_rps=0.0,
        optimal=assignment.optimal,
        islands=(
            *pool_islands(scenario, pools, routes, reaches, unplaced, advice),
            *unplaced_islands(scenario, placed.placement.shortfalls if placed else ()),
        ),
        routing=routes,
        search=record,
        provenance=provenance_of(scenario, assignment.solver, pool_estimates(scenario, pools)),
        certificate=certificate,
        placement=None if placed is None else placed.placement,
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
    finished = with_cached_shares(finished, question.workload)
    finished = replace(
        finished,
        sensitivity=bucketed_sensitivity(finished, evaluator.prices),
        exact_rps=recounted_rps(finished),
        rate_band=rate_band(finished),
    )
    audit(finished, question.workload)
    _require_room(finished)
    return finished


def _require_room(finished: Plan) -> None:
    """The validator's look at the placement: it knows the records and not how they were found."""
    placement, cluster, settings = finished.placement, finished.scenario.cluster, finished.scenario.placement
    if placement is None or cluster is None:
        return
    from planner.evaluation.placing import demands_of
    from planner.placement import violations

    faults = violations(
        cluster,
        demands_of(finished),
        replace(placement, shortfalls=()),
        tolerations=settings.tolerations,
        evictions=settings,
    )
    if faults:
        raise InconsistentPlanError(
            f"plan {finished.scenario.name}: {faults[0]}", hint="This is a defect of the planner; please report it."
        )
