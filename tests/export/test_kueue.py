"""Target `kueue`: quotas against the fleet, upstream's schemas, and workloads of another target that have to fit."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from contract_plans import placed_plan, wide_fleet_plan
from crd_schema import upstream_crds
from export_plans import example_plan, gpu, island, plan_of
from hypothesis import given, settings
from quick_yaml import load_documents
from test_random_fleets import fleets

from planner.domain import Cluster, ParallelConfig, Phase, Plan, Taint
from planner.errors import ExportError, InputError
from planner.export import ExportOptions, find_faults, render

RACKS = ExportOptions(topology_labels=(("asw", "example.com/rack"), ("aggregation", "example.com/block")))


def objects(files: dict[str, str], kind: str) -> list[dict[str, Any]]:
    """Every object of one kind."""
    return [d for text in files.values() for d in load_documents(text) if d["kind"] == kind]


def kueue(plan: Plan, options: ExportOptions | None = None) -> dict[str, str]:
    return render(plan, target="kueue", options=options)


def quotas(files: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Flavor -> resource -> nominal quota."""
    (queue,) = objects(files, "ClusterQueue")
    (group,) = queue["spec"]["resourceGroups"]
    return {f["name"]: {r["name"]: r["nominalQuota"] for r in f["resources"]} for f in group["flavors"]}


def test_quotas_are_the_fleet_idle_gpus_too() -> None:
    assert quotas(kueue(example_plan())) == {
        "mixed-fleet-h20": {"nvidia.com/gpu": 43, "cpu": 344, "memory": "2752Gi"},
        "mixed-fleet-h200": {"nvidia.com/gpu": 32, "cpu": 256, "memory": "2048Gi"},
    }


@given(plan=fleets())
@settings(max_examples=10, deadline=None)
def test_random_fleets_are_quotas_to_the_last_gpu(plan: Plan) -> None:
    found = {
        name.removeprefix("random-fleet-").upper(): row["nvidia.com/gpu"] for name, row in quotas(kueue(plan)).items()
    }
    assert found == {kind: count for kind, count in plan.fleet.items() if count}


