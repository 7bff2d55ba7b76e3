"""The planner's table of contents: which stage follows which. No disk, no printing."""

from dataclasses import replace

from planner.assembly import assemble, assemble_flows, network_bottleneck
from planner.assignment import LayoutAnswer
from planner.audit import audit
from planner.certificate import certify, is_exact, solve_layout
from planner.domain import Plan, ReportProgress, Scenario, Workload, no_progress
from planner.errors import InconsistentPlanError, InfeasibleError, InputError, SolverError
from planner.evaluation import Evaluator, open_evaluator
from planner.exact_lengths import evaluate_exactly
from planner.feasibility import nothing_found, require_context, require_few_ranges, require_room
from planner.goodput import bounds_ttft, service_of
from planner.provenance import estimates_of, provenance_of
from planner.search import SearchResult, given, optimize
from planner.sensitivity import sensitivity_of
from planner.workload import divide

MOST_RAISES = 6
MET = 1e-3  # relative: a target counts as met


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
        answer, result = _layout(scenario, evaluator, progress)
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
        service=service_of(scenario, assignment, table, workload),
        flows=assemble_flows(scenario.model, table, assignment),
        network_bottleneck=network_bottleneck(table, assignment),
    )
    finished = replace(
        finished,
        sensitivity=sensitivity_of(finished, evaluator),
        exact_rps=_recounted(finished),
    )
    audit(finished, workload)
    return finished


def _recounted(finished: Plan) -> float | None:
    """The plan's rate with the difference that exact lengths make; None where islands' time is not all that limits."""
    if bounds_ttft(finished.scenario.slo) or finished.scenario.network is not None:
        return None
    return finished.throughput_rps * (1 + evaluate_exactly(finished).difference)


def _layout(
    scenario: Scenario, evaluator: Evaluator, progress: ReportProgress
) -> tuple[LayoutAnswer | None, SearchResult]:
    """The layout: searched for, or solved for. A target is met with the waiting that the programme does not see.

    The bound stays that of the target as it was set.
    """
    if not is_exact(scenario):
        return None, optimize(scenario.inventory, scenario.search, evaluator, progress)
    wanted = scenario.objective.target_rps
    asked, bound, reached = scenario, None, 0.0
    for _ in range(MOST_RAISES):
        try:
            answer = solve_layout(asked, evaluator)
        except InfeasibleError:
            if asked is scenario:
                raise
            break
        bound = answer.bound if bound is None else bound
        result = given(answer.layout, evaluator, progress)
        reached = result.best.throughput_rps if result.best else 0.0
        if reached >= wanted * (1 - MET) or not reached:
            return replace(answer, bound=bound), result
        raised = asked.objective.target_rps * wanted / reached * (1 + MET)
        asked = replace(asked, objective=replace(asked.objective, target_rps=raised))
    raise InfeasibleError(
        f"scenario {scenario.name}: objective.target_rps: {wanted:g} requests/s is not reached with the queues and the "
        f"network that the layout's programme does not see; the closest layout reaches {reached:.1f}.",
        hint="Lower the target, loosen the service levels, or widen the network.",
    )


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
