"""Placed plans: nodes that are lost, and servers that would lie elsewhere."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml
from five_nodes import CLUSTER
from replanned_scenarios import LEVELS, longer, small_plan

from planner.domain import BucketPool, Plan, Pod
from planner.domain.changes import ChangeKind, ChangeLimits, ChangeSettings, LostServers
from planner.domain.cluster import Cluster
from planner.errors import ExportError, InfeasibleError, InputError
from planner.export.checking.carrying import require_pins
from planner.pipeline import place, replan
from planner.replanning.changes import changes_between
from planner.replanning.finding import remaining_scenario
from planner.replanning.losses import remaining_inventory, without_lost
from planner.replanning.staying import staying_parts
from planner.runs.deployments import render_plan
from planner.runs.replanning.asking import ChangeQuestion, change_plan
from planner.runs.replanning.inputs import without_own_pods
from planner.runs.replanning.steps import rolled_out


@pytest.fixture(scope="module")
def placed() -> Plan:
    unplaced = small_plan()
    return place(unplaced, replace(unplaced.scenario, cluster=CLUSTER))


def moved(plan: Plan, names: dict[str, str]) -> Plan:
    """The plan with its servers on other nodes."""
    parts = tuple(replace(part, node=names.get(part.node, part.node)) for part in plan.placement.parts)
    return replace(plan, placement=replace(plan.placement, parts=parts))


def test_servers_on_other_nodes_have_moved(placed: Plan) -> None:
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
    lost_node = placed.placement.parts[0].node
    lost = LostServers(nodes=(lost_node,))
    before = without_lost(placed, lost)
    gone = {(part.island, part.replica) for part in placed.placement.parts if part.node == lost_node}
    count = sum(pool.count for pool in placed.buckets.pools)
    assert sum(pool.count for pool in before.buckets.pools) == count - len(gone)
    assert lost_node not in {part.node for part in before.placement.parts}
    remaining = remaining_scenario(placed, placed.scenario, lost)
    assert remaining.cluster is not None
    assert [other.name for other in remaining.cluster.nodes] == [f"n-{k}" for k in range(5) if f"n-{k}" != lost_node]
    assert remaining.inventory.item("H200").count == 32


def test_what_placing_moves_counts_against_the_limits(placed: Plan) -> None:
    """The servers run on nodes that the cluster does not have any more: nothing of the plan itself has to change."""
    names = {f"n-{k}": f"old-{k}" for k in range(5)}
    with pytest.raises(InfeasibleError, match=r"touches 40 GPUs and 0 % .* 5 servers move; the limits are 0") as caught:
        replan(moved(placed, names), placed.scenario, limits=ChangeLimits(most_gpus=0))
    assert "leave the cluster out" in caught.value.hint


def test_nodes_that_the_plan_does_not_lie_on_cannot_be_lost(placed: Plan) -> None:
    with pytest.raises(InputError, match="lost: n-99: must be nodes that the plan lies on"):
        without_lost(placed, LostServers(nodes=("n-99",)))
    with pytest.raises(InputError) as refused:
        without_lost(placed, LostServers(nodes=("x y " * 1500, *(f"n-{number}" for number in range(100, 900)))))
    assert len(refused.value.message) < 400


@pytest.fixture(scope="module")
def shared_nodes() -> Plan:
    """Six servers of one GPU, several to a node."""
    target = {"kind": "target", "target_rps": 90.0}
    unplaced = small_plan(model="qwen3-30b-a3b", slo=LEVELS, objective=target)
    return place(unplaced, replace(unplaced.scenario, cluster=CLUSTER))


def gpus_of(plan: Plan, island: str) -> dict[int, set[tuple[str, tuple[int, ...]]]]:
    """Nodes and GPUs of each copy of an island."""
    copies: dict[int, set[tuple[str, tuple[int, ...]]]] = {}
    for part in plan.placement.parts:
        if part.island == island:
            copies.setdefault(part.replica, set()).add((part.node, part.gpu_indices))
    return copies


def test_what_runs_on_keeps_its_gpus(shared_nodes: Plan) -> None:
    """Placed afresh, the placer would put two of them elsewhere."""
    change = replan(shared_nodes, longer(shared_nodes.scenario, 1.3))
    assert change.change.servers(ChangeKind.MOVE) == 0
    assert change.change.servers_running_on >= 3
    before, after = (gpus_of(plan, "h200-1g-prefill-1") for plan in (shared_nodes, change.plan))
    stays = range(min(len(before), len(after)))
    assert len(stays) >= 3
    assert [after[copy] for copy in stays] == [before[copy] for copy in stays], "the highest numbers go first"


def test_other_gpus_of_the_same_node_are_another_place(shared_nodes: Plan) -> None:
    assert shared_nodes.placement is not None
    first = next(part for part in shared_nodes.placement.parts if len(part.gpu_indices) == 1)
    parts = [replace(p, gpu_indices=(7,)) if p is first else p for p in shared_nodes.placement.parts]
    elsewhere = replace(shared_nodes, placement=replace(shared_nodes.placement, parts=tuple(parts)))
    change = changes_between(shared_nodes, elsewhere, ChangeSettings())
    assert (change.servers(ChangeKind.MOVE), change.gpus_touched) == (1, 1)


def test_pods_that_would_ask_for_other_cores_do_not_stay(shared_nodes: Plan) -> None:
    pools, scenario = shared_nodes.buckets.pools, shared_nodes.scenario
    assert len(staying_parts(shared_nodes, pools, scenario)) == sum(pool.count for pool in pools)
    fewer = replace(scenario, placement=replace(scenario.placement, cpus_per_gpu=4))
    assert staying_parts(shared_nodes, pools, fewer) == ()


def now(plan: Plan, node_of: Mapping[str, str] | None = None) -> Cluster:
    """The cluster with the pods of a plan on their GPUs, as controllers name them, and somebody else's."""
    assert plan.placement is not None
    pods = [
        Pod(
            name=f"small-{part.island}-{part.replica}-x",
            node=(node_of or {}).get(part.node, part.node),
            gpus=part.gpu_indices,
            cpus=8.0 * len(part.gpu_indices),
            cores=part.cores,
        )
        for part in plan.placement.parts
    ]
    other = Pod(name="smaller-h200-1g-prefill-1-0", node="n-1", gpus=(0,), cpus=8.0)
    return replace(CLUSTER, pods=(*pods, other))


