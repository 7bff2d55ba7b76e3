"""One search after another: seeds in, what became of them out."""

from collections.abc import Callable
from dataclasses import replace

from planner.domain import Scenario, SearchMethod
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.evaluator import Evaluator
from planner.proposing.certificate import solve_layout
from planner.search import optimize
from planner.studies.chapter5.records import Optimum, TrialOutcome
from planner.workload import question_of

EXACT_GAP = 0.01
EXACT_TIME_S = 60.0


def run_trial(scenario: Scenario, progress: Callable[[float], None] | None = None) -> TrialOutcome:
    """One search of `scenario` with an evaluator of its own, so that trials cost alike.

    `progress` hears the share of its layouts that has been judged.
    Raises KeyboardInterrupt where it was interrupted (half a trial is none), SolverError as `optimize` does.
    """
    evaluator = Evaluator(question_of(scenario))

    def tell(done: int, total: int, _best_rps: float, /) -> None:
        if progress is not None and done < total:  # the end is told with the outcome
            progress(done / total)

    result = optimize(scenario.inventory, scenario.search, evaluator, tell)
    if result.record.interrupted:
        raise KeyboardInterrupt
    rounds, best = result.record.rounds, result.best
    return TrialOutcome(
        seed=scenario.search.seed,
        best_rps=tuple(record.best_rps for record in rounds),
        generation_cpu_s=tuple(record.generation_cpu_s or 0.0 for record in rounds),
        evaluation_cpu_s=tuple(record.evaluation_cpu_s or 0.0 for record in rounds),
        deviation_rps=best.assignment.deviation_rps if best and best.assignment else None,
        layout=best.layout.label if best else "",
    )


def optimum_of(scenario: Scenario) -> Optimum | None:
    """The best layout of the scenario's fleet and least island size; None where none was found in time, or none
    serves."""
    search = replace(scenario.search, method=SearchMethod.EXACT, gap=EXACT_GAP, work_limit=EXACT_TIME_S)
    exact_scenario = replace(scenario, search=search)
    evaluator = Evaluator(question_of(exact_scenario))
    try:
        answer = solve_layout(exact_scenario, evaluator)
    except (SolverError, InfeasibleError):
        return None
    rate_rps = evaluator.evaluate(answer.layout).throughput_rps
    return Optimum(
        rate_rps=rate_rps, bound_rps=max(answer.bound, rate_rps), proven=answer.proven, layout=answer.layout.label
    )
