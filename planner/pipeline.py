"""The planner's table of contents: which stage follows which. No disk, no printing."""

from dataclasses import replace

from planner.assembly import assemble, assemble_flows, network_bottleneck
from planner.audit import audit
from planner.certificate import certify
from planner.domain import Plan, ReportProgress, Scenario, SearchJournal, Workload, no_progress
from planner.errors import InconsistentPlanError, InputError
from planner.evaluation import open_evaluator
from planner.exact_lengths import recounted_rps
from planner.feasibility import nothing_found, require_context, require_few_ranges, require_room
from planner.goodput import service_of
from planner.layouts import find_layout
from planner.provenance import estimates_of, provenance_of
from planner.sensitivity import sensitivity_of
from planner.workload import divide


def plan(scenario: Scenario, progress: ReportProgress = no_progress, journal: SearchJournal | None = None) -> Plan:
    """Plan one scenario; a search goes on from what `journal` knows, and tells it what it does.

    An interrupt during the search makes a plan of the best so far; KeyboardInterrupt where there is none. Raises
    InfeasibleError where no layout serves the workload, InputError where the inventory admits no island or the model
    does not take the prompts.
    """
    require_context(scenario)
    workload = divide(scenario.workload, scenario.ranges.width)
    require_few_ranges(scenario, workload)
    with open_evaluator(scenario, workload) as evaluator:
        require_room(scenario, workload, evaluator)
        answer, result = find_layout(scenario, evaluator, progress, journal)
        if result.best is None or result.best.assignment is None:
            raise nothing_found(scenario, workload, [t.error for t in result.record.trials], result.unanswered)
        layout, assignment = result.best.layout, result.best.assignment
        table = evaluator.table(layout)
        certificate = certify(scenario, evaluator, layout, assignment.throughput_rps, answer)
    islands, routing = assemble(scenario.inventory, layout, table, assignment)
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
        search=result.record,
        provenance=provenance_of(scenario, assignment.solver, estimates_of(table, islands)),
        certificate=certificate,
        service=service_of(scenario, assignment, table, workload),
        flows=assemble_flows(scenario.model, table, assignment),
        network_bottleneck=network_bottleneck(table, assignment),
    )
    finished = replace(
        finished,
        sensitivity=sensitivity_of(finished, evaluator),
        exact_rps=recounted_rps(finished),
    )
    audit(finished, workload)
    return finished


def check(scenario: Scenario) -> Workload:
    """What a plan would start from, without the search. Raises as `plan` does before it searches."""
    require_context(scenario)
    workload = divide(scenario.workload, scenario.ranges.width)
    require_few_ranges(scenario, workload)
    with open_evaluator(scenario, workload) as evaluator:
        require_room(scenario, workload, evaluator)
    return workload


def recheck(saved: Plan, origin: str) -> Plan:
    """A plan that was read back, audited anew. Raises InputError where it contradicts itself: it has been edited."""
    try:
        audit(saved, divide(saved.scenario.workload, saved.scenario.ranges.width))
    except InconsistentPlanError as error:
        raise InputError(f"{origin}: {error.message}", hint="Plan again, or restore the file.") from None
    return saved
