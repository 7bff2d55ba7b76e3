"""One search after another: seeds in, what became of them out; and how long that will take here.

A round's price is taken to grow with its layouts where the model is cheap, and to be that of the fit where it is not.
Later rounds have more to learn from and cost more than the one measured, the first of a process costs more than its
like: the whole is an estimate.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from planner.domain import Encoding, Scenario, SearchMethod, SearchSettings, Surrogate
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.evaluator import Evaluator
from planner.proposing.certificate import solve_layout
from planner.proposing.search import optimize
from planner.studies.chapter5.records import Case, Experiment, Optimum, Setup, TrialOutcome
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


EXACT_S = 2.0  # an exact layout, typically
ISLANDS_S = 8.0  # the four cases of given islands


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One kind of search: CPU-seconds of choosing a round of `batch_size` layouts, and of judging one layout."""

    encoding: Encoding
    surrogate: Surrogate
    batch_size: int
    choosing_s: float
    judging_s: float

    def seconds(self, search: SearchSettings) -> float:
        """CPU-seconds of a whole search."""
        scale = 1.0 if self.surrogate is Surrogate.SAASBO else search.batch_size / self.batch_size
        layouts = search.iterations * search.batch_size
        return (search.iterations - 1) * self.choosing_s * scale + layouts * self.judging_s


Kind = tuple[Encoding, Surrogate]


def expected(
    experiments: Iterable[Experiment],
    scenario_of: Callable[[Setup], Scenario],
    *,
    islands: bool,
    listen: Callable[[Pace], None] = lambda _: None,
) -> tuple[float, tuple[Pace, ...]]:
    """(CPU-seconds of the whole study, the rounds measured for it). `listen` hears of each as it is measured."""
    cases = {search: case for experiment in experiments for case, search in searches(experiment)}
    paces: dict[Kind, Pace] = {}
    for (_, search), case in cases.items():
        kind = (search.encoded, search.surrogate)
        if kind not in paces:
            paces[kind] = _measured(case, _largest(cases, kind), scenario_of)
            listen(paces[kind])
    work = sum(paces[search.encoded, search.surrogate].seconds(search) for _, search in cases)
    exact = len({exact_key(case) for case in cases.values()}) * EXACT_S
    return work + exact + ISLANDS_S * islands, tuple(paces.values())


Search = tuple[Setup, SearchSettings]


def searches(experiment: Experiment) -> Iterator[tuple[Case, Search]]:
    """Every search of an experiment, trial by trial, with its case. Equal searches of a study are made once."""
    for case in experiment.cases:
        for trial in range(experiment.trials):
            yield case, (case.setup, replace(case.search, seed=case.search.seed + trial))


def exact_key(case: Case) -> tuple[Setup, int]:
    """What the best layout of a case depends on."""
    return case.setup, case.search.min_island_size


def _largest(searched: Iterable[Search], kind: Kind) -> int:
    return max(search.batch_size for _, search in searched if (search.encoded, search.surrogate) == kind)


def _measured(case: Case, batch_size: int, scenario_of: Callable[[Setup], Scenario]) -> Pace:
    """The last round of a short search; the first is without a model, and so is the second where rounds are single."""
    search = replace(case.search, batch_size=batch_size, iterations=2 if batch_size > 1 else 3, timings=True)
    outcome = run_trial(replace(scenario_of(case.setup), search=search))
    return Pace(
        encoding=search.encoded,
        surrogate=search.surrogate,
        batch_size=batch_size,
        choosing_s=outcome.generation_cpu_s[-1],
        judging_s=sum(outcome.evaluation_cpu_s) / (search.iterations * batch_size),
    )
