"""From a plan that runs and a new scenario to what a new plan is finished from."""

from dataclasses import dataclass, replace

from planner.domain import Plan, Scenario, require_buckets, require_pools
from planner.domain.changes import ChangeKind, ChangeLimits, ChangeSettings, LostServers, PlanChange
from planner.domain.rollouts import Replan
from planner.errors import InfeasibleError, InputError
from planner.evaluation.buckets.judging import layout_of
from planner.evaluation.evaluator import Evaluator
from planner.proposing.buckets.pools import chosen_near
from planner.proposing.buckets.proposals import proposed_pools
from planner.proposing.proposals import ProposedPlan
from planner.proposing.search import given
from planner.replanning.changes import BY_SERVERS, changes_between, require_model
from planner.replanning.losses import no_more_than, remaining_cluster, remaining_inventory, without_lost
from planner.replanning.replanner import Replanned, Replanner
from planner.replanning.staying import named_after, staying_parts

SAME = 1e-9
_UNPLACED = ", or leave the cluster out of the scenario: servers then stay where they are"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundReplan:
    """What is proposed as the new plan, with what it was chosen from and the change that it is."""

    before: Plan
    settings: ChangeSettings
    limits: ChangeLimits
    replanned: Replanned
    proposed: ProposedPlan

    def replan(self, finished: Plan) -> Replan:
        """With the finished plan. Its change is counted anew, where its servers lie.

        Raises InfeasibleError where servers that are placed anew move more than the limits allow.
        """
        replanned, finished = self.replanned, _without_emptied(finished)
        change = changes_between(self.before, finished, self.settings)
        moved = f"{change.servers(ChangeKind.MOVE)} servers move"
        require_limits(finished, change, self.limits, f"placed on the cluster's nodes {moved}", _UNPLACED)
        return Replan(
            plan=finished,
            before=self.before,
            change=change,
            frontier=replanned.points,
            current_rps=None if replanned.current is None else replanned.current.priced.rate_rps,
            scratch_rps=None if replanned.anew is None else replanned.anew.priced.rate_rps,
            scratch_value=None if replanned.anew is None else replanned.anew.value,
            scratch_bound=None if replanned.scratch is None else replanned.scratch.bound,
            bound=replanned.chosen.bound,
        )


def _without_emptied(finished: Plan) -> Plan:
    """The plan without types of which no GPU is left: their figures were needed for the servers that ran there, and no
    scenario that is read back may have them."""
    inventory = finished.scenario.inventory
    items = tuple(item for item in inventory.items if item.count)
    if len(items) == len(inventory.items):
        return finished
    sensitivity, types = finished.sensitivity, {item.gpu.name for item in items}
    if sensitivity is not None:
        sensitivity = replace(sensitivity, gpus=tuple(row for row in sensitivity.gpus if row.gpu in types))
    scenario = replace(finished.scenario, inventory=replace(inventory, items=items))
    return replace(finished, scenario=scenario, sensitivity=sensitivity)


def require_limits(finished: Plan, change: PlanChange, limits: ChangeLimits, reason: str, remedy: str) -> None:
    """Raises InfeasibleError where a change goes beyond the limits; its pools did not: `reason` says why it does."""
    most_gpus, least_share = limits.most_gpus, limits.least_running_on or 0.0
    if (most_gpus is None or change.gpus_touched <= most_gpus) and change.running_on_share >= least_share * (1 - SAME):
        return
    raise InfeasibleError(
        f"scenario {finished.scenario.name}: the plan touches {change.gpus_touched} GPUs and "
        f"{100 * change.running_on_share:.0f} % of the servers run on, as {reason}; the limits are "
        f"{'none' if most_gpus is None else most_gpus} and {100 * least_share:.0f} %.",
        hint=f"Allow more change{remedy}.",
    )


def remaining_scenario(saved: Plan, scenario: Scenario, lost: LostServers) -> Scenario:
    """The new scenario without the GPUs that were lost.

    Raises InputError where the plan has no buckets, is of another model, engine or GPUs, or has not what was lost.
    """
    require_pools(saved, BY_SERVERS)
    require_model(saved.scenario, scenario)
    _require_router(saved.scenario, scenario)
    _require_gpus(saved, scenario)
    require_buckets(scenario, "to stay near a plan of buckets", instead="plan it by itself (planner plan)")
    inventory = remaining_inventory(saved, scenario.inventory, lost)
    if scenario.cluster is None or not lost.nodes:
        return replace(scenario, inventory=inventory)
    cluster = remaining_cluster(scenario.cluster, lost)
    return replace(scenario, inventory=no_more_than(cluster, inventory, scenario.placement), cluster=cluster)


def _require_router(before: Scenario, after: Scenario) -> None:
    """Raises InputError where a scenario is of another engine than the plan that runs; another version may follow."""
    if before.engine.name != after.engine.name:
        raise InputError(
            f"scenario {after.name}: engine must be that of the plan that runs, {before.engine.name}, of any version, "
            f"got {after.engine.name}.",
            hint="Another engine has routers of its own: plan it by itself (planner plan), and move requests there.",
        )


def require_engine(before: Scenario, after: Scenario) -> None:
    """Raises InputError where a scenario is of another engine, or version, than the plan that runs."""
    engines = [f"{scenario.engine.name} {scenario.engine.version}".strip() for scenario in (before, after)]
    if engines[0] != engines[1]:
        raise InputError(
            f"scenario {after.name}: engine must be that of the plan that runs, {engines[0]}, got {engines[1]}.",
            hint="Another engine runs no server on: plan it by itself (planner plan), or name the plan's engine."
            if before.engine.name != after.engine.name
            else "Name the plan's version, or upgrade the plan first (planner replan).",
        )


def _require_gpus(saved: Plan, scenario: Scenario) -> None:
    """Every GPU type of the plan is in the inventory, with 0 GPUs where they are gone: its figures are needed."""
    offered = {item.gpu.name for item in scenario.inventory.items}
    missing = sorted({pool.gpu for pool in saved.outlook.pools} - offered)
    if missing:
        raise InputError(
            f"scenario {scenario.name}: inventory: must have the GPU types of the plan that runs, got no "
            f"{', '.join(missing)}.",
            hint=f"Say how many are left, as with --set inventory.{missing[0]}=0 where they are gone.",
        )


def find_replan(
    evaluator: Evaluator,
    saved: Plan,
    settings: ChangeSettings,
    limits: ChangeLimits,
    lost: LostServers,
    *,
    frontier: bool = True,
) -> FoundReplan:
    """The new plan's pools. Raises as `Replanner.replanned` does."""
    before = without_lost(saved, lost)
    replanner = Replanner(before, evaluator, settings, limits)
    replanned = replanner.replanned(frontier=frontier)
    near, scenario = replanned.chosen, evaluator.question.scenario
    pools = named_after(before, near.priced.pools, scenario)
    layout = layout_of(pools)
    evaluator.remember_pools(layout, replace(near.priced, pools=pools), near.solver)
    result = given(layout, evaluator)
    assert result.best is not None, "pools that serve are the best of one layout"
    choice = chosen_near(near.priced, near.value, replanned.scratch, near.solver)
    stays = staying_parts(before, pools, scenario)
    return FoundReplan(
        before=before,
        settings=settings,
        limits=limits,
        replanned=replanned,
        proposed=proposed_pools(evaluator, result.best, result.record, choice, names=pools, stays=stays),
    )
