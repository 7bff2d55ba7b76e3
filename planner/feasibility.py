"""Whether a scenario can have a plan at all, told before the search; and why not, in words."""

from collections.abc import Iterator
from itertools import pairwise

from planner.cost import smallest_island
from planner.cost.reference.steps import shape_of
from planner.domain import CostMode, IslandClass, Phase, Scenario, Workload
from planner.errors import InfeasibleError, InputError, PlannerError, SolverError
from planner.evaluation import Evaluator

LARGEST_SOUGHT_ISLAND = 512
MOST_RANGES = 1000
_SIZES_BEFORE_PIECE = (1, 16, *range(64, LARGEST_SOUGHT_ISLAND, 64))


def require_context(scenario: Scenario) -> None:
    """Raises InputError where the cost mode has no formulas for the model, or the model does not take the prompts."""
    if scenario.cost.mode is CostMode.REFERENCE:
        shape_of(scenario.model)
    longest, context = scenario.workload.input_tokens[-1], scenario.model.max_context
    if longest >= context:
        raise InputError(
            f"scenario {scenario.name}: workload {scenario.workload.name}: prompts must be shorter than the context of "
            f"{scenario.model.name}, {context} tokens; the longest has {longest}.",
            hint="Leave such requests out of the trace, or choose a model with a longer context.",
        )


def require_few_ranges(scenario: Scenario, workload: Workload) -> None:
    """Raises InputError where the ranges are so many that assigning them would take minutes a layout."""
    if len(workload.ranges) > MOST_RANGES:
        raise InputError(
            f"scenario {scenario.name}: ranges.width: must give at most {MOST_RANGES} ranges, {scenario.ranges.width} "
            f"gives {len(workload.ranges)}.",
            hint=f"Choose a width of at least {workload.longest_prompt // MOST_RANGES + 1}.",
        )


def require_room(scenario: Scenario, workload: Workload, evaluator: Evaluator) -> None:
    """Raises InfeasibleError where some range fits on no island of the inventory, whatever the layout."""
    missing = {(phase, j) for phase in Phase for j in range(len(workload.ranges))}
    for item in scenario.inventory.items:
        for islands in _downward(item.gpu.name, min(item.count, LARGEST_SOUGHT_ISLAND)):
            evaluator.tabulate(islands)
            for island in islands:
                row = evaluator.row(island)
                missing -= {(phase, j) for phase, j in missing if row.phase(phase).rates_rps[j] > 0}
            if not missing:
                return
    phase, j = max(sorted(missing), key=lambda cell: cell[1])
    raise InfeasibleError(
        f"scenario {scenario.name}: inventory: {_model(scenario)} cannot be served by these GPUs: no island of theirs "
        f"can {phase} prompts of {workload.ranges[j].label} tokens. {_needs(scenario, workload)}",
        hint="Prefill and decode need an island each: add GPUs, choose a type with more memory or a smaller model, "
        "or leave the longest prompts out.",
    )


def _downward(gpu: str, largest: int) -> Iterator[list[IslandClass]]:
    """Every size from the largest, which mostly serves all, in pieces that grow."""
    firsts = [largest, *(largest - n for n in _SIZES_BEFORE_PIECE if n < largest), 0]
    for first, after in pairwise(firsts):
        yield [IslandClass(gpu=gpu, size=size) for size in range(first, after, -1)]


def nothing_found(scenario: Scenario, workload: Workload, errors: list[str], unanswered: int) -> PlannerError:
    """The end of a search that found no layout that serves; `errors` are its trials'.

    A SolverError where the solver left some of them unanswered: then nothing is proven.
    """
    often = max(set(errors), key=lambda error: (errors.count(error), error))
    if unanswered:
        return SolverError(
            f"scenario {scenario.name}: assignment: the solver left {unanswered} of {len(errors)} layouts unanswered "
            f"and no other serves the workload; most often: {often}",
            hint="Raise assignment.time_limit_s or assignment.gap.",
        )
    return InfeasibleError(
        f"scenario {scenario.name}: search: none of the {len(errors)} layouts tried serves every range in both phases "
        f"with {_model(scenario)}; most often: {often} {_needs(scenario, workload)}",
        hint="Prefill and decode need an island each. Where there are GPUs enough, raise search.iterations, "
        "search.batch_size or search.min_island_size; else add GPUs.",
    )


def _model(scenario: Scenario) -> str:
    return f"{scenario.model.name} ({scenario.model.weights_gb:.0f} GB of weights)"


def _needs(scenario: Scenario, workload: Workload) -> str:
    """GPUs that one island needs to serve every range, per type and phase."""
    return f"GPUs that one island needs, by type: {'; '.join(_type_needs(scenario, workload))}."


def _type_needs(scenario: Scenario, workload: Workload) -> list[str]:
    texts = []
    for item in scenario.inventory.items:
        phases = []
        for phase in Phase:
            need = smallest_island(item.gpu, phase, model=scenario.model, workload=workload, settings=scenario.cost)
            phases.append(f"at least {need} to {phase}" if need else f"more than any island offers to {phase}")
        texts.append(f"{item.gpu.name} (the inventory has {item.count}): {' and '.join(phases)}")
    return texts
