"""One search after another: seeds in, what became of them out."""

from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

from planner.domain import ReportProgress, Scenario, SearchMethod, no_progress
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.evaluator import Evaluator
from planner.layouts.certificate import solve_layout
from planner.processes import Workers
from planner.search import optimize
from planner.studies.chapter5.records import Optimum, TrialOutcome
from planner.workload import divide

EXACT_GAP = 0.01
EXACT_TIME_S = 60.0


def run_trial(scenario: Scenario, progress: ReportProgress = no_progress) -> TrialOutcome:
    """One search of `scenario` with an evaluator of its own, so that trials cost alike.

    Raises KeyboardInterrupt where it was interrupted (half a trial is none), SolverError as `optimize` does.
    """
    evaluator = Evaluator(scenario, divide(scenario.workload, scenario.ranges.width))
    result = optimize(scenario.inventory, scenario.search, evaluator, progress)
    if result.record.interrupted:
        raise KeyboardInterrupt
    rounds, best = result.record.rounds, result.best
    return TrialOutcome(
        seed=scenario.search.seed,
        best_rps=tuple(one.best_rps for one in rounds),
        generation_cpu_s=tuple(one.generation_cpu_s or 0.0 for one in rounds),
        evaluation_cpu_s=tuple(one.evaluation_cpu_s or 0.0 for one in rounds),
        deviation_rps=best.assignment.deviation_rps if best and best.assignment else None,
        layout=best.layout.label if best else "",
    )


def run_trials(
    scenarios: Sequence[Scenario], processes: int, progress: ReportProgress = no_progress
) -> Iterator[TrialOutcome]:
    """One search a scenario, in order, `processes` at once. `progress` hears of rounds where there is one process."""
    if processes == 1:
        for scenario in scenarios:
            yield run_trial(scenario, progress)
        return
    with Workers(processes) as workers:
        for found in workers.run(run_trial, [(scenario,) for scenario in scenarios]):
            if isinstance(found, BrokenProcessPool):
                raise SolverError("study: the process of a trial died twice.", hint="Give it more memory.") from found
            yield found


def optimum_of(scenario: Scenario) -> Optimum | None:
    """The best layout of the scenario's fleet and least island size; None where none was found in time, or none
    serves."""
    search = replace(scenario.search, method=SearchMethod.EXACT, gap=EXACT_GAP, time_limit_s=EXACT_TIME_S)
    asked = replace(scenario, search=search)
    evaluator = Evaluator(asked, divide(asked.workload, asked.ranges.width))
    try:
        answer = solve_layout(asked, evaluator)
    except (SolverError, InfeasibleError):
        return None
    found = evaluator.evaluate(answer.layout).throughput_rps
    return Optimum(rate_rps=found, bound_rps=max(answer.bound, found), proven=answer.proven, layout=answer.layout.label)
