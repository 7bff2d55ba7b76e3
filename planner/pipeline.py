"""The planner's table of contents: which stage follows which. No disk, no printing."""

from dataclasses import replace

from planner.assembly import assemble, assemble_flows, network_bottleneck
from planner.audit import audit
from planner.certificate import certify, is_exact, solve_layout
from planner.domain import Plan, ReportProgress, Scenario, Workload, no_progress
from planner.errors import InconsistentPlanError, InfeasibleError, InputError, SolverError
from planner.evaluation import Evaluator, open_evaluator
from planner.feasibility import nothing_found, require_context, require_few_ranges, require_room
from planner.provenance import estimates_of, provenance_of
from planner.search import SearchResult, given, optimize
from planner.sensitivity import sensitivity_of
from planner.workload import divide


def plan(scenario: Scenario, progress: ReportProgress = no_progress) -> Plan:
    """Plan one scenario.

    Raises InfeasibleError where no layout serves the workload, InputError where the inventory admits no island or the
    model does not take the prompts.
    """
    require_context(scenario)
    workload = divide(scenario.workload, scenario.ranges.width)
    require_few_ranges(scenario, workload)
    with open_evaluator(scenario, workload) as evaluator:
        require_room(scenario, workload, evaluator)
        answer = solve_layout(scenario, evaluator) if is_exact(scenario) else None
        result = given(answer.layout, evaluator, progress) if answer else _search(scenario, evaluator, progress)
        if result.best is None and not result.unanswered:
            result = _solved_instead(scenario, evaluator, result)
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
        flows=assemble_flows(scenario.model, table, assignment),
        network_bottleneck=network_bottleneck(table, assignment),
    )
    finished = replace(finished, sensitivity=sensitivity_of(finished, evaluator))
    audit(finished, workload)
    return finished


def _search(scenario: Scenario, evaluator: Evaluator, progress: ReportProgress) -> SearchResult:
    return optimize(scenario.inventory, scenario.search, evaluator, progress)


def _solved_instead(scenario: Scenario, evaluator: Evaluator, result: SearchResult) -> SearchResult:
    """Where the search tried nothing that serves, the layout is solved for: what is feasible must not be missed."""
    try:
        answer = solve_layout(scenario, evaluator)
    except (InfeasibleError, SolverError):
        return result
    return result.with_solved(evaluator([answer.layout])[0])


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