def test_the_pods_of_the_plan_itself_are_not_in_its_way(shared_nodes: Plan) -> None:
    """A cluster that is read while the plan runs: without this, all that runs on would have to move."""
    live = replace(longer(shared_nodes.scenario, 0.7), cluster=now(shared_nodes))
    remaining = without_own_pods(live, shared_nodes)
    assert [pod.name for pod in remaining.cluster.pods] == ["smaller-h200-1g-prefill-1-0"]
    assert len(staying_parts(shared_nodes, _pools(shared_nodes), remaining)) == 6
    assert without_own_pods(remaining, shared_nodes) is remaining
    elsewhere = replace(live, cluster=now(shared_nodes, {"n-0": "n-3"}))
    with pytest.raises(InputError, match=r"of island h200-.* must run on the nodes that the plan gives .* got n-3"):
        without_own_pods(elsewhere, shared_nodes)


def _pools(plan: Plan) -> tuple[BucketPool, ...]:
    return plan.buckets.pools


def pinned(plan: Plan) -> Plan:
    return replace(plan, scenario=replace(plan.scenario, deploy=replace(plan.scenario.deploy, pin_nodes=True)))


def test_steps_keep_the_pins_that_pods_were_started_with(shared_nodes: Plan) -> None:
    """All lies on one node, before and after; of more and shorter prompts and longer answers, decode starts anew."""
    plan = pinned(shared_nodes)
    shorter = longer(plan.scenario, 0.5)
    workload = replace(shorter.workload, mean_output_tokens=1.5 * plan.scenario.workload.mean_output_tokens)
    scenario = replace(shorter, workload=workload, objective=replace(shorter.objective, target_rps=150.0))
    changed = change_plan(plan, ChangeQuestion(scenario=scenario, replays=False))
    deployed = render_plan(plan).files
    rolled = rolled_out(changed.before, changed.plan, changed.roll_out, deployed=deployed, target="lws", engine="")
    assert rolled.steps
    assert changed.change.servers(ChangeKind.MOVE) == 0, "placed afresh, one would move"
    engines = [text for name, text in rolled.files.items() if name.endswith("start.yaml")]
    assert engines
    assert all("- n-0\n" in text for text in engines)
    stood, stands = (_copies(files, "h200-1g-prefill-1") for files in (deployed, rolled.manifests))
    assert stands["leaderWorkerTemplate"] == stood["leaderWorkerTemplate"]
    assert stands["replicas"] < stood["replicas"]


def _copies(files: Mapping[str, str], island: str) -> dict[str, Any]:
    """What an island's object asks for."""
    (text,) = (text for name, text in files.items() if name.endswith(f"{island}.yaml"))
    bodies = [body for body in yaml.safe_load_all(text) if body and body["kind"] == "LeaderWorkerSet"]
    return dict(bodies[0]["spec"])


def test_pods_that_run_cannot_be_pinned_anew(shared_nodes: Plan) -> None:
    plan = pinned(shared_nodes)
    deployed = render_plan(plan).files
    require_pins(deployed, plan)
    last = plan.placement.parts[3]
    wider = [replace(part, node="n-4") if part is last else part for part in plan.placement.parts]
    grown = replace(plan, placement=replace(plan.placement, parts=tuple(wider)))
    with pytest.raises(ExportError, match="h200-1g-prefill-1 run pinned to n-0, the new plan has it on n-0, n-4"):
        require_pins(deployed, grown)
    require_pins(render_plan(shared_nodes).files, grown)


def test_lost_servers_take_their_places_with_them(shared_nodes: Plan) -> None:
    remaining = without_lost(shared_nodes, LostServers(servers=(("h200-1g-prefill-1", 3),)))
    first = gpus_of(shared_nodes, "h200-1g-prefill-1")[0]
    assert gpus_of(remaining, "h200-1g-prefill-1") == {0: first}


def test_idle_gpus_of_a_lost_node_are_gone_too_and_other_nodes_of_its_servers_are_not(placed: Plan) -> None:
    """A server has four GPUs on each of two nodes; the other four of the lost one do nothing."""
    first = placed.placement.parts[0]
    half = replace(first, gpu_indices=first.gpu_indices[:4])
    across = replace(placed, placement=replace(placed.placement, parts=(half, replace(half, node="n-9"))))
    lost = LostServers(nodes=(first.node,))
    assert remaining_inventory(across, placed.scenario.inventory, lost).item("H200").count == 36
    assert remaining_scenario(across, placed.scenario, lost).inventory.item("H200").count == 32
