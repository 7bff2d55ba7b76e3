"""RDMA devices, huge pages, variables and privileges: in pods that talk to others, and nowhere else."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from contract_plans import MIXED, aggregated_plan, beside_plan, placed_plan, single_node_plan
from export_plans import example_plan
from quick_yaml import load_documents

from planner.errors import ExportError, InputError
from planner.export import ExportOptions, find_faults, render
from planner.export.islands import serving_islands
from planner.export.objects.operating.network import talks

RDMA = ExportOptions(rdma="rdma/ib", nccl_ib_hca="mlx5", socket_interface="eth0")
TARGETS = ["lws", "disaggregatedset", "llm-d", "kserve", "dynamo"]


def engines(value: Any) -> Iterator[dict[str, Any]]:
    """Every container that asks for GPUs, however deep."""
    if isinstance(value, dict):
        if "nvidia.com/gpu" in value.get("resources", {}).get("limits", {}):
            yield value
        for inner in value.values():
            yield from engines(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from engines(inner)


def engines_of(files: dict[str, str]) -> list[dict[str, Any]]:
    """The engines' containers of all files."""
    return [
        container
        for name, text in files.items()
        if name.endswith(".yaml") and name != "router.yaml"
        for body in load_documents(text)
        for container in engines(body)
    ]


def context(container: dict[str, Any]) -> dict[str, Any]:
    """Its security context, which Helm values hold one level deeper."""
    deeper: dict[str, Any] = container.get("extraConfig", {}).get("securityContext", {})
    return dict(container.get("securityContext", deeper))


@pytest.mark.parametrize("target", TARGETS)
def test_pods_that_talk_get_a_device_for_each_gpu_and_may_lock_memory(target: str) -> None:
    files = render(example_plan(), target=target, options=RDMA)
    found = engines_of(files)
    assert found
    for container in found:
        limits = container["resources"]["limits"]
        assert limits["rdma/ib"] == limits["nvidia.com/gpu"]
        names = {row["name"]: row.get("value") for row in container["env"]}
        assert (names["NCCL_IB_HCA"], names["NCCL_SOCKET_IFNAME"], names["GLOO_SOCKET_IFNAME"]) == (
            "mlx5",
            "eth0",
            "eth0",
        )
        held = context(container)
        assert (held["capabilities"], held["runAsUser"]) == ({"drop": ["ALL"], "add": ["IPC_LOCK"]}, 0)
    assert "pod-security.kubernetes.io/enforce=privileged" in "".join(files.values())
    assert find_faults(files, example_plan()) == ()


@pytest.mark.parametrize("target", [*TARGETS, "kubernetes"])
def test_without_devices_nothing_is_said_of_locked_memory(target: str) -> None:
    text = "".join(render(single_node_plan(), target=target).values())
    assert not re.search(r"IPC_LOCK$|runAsUser: 0", text, re.MULTILINE)
    assert "No RDMA devices are asked for (--rdma)" in text


def test_a_copy_in_one_pod_that_hands_nothing_on_gets_none() -> None:
    for container in engines_of(render(aggregated_plan(), target="kubernetes", options=RDMA)):
        assert "rdma/ib" not in container["resources"]["limits"]
        assert context(container)["capabilities"] == {"drop": ["ALL"]}
        assert "NCCL_IB_HCA" not in {row["name"] for row in container.get("env", [])}
    files = render(beside_plan(), options=RDMA)
    assert "rdma/ib" not in files["03-h20-9.yaml"], f"{MIXED.id} does both phases in one pod"
    assert "rdma/ib" in files["04-h200-9.yaml"], "its copies span two pods"


def test_a_placement_on_one_node_keeps_caches_inside_it() -> None:
    plan = placed_plan()
    assert plan.placement is not None
    single = single_node_plan()
    parts = tuple(
        replace(part, island=island.id, node="n0")
        for island, part in zip(single.islands, plan.placement.parts, strict=False)
    )
    together = replace(single, placement=replace(plan.placement, parts=parts[:1] * 3))
    apart = replace(single, placement=plan.placement)
    islands = serving_islands(single, "single")
    assert [talks(island, together) for island in islands] == [False] * 3
    assert [talks(island, apart) for island in islands] == [True] * 3


def test_a_count_and_huge_pages_are_the_pods() -> None:
    options = ExportOptions(rdma="rdma/hca=1", hugepages="2Mi=4Gi")
    for container in engines_of(render(single_node_plan(), target="kubernetes", options=options)):
        limits = container["resources"]["limits"]
        assert (limits["rdma/hca"], limits["hugepages-2Mi"]) == (1, "4Gi")
    assert find_faults(render(single_node_plan(), target="kubernetes", options=options), single_node_plan()) == ()


def test_quotas_cover_what_pods_ask_for() -> None:
    options = ExportOptions(rdma="rdma/ib", hugepages="2Mi=4Gi", queue="serving")
    files = render(single_node_plan(), target="kueue", options=options)
    (queue,) = [b for text in files.values() for b in load_documents(text) if b["kind"] == "ClusterQueue"]
    (group,) = queue["spec"]["resourceGroups"]
    assert {"rdma/ib", "hugepages-2Mi"} <= set(group["coveredResources"])
    rows = {row["name"]: row["nominalQuota"] for row in group["flavors"][0]["resources"]}
    assert rows["rdma/ib"] == rows["nvidia.com/gpu"]
    assert rows["hugepages-2Mi"] == f"{rows['nvidia.com/gpu'] * 4096}Mi"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (ExportOptions(rdma="ib"), "rdma: must be RESOURCE or RESOURCE=COUNT"),
        (ExportOptions(rdma="rdma/ib=0"), "rdma: must be RESOURCE or RESOURCE=COUNT"),
        (ExportOptions(rdma="rdma/ib=many"), "rdma: must be RESOURCE or RESOURCE=COUNT"),
        (ExportOptions(rdma="rdma/$(id)"), "rdma: must be RESOURCE or RESOURCE=COUNT"),
        (ExportOptions(rdma="rdma/ib", pod_resources=(("rdma/ib", 8),)), "rdma: must not repeat rdma/ib"),
        (ExportOptions(hugepages="3Mi=6Mi"), "hugepages: must be SIZE=AMOUNT"),
        (ExportOptions(hugepages="2Mi=3Mi"), "hugepages: must be SIZE=AMOUNT"),
        (ExportOptions(hugepages="2Mi"), "hugepages: must be SIZE=AMOUNT"),
        (ExportOptions(nccl_ib_hca="mlx5; reboot"), "nccl_ib_hca: must be names of devices"),
        (ExportOptions(socket_interface="a\nb"), "socket_interface: must be names of devices"),
    ],
)
def test_options_that_no_manifest_can_carry_are_refused(options: ExportOptions, told: str) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        render(single_node_plan(), target="kubernetes", options=options)


def test_a_script_carries_none_of_them() -> None:
    with pytest.raises(ExportError, match="nothing in its files can carry rdma, nccl_ib_hca, socket_interface"):
        render(single_node_plan(), target="script", options=RDMA)
