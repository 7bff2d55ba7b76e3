"""The planner's table of contents: which stage follows which. Some load where they are called. No disk, no printing."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from planner.domain import (
    CalibrationFit,
    Cluster,
    LengthProfile,
    PlacementSettings,
    Plan,
    ReportProgress,
    RequestTrace,
    Scenario,
    SearchJournal,
    Workload,
    no_progress,
)
from planner.domain.arrivals import ReplaySettings
from planner.domain.changes import ChangeLimits, ChangeSettings, LostServers
from planner.domain.defragmentation import RepairReport
from planner.domain.fleets import Deployment, FleetPlan, FleetPoint, FleetScenario
from planner.domain.frontier import RivalFleet
from planner.domain.replay import FleetReplay, ReplayResult, ReplaySweep, ServiceReplay
from planner.domain.rollouts import Replan
from planner.domain.serving.doubt import DoubtedPlan, DoubtSettings
from planner.domain.serving.fleets.changes import FleetChange, FleetTerms
from planner.domain.serving.fleets.lending import FleetNodeLoss, FleetSchedule, LendingTerms, ReplayedLevel
from planner.domain.serving.observed import Observation, ObservedSeries
from planner.domain.serving.tuning import TunedPlan, TuneSettings
from planner.errors import InconsistentPlanError, InputError
from planner.evaluation.doubts.odds import with_odds
from planner.evaluation.evaluator import Evaluator, open_evaluator
from planner.plans.audit import audit
from planner.plans.finishing import finished_plan
from planner.plans.tier_sizes import with_chosen_size
from planner.proposing.buckets.proposals import pools_again
from planner.proposing.certificate import is_exact
from planner.proposing.choice import proposed_again, proposer_of
from planner.proposing.feasibility import posed
from planner.proposing.search import Retold
from planner.workload import question_of

if TYPE_CHECKING:
    from planner.evaluation.replay.replaying import PlanReplay


def plan(
    scenario: Scenario,
    progress: ReportProgress = no_progress,
    journal: SearchJournal | None = None,
    *,
    opened: Evaluator | None = None,
    odds: bool = False,
) -> Plan:
    """Plan one scenario; a search resumes from what `journal` holds, and records in it what it does. `opened`: an
    evaluator that stays open; None: one is opened meanwhile. `odds`: the promise is told with its odds, if it has none.

    An interrupt during the search makes a plan of the best so far; KeyboardInterrupt where there is none. Raises
    InfeasibleError where no layout serves, InputError where the inventory admits no island or the model no prompts.
    """
    if scenario.tiers is not None and scenario.tiers.host_sizes_gb:
        return with_chosen_size(scenario, lambda sized: plan(sized, progress, odds=odds))
    with open_evaluator(posed(scenario)) if opened is None else nullcontext(opened) as evaluator:
        finished = finished_plan(evaluator, proposer_of(scenario).propose(evaluator, progress, journal))
    return with_promise_odds(finished) if odds else finished


def plan_fleet(
    fleet: FleetScenario, tell: Callable[[str], None] = lambda _step: None, progress: ReportProgress = no_progress
) -> FleetPlan:
    """Plan several services on one inventory: its nodes are divided, and every deployment planned on its own; where the
    objective judges divisions by nodes or replays, the division is searched for. `tell` hears of each step.

    Raises InfeasibleError where demands or floors cannot be met together, or a service cannot be served at all,
    InputError where services cannot share pools.
    """
    from planner.proposing.fleets.planning import planned_fleet

    return planned_fleet(fleet, lambda scenario: plan(scenario, progress), place, tell)


def growth_of_fleet(
    fleet: FleetScenario, points: int, listen: Callable[[FleetPoint], None] = lambda _point: None
) -> list[FleetPoint]:
    """The least rent at which all demands are met so many times, at `points` multiples. Raises InputError where they
    are too few or too many, or GPUs have no price; InfeasibleError where nothing serves all."""
    from planner.proposing.fleets.growing import grown

    return grown(fleet, points, listen)


def schedule_fleet(
    plan_of_fleet: FleetPlan,
    terms: LendingTerms | None = None,
    days: float | None = None,
    tell: Callable[[str], None] = lambda _step: None,
) -> FleetSchedule:
    """Window by window the nodes that a fleet's services need for the rates of their curves; the others run its
    batches. `days`: from the first on (None: as long as the longest curve). InputError where no service has a curve."""
    from planner.replanning.fleets.lending import lending_schedule

    return lending_schedule(plan_of_fleet, terms or LendingTerms(), plan, days, tell)


def replay_fleet_schedule(
    schedule: FleetSchedule, burstiness: float = 2.0, requests: int = 4000, seeds: tuple[int, ...] = (0,)
) -> tuple[ReplayedLevel, ...]:
    """Every level of a fleet's schedule, with its servers alone, at the highest rate of the windows in which it stands.
    `burstiness`: coefficient of variation of the gaps between requests."""
    from planner.replanning.fleets.replaying import replayed_levels

    return replayed_levels(schedule, burstiness, requests, seeds)


def lost_nodes_of_fleet(
    plan_of_fleet: FleetPlan, schedule: FleetSchedule | None = None, window: int = 0
) -> tuple[FleetNodeLoss, ...]:
    """For the loss of one node of every deployment and type: who lends one, nobody's nodes and batches' first, and what
    every service is still promised. `schedule`: in that window of it, else as the plan stands."""
    from planner.replanning.fleets.losses import node_losses

    return node_losses(plan_of_fleet, schedule, window)


def plan_with_rivals(scenario: Scenario, progress: ReportProgress = no_progress) -> tuple[Plan, tuple[RivalFleet, ...]]:
    """A plan as `plan` makes it, and other fleets for its objective, the best first."""
    with open_evaluator(posed(scenario)) as evaluator:
        proposed = proposer_of(scenario).propose(evaluator, progress, None)
        finished = finished_plan(evaluator, proposed)
        return finished, proposed.rivals(finished)


def with_promise_odds(finished: Plan) -> Plan:
    """The plan, its promise with odds, which take as long as a small plan; as it is where they are known."""
    return with_odds(finished, posed)


def least_rent(scenario: Scenario, target_rps: float) -> float | None:
    """Rent (USD/hour) below which no fleet of the scenario's GPU types, however many, serves so many requests/s; None
    where none serves at all. Of plans of buckets; nothing is searched."""
    with open_evaluator(posed(scenario)) as evaluator:
        return evaluator.prices.least_rent(target_rps)


def replan(
    saved: Plan,
    scenario: Scenario,
    settings: ChangeSettings | None = None,
    limits: ChangeLimits | None = None,
    lost: LostServers | None = None,
    *,
    frontier: bool = True,
) -> Replan:
    """A plan for a new scenario that changes little of the one that runs, `saved`, less what it has `lost`; with the
    `frontier` of what more or less change would give, unless that is left out.

    `settings` and `limits` are the scenario's own where they are None. Raises InputError where the plan has no buckets,
    or is of another model, engine or GPUs; InfeasibleError where nothing within the limits serves.
    """
    from planner.replanning.finding import find_replan, remaining_scenario

    lost, policy = lost or LostServers(), scenario.changes
    with open_evaluator(posed(remaining_scenario(saved, scenario, lost))) as evaluator:
        settings, limits = settings or policy.times, limits or policy.limits
        near = find_replan(evaluator, saved, settings, limits, lost, frontier=frontier)
        return near.replan(finished_plan(evaluator, near.proposed))


def replan_fleet(
    saved: FleetPlan,
    fleet: FleetScenario,
    terms: FleetTerms | None = None,
    tell: Callable[[str], None] = lambda _step: None,
    progress: ReportProgress = no_progress,
) -> FleetChange:
    """A plan for what a fleet is asked now, near the one that runs, `saved`: few nodes change hands, servers stay where
    they can, and no step takes a service more than the terms allow. `fleet`: on the inventory of before what was lost.

    Raises InputError where the terms do not suit the fleet, InfeasibleError where demands cannot be met together, or no
    order of steps leaves every service its share.
    """
    from planner.replanning.fleets.changing import changed_fleet

    def replan_one(
        running: Plan, scenario: Scenario, settings: ChangeSettings, limits: ChangeLimits, lost: LostServers
    ) -> Replan:
        return replan(running, scenario, settings, limits, lost, frontier=False)

    terms = terms or FleetTerms()
    return changed_fleet(saved, fleet, terms, lambda scenario: plan(scenario, progress), replan_one, tell)


def place(saved: Plan, scenario: Scenario) -> Plan:
    """A finished plan on the nodes of the scenario's cluster; `scenario` is the plan's own but for cluster and
    placement.

    Raises InputError where the plan's islands are not those that its layout gives today, InfeasibleError where the
    islands that find room do not serve the workload.
    """
    with open_evaluator(posed(scenario)) as evaluator:
        return finished_plan(evaluator, proposed_again(evaluator, saved), saved)


def repairs(saved: Plan, scenario: Scenario, limit: int = 1000) -> RepairReport:
    """What topology costs a finished plan of pools on the scenario's cluster, and single changes that win it back:
    `limit` of each kind are tried by placing again, none is carried out. Raises InputError as `place` does."""
    from planner.proposing.buckets.repairing import repairs_on

    return repairs_on(saved, scenario, limit)


def place_fleet(saved: FleetPlan, cluster: Cluster, settings: PlacementSettings) -> FleetPlan:
    """The plans of a fleet on the nodes of one cluster, each on nodes of its own; services that go first choose first.

    Raises as `place` does, and InputError where deployments of the fleet share nodes.
    """
    from planner.proposing.fleets.placing import placed_fleet

    return placed_fleet(saved, cluster, settings, place)


def doubt(
    saved: Plan,
    settings: DoubtSettings,
    knowing: int = 0,
    breakpoints_s: float = 0.0,
    progress: Callable[[float], None] = lambda _done: None,
) -> DoubtedPlan:
    """The plan in draws of what is doubted, its pools as they are; in `knowing` of them with what a plan would serve
    that had been made knowing them; with breakpoints that are sought for so many seconds of CPU. Raises InputError
    where nothing is doubted, the plan has no pools, or breakpoints are asked for of one that was not solved for."""
    from planner.evaluation.doubts.plans import doubted, known_better
    from planner.proposing.explaining.breakpoints import breakpoints

    result = doubted(saved, settings, posed, progress)
    if breakpoints_s:
        rows, untold = breakpoints(saved, breakpoints_s)
        result = replace(result, breakpoints=rows, untold_breakpoints=untold)
    return known_better(saved, result, settings, knowing, plan) if knowing else result


def tune(
    saved: Plan,
    source: RequestTrace | LengthProfile,
    replays: ReplaySettings,
    settings: TuneSettings,
    progress: Callable[[float], None] = lambda _done: None,
) -> tuple[TunedPlan, Plan | None]:
    """What other flags and weights of a plan's servers gain in replays, and the plan with them; None where there is
    nothing to gain. `replays`: how the source's requests come, and what fails.

    Raises InputError where the plan's pools cannot be replayed so, or a goal does not go with its levels.
    """
    from planner.proposing.replayed.tuning import find_tuned

    with open_evaluator(posed(saved.scenario)) as evaluator:
        tuned, pools = find_tuned(evaluator.question, saved, source, replays, settings, progress)
        if not pools:
            return tuned, None
        finished = finished_plan(evaluator, pools_again(evaluator, saved, pools))
    return replace(tuned, tuned_capacity_rps=finished.throughput_rps), finished


def replay(
    saved: Plan,
    trace: RequestTrace | LengthProfile,
    settings: ReplaySettings,
    rate_rps: float,
    progress: Callable[[float], None] = lambda _: None,
) -> ReplayResult:
    """A plan's servers at `rate_rps` requests/s like the trace's, one by one; `progress` hears the share done.

    Raises InputError where the trace, the rate or the settings do not suit the plan.
    """
    return _replaying(saved, trace, settings).at(rate_rps, progress)


def replay_fleet(
    planned: FleetPlan,
    settings: Mapping[str, ReplaySettings],
    share: float = 1.0,
    sources: Mapping[str, RequestTrace | LengthProfile] = MappingProxyType({}),
    tell: Callable[[str], None] = lambda _step: None,
) -> FleetReplay:
    """Every deployment with a demand at so much of its promise, and whether the levels of each service hold.

    `settings`: of every deployment by its name; `sources`: of services, in place of their own lengths. `tell` hears of
    each step.

    Raises InputError as `replay` does.
    """
    from planner.evaluation.replay.services import replay_part

    results: list[ReplayResult] = []
    services: list[ServiceReplay] = []
    for part in planned.parts:
        tell(f"replaying {part.name}")
        replaying = _replaying(part.plan, part.plan.scenario.workload, settings[part.name])
        result, of_services = replay_part(planned.fleet, part, replaying, share * part.promise_rps, sources)
        results.append(result)
        services += of_services
    return FleetReplay(fleet=planned.fleet.name, results=tuple(results), services=tuple(services))


def sweep_rates(
    saved: Plan,
    trace: RequestTrace | LengthProfile,
    settings: ReplaySettings,
    progress: Callable[[float], None] = lambda _: None,
) -> ReplaySweep:
    """The highest rate at which the plan's replay holds the levels, and what was replayed on the way to it."""
    return _replaying(saved, trace, settings).sweep(progress)


