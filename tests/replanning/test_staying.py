"""Servers that are placed anew stay on alike nodes: against every exchange of nodes; and where they must not."""

import random
from dataclasses import replace
from itertools import permutations

import pytest
from replanned_scenarios import small_plan, small_scenario
from test_placed_replans import CLUSTER, moved, node

from planner.domain import Plan
from planner.domain.cluster import Cluster, Pod
from planner.domain.replanning.changes import ChangeSettings
from planner.pipeline import place
from planner.replanning.changes import changes_between
from planner.replanning.staying import staying

NAMES = [node.name for node in CLUSTER.nodes]


@pytest.fixture(scope="module")
def placed() -> Plan:
    unplaced = small_plan()
    return place(unplaced, replace(unplaced.scenario, cluster=CLUSTER))


@pytest.fixture(scope="module")
def smaller() -> Plan:
    """Of fewer servers than the other."""
    unplaced = small_plan(objective={"kind": "target", "target_rps": 25})
    return place(unplaced, replace(unplaced.scenario, cluster=CLUSTER))


def touched(before: Plan, after: Plan) -> int:
    return changes_between(before, after, ChangeSettings()).gpus_touched


def shuffled(plan: Plan, seed: int) -> Plan:
    names = NAMES.copy()
    random.Random(seed).shuffle(names)
    return moved(plan, dict(zip(NAMES, names, strict=True)))


@pytest.mark.parametrize("seed", range(3))
def test_no_exchange_of_nodes_lets_more_servers_stay(placed: Plan, smaller: Plan, seed: int) -> None:
    for before, after in ((placed, placed), (placed, smaller), (smaller, placed)):
        ran = shuffled(before, seed)
        least = min(touched(ran, moved(after, dict(zip(NAMES, names, strict=True)))) for names in permutations(NAMES))
        assert touched(ran, staying(ran, after)) == least
    assert touched(shuffled(placed, seed), staying(shuffled(placed, seed), placed)) == 0


def test_what_lies_on_a_node_stays_together(placed: Plan) -> None:
    ran = shuffled(placed, 5)
    after = staying(ran, placed)
    assert after.placement is not None
    assert placed.placement is not None
    targets = {(old.node, new.node) for old, new in zip(placed.placement.parts, after.placement.parts, strict=True)}
    assert len(targets) == len({old for old, _ in targets}) == len({new for _, new in targets})
    assert [replace(part, node="") for part in after.placement.parts] == [
        replace(part, node="") for part in placed.placement.parts
    ]


def test_nodes_that_differ_or_have_pods_keep_what_is_placed_there(placed: Plan) -> None:
    """Of five nodes one has a pod and one another switch: what is placed on these stays there."""
    pods = (Pod(name="other", node="n-0", cpus=1.0),)
    nodes = (*CLUSTER.nodes[:4], replace(node("n-4"), asw="b"))
    mixed = Cluster(name="mixed", nodes=nodes, pods=pods)
    there = replace(placed, scenario=replace(placed.scenario, cluster=mixed))
    ran = shuffled(there, 2)
    after = staying(ran, there)
    assert after.placement is not None
    assert there.placement is not None
    for old, new in zip(there.placement.parts, after.placement.parts, strict=True):
        if old.node in ("n-0", "n-4"):
            assert new.node == old.node
        else:
            assert new.node in ("n-1", "n-2", "n-3")


def test_plans_that_are_not_placed_are_left_as_they_are(placed: Plan) -> None:
    unplaced = replace(placed, placement=None, scenario=small_scenario())
    assert staying(unplaced, placed) is placed
    assert staying(placed, unplaced) is unplaced
