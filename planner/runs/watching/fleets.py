"""The plans that a watch chooses from, each question asked once while the same plan stands."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner import files, pipeline
from planner.domain import Inventory, Plan, Scenario, require_buckets, require_pools
from planner.domain.changes import ChangeLimits, LostServers, PlanChange
from planner.domain.objective import ObjectiveKind, ObjectiveSettings
from planner.domain.rollouts import Replan
from planner.domain.usable import usable_by_node
from planner.domain.watching import Fleet, Need
from planner.errors import InfeasibleError, InputError, SolverError
from planner.replanning.changes import changes_between
from planner.replanning.finding import require_engine
from planner.replanning.losses import without_lost
from planner.replanning.watches.inputs import Usual
from planner.runs.replanning.asking import ChangedPlan, in_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class NextPlan:
    """`plan`, and the `change` to it from the servers that are left (None: nothing runs yet, or near the plan that
    stands there was none, and it is counted server by server). `before`: those servers (None: none are left). `steps`:
    of the change, where they were looked for."""

    plan: Plan
    change: PlanChange | None = None
    before: Plan | None = None
    steps: ChangedPlan | None = None


def next_plan(scenario: Scenario, standing: Plan | None, offered: dict[str, int], give_up: float) -> NextPlan | None:
    """The plan for a scenario of a need; None where nothing serves within its limits of change.

    `offered`: GPUs by type that it may use, those of lost nodes not among them; `give_up`: share of the best plan's
    worth that may be lost for touching fewer GPUs.

    Raises KeyboardInterrupt where a search was cut short: its plan would depend on when.
    """
    if not any(offered.values()):
        return None
    remaining = None if standing is None else what_is_left(standing, scenario, offered)
    near = None if remaining is None else _near(scenario, remaining, give_up)
    if near is None and remaining is not None and _limited(scenario.changes.limits):
        return None
    chosen = near if near is not None else _from_scratch(scenario)
    return None if chosen is None else replace(chosen, before=remaining)


def _limited(limits: ChangeLimits) -> bool:
    """Whether the scenario limits how far a change may go: a plan from scratch might go farther."""
    return limits.most_gpus is not None or bool(limits.least_running_on) or limits.turns_only


def what_is_left(standing: Plan, scenario: Scenario, offered: dict[str, int]) -> Plan | None:
    """The servers of a plan that its nodes and the GPUs that are offered leave; None: none are left.

    Nodes that the scenario's cluster has no more take their servers with them. Where fewer GPUs of a type are offered
    than the others have, servers of its largest pool go first, as a count does not say which were hit.
    """
    plan = standing
    if plan.placement is not None and scenario.cluster is not None:
        serving = {node.name for node in scenario.cluster.nodes}
        nodes = sorted({part.node for part in plan.placement.parts} - serving)
        plan = without_lost(plan, LostServers(nodes=tuple(nodes)))
    counts = {item.gpu.name: item.count for item in plan.scenario.inventory.items}
    short = tuple(
        (gpu, counts[gpu] - offered.get(gpu, 0)) for gpu, used in _used(plan).items() if used > offered.get(gpu, 0)
    )
    plan = without_lost(plan, LostServers(gpus=short))
    return plan if _used(plan) else None


def _used(plan: Plan) -> dict[str, int]:
    """GPUs in servers, by type."""
    used: dict[str, int] = {}
    for pool in plan.outlook.pools:
        used[pool.gpu] = used.get(pool.gpu, 0) + pool.gpus
    return used


def _near(scenario: Scenario, remaining: Plan, give_up: float) -> NextPlan | None:
    """None where no plan is found from the servers that are left: from scratch there may be one."""
    try:
        near = pipeline.replan(
            remaining, scenario, limits=replace(scenario.changes.limits, give_up=give_up), frontier=False
        )
    except (InfeasibleError, SolverError):
        return None
    return NextPlan(plan=near.plan, change=near.change)


def _from_scratch(scenario: Scenario) -> NextPlan | None:
    try:
        plan = pipeline.plan(scenario)
    except InfeasibleError:
        return None
    if plan.search.interrupted:
        raise KeyboardInterrupt
    return NextPlan(plan=plan)


MOST_ANSWERS = 256
"""Questions whose answers are remembered; the oldest go first."""


class Fleets:
    """Answers needs with a plan near the one that stands, of all that are within `give_up` of the cheapest (None: with
    the cheapest, wherever it lies); `standing`: what changes are counted from; `in_steps`: only with plans that steps
    lead to of which none leaves less than the scenario's share of the promise."""

    def __init__(
        self,
        scenario: Scenario,
        standing: Plan | None = None,
        *,
        give_up: float | None = 0.0,
        in_steps: bool = False,
    ) -> None:
        self.scenario, self.standing, self.give_up, self.in_steps = scenario, standing, give_up, in_steps
        self._answers: dict[Need, NextPlan | None] = {}
        self._plans: dict[str, NextPlan] = {}

    def propose(self, need: Need) -> Fleet | None:
        """The plan for a need and the change to it; None where nothing serves.

        Raises KeyboardInterrupt where a search was cut short: its plan would depend on when.
        """
        if need not in self._answers:
            if len(self._answers) >= MOST_ANSWERS:
                self._answers.pop(next(iter(self._answers)))
            self._answers[need] = self._next(need)
        answer = self._answers[need]
        if answer is None:
            return None
        self._plans[fleet_of(answer.plan).plan] = answer
        if self.standing is None:
            return fleet_of(answer.plan)
        return changed_fleet(answer.plan, answer.change or change_between(self.standing, answer.plan))

    def _next(self, need: Need) -> NextPlan | None:
        """Where the most that there is is asked for, nothing of it is given up."""
        near_to = None if self.give_up is None else self.standing
        give_up = 0.0 if need.load_rps is None else self.give_up or 0.0
        answer = next_plan(scenario_for(self.scenario, need), near_to, dict(need.offered), give_up)
        if answer is None or not self.in_steps or self.standing is None:
            return answer
        try:
            steps = _steps(answer)
        except InfeasibleError:
            return None
        return None if steps is not None and steps.roll_out.holds is False else replace(answer, steps=steps)

    def plan_of(self, fleet: Fleet) -> Plan:
        """The plan of a fleet that was proposed."""
        return self._plans[fleet.plan].plan

    def steps_to(self, fleet: Fleet, plan: Plan) -> ChangedPlan | str:
        """The steps to it, `plan` as it will stand on the disk; or why there are none."""
        answer = self._plans[fleet.plan]
        try:
            changed = answer.steps or _steps(answer)
        except InfeasibleError as error:
            return str(error)
        if changed is None:
            return "nothing that could be changed is left: the plan is applied as a whole"
        return replace(changed, replan=replace(changed.replan, plan=plan))

    def stand(self, plan: Plan) -> None:
        """From now on `plan` stands, and what is asked for is answered from there."""
        self.standing = plan
        self._plans.clear()
        self._answers.clear()


