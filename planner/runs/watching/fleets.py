"""The plans that a watch chooses from: made by the pipeline where one is asked for, each question once."""

import hashlib
import json
import math
from dataclasses import replace

from planner import files, pipeline
from planner.domain import Inventory, Plan, Scenario
from planner.domain.objective import ObjectiveKind, ObjectiveSettings
from planner.domain.replanning.changes import ChangeSettings
from planner.domain.replanning.watching import Fleet, Need
from planner.errors import InfeasibleError, InputError
from planner.replanning.changes import changes_between
from planner.replanning.watches.inputs import Usual

MOST_ANSWERS = 256
"""Questions whose answers are remembered; the oldest go first."""


class Fleets:
    """Answers needs with the cheapest plan; `standing`: what changes are counted from."""

    def __init__(self, scenario: Scenario, standing: Plan | None = None) -> None:
        self.scenario, self.standing = scenario, standing
        self._answers: dict[Need, Plan | None] = {}
        self._plans: dict[str, Plan] = {}

    def propose(self, need: Need) -> Fleet | None:
        """The cheapest plan for a need and the change to it; None where nothing serves.

        Raises KeyboardInterrupt where a search was cut short: its plan would depend on when.
        """
        if need not in self._answers:
            if len(self._answers) >= MOST_ANSWERS:
                self._answers.pop(next(iter(self._answers)))
            self._answers[need] = _planned(self.scenario, need)
        plan = self._answers[need]
        if plan is None:
            return None
        fleet = fleet_of(plan)
        self._plans[fleet.plan] = plan
        return fleet if self.standing is None else changed_fleet(self.standing, plan)

    def take(self, fleet: Fleet) -> Plan:
        """The plan of a fleet that was proposed; it stands from now on."""
        self.standing = self._plans[fleet.plan]
        self._plans.clear()
        return self.standing


def require_watchable(scenario: Scenario) -> None:
    """InputError where no cheapest plan can be asked for: plans without buckets promise nothing, and what has no price
    cannot be compared."""
    if not scenario.bucketed:
        reason = scenario.beyond_buckets or "routing"
        raise InputError(
            f"scenario {scenario.name}: must be planned with buckets to be watched; {reason} asks for another form.",
            hint="Watch a scenario with routing.form: buckets, and without what that form does not know.",
        )
    if scenario.inventory.without_price:
        gpu = scenario.inventory.without_price[0]
        raise InputError(
            f"scenario {scenario.name}: prices_usd_per_gpu_hour.{gpu} must be given to be watched.",
            hint="Feeds of prices are measured against the scenario's own.",
        )


def require_same_model(plan: Plan, scenario: Scenario) -> None:
    """InputError where the plan that stands is of another model than the scenario, or has no buckets."""
    fleet_of(plan)
    if plan.scenario.model.name != scenario.model.name:
        raise InputError(
            f"--run: must be a plan of {scenario.model.name}, the scenario's model, got {plan.scenario.model.name}.",
            hint="Name the run of this model, or leave out --run.",
        )


def scenario_digest(scenario: Scenario) -> str:
    """SHA-256 of every key of a scenario."""
    text = json.dumps(files.scenario_document(scenario), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def usual_of(scenario: Scenario) -> Usual:
    """What the scenario itself says of load, prices and inventory."""
    objective, items = scenario.objective, scenario.inventory.items
    asked_rps = objective.demand_rps or objective.target_rps * scenario.routing.margin or scenario.workload.arrival_rps
    cluster = scenario.cluster
    nodes = cluster.nodes if cluster is not None else ()
    return Usual(
        prices=tuple((item.gpu.name, item.price_usd_per_gpu_hour) for item in items),
        counts=tuple((item.gpu.name, item.count) for item in items),
        load_rps=asked_rps or None,
        node_gpus=tuple((node.name, ((node.gpu, len(node.gpus)),)) for node in nodes if node.gpus),
    )


def fleet_of(plan: Plan) -> Fleet:
    """A plan as the watch sees it. InputError where it has no buckets."""
    if plan.buckets is None:
        raise InputError(
            f"plan {plan.scenario.name}: must have buckets to be watched; it promises no rate.",
            hint="Plan it with routing.form: buckets.",
        )
    gpus = dict.fromkeys(sorted({pool.gpu for pool in plan.buckets.pools}), 0)
    for pool in plan.buckets.pools:
        gpus[pool.gpu] += pool.gpus
    rows = sorted(
        (pool.gpu, pool.phase.value, repr(pool.server), pool.start, pool.end, pool.count) for pool in plan.buckets.pools
    )
    parts = plan.placement.parts if plan.placement is not None else ()
    return Fleet(
        plan=hashlib.sha256(repr(rows).encode()).hexdigest()[:12],
        promise_rps=plan.buckets.promise_rps,
        gpus=tuple(gpus.items()),
        nodes=tuple(sorted({part.node for part in parts})),
    )


def changed_fleet(standing: Plan, plan: Plan) -> Fleet:
    """A plan with what it takes to get there from the one that stands: the USD of GPUs that serve nothing meanwhile,
    and the time of its slowest server, as those of one step drain and load side by side."""
    change = changes_between(standing, plan, ChangeSettings())
    seconds = max((row.drain_s + row.load_s for row in change.changes), default=0.0)
    return replace(fleet_of(plan), change_usd=change.usd or 0.0, change_s=seconds)


def _planned(scenario: Scenario, need: Need) -> Plan | None:
    try:
        plan = pipeline.plan(scenario_for(scenario, need)) if any(count for _, count in need.offered) else None
    except InfeasibleError:
        return None
    if plan is not None and plan.search.interrupted:
        raise KeyboardInterrupt
    return plan


def scenario_for(scenario: Scenario, need: Need) -> Scenario:
    """The scenario that asks for the cheapest plan that meets a need."""
    offered, prices = dict(need.offered), dict(need.prices)
    items = tuple(
        replace(item, count=offered[item.gpu.name], price_usd_per_gpu_hour=prices[item.gpu.name], price_known=True)
        for item in scenario.inventory.items
        if offered.get(item.gpu.name, 0)
    )
    rate = need.load_rps
    objective = ObjectiveSettings(kind=ObjectiveKind.RATE)
    if rate is not None:
        target_rps = math.ceil(rate / scenario.routing.margin * 1e6) / 1e6
        objective = ObjectiveSettings(kind=ObjectiveKind.TARGET, target_rps=target_rps, demand_rps=rate)
    cluster = scenario.cluster
    if cluster is not None and need.lost_nodes:
        lost = set(need.lost_nodes)
        cluster = replace(
            cluster,
            nodes=tuple(node for node in cluster.nodes if node.name not in lost),
            pods=tuple(pod for pod in cluster.pods if pod.node not in lost),
        )
    return replace(scenario, inventory=Inventory(items=items), objective=objective, cluster=cluster)
