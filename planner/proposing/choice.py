"""Door: who proposes the plan of a scenario. Its islands are solved for, searched for, by replays, too, or robust."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from planner.assignment import LayoutAnswer
from planner.domain import (
    Certificate,
    Evaluation,
    IslandClass,
    Layout,
    Plan,
    ReportProgress,
    RoutingForm,
    Scenario,
    SearchJournal,
    SearchRecord,
)
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.assembly import assemble, assemble_flows, estimates_of, network_bottleneck
from planner.evaluation.buckets.judging import layout_of
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.goals import reference_values
from planner.evaluation.goodput import service_of
from planner.evaluation.judging import judge
from planner.proposing.buckets.infeasible import require_pools
from planner.proposing.buckets.proposals import proposed_pools, saved_pools
from planner.proposing.buckets.surely import solve_surely
from planner.proposing.buckets.ties import best_of_ties
from planner.proposing.certificate import certified_again, certify, is_exact, solve_layout
from planner.proposing.feasibility import nothing_found, require_room, require_saved_rate, require_target
from planner.proposing.proposals import PlanProposer, ProposedPlan, Tell
from planner.proposing.queued_layouts import MET, best_with_queues
from planner.proposing.search import Aim, Ground, SearchResult, Seeds, given, optimize
from planner.proposing.sensitivity import sensitivity_of
from planner.proposing.warm_starts import seeds_of, seeds_of_pools

MOST_RAISES = 6
INSTEAD = "no layout that was searched serves the workload: this one was solved for instead"


def proposer_of(scenario: Scenario) -> PlanProposer:
    """Who proposes the plan of a scenario."""
    if scenario.objective.kind.row.replayed:
        from planner.proposing.replayed.choice import find_replayed  # noqa: PLC0415  (few plans are replayed)

        return replace(POOLS, propose=find_replayed)
    if scenario.chosen_in_draws:
        from planner.proposing.buckets.robust import find_robust, require_doubt  # noqa: PLC0415  (few plans are)

        return replace(POOLS, propose=find_robust, require_possible=require_doubt)
    return _OF_FORM[scenario.routing_form]


def proposed_again(evaluator: Evaluator, saved: Plan) -> ProposedPlan:
    """The islands of a saved plan, by who proposes such plans."""
    return _OF_FORM[saved.form].again(evaluator, saved)


def _pools(evaluator: Evaluator, progress: ReportProgress, journal: SearchJournal | None) -> ProposedPlan:
    """Pools behind buckets, solved for; and searched for where that is asked for, or where the evaluator sees more than
    the programme."""
    scenario, start = evaluator.question.scenario, time.process_time()
    choice = solve_surely(evaluator)
    if scenario.promise.sure is None:  # nobody asks ties how sure they are
        choice = best_of_ties(evaluator, choice)
    solved = layout_of(choice.priced.pools)
    # a search that comes to the same layout gets these pools, made simple, not the programme's first
    evaluator.remember_pools(solved, choice.priced, choice.solver, optimal=choice.proven)
    solving_cpu_s = _since(start, scenario)
    if _is_solved_for(scenario, journal):
        result = given(solved, evaluator, progress, solving_cpu_s=solving_cpu_s)
    else:
        result = _search(scenario, evaluator, progress, journal, partial(seeds_of_pools, scenario, evaluator, solved))()
        _require_uncut(result)
        if result.best is None:
            result = given(
                solved, evaluator, solving_cpu_s=solving_cpu_s, after=result, aim=_aim(scenario), note=INSTEAD
            )
    return proposed_pools(evaluator, _best(evaluator, result), result.record, choice)


def _table(evaluator: Evaluator, progress: ReportProgress, journal: SearchJournal | None) -> ProposedPlan:
    """A layout of islands of any size: solved for where the programme of layouts sees all that is asked."""
    require_room(evaluator)
    scenario = evaluator.question.scenario
    answer, result = None, None
    if _is_solved_for(scenario, journal):
        try:
            answer, result = _solved_to_target(scenario, evaluator, progress)
        except SolverError:  # in time, there was no answer at all
            if not scenario.search.method.row.may_solve or scenario.objective.rents:
                raise
    if result is None:
        result = _search(scenario, evaluator, progress, journal, partial(seeds_of, scenario, evaluator))()
        _require_uncut(result)
        # layouts that the solver left unanswered may serve: to solve for another in their place would prove nothing
        if result.best is None and not result.unanswered:
            answer, result = _solved_instead(scenario, evaluator, result)
    return proposed_table(evaluator, _best(evaluator, result), result.record, answer)


def proposed_table(
    evaluator: Evaluator,
    best: Evaluation,
    record: SearchRecord,
    answer: LayoutAnswer | None,
    saved: Certificate | None = None,
) -> ProposedPlan:
    """The best layout; its islands lie on nodes where the scenario names a cluster. `answer`: the exact method's, where
    it made the layout; `saved`: the certificate of a plan that has the layout already."""
    assert best.assignment is not None, "a layout that serves has an assignment"
    question, scenario = evaluator.question, evaluator.question.scenario
    layout, assignment, table, names, placement = best.layout, best.assignment, evaluator.table(best.layout), None, None
    if evaluator.fleet is not None:
        from planner.evaluation.placing import placed_layout  # noqa: PLC0415  (a plan on no nodes needs none of it)

        placed = placed_layout(table, layout, assignment, question, evaluator.fleet, advises=True)
        assignment, table, names, placement = placed.assignment, placed.table, placed.names, placed.placement
        layout = placed.layout
        require_target(scenario, assignment.throughput_rps)
    islands, routing = assemble(scenario.inventory, layout, table, assignment, names)
    if saved is None:
        certificate = certify(scenario, evaluator, best.layout, assignment.throughput_rps, answer)
    else:
        certificate = certified_again(scenario, saved, best.layout, assignment.throughput_rps)
    return ProposedPlan(
        assignment=assignment,
        islands=islands,
        routing=routing,
        record=record,
        certificate=certificate,
        estimates=estimates_of(table, islands),
        worths=partial(sensitivity_of, evaluator=evaluator),
        placement=placement,
        service=service_of(question, assignment, table),
        flows=assemble_flows(scenario.model, table, assignment, names),
        network_bottleneck=network_bottleneck(table, assignment),
    )


def saved_table(evaluator: Evaluator, saved: Plan) -> ProposedPlan:
    """The layout of a saved plan. Raises InputError where it does not serve what the plan says."""
    layout = Layout.of(IslandClass(gpu=island.gpu, size=island.size) for island in saved.islands)
    evaluation = judge(evaluator.table(layout), layout, evaluator.question)
    require_saved_rate(saved, evaluation.throughput_rps if evaluation.assignment else 0.0, "layout serves")
    return proposed_table(evaluator, evaluation, saved.search, None, saved=saved.certificate)


def _require_room(evaluator: Evaluator, tell: Tell) -> None:
    tell("tabulating what islands of every size serve")
    require_room(evaluator)


def _is_solved_for(scenario: Scenario, journal: SearchJournal | None) -> bool:
    """Whether nothing is searched. Where `journal` knows of a search, the plan was not to be solved for in time."""
    return is_exact(scenario) and (journal is None or journal.proposed(0) is None)


def _best(evaluator: Evaluator, result: SearchResult) -> Evaluation:
    """What the search found. Raises as `nothing_found` says where that serves nothing."""
    if result.best is None or result.best.assignment is None:
        errors = [trial.error for trial in result.record.trials]
        raise nothing_found(evaluator.question, errors, result.unanswered)
    return result.best


def _search(
    scenario: Scenario, evaluator: Evaluator, progress: ReportProgress, journal: SearchJournal | None, seeds: Seeds
) -> Callable[[], SearchResult]:
    """The search of layouts that the scenario asks for."""
    ground = None if scenario.cluster is None else Ground(cluster=scenario.cluster, placement=scenario.placement)
    return partial(
        optimize,
        scenario.inventory,
        scenario.search,
        evaluator,
        progress,
        aim=_aim(scenario),
        journal=journal,
        seeds=seeds,
        ground=ground,
    )


def _require_uncut(result: SearchResult) -> None:
    """Raises KeyboardInterrupt where the search was cut short with nothing found."""
    if result.best is None and result.record.interrupted:
        raise KeyboardInterrupt


def _aim(scenario: Scenario) -> Aim:
    return Aim(objective=scenario.objective, reference=reference_values(scenario))


def _solved_to_target(
    scenario: Scenario, evaluator: Evaluator, progress: ReportProgress
) -> tuple[LayoutAnswer, SearchResult]:
    """A target is met with the waiting that the programme does not see; the bound stays that of the target as set."""
    target_rps = scenario.objective.target_rps
    posed, bound, reached, start = scenario, None, 0.0, time.process_time()
    for _ in range(MOST_RAISES):
        try:
            answer = solve_layout(posed, evaluator)
        except InfeasibleError:
            if posed is scenario:
                raise
            break
        # of the target as it was set: a raised one is met by fewer layouts, whose bound says nothing of the others
        bound = answer.bound if bound is None else bound
        answer = replace(answer, layout=best_with_queues(posed, evaluator, answer.layout, target_rps))
        result = given(answer.layout, evaluator, progress, solving_cpu_s=_since(start, scenario))
        reached = result.best.throughput_rps if result.best else 0.0
        # a layout that serves nothing gives no measure to raise the target by
        if reached >= target_rps * (1 - MET) or not reached:
            return replace(answer, bound=bound), result
        # as if queues took the same share again
        raised = posed.objective.target_rps * target_rps / reached * (1 + MET)
        posed = replace(posed, objective=replace(posed.objective, target_rps=raised))
    raise InfeasibleError(
        f"scenario {scenario.name}: objective.target_rps: {target_rps:g} requests/s is not reached with the queues and "
        f"the network that the layout's programme does not see; the closest layout reaches {reached:.1f}.",
        hint="Lower the target, loosen the service levels, or widen the network.",
    )


def _solved_instead(
    scenario: Scenario, evaluator: Evaluator, result: SearchResult
) -> tuple[LayoutAnswer | None, SearchResult]:
    """Where the search tried nothing that serves, the layout is solved for: what is feasible must not be missed."""
    start = time.process_time()
    try:
        answer = solve_layout(scenario, evaluator)
    except (InfeasibleError, SolverError):
        return None, result
    solving_cpu_s, aim = _since(start, scenario), _aim(scenario)
    answer = replace(answer, layout=best_with_queues(scenario, evaluator, answer.layout))
    outcome = given(answer.layout, evaluator, solving_cpu_s=solving_cpu_s, after=result, aim=aim, note=INSTEAD)
    # of several goals a bound on the rate is not the answer's own
    return None if aim.several else answer, outcome


def _since(start: float, scenario: Scenario) -> float | None:
    """CPU-seconds that a plan tells of; None where the scenario wants none told."""
    return time.process_time() - start if scenario.search.timings else None


POOLS = PlanProposer(propose=_pools, again=saved_pools, require_possible=require_pools)
"""Pools behind buckets."""

TABLE = PlanProposer(propose=_table, again=saved_table, require_possible=_require_room)
"""Islands of any size, and a table of who serves how much of which lengths."""

_OF_FORM: Mapping[RoutingForm, PlanProposer] = MappingProxyType(
    {RoutingForm.BUCKETS: POOLS, RoutingForm.SETS: TABLE, RoutingForm.TABLE: TABLE}
)
