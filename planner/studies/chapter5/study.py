"""Door of the studies: every search that the figures need, each made once, and the paper's statements held to it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from planner import files
from planner.domain import CostMode, RequestTrace, Scenario
from planner.processes.workers import Processes
from planner.studies.chapter5.experiments import (
    CODE,
    CONVERSATION,
    DIVISIONS,
    FLEETS,
    NAME,
    TOKENS,
    Request,
    document,
    experiments,
    island_cases,
    setup_of,
)
from planner.studies.chapter5.findings import findings
from planner.studies.chapter5.inner_loop import divisions, profile_tokens, run_islands, trace_tokens
from planner.studies.chapter5.records import (
    CaseOutcome,
    Experiment,
    ExperimentOutcome,
    NothingKept,
    Optimum,
    Setup,
    Study,
    StudyJournal,
    TokenCounts,
    TrialOutcome,
)
from planner.studies.chapter5.trials import Search, exact_key, optimum_of, run_trial, searches
from planner.studies.runner import RunsDone, run_tasks
from planner.workload import summarize

ScenarioOf = Callable[[Setup], Scenario]


def scenario_reader(mode: CostMode) -> ScenarioOf:
    """What gives the scenario of a setup, each read once."""

    @cache
    def read(setup: Setup) -> Scenario:
        return files.scenario_from_document(
            document(setup, mode), origin="study chapter5", base=Path.cwd(), summarize=summarize
        )

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How far a study is: layouts judged, of how many; `case` where its last trial has just ended."""

    done: int
    total: int
    experiment: str = ""
    case: CaseOutcome | None = None


Listen = Callable[[Step], None]


def run(
    request: Request,
    scenario_of: ScenarioOf,
    *,
    processes: Processes = 1,
    listen: Listen = lambda _: None,
    journal: StudyJournal | None = None,
    traces: Sequence[RequestTrace] = (),
) -> Study:
    """Chapter 5 as asked for. `scenario_of` gives the scenario of a setup (see `document`); its search is set here.

    Equal request, equal study, CPU-seconds apart. Searches that `journal` keeps are not made again. Figure 5.13 shows
    `traces`, or the contexts of the paper's workloads where there are none. Raises InputError
    for what cannot be asked for, SolverError where a search fails, KeyboardInterrupt where the user ends it.
    """
    chosen = experiments(request)
    islands = tuple(run_islands(case, scenario_of(case.setup)) for case in island_cases(request))
    outcomes = _Bench(chosen, scenario_of, processes, listen, journal or NothingKept()).outcomes()
    return Study(
        name=NAME,
        mode=request.mode,
        seed=request.seed,
        small=request.small,
        figures=request.chosen(),
        experiments=outcomes,
        islands=islands,
        findings=findings(request.chosen(), outcomes, islands),
        divisions=divisions() if DIVISIONS in request.chosen() else (),
        tokens=_tokens(scenario_of, traces) if TOKENS in request.chosen() else (),
    )


def _tokens(scenario_of: ScenarioOf, traces: Sequence[RequestTrace]) -> tuple[TokenCounts, ...]:
    if traces:
        return tuple(trace_tokens(traces))
    setups = [setup_of(FLEETS["(c) uniform"], workload) for workload in (CODE, CONVERSATION)]
    return tuple(profile_tokens(scenario_of(setup).workload for setup in setups))


class _Bench:
    """Experiments under way. Searches that two experiments share are made once, and so are optima."""

    def __init__(
        self,
        chosen: Sequence[Experiment],
        scenario_of: ScenarioOf,
        processes: Processes,
        listen: Listen,
        journal: StudyJournal,
    ) -> None:
        self.experiments, self.scenario_of, self.processes, self.listen = chosen, scenario_of, processes, listen
        self.journal = journal
        self.trials: dict[Search, TrialOutcome] = {}
        self.optima: dict[tuple[Setup, int], Optimum | None] = {}
        self.done = 0
        layouts = {
            search: search[1].iterations * search[1].batch_size
            for experiment in chosen
            for _, search in searches(experiment)
        }
        self.total = sum(layouts.values())

    def outcomes(self) -> tuple[ExperimentOutcome, ...]:
        return tuple(self._outcome(experiment) for experiment in self.experiments)

    def _outcome(self, experiment: Experiment) -> ExperimentOutcome:
        outcomes = self._trials_of([search for _, search in searches(experiment)])
        cases: list[CaseOutcome] = []
        for case in experiment.cases:
            trials = tuple(next(outcomes) for _ in range(experiment.trials))
            key = exact_key(case)
            if key not in self.optima:
                self.optima[key] = optimum_of(self._scenario((case.setup, case.search)))
            cases.append(CaseOutcome(case=case, trials=trials, optimum=self.optima[key]))
            self.listen(Step(done=self.done, total=self.total, experiment=experiment.name, case=cases[-1]))
        return ExperimentOutcome(experiment=experiment, cases=tuple(cases))

    def _trials_of(self, search_list: Sequence[Search]) -> Iterator[TrialOutcome]:
        """The outcome of each search, in order; those not made before are made, several at once."""
        for search in search_list:
            if search not in self.trials and (earlier := self.journal.outcome_of(self._scenario(search))):
                self._enter(search, earlier)
        missing = [search for search in dict.fromkeys(search_list) if search not in self.trials]
        tasks = [(self._scenario(search),) for search in missing]

        def hear(runs: RunsDone[TrialOutcome]) -> None:
            if runs.last is None:
                self._hear(missing[int(runs.done)], runs.done % 1)

        outcomes = run_tasks("study", run_trial, tasks, processes=self.processes, listen=hear)
        for search in search_list:
            if search not in self.trials:
                outcome = next(outcomes)
                self.journal.keep(self._scenario(search), outcome)
                self._enter(search, outcome)
            yield self.trials[search]

    def _enter(self, search: Search, outcome: TrialOutcome) -> None:
        self.trials[search] = outcome
        self.done += search[1].iterations * search[1].batch_size
        self.listen(Step(done=self.done, total=self.total))

    def _scenario(self, search: Search) -> Scenario:
        setup, settings = search
        return replace(self.scenario_of(setup), search=settings)

    def _hear(self, search: Search, share: float) -> None:
        layouts = search[1].iterations * search[1].batch_size
        self.listen(Step(done=self.done + round(share * layouts), total=self.total))
