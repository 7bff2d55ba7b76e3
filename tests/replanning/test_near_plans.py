"""What a watch goes over to: near the plan that stands, counted server by server; GPUs and nodes that are gone."""

from dataclasses import replace
from functools import cache

import pytest
from replanned_scenarios import small_scenario
from test_placed_replans import CLUSTER

from planner import pipeline
from planner.domain import Inventory, Plan, Scenario
from planner.domain.cluster import Pod
from planner.domain.watching import Fleet, Need, Observation, WatchSettings
from planner.replanning.watches.watching import WatchState, advance, after, decide
from planner.runs.watching.fleets import Fleets, change_between, usual_of, what_is_left

MIXED = {"inventory": {"H200": 64, "H20": 64}, "prices_usd_per_gpu_hour": {"H200": 4.0, "H20": 1.0}}
GIVE_UP = 0.02
PLANNED_ONCE = cache(pipeline.plan)


@pytest.fixture(autouse=True)
def _plans_from_scratch_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "plan", PLANNED_ONCE)


def gpus_of(plan: Plan) -> dict[str, int]:
    assert plan.buckets is not None
    return {gpu: sum(p.gpus for p in plan.buckets.pools if p.gpu == gpu) for gpu in {p.gpu for p in plan.buckets.pools}}


def need_of(scenario: Scenario, load_rps: float | None, lost_nodes: tuple[str, ...] = (), **offered: int) -> Need:
    usual = usual_of(scenario)
    counts = tuple(sorted((dict(usual.counts) | offered).items()))
    return Need(load_rps=load_rps, prices=usual.prices, offered=counts, lost_nodes=lost_nodes)


def standing(scenario: Scenario, load_rps: float, give_up: float | None = GIVE_UP) -> Fleets:
    """Fleets of which the cheapest for a load stands."""
    fleets = Fleets(scenario, give_up=give_up)
    first = fleets.propose(need_of(scenario, load_rps))
    assert first.gpus_touched == 0
    fleets.stand(fleets.plan_of(first))
    return fleets


@pytest.fixture(scope="module")
def mixed() -> Scenario:
    return small_scenario(**MIXED, ranges={"width": 4096})


@pytest.mark.parametrize(("load_rps", "offered"), [(6.0, {}), (20.0, {}), (8.0, {"H20": 12})])
def test_less_is_touched_for_at_most_a_share_of_the_rent(
    mixed: Scenario, load_rps: float, offered: dict[str, int]
) -> None:
    """Against the cheapest plan, made without a look at what stands; GPUs counted anew, plan against plan."""
    near, anew = standing(mixed, 8.0), standing(mixed, 8.0, give_up=None)
    need = need_of(mixed, load_rps, **offered)
    fleet, cheapest = near.propose(need), anew.propose(need)
    assert fleet.promise_rps >= load_rps * (1 - 1e-4)
    assert fleet.usd_per_hour(dict(need.prices)) <= cheapest.usd_per_hour(dict(need.prices)) * (1 + GIVE_UP + 1e-4)
    assert near.standing is not None
    assert anew.standing is not None
    from_scratch = change_between(anew.standing, anew.plan_of(cheapest))
    assert from_scratch.gpus_touched == cheapest.gpus_touched
    assert fleet.gpus_touched <= cheapest.gpus_touched
    if load_rps == 6.0:
        assert fleet.plan == _standing_fleet(near, mixed).plan
        assert fleet.gpus_touched == 0


def _standing_fleet(fleets: Fleets, scenario: Scenario) -> Fleet:
    fleet = fleets.propose(need_of(scenario, 8.0))
    assert fleet is not None
    return fleet


def test_the_most_there_is_gives_nothing_up(mixed: Scenario) -> None:
    need = need_of(mixed, None, H200=16, H20=16)
    promises = [fleets.propose(need) for fleets in (standing(mixed, 8.0), Fleets(mixed))]
    assert promises[0].promise_rps == pytest.approx(promises[1].promise_rps, rel=1e-3)


def test_limits_of_the_scenario_hold(mixed: Scenario) -> None:
    """From 8 to 9 requests/s touches 8 GPUs, and to 12 more than that: nothing is proposed."""
    limits = replace(mixed.changes.limits, most_gpus=8)
    fleets = standing(replace(mixed, changes=replace(mixed.changes, limits=limits)), 8.0)
    within = fleets.propose(need_of(mixed, 9.0))
    assert within.gpus_touched == 8
    assert fleets.propose(need_of(mixed, 12.0)) is None


