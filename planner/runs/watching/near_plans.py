"""The next plan of a watch: near the one that stands where servers can run on, else the cheapest there is."""

from dataclasses import dataclass, replace

from planner import pipeline
from planner.domain import Plan, Scenario
from planner.domain.changes import ChangeLimits, LostServers, PlanChange
from planner.errors import InfeasibleError, SolverError
from planner.replanning.losses import without_lost


@dataclass(frozen=True, slots=True, kw_only=True)
class NextPlan:
    """`plan`, and the `change` to it from the servers that are left (None: nothing runs yet, or near the plan that
    stands there was none, and it is counted server by server)."""

    plan: Plan
    change: PlanChange | None = None


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
    return near if near is not None else _from_scratch(scenario)


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
