"""Placed plans: nodes that are lost, and servers that would lie elsewhere."""

from dataclasses import replace

import pytest
from replanned_scenarios import small_plan

from planner.domain import Plan
from planner.domain.cluster import Cluster, ClusterNode, NodeGpu, NumaNode
from planner.domain.replanning.changes import ChangeKind, ChangeLimits, ChangeSettings, LostServers
from planner.errors import InfeasibleError, InputError
from planner.pipeline import place, replan
from planner.replanning.changes import changes_between
from planner.replanning.finding import remaining_scenario
from planner.replanning.losses import remaining_inventory, without_lost


def node(name: str) -> ClusterNode:
    """Eight H200 on two sockets."""
    return ClusterNode(
        name=name,
        gpu="H200",
        gpus=tuple(NodeGpu(index=i, uuid=f"{name}-{i}", numa=i // 4) for i in range(8)),
        numa_nodes=tuple(NumaNode(id=n, socket=n, cores=tuple(range(48 * n, 48 * n + 48))) for n in range(2)),
        cpus=96.0,
        memory_gb=1000.0,
        asw="a",
    )


CLUSTER = Cluster(name="five", nodes=tuple(node(f"n-{k}") for k in range(5)))


@pytest.fixture(scope="module")
def placed() -> Plan:
    unplaced = small_plan()
    return place(unplaced, replace(unplaced.scenario, cluster=CLUSTER))


def moved(plan: Plan, names: dict[str, str]) -> Plan:
    """The plan with its servers on other nodes."""
    assert plan.placement is not None
    parts = tuple(replace(part, node=names.get(part.node, part.node)) for part in plan.placement.parts)
    return replace(plan, placement=replace(plan.placement, parts=parts))


def test_servers_on_other_nodes_have_moved(placed: Plan) -> None:
    assert placed.placement is not None
    first = placed.placement.parts[0]
    change = changes_between(placed, moved(placed, {first.node: "elsewhere"}), ChangeSettings())
    assert change.servers(ChangeKind.MOVE) >= 1
    assert change.servers(ChangeKind.MOVE) + change.servers(ChangeKind.KEEP) == change.servers_before
    assert all(row.load_s > 0 for row in change.changes if row.kind is ChangeKind.MOVE)
    assert changes_between(placed, placed, ChangeSettings()).gpus_touched == 0


def test_equal_servers_that_swap_nodes_have_not_moved(placed: Plan) -> None:
    assert placed.placement is not None
    most = max(placed.islands, key=lambda island: island.size)
    nodes = sorted({part.node for part in placed.placement.parts if part.island == most.id})
    swapped = moved(placed, {nodes[0]: nodes[1], nodes[1]: nodes[0]})
    assert changes_between(placed, swapped, ChangeSettings()).gpus_touched == 0


def test_a_lost_node_takes_its_servers(placed: Plan) -> None:
    assert placed.placement is not None
    assert placed.buckets is not None
    lost_node = placed.placement.parts[0].node
    lost = LostServers(nodes=(lost_node,))
    before = without_lost(placed, lost)
    assert before.buckets is not None
    assert before.placement is not None
    gone = {(part.island, part.replica) for part in placed.placement.parts if part.node == lost_node}
    count = sum(pool.count for pool in placed.buckets.pools)
    assert sum(pool.count for pool in before.buckets.pools) == count - len(gone)
    assert lost_node not in {part.node for part in before.placement.parts}
    left = remaining_scenario(placed, placed.scenario, lost)
    assert left.cluster is not None
    assert [other.name for other in left.cluster.nodes] == [f"n-{k}" for k in range(5) if f"n-{k}" != lost_node]
    assert left.inventory.item("H200").count == 32


def test_what_placing_moves_counts_against_the_limits(placed: Plan) -> None:
    """The servers run on nodes that the cluster does not have any more: nothing of the plan itself has to change."""
    names = {f"n-{k}": f"old-{k}" for k in range(5)}
    with pytest.raises(InfeasibleError, match=r"touches 40 GPUs and 0 % .* 5 servers move; the limits are 0") as caught:
        replan(moved(placed, names), placed.scenario, limits=ChangeLimits(most_gpus=0))
    assert "leave the cluster out" in caught.value.hint


def test_nodes_that_the_plan_does_not_lie_on_cannot_be_lost(placed: Plan) -> None:
    with pytest.raises(InputError, match="lost: n-99: must be nodes that the plan lies on"):
        without_lost(placed, LostServers(nodes=("n-99",)))


def test_idle_gpus_of_a_lost_node_are_gone_too_and_other_nodes_of_its_servers_are_not(placed: Plan) -> None:
    """A server has four GPUs on each of two nodes; the other four of the lost one do nothing."""
    assert placed.placement is not None
    first = placed.placement.parts[0]
    half = replace(first, gpu_indices=first.gpu_indices[:4])
    across = replace(placed, placement=replace(placed.placement, parts=(half, replace(half, node="n-9"))))
    lost = LostServers(nodes=(first.node,))
    assert remaining_inventory(across, placed.scenario.inventory, lost).item("H200").count == 36
    assert remaining_scenario(across, placed.scenario, lost).inventory.item("H200").count == 32
