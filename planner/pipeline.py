"""The planner's table of contents: which stage follows which. No disk, no printing."""

from planner.assembly import assemble
from planner.audit import audit
from planner.cost import smallest_island
from planner.domain import IslandClass, Phase, Plan, ReportProgress, Scenario, Workload, no_progress
from planner.errors import InfeasibleError
from planner.evaluation import Evaluator, open_evaluator
from planner.provenance import provenance_of
from planner.search import optimize
from planner.workload import divide


def plan(scenario: Scenario, progress: ReportProgress = no_progress) -> Plan:
    """Plan one scenario.

    Raises InfeasibleError where no layout serves the workload, InputError where the inventory admits no island.
    """
    workload = divide(scenario.workload, scenario.ranges.width)
    with open_evaluator(scenario, workload) as evaluator:
        if not _coverable(scenario, workload, evaluator):
            raise _nothing_serves(scenario, workload, [])
        result = optimize(scenario.inventory, scenario.search, evaluator, progress)
        if result.best is None or result.best.assignment is None:
            raise _nothing_serves(scenario, workload, [trial.error for trial in result.record.trials])
        layout, assignment = result.best.layout, result.best.assignment
        table = evaluator.table(layout)
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
        provenance=provenance_of(scenario, assignment.solver),
    )
    audit(finished, workload)
    return finished


def check(scenario: Scenario) -> Workload:
    """What a plan would start from, without the search. Raises InfeasibleError where some range fits on no island."""
    workload = divide(scenario.workload, scenario.ranges.width)
    with open_evaluator(scenario, workload) as evaluator:
        if not _coverable(scenario, workload, evaluator):
            raise _nothing_serves(scenario, workload, [])
    return workload


def _coverable(scenario: Scenario, workload: Workload, evaluator: Evaluator) -> bool:
    """Whether every range can be served in both phases by some island of the inventory, whatever the layout."""
    missing = {(phase, j) for phase in Phase for j in range(len(workload.ranges))}
    for item in scenario.inventory.items:
        for size in range(item.count, 0, -1):
            row = evaluator.row(IslandClass(gpu=item.gpu.name, size=size))
            missing -= {(phase, j) for phase, j in missing if row.phase(phase).rates_rps[j] > 0}
            if not missing:
                return True
    return False


def _needs(scenario: Scenario, workload: Workload) -> list[tuple[str, Phase, int | None, int]]:
    """(type, phase, fewest GPUs of one island, GPUs in the inventory) for every type and phase."""
    return [
        (
            item.gpu.name,
            phase,
            smallest_island(item.gpu, phase, model=scenario.model, workload=workload, settings=scenario.cost),
            item.count,
        )
        for item in scenario.inventory.items
        for phase in Phase
    ]


def _nothing_serves(scenario: Scenario, workload: Workload, errors: list[str]) -> InfeasibleError:
    """Says how many GPUs the model needs, per type, and what most of the layouts that were tried failed of."""
    by_type: dict[str, list[str]] = {}
    for gpu, phase, need, have in _needs(scenario, workload):
        least = f"at least {need}" if need is not None else "more than the largest island considered"
        by_type.setdefault(f"{gpu} (the inventory has {have})", []).append(f"{least} to {phase}")
    needs = "; ".join(f"{gpu}: {' and '.join(phases)}" for gpu, phases in by_type.items())
    of_them = ""
    if errors:
        often = max(set(errors), key=lambda error: (errors.count(error), error))
        of_them = f" None of the {len(errors)} layouts tried serves every range in both phases; most often: {often}"
    return InfeasibleError(
        f"scenario {scenario.name}: inventory: {scenario.model.name} ({scenario.model.weights_gb:.0f} GB of weights, "
        f"prompts up to {workload.longest_prompt} tokens) cannot be served by these GPUs.{of_them} "
        f"GPUs that one island needs, by type: {needs}.",
        hint="Prefill and decode need an island each: add GPUs, choose a type with more memory or a smaller model.",
    )
