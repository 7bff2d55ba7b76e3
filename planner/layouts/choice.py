"""How a plan comes by its layout: searched for, or solved for."""

import time
from dataclasses import replace
from functools import partial

from planner.assignment import LayoutAnswer
from planner.domain import Layout, Proposal, ReportProgress, Scenario, SearchJournal, WarmStart
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.judging import layout_of
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.goals import reference_values
from planner.layouts.buckets.pools import BucketChoice, solve_buckets
from planner.layouts.buckets.ties import best_of_ties
from planner.layouts.certificate import is_exact, solve_layout
from planner.layouts.queued_layouts import MET, best_with_queues
from planner.layouts.warm_starts import EARLIER, seeds_of
from planner.search import Aim, Ground, SearchResult, given, optimize

MOST_RAISES = 6
INSTEAD = "no layout that was searched serves the workload: this one was solved for instead"


def find_layout(
    scenario: Scenario, evaluator: Evaluator, progress: ReportProgress, journal: SearchJournal | None = None
) -> tuple[LayoutAnswer | None, SearchResult]:
    """The layouts tried, and the exact method's answer where it was asked for.

    Raises as `solve_layout` and `optimize` do, and KeyboardInterrupt where the search was cut short with nothing found.
    Where `journal` knows of a search, the layout was not to be solved for in time.
    """
    if is_exact(scenario) and (journal is None or journal.proposed(0) is None):
        try:
            return _solved_to_target(scenario, evaluator, progress)
        except SolverError:  # in time, there was no answer at all
            if not scenario.search.method.row.may_solve or scenario.objective.rents:
                raise
    aim = Aim(objective=scenario.objective, reference=reference_values(scenario))
    seeds = partial(seeds_of, scenario, evaluator)
    result = optimize(
        scenario.inventory,
        scenario.search,
        evaluator,
        progress,
        aim=aim,
        journal=journal,
        seeds=seeds,
        ground=_ground(scenario),
    )
    if result.best is None and result.record.interrupted:
        raise KeyboardInterrupt
    if result.best is None and not result.unanswered:
        return _solved_instead(scenario, evaluator, aim, result)
    return None, result


def _ground(scenario: Scenario) -> Ground | None:
    """Where islands are going to lie, if that is known."""
    return None if scenario.cluster is None else Ground(cluster=scenario.cluster, placement=scenario.placement)


def find_pools(
    scenario: Scenario, evaluator: Evaluator, progress: ReportProgress, journal: SearchJournal | None = None
) -> tuple[BucketChoice, SearchResult]:
    """The pools of a plan of buckets, solved for, and the layouts tried: a search where that is asked for, or where the
    evaluator sees more than the programme. Raises as `find_layout` does."""
    start = time.process_time()
    choice = best_of_ties(evaluator, solve_buckets(evaluator))
    solved = layout_of(choice.priced.pools)
    evaluator.remember_pools(solved, choice.priced, choice.solver, optimal=choice.proven)
    solving_cpu_s = _since(start) if scenario.search.timings else None
    if is_exact(scenario) and (journal is None or journal.proposed(0) is None):
        return choice, given(solved, evaluator, progress, solving_cpu_s=solving_cpu_s)
    aim = Aim(objective=scenario.objective, reference=reference_values(scenario))
    seeds = partial(_seeded, scenario, solved)
    result = optimize(
        scenario.inventory,
        scenario.search,
        evaluator,
        progress,
        aim=aim,
        journal=journal,
        seeds=seeds,
        ground=_ground(scenario),
    )
    if result.best is None and result.record.interrupted:
        raise KeyboardInterrupt
    if result.best is None:
        return choice, given(solved, evaluator, solving_cpu_s=solving_cpu_s, after=result, aim=aim, note=INSTEAD)
    return choice, result


def _seeded(scenario: Scenario, solved: Layout) -> tuple[Proposal, ...]:
    """The layouts that a search begins with: the pools that were solved for, and those of earlier runs."""
    words = WarmStart.EXACT in scenario.search.warm_start or scenario.search.method.row.may_solve
    origins = {solved: WarmStart.EXACT.value} if words else {}
    origins |= {layout: EARLIER for layout in scenario.search.earlier if layout not in origins}
    return tuple(Proposal(parameters=(), layout=layout, generator=origin) for layout, origin in origins.items())


def _solved_to_target(
    scenario: Scenario, evaluator: Evaluator, progress: ReportProgress
) -> tuple[LayoutAnswer, SearchResult]:
    """A target is met with the waiting that the programme does not see; the bound stays that of the target as set."""
    wanted = scenario.objective.target_rps
    posed, bound, reached, start = scenario, None, 0.0, time.process_time()
    for _ in range(MOST_RAISES):
        try:
            answer = solve_layout(posed, evaluator)
        except InfeasibleError:
            if posed is scenario:
                raise
            break
        bound = answer.bound if bound is None else bound
        answer = replace(answer, layout=best_with_queues(posed, evaluator, answer.layout, wanted))
        result = given(
            answer.layout, evaluator, progress, solving_cpu_s=_since(start) if scenario.search.timings else None
        )
        reached = result.best.throughput_rps if result.best else 0.0
        if reached >= wanted * (1 - MET) or not reached:
            return replace(answer, bound=bound), result
        raised = posed.objective.target_rps * wanted / reached * (1 + MET)
        posed = replace(posed, objective=replace(posed.objective, target_rps=raised))
    raise InfeasibleError(
        f"scenario {scenario.name}: objective.target_rps: {wanted:g} requests/s is not reached with the queues and the "
        f"network that the layout's programme does not see; the closest layout reaches {reached:.1f}.",
        hint="Lower the target, loosen the service levels, or widen the network.",
    )


def _solved_instead(
    scenario: Scenario, evaluator: Evaluator, aim: Aim, result: SearchResult
) -> tuple[LayoutAnswer | None, SearchResult]:
    """Where the search tried nothing that serves, the layout is solved for: what is feasible must not be missed."""
    start = time.process_time()
    try:
        answer = solve_layout(scenario, evaluator)
    except (InfeasibleError, SolverError):
        return None, result
    solving_cpu_s = _since(start) if scenario.search.timings else None
    answer = replace(answer, layout=best_with_queues(scenario, evaluator, answer.layout))
    outcome = given(answer.layout, evaluator, solving_cpu_s=solving_cpu_s, after=result, aim=aim, note=INSTEAD)
    return None if aim.several else answer, outcome


def _since(start: float) -> float:
    return time.process_time() - start