def _replaying(saved: Plan, trace: RequestTrace | LengthProfile, settings: ReplaySettings) -> "PlanReplay":
    from planner.evaluation.replay.replaying import PlanReplay

    return PlanReplay(saved, posed(saved.scenario).workload, trace, settings)


def observe(saved: Plan, series: Sequence[ObservedSeries], labels: Mapping[str, str], plan_label: str) -> Observation:
    """What a running plan tells, beside the plan. `labels`: of its islands' pods -> the islands; `plan_label`: its name
    on its objects.

    Raises InputError where the series are not of this plan, hold no load, or tell of no requests.
    """
    from planner.plans.observed.compare import compare_observed

    return compare_observed(saved, series, labels, plan_label)


def calibrate_observed(saved: Plan, observation: Observation, name: str) -> CalibrationFit:
    """Factors fitted to the steps of an observation. InputError where it tells of none."""
    from planner.plans.observed.compare import observed_calibration

    return observed_calibration(saved, observation, name)


def remade(saved: Plan, *, near: bool = False, search: bool = False) -> Plan:
    """The plan that the question of a saved one comes to, here and now; nothing of its answers is believed.

    What was searched for is judged anew, layout by layout, without choosing the layouts anew, unless `search` repeats
    that, too. `near`: the pools of the saved plan are taken as they are, since they were chosen near another plan, and
    all that follows from them is computed. Raises as `plan` does.
    """
    remade_plan = _remade(saved, near=near, search=search)
    return with_promise_odds(remade_plan) if saved.outlook.odds else remade_plan