def test_the_workloads_of_another_target_fit_the_quotas() -> None:
    options = ExportOptions(queue="serving", pod_resources=(("rdma/ib", 2),))
    asked: dict[str, Counter[str]] = {}
    for workload in objects(render(example_plan(), target="lws", options=options), "LeaderWorkerSet"):
        assert workload["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "serving"
        spec = workload["spec"]
        template = spec["leaderWorkerTemplate"]["workerTemplate"]["spec"]
        counts = asked.setdefault(template["nodeSelector"]["nvidia.com/gpu.product"], Counter())
        for name, limit in template["containers"][0]["resources"]["limits"].items():
            counts[name] += spec["replicas"] * spec["leaderWorkerTemplate"]["size"] * int(str(limit).removesuffix("Gi"))
    files = kueue(example_plan(), options)
    assert objects(files, "LocalQueue")[0]["metadata"]["name"] == "serving"
    there = quotas(files)
    for flavor in objects(files, "ResourceFlavor"):
        counts = asked[flavor["spec"]["nodeLabels"]["nvidia.com/gpu.product"]]
        quota = there[flavor["metadata"]["name"]]
        assert counts.keys() == quota.keys()
        assert all(counts[name] <= int(str(quota[name]).removesuffix("Gi")) for name in counts)


def test_levels_run_from_the_widest_to_the_host() -> None:
    (topology,) = objects(kueue(example_plan(), RACKS), "Topology")
    levels = [level["nodeLabel"] for level in topology["spec"]["levels"]]
    assert levels == ["example.com/block", "example.com/rack", "kubernetes.io/hostname"]
    hosts = ExportOptions(topology_labels=(("asw", "kubernetes.io/hostname"),))
    (topology,) = objects(kueue(example_plan(), hosts), "Topology")
    assert topology["spec"]["levels"] == [{"nodeLabel": "kubernetes.io/hostname"}]


def test_without_labels_of_levels_there_is_no_topology() -> None:
    files = kueue(example_plan())
    assert list(files) == ["flavors.yaml", "queues.yaml"]
    assert not any("topologyName" in flavor["spec"] for flavor in objects(files, "ResourceFlavor"))


def amd_plan() -> Plan:
    types = (gpu("H20"), gpu("MI300X", vendor="AMD", node_selector=(("amd.com/gpu.family", "AI"),)))
    islands = (
        island("a", "H20", Phase.PREFILL, ParallelConfig(tp=8, dp=1)),
        island("b", "MI300X", Phase.DECODE, ParallelConfig(tp=4, dp=1)),
    )
    return plan_of(islands, gpus=types)


def test_two_vendors_share_one_group_of_resources() -> None:
    files = kueue(amd_plan())
    assert quotas(files) == {
        "mixed-fleet-h20": {"amd.com/gpu": 0, "nvidia.com/gpu": 8, "cpu": 64, "memory": "512Gi"},
        "mixed-fleet-mi300x": {"amd.com/gpu": 4, "nvidia.com/gpu": 0, "cpu": 32, "memory": "256Gi"},
    }


def test_taints_are_those_that_all_nodes_of_a_type_have() -> None:
    plan = placed_plan()
    cluster = plan.scenario.cluster
    assert cluster is not None
    shared, single = Taint(key="team", value="serving"), Taint(key="broken", effect="NoExecute")
    nodes = tuple(
        replace(node, taints=(shared, single) if index == 0 else (shared,)) for index, node in enumerate(cluster.nodes)
    )
    plan = replace(plan, scenario=replace(plan.scenario, cluster=Cluster(name="room", nodes=nodes)))
    for flavor in objects(kueue(plan), "ResourceFlavor"):
        assert flavor["spec"]["nodeTaints"] == [{"key": "team", "value": "serving", "effect": "NoSchedule"}]
        assert {"key": "team", "operator": "Equal", "value": "serving", "effect": "NoSchedule"} in flavor["spec"][
            "tolerations"
        ]


@pytest.mark.parametrize("plan", [example_plan, wide_fleet_plan, placed_plan])
def test_objects_follow_the_upstream_schemas(plan: Callable[[], Plan]) -> None:
    crds = upstream_crds("kueue_*")
    files = kueue(plan(), RACKS)
    assert find_faults(files, plan(), crds) == ()
    damaged = files["flavors.yaml"].replace("effect: NoSchedule", "effct: NoSchedule", 1)
    assert any("effct" in fault.got for fault in find_faults({**files, "flavors.yaml": damaged}, plan(), crds))


def test_types_that_no_label_tells_apart_are_refused_even_where_one_is_idle() -> None:
    types = (gpu("H20"), gpu("H200"), gpu("spare", node_selector=()))
    islands = (
        island("a", "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=1)),
        island("b", "H20", Phase.DECODE, ParallelConfig(tp=8, dp=1)),
        island("c", "spare", None, None, size=8),
    )
    plan = plan_of(islands, gpus=types)
    assert render(plan, target="lws")
    with pytest.raises(ExportError, match=r"GPUs H20 and spare, node_selector: must differ"):
        kueue(plan)
    with pytest.raises(ExportError, match=r"GPU spare, node_selector: must hold a label, as a flavor with a topology"):
        kueue(plan, RACKS)


def test_an_unknown_vendor_and_types_with_one_slug_are_refused() -> None:
    spare = gpu("TPU", vendor="Google", node_selector=(("kind", "tpu"),))
    both = (island("a", "H20", Phase.PREFILL, ParallelConfig(tp=8, dp=1)), island("c", "TPU", None, None, size=8))
    with pytest.raises(ExportError, match="GPU TPU, vendor: must be one of NVIDIA, AMD, got 'Google'"):
        kueue(plan_of(both, gpus=(gpu("H20"), spare)))
    twins = (
        island("a", "H20", Phase.PREFILL, ParallelConfig(tp=8, dp=1)),
        island("c", "h-20", None, None, size=8),
        island("d", "h_20", None, None, size=8),
    )
    with pytest.raises(InputError, match="both become 'h-20'"):
        kueue(plan_of(twins, gpus=(gpu("H20"), gpu("h-20"), gpu("h_20"))))


def test_more_types_than_flavors_are_refused() -> None:
    types = tuple(gpu(f"G{number}") for number in range(65))
    islands = tuple(island(f"i{kind.name}", kind.name, Phase.PREFILL, ParallelConfig(tp=8, dp=1)) for kind in types)
    with pytest.raises(ExportError, match="at most 64 flavors, the fleet has 65 GPU types"):
        kueue(plan_of(islands, gpus=types))
