"""Door: a fleet that runs, planned anew with little change: its division near the old one, each deployment near its
plan, and all roll-outs in an order in which nodes are free before somebody takes them."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from planner.domain import Plan, Scenario
from planner.domain.changes import ChangeLimits, ChangeSettings, LostServers, PlanChange
from planner.domain.fleets import FleetAim, FleetJudge, FleetPart, FleetPlan, FleetScenario
from planner.domain.rollouts import Replan
from planner.domain.serving.fleets.changes import DeploymentChange, FleetChange, FleetTerms
from planner.errors import InfeasibleError, InputError
from planner.proposing.fleets.deployments import deployments_of
from planner.proposing.fleets.dividing import Tell, worth_of_rates
from planner.proposing.fleets.planning import PlanOne, alone, fleet_on
from planner.replanning.changes import carried_out
from planner.replanning.finding import require_limits
from planner.replanning.fleets.near_divisions import NearDivision, near_division, near_enough
from planner.replanning.fleets.ordering import ordered
from planner.replanning.fleets.standing import StandingNodes, after_losses, standing_nodes
from planner.replanning.losses import without_lost
from planner.replanning.rollouts.interim import with_types_of

ReplanOne = Callable[[Plan, Scenario, ChangeSettings, ChangeLimits, LostServers], Replan]
_PARTS = 8
"""Steps in which it is tried how much a deployment may give up."""


def changed_fleet(
    saved: FleetPlan,
    fleet: FleetScenario,
    terms: FleetTerms,
    plan_one: PlanOne,
    replan_one: ReplanOne,
    tell: Tell = lambda _: None,
) -> FleetChange:
    """The new plan of a fleet that runs. `fleet`: what is asked now, on the inventory of before what was lost;
    `plan_one`, `replan_one`: plan a deployment from scratch, and near the plan that runs.

    Raises InputError where the terms do not suit the fleet; InfeasibleError where demands cannot be met together, a
    deployment's limits of change forbid what is needed, or no order of steps leaves enough to every service.
    """
    if fleet.objective.judged is not FleetJudge.FORMULA:
        raise InputError(
            f"fleet {fleet.name}: objective.judged: must be formula where a fleet is changed, got "
            f"{fleet.objective.judged.value}.",
            hint="Give a file with judged: formula (--scenario), or plan it anew.",
        )
    left = after_losses(fleet, terms)
    standing = standing_nodes(saved, left, terms)
    near = _divided(saved, left, standing, tell)
    planner = _NearPlanner(saved, standing, _may_give_up(near), plan_one, replan_one)
    if near is None:
        plan = alone(left, deployments_of(left)[0], planner.plan, tell)
        best_value = plan.value
        moved = best_moved = _moved(saved, plan, standing)
    else:
        plan = fleet_on(near.division, planner.plan, tell)
        best_value, moved, best_moved = near.best.value, near.moved, near.best_moved
    tell("ordering the steps")
    deployments = planner.changes(plan)
    least_share = terms.least_share
    if least_share is None:
        least_share = max(scenario.changes.least_share for s in left.services for scenario in s.scenarios)
    order = ordered(saved, plan, deployments, standing, least_share)
    return FleetChange(
        before=saved,
        plan=plan,
        deployments=order.deployments,
        steps=order.steps,
        lower_rps=order.lower_rps,
        least_share=least_share,
        best_value=best_value,
        moved_gpus=moved,
        best_moved_gpus=best_moved,
        guessed=standing.guessed,
        short=standing.short,
    )


def _divided(saved: FleetPlan, fleet: FleetScenario, standing: StandingNodes, tell: Tell) -> NearDivision | None:
    """The division near the old one; None where one deployment may have all there is."""
    deployments = deployments_of(fleet)
    if len(deployments) == 1:
        return None
    kept_rps = {}
    for part in saved.parts:
        same = next((d for d in deployments if d.name == part.name), None)
        unlike = same is None or standing.gone.get(part.name)
        # of a target plans stop at what was asked for: they say nothing of what their GPUs can
        if not unlike and same is not None and fleet.objective.kind is not FleetAim.TARGET:
            here = replace(part.plan.scenario, inventory=same.scenario.inventory)
            if same_question(here, same.scenario):
                kept_rps[part.name] = part.plan.throughput_rps
    return near_division(fleet, deployments, standing.gpus, kept_rps, tell)


def same_question(old: Scenario, new: Scenario) -> bool:
    """Whether a plan of the one answers the other: the files that they were read from aside."""
    return replace(old, inputs=()) == replace(new, inputs=())


def _may_give_up(near: NearDivision | None) -> Mapping[str, float]:
    """Of the rate of each deployment, what it may lack for touching fewer GPUs while the fleet stays near its best: one
    after the other, so that all may at once."""
    if near is None:
        return {}
    division, fleet = near.division, near.division.pricing.fleet
    deployments, rates = division.pricing.deployments, list(division.rates_rps)
    rent = sum(
        dict(gpus).get(stock.gpu, 0) * stock.charge for gpus in division.gpus for stock in division.pricing.stocks
    )
    shares = {}
    for j, deployment in enumerate(deployments):
        limit = deployment.scenario.changes.limits.give_up
        for part in range(_PARTS, -1, -1):
            lower = [*rates[:j], rates[j] * (1 - limit * part / _PARTS), *rates[j + 1 :]]
            if not part or near_enough(worth_of_rates(fleet, deployments, lower, rent), near.best_worth):
                shares[deployment.name], rates = limit * part / _PARTS, lower
                break
    return shares


class _NearPlanner:
    """Plans deployments near the plans that run, by their names, and remembers how."""

    def __init__(
        self,
        saved: FleetPlan,
        standing: StandingNodes,
        give_up: Mapping[str, float],
        plan_one: PlanOne,
        replan_one: ReplanOne,
    ) -> None:
        self._old, self._standing, self._give_up = {part.name: part for part in saved.plans}, standing, give_up
        self._plan_one, self._replan_one = plan_one, replan_one
        self._changed: dict[str, tuple[Replan, PlanChange]] = {}

    def plan(self, scenario: Scenario) -> Plan:
        """The plan that runs where nothing is asked anew, else one near it, or from scratch where there is none."""
        part = self._old.get(scenario.name)
        self._changed.pop(scenario.name, None)
        if part is None:
            return self._plan_one(scenario)
        lost = self._standing.lost_by(part)
        if not lost.gpus and same_question(part.plan.scenario, scenario):
            return part.plan
        if not _runs_on(without_lost(part.plan, lost), scenario):
            return self._plan_one(scenario)
        return self._near(part, scenario, lost)

    def _near(self, part: FleetPart, scenario: Scenario, lost: LostServers) -> Plan:
        policy = scenario.changes
        allowed = min(policy.limits.give_up, self._give_up.get(part.name, policy.limits.give_up))
        limits = replace(policy.limits, give_up=allowed)
        posed = _with_types_of(part.plan, scenario, lost)
        try:
            replan = self._replan_one(part.plan, posed, policy.times, limits, lost)
        except InfeasibleError:
            if policy.limits.most_gpus is not None or policy.limits.least_running_on or policy.limits.turns_only:
                raise
            return self._plan_one(scenario)
        change = carried_out(replan.change, replan.before, replan.plan.scenario, policy.times)
        require_limits(replan.plan, change, policy.limits, "servers that go on in other islands start anew there", "")
        self._changed[part.name] = replan, change
        return replan.plan

    def changes(self, plan: FleetPlan) -> tuple[DeploymentChange, ...]:
        """Every deployment of either plan, those that run first."""
        old, new = self._old, {part.name: part for part in plan.plans}
        rows = []
        for name in dict.fromkeys((*old, *new)):
            before, after = old.get(name), new.get(name)
            near = self._changed.get(name) if after is not None else None
            rows.append(
                DeploymentChange(
                    name=name,
                    before=before,
                    after=after,
                    lost=LostServers() if before is None else self._standing.lost_by(before),
                    replan=None if near is None else near[0],
                    change=None if near is None else near[1],
                )
            )
        return tuple(rows)


def _runs_on(plan: Plan, scenario: Scenario) -> bool:
    """Whether servers of a plan may be those of a scenario's: of the same model and engine, and pools on both sides."""
    old = plan.scenario
    engines = [(s.engine.name, s.engine.version) for s in (old, scenario)]
    return bool(plan.outlook.pools) and old.model.name == scenario.model.name and engines[0] == engines[1]


def _with_types_of(plan: Plan, scenario: Scenario, lost: LostServers) -> Scenario:
    """The scenario on an inventory of before the loss, which has the types of the servers that run, if only 0 of them:
    it is by their figures that servers stop."""
    gone, inventory = dict(lost.gpus), with_types_of(scenario, plan.scenario).inventory
    counted = tuple(replace(item, count=item.count + gone.get(item.gpu.name, 0)) for item in inventory.items)
    return replace(scenario, inventory=replace(inventory, items=counted))


def _moved(saved: FleetPlan, plan: FleetPlan, standing: StandingNodes) -> tuple[tuple[str, int], ...]:
    """GPUs by type that change hands, of a fleet of one deployment."""
    names, counts = {part.name for part in plan.parts}, []
    for gpu, _ in plan.fleet.inventory.counts:
        old = sum(standing.gpus.get(name, {}).get(gpu, 0) for name in names)
        counts.append((gpu, abs(sum(dict(part.gpus).get(gpu, 0) for part in plan.parts) - old)))
    assert saved.plans, "a fleet that runs has deployments"
    return tuple(counts)