def test_gpus_that_are_gone_take_servers_of_the_largest_pool(mixed: Scenario) -> None:
    plan = standing(mixed, 20.0).standing
    assert plan is not None
    used = gpus_of(plan)
    assert what_is_left(plan, mixed, used) == plan
    for gpu, count in used.items():
        remaining_plan = what_is_left(plan, mixed, used | {gpu: count - 1})
        assert remaining_plan.buckets is not None
        assert plan.buckets is not None
        largest = max((pool for pool in plan.buckets.pools if pool.gpu == gpu), key=lambda pool: pool.gpus)
        assert gpus_of(remaining_plan).get(gpu, 0) == count - largest.server.parallel.devices
    assert what_is_left(plan, mixed, {}) is None
    assert standing(mixed, 20.0).propose(need_of(mixed, 5.0, H200=0, H20=0)) is None


@pytest.fixture(scope="module")
def placed() -> Scenario:
    return replace(small_scenario(), cluster=CLUSTER)


def observed(scenario: Scenario, at_s: float, lost_nodes: tuple[str, ...]) -> Observation:
    """As feeds say it: a lost node takes its eight GPUs."""
    usual = usual_of(scenario)
    available = (("H200", 40 - 8 * len(lost_nodes)),)
    return Observation(
        at_s=at_s,
        load_rps=6.0,
        prices=usual.prices,
        stock=usual.counts,
        lost=(),
        available=available,
        lost_nodes=lost_nodes,
    )


def test_a_node_takes_what_the_inventory_counts_of_it() -> None:
    """Of an inventory of idle GPUs those that others hold are no part; one that counts all loses all."""
    first, *others = (node.name for node in CLUSTER.nodes)
    pod = Pod(name="else", node=first, gpus=(0, 1, 2))
    shared = replace(CLUSTER, pods=(pod,))
    item = small_scenario().inventory.items[0]

    def lost_with(count: int) -> dict[str, int]:
        inventory = Inventory(items=(replace(item, count=count),))
        usual = usual_of(replace(small_scenario(), cluster=shared, inventory=inventory))
        return {name: dict(gpus)["H200"] for name, gpus in usual.node_gpus}

    everything = 8 * len(CLUSTER.nodes)
    assert lost_with(everything) == dict.fromkeys((first, *others), 8)
    assert lost_with(everything - 3) == {first: 5, **dict.fromkeys(others, 8)}


def test_a_lost_node_is_left_and_its_servers_alone(placed: Scenario) -> None:
    """A node that no server lies on is none of the plan's; one with servers is left once it has been gone for five
    minutes, and one that flickers is not."""
    fleets, state, causes = Fleets(placed, give_up=GIVE_UP), WatchState(settings=WatchSettings()), []
    lost: tuple[str, ...] = ()
    for minute in range(30):
        if minute in (5, 10, 15):
            nodes = state.standing.nodes if state.standing is not None else ()
            idle = next(node.name for node in CLUSTER.nodes if node.name not in nodes)
            lost = {5: (idle,), 10: (nodes[0],), 15: (nodes[0],)}[minute]
        if minute == 12:
            lost = ()  # two minutes are a flicker
        state = advance(state, observed(placed, 60.0 * minute, lost))
        decision = decide(state, fleets.propose)
        if decision.fleet is not None:
            causes.append((minute, decision.cause.value if decision.cause else "", decision.fleet))
            fleets.stand(fleets.plan_of(decision.fleet))
        state = after(state, decision)
    assert [(minute, cause) for minute, cause, _ in causes] == [(0, "start"), (19, "lost")]
    first, second = (fleet for _, _, fleet in causes)
    assert lost[0] in first.nodes
    assert lost[0] not in second.nodes
    assert first.plan != second.plan
    assert second.promise_rps == first.promise_rps
    assert (first.gpus_touched, second.gpus_touched) == (0, 8)  # the other server of eight runs on
    assert fleets.standing.scenario.inventory.item("H200").count == 32


def test_the_servers_of_lost_nodes_are_gone(placed: Scenario) -> None:
    plan = standing(placed, 6.0).standing
    node = plan.placement.parts[0].node
    remaining = replace(CLUSTER, nodes=tuple(other for other in CLUSTER.nodes if other.name != node))
    remaining_plan = what_is_left(plan, replace(placed, cluster=remaining), {"H200": 32})
    gone = {(part.island, part.replica) for part in plan.placement.parts if part.node == node}
    lying = {(part.island, part.replica) for part in plan.placement.parts}
    assert {(part.island, part.replica) for part in remaining_plan.placement.parts} == lying - gone
    assert gpus_of(remaining_plan) == {"H200": 8 * len(lying - gone)}