def _remade(saved: Plan, *, near: bool, search: bool) -> Plan:
    scenario = saved.scenario
    if near:
        with open_evaluator(posed(scenario)) as evaluator:
            return finished_plan(evaluator, pools_again(evaluator, saved))
    if search or is_exact(scenario):
        return plan(scenario)
    # a search that was cut short ends where it did
    settings, record = scenario.search, saved.search
    rounds = 1 + max(trial.iteration for trial in record.trials)
    posed_anew = replace(settings, iterations=rounds) if record.interrupted else settings
    finished = plan(replace(scenario, search=posed_anew), journal=Retold(record))
    search_record = replace(finished.search, interrupted=record.interrupted)
    return replace(finished, scenario=scenario, search=search_record)


def check_fleet(fleet: FleetScenario, tell: Callable[[str], None] = lambda _step: None) -> tuple[Deployment, ...]:
    """The deployments that a fleet's services may have, each of which a plan could start from; nothing is planned.
    Raises as `plan_fleet` does before it divides."""
    from planner.proposing.fleets.deployments import batch_deployments, deployments_of

    waiting = (deployment for service in fleet.batches for deployment in batch_deployments(service))
    deployments = (*deployments_of(fleet), *waiting)
    for deployment in deployments:
        tell(deployment.name)
        check(deployment.scenario)
    return deployments


def check(scenario: Scenario, tell: Callable[[str], None] = lambda _step: None) -> Workload:
    """What a plan would start from, without the search; `tell` hears of each step. Raises as `plan` does before it
    searches."""
    question = posed(scenario)
    with open_evaluator(question) as evaluator:
        proposer_of(scenario).require_possible(evaluator, tell)
    return question.workload


def recheck(saved: Plan, origin: str) -> Plan:
    """A plan that was read back, audited anew. Raises InputError where it contradicts itself: it has been edited."""
    try:
        audit(saved, question_of(saved.scenario).workload)
    except InconsistentPlanError as error:
        raise InputError(f"{origin}: {error.message}", hint="Plan again, or restore the file.") from None
    return saved