def _steps(answer: NextPlan) -> ChangedPlan | None:
    """The change in steps, each replayed; None where no server is left that one could begin with."""
    if answer.before is None:
        return None
    plan, policy = answer.plan, answer.plan.scenario.changes
    replan = Replan(
        plan=plan,
        before=answer.before,
        change=answer.change or change_between(answer.before, plan),
        frontier=(),
        current_rps=None,
        scratch_rps=None,
        scratch_value=None,
        scratch_bound=None,
        bound=None,
    )
    return in_steps(replan, policy.times, policy.least_share, {}, replays=True)


def require_watchable(scenario: Scenario) -> None:
    """InputError where no cheapest plan can be asked for: a table of shares is not changed server by server, and what
    has no price cannot be compared."""
    require_buckets(scenario, "to be watched")
    if scenario.inventory.without_price:
        gpu = scenario.inventory.without_price[0]
        raise InputError(
            f"scenario {scenario.name}: prices_usd_per_gpu_hour.{gpu} must be given to be watched.",
            hint="Feeds of prices are measured against the scenario's own.",
        )


def require_same_model(plan: Plan, scenario: Scenario) -> None:
    """InputError where the plan that stands is of another model or engine than the scenario, or has no buckets."""
    fleet_of(plan)
    if plan.scenario.model.name != scenario.model.name:
        raise InputError(
            f"--run: must be a plan of {scenario.model.name}, the scenario's model, got {plan.scenario.model.name}.",
            hint="Name the run of this model, or leave out --run.",
        )
    require_engine(plan.scenario, scenario)


