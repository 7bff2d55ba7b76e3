"""The end of planning: what was proposed, whoever did, becomes a plan, audited, with the shares of prompts that its
islands find in their prefix caches.

share = sum_j a p s h / sum_j a p s over ranges j: share of the range that the island gets, probability, mean prompt,
`cost.prefix_hits` of it on the island as it is deployed.
"""

import math
from dataclasses import replace

from planner.cost import CostContext
from planner.cost.arrays import as_array
from planner.cost.prefix_hits import shape_hits
from planner.domain import LengthRange, Phase, Plan, PlannedIsland, Workload
from planner.errors import InconsistentPlanError
from planner.evaluation.evaluator import Evaluator
from planner.plans.audit import audit
from planner.plans.exact_lengths import Deployed, recounted_rps
from planner.plans.provenance import provenance_of
from planner.plans.rate_bands import rate_band
from planner.proposing.proposals import ProposedPlan


def finished_plan(evaluator: Evaluator, proposed: ProposedPlan, saved: Plan | None = None) -> Plan:
    """The plan that was proposed; `saved`: the plan whose islands were proposed again."""
    scenario, workload, assignment = evaluator.question.scenario, evaluator.question.workload, proposed.assignment
    provenance = provenance_of(scenario, assignment.solver, proposed.estimates)
    finished = Plan(
        scenario=scenario,
        throughput_rps=assignment.throughput_rps,
        prefill_rps=assignment.prefill_rps,
        decode_rps=assignment.decode_rps,
        objective_rps=assignment.objective_rps,
        deviation_rps=assignment.deviation_rps,
        optimal=assignment.optimal,
        islands=proposed.islands,
        routing=proposed.routing,
        search=proposed.record,
        provenance=provenance if saved is None else replace(provenance, unverified=saved.provenance.unverified),
        certificate=proposed.certificate,
        service=proposed.service,
        flows=proposed.flows,
        network_bottleneck=proposed.network_bottleneck,
        placement=proposed.placement,
        buckets=proposed.buckets,
    )
    finished = _with_cached_shares(finished, workload)
    finished = replace(
        finished,
        sensitivity=proposed.worths(finished),
        exact_rps=recounted_rps(finished),
        rate_band=rate_band(finished),
    )
    audit(finished, workload)
    _require_room(finished)
    return finished


def _with_cached_shares(plan: Plan, workload: Workload) -> Plan:
    """The plan, its islands with `cached_share`; as it is where `cost.kv_cache_rate` is a number."""
    if isinstance(plan.scenario.cost.kv_cache_rate, float | int):
        return plan
    return replace(plan, islands=tuple(_with_share(plan, workload, island) for island in plan.islands))


def _with_share(plan: Plan, workload: Workload, island: PlannedIsland) -> PlannedIsland:
    if island.phase in (None, Phase.DECODE):
        return island
    prompts = [max(1.0, span.mean_input_tokens) for span in workload.ranges]
    tokens = [
        _share_of(plan, island, span) * span.probability * prompt
        for span, prompt in zip(workload.ranges, prompts, strict=True)
    ]
    deployed = Deployed.of(island)
    scenario = deployed.priced(plan.scenario)
    context = CostContext(gpu=scenario.inventory.item(island.gpu).gpu, model=scenario.model, settings=scenario.cost)
    hits = as_array(shape_hits(context, prompts, deployed.parallel, island.phase)).tolist()
    share = math.fsum(n * hit for n, hit in zip(tokens, hits, strict=True)) / math.fsum(tokens)
    return replace(island, cached_share=round(share, 6))


def _share_of(plan: Plan, island: PlannedIsland, span: LengthRange) -> float:
    """Share of a range's requests that the island gets."""
    routes = (route for route in plan.routing if route.island == island.id)
    return sum(route.share for route in routes if route.range_start <= span.start < route.range_end)


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
