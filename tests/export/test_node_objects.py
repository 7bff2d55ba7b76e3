"""Topology objects of a placement's nodes: upstream's schema, amounts counted by hand, and the way back into a
cluster."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contract_plans import placed_plan, single_node_plan
from crd_schema import upstream_crds
from export_plans import gpu
from quick_yaml import load_documents

from planner.domain import (
    Cluster,
    ClusterNode,
    Inventory,
    InventoryItem,
    NodeGpu,
    NumaNode,
    Placement,
    Plan,
    Pod,
    Qos,
)
from planner.errors import ExportError, InputError
from planner.export import TARGETS, find_faults, read_plan, tells_fleet
from planner.files.cluster.flextopo_files import read_flextopos
from planner.files.kubernetes.node_resource_topologies import read_node_resource_topologies
from planner.runs.deployments import render_plan, topology_files

NRT, FLEX = "noderesourcetopologies.yaml", "flextopo.yaml"


def two_numa_node(node: ClusterNode) -> ClusterNode:
    """The node with two sockets of one NUMA node: GPUs 0-3 and cores 0-7, GPUs 4-7 and cores 8-15."""
    return replace(
        node,
        gpus=tuple(NodeGpu(index=i, uuid=f"{node.name}-{i}", numa=i // 4) for i in range(8)),
        numa_nodes=tuple(NumaNode(id=n, socket=n, cores=tuple(range(8 * n, 8 * n + 8))) for n in (0, 1)),
        cpus=15.5,
    )


def plan_with(pods: tuple[Pod, ...] = (), **changes: object) -> Plan:
    """The placed plan on nodes of two NUMA nodes, one node more than it uses, and running pods."""
    plan = placed_plan()
    cluster, placement = plan.scenario.cluster, plan.placement
    assert isinstance(cluster, Cluster)
    assert isinstance(placement, Placement)
    nodes = tuple(map(two_numa_node, cluster.nodes))
    spare = replace(nodes[0], name="spare")
    scenario = replace(plan.scenario, cluster=replace(cluster, nodes=(spare, *nodes), pods=pods), **changes)
    return replace(plan, scenario=scenario)


def documents(files: dict[str, str], name: str) -> dict[str, dict[str, Any]]:
    """The objects of a file by name."""
    return {d["metadata"]["name"]: d for d in load_documents(files[name])}


def rows(body: dict[str, Any]) -> dict[tuple[str, str], tuple[object, ...]]:
    """(zone, resource) -> capacity, allocatable, available."""
    return {
        (zone["name"], row["name"]): (row["capacity"], row["allocatable"], row["available"])
        for zone in body["zones"]
        for row in zone["resources"]
    }


POD = Pod(name="train", node="h0", gpus=(0, 5, 6), cores=(0, 1, 9), cpus=3.0)
FLOATING = Pod(name="web", node="h0", cpus=20.0)


def test_amounts_are_those_counted_by_hand() -> None:
    files = topology_files(plan_with((POD, FLOATING)))
    found = documents(files, NRT)
    assert sorted(found) == sorted(f"{kind}{i}" for kind in "hd" for i in range(4))  # not the spare node
    # 15.5 of 16 cores for pods: 7.75 of each 8; the floating pod holds none of its own
    assert rows(found["h0"]) == {
        ("node-0", "nvidia.com/gpu"): (4, 4, 3),
        ("node-0", "cpu"): (8, "7750m", "5750m"),
        ("node-1", "nvidia.com/gpu"): (4, 4, 2),
        ("node-1", "cpu"): (8, "7750m", "6750m"),
    }
    assert set(rows(found["h1"]).values()) == {(4, 4, 4), (8, "7750m", "7750m")}


def test_objects_follow_the_upstream_schema() -> None:
    crds = upstream_crds("noderesourcetopology_*")
    plan = plan_with((POD,))
    files = topology_files(plan, crds)
    assert find_faults(files, plan, crds) == find_faults(files, None, crds) == ()
    wrong = {**files, NRT: files[NRT].replace("capacity: 8", "capacity: 8 cores", 1)}
    assert any("must follow the given schema" in fault.expected for fault in find_faults(wrong, plan, crds))


def test_the_project_reads_them_back_as_the_same_nodes(tmp_path: Path) -> None:
    plan = plan_with((POD,))
    for name, text in topology_files(plan).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    reports = {report.node: report for report in read_node_resource_topologies(tmp_path / NRT)}
    for node in plan.scenario.cluster.nodes[1:]:
        report = reports.pop(node.name)
        assert (report.gpu_count, report.gpus_per_numa, report.cpus) == (8, ((0, 4), (1, 4)), 15.5)
        assert [(numa.id, numa.socket) for numa in report.numa_nodes] == [(0, 0), (1, 1)]
    assert reports == {}
    graphs = {topo.node: topo for _, topo in read_flextopos(tmp_path / FLEX)}
    kinds = Counter(vertex.kind for vertex in graphs["h0"].vertices)
    assert (kinds["GPU"], kinds["CPUCore"], kinds["NUMANode"], kinds["Socket"]) == (8, 16, 2, 2)
    used = {vertex.id for vertex in graphs["h0"].vertices if vertex.get("usedBy") == "default/train"}
    assert {"gpu-0", "gpu-5", "gpu-6", "core-0", "core-1", "core-9"} <= used


def test_the_policy_is_the_strictest_that_the_nodes_islands_need() -> None:
    settings = replace(placed_plan().scenario.placement, prefill_qos=Qos.SINGLE_NUMA, decode_qos=Qos.BEST_EFFORT)
    found = documents(topology_files(plan_with(placement=settings)), NRT)
    told = {name: body["attributes"] for name, body in found.items()}
    assert told["h0"] == [{"name": "topologyManagerPolicy", "value": "single-numa-node"}]
    assert told["d0"] == [{"name": "topologyManagerPolicy", "value": "best-effort"}]


@pytest.mark.parametrize("target", sorted(set(TARGETS) - {"kubernetes"}))
def test_every_target_takes_them_along_and_is_still_sound(target: str) -> None:
    plan = plan_with()
    made = render_plan(plan, target=target, topology_objects=True)
    assert {NRT, FLEX} <= made.files.keys()
    assert find_faults(made.files, made.plan) == find_faults(made.files) == ()
    if not tells_fleet(made.files):
        assert {island.id for island in read_plan(made.files).islands} == {"H200-0", "H20-0"}


def test_a_plan_on_no_nodes_is_refused() -> None:
    with pytest.raises(InputError, match="placement: must have nodes to write topology objects of, has none") as told:
        render_plan(single_node_plan(), topology_objects=True)
    assert "--topology-objects" in told.value.hint


def test_pods_that_hold_nobody_knows_which_gpus_are_refused() -> None:
    with pytest.raises(InputError, match="pod default/train: gpus must be known"):
        topology_files(plan_with((replace(POD, gpus=(), gpu_request=2),)))


def test_names_and_vendors_that_no_object_can_have_are_refused() -> None:
    plan = placed_plan()
    odd = replace(plan.scenario.cluster.nodes[0], name="Node_1")
    parts = (replace(plan.placement.parts[0], node="Node_1"),)
    placed = replace(plan, placement=replace(plan.placement, parts=parts))
    scenario = replace(plan.scenario, cluster=replace(plan.scenario.cluster, nodes=(odd,)))
    with pytest.raises(InputError, match="Node 'Node_1', name: must be a DNS subdomain"):
        topology_files(replace(placed, scenario=scenario))
    other = (gpu("H20", vendor="Other"), gpu("H200", vendor="Other"))
    items = tuple(InventoryItem(gpu=one, count=32, price_usd_per_gpu_hour=1.0) for one in other)
    with pytest.raises(ExportError, match="vendor: must be one of NVIDIA, AMD, got 'Other'"):
        topology_files(plan_with(inventory=Inventory(items=items)))
