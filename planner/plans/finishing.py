"""The end of planning: what was proposed, whoever did, becomes a plan, audited, with the shares of prompts that its
islands find in caches."""

from dataclasses import replace

from planner.domain import Plan
from planner.errors import InconsistentPlanError
from planner.evaluation.evaluator import Evaluator
from planner.plans.audit import audit
from planner.plans.cached import with_cached_shares
from planner.plans.exact_lengths import recounted_rps
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
    finished = with_cached_shares(finished, workload)
    finished = replace(
        finished,
        sensitivity=proposed.worths(finished),
        exact_rps=recounted_rps(finished),
        rate_band=rate_band(finished),
    )
    audit(finished, workload)
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