def scenario_digest(scenario: Scenario) -> str:
    """SHA-256 of every key of a scenario."""
    text = json.dumps(files.scenario_document(scenario), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def usual_of(scenario: Scenario) -> Usual:
    """What the scenario itself says of load, prices and inventory."""
    objective, items = scenario.objective, scenario.inventory.items
    asked_rps = objective.demand_rps or objective.target_rps * scenario.routing.margin or scenario.workload.arrival_rps
    return Usual(
        prices=tuple((item.gpu.name, item.price_usd_per_gpu_hour) for item in items),
        counts=tuple((item.gpu.name, item.count) for item in items),
        load_rps=asked_rps or None,
        node_gpus=tuple(_node_gpus(scenario)),
    )


def _node_gpus(scenario: Scenario) -> Iterator[tuple[str, tuple[tuple[str, int], ...]]]:
    """What the inventory loses with each node: where it counts the cluster's idle GPUs, those alone."""
    cluster = scenario.cluster
    if cluster is None:
        return
    usable = usable_by_node(cluster, scenario.placement)
    counts = Counter[str]()
    for node in cluster.nodes:
        counts[node.gpu] += usable.get(node.name, 0)
    idle = all(counts[item.gpu.name] == item.count for item in scenario.inventory.items)
    for node in cluster.nodes:
        if node.gpus:
            yield node.name, ((node.gpu, usable[node.name] if idle else len(node.gpus)),)


def fleet_of(plan: Plan) -> Fleet:
    """A plan as the watch sees it; on other nodes it is another one. InputError where it has no buckets."""
    require_pools(plan, "to be watched")
    gpus = dict.fromkeys(sorted({pool.gpu for pool in plan.outlook.pools}), 0)
    for pool in plan.outlook.pools:
        gpus[pool.gpu] += pool.gpus
    rows = sorted(
        (pool.gpu, pool.phase.value, repr(pool.server), pool.start, pool.end, pool.count) for pool in plan.outlook.pools
    )
    parts = plan.placement.parts if plan.placement is not None else ()
    lying = sorted((part.island, part.replica, part.node) for part in parts)
    return Fleet(
        plan=hashlib.sha256(repr((rows, lying)).encode()).hexdigest()[:12],
        promise_rps=plan.outlook.promise_rps,
        gpus=tuple(gpus.items()),
        nodes=tuple(sorted({part.node for part in parts})),
    )


def changed_fleet(plan: Plan, change: PlanChange) -> Fleet:
    """A plan with what it takes to get there: the USD of GPUs that serve nothing meanwhile, the time of its slowest
    server, as those of one step drain and load side by side, and the GPUs that are touched."""
    seconds = max((row.drain_s + row.load_s for row in change.changes), default=0.0)
    return replace(fleet_of(plan), change_usd=change.usd or 0.0, change_s=seconds, gpus_touched=change.gpus_touched)


def change_between(standing: Plan, plan: Plan) -> PlanChange:
    """What it takes to get from one plan to the other."""
    return changes_between(standing, plan, plan.scenario.changes.times)


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
