"""The `kubernetes` target: plain Deployments, for copies that fit a node; and mistakes in them."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from contract_plans import single_node_plan, wide_fleet_plan
from export_plans import example_plan
from quick_yaml import load_documents

from planner.errors import ExportError
from planner.export import find_faults, render


def objects(files: dict[str, str], kind: str) -> list[dict[str, Any]]:
    """Every object of one kind, in the files' order."""
    return [d for text in files.values() for d in load_documents(text) if d["kind"] == kind]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_one_deployment_and_one_service_an_island(engine: str) -> None:
    files = render(single_node_plan(), target="kubernetes", engine=engine, router="none")
    assert list(files) == [
        *(f"{name}.yaml" for name in ("01-h200-0", "02-h20-0", "03-h20-1")),
        *(f"{name}.yaml" for name in ("routing", "network-policies", "disruption-budgets")),
    ]
    deployments, services = objects(files, "Deployment"), objects(files, "Service")
    assert [d["spec"]["replicas"] for d in deployments] == [2, 3, 1]
    for deployment, service in zip(deployments, services, strict=True):
        template = deployment["spec"]["template"]
        chosen = deployment["spec"]["selector"]["matchLabels"]
        assert chosen == service["spec"]["selector"]
        assert chosen.items() <= template["metadata"]["labels"].items()
        assert [d for d in deployments if chosen.items() <= d["metadata"]["labels"].items()] == [deployment]
        assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_sixty_islands_ask_for_their_gpus_on_their_own_nodes() -> None:
    found: Counter[str] = Counter()
    for deployment in objects(render(wide_fleet_plan(), target="kubernetes", router="none"), "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        limit = pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
        found[pod["nodeSelector"]["nvidia.com/gpu.product"]] += deployment["spec"]["replicas"] * limit
    assert found == {f"NVIDIA-G{number}": 48 for number in range(10)}


def test_copies_of_several_nodes_are_refused_all_by_name() -> None:
    with pytest.raises(ExportError, match=r"H200-0 \(16 H200 in 2 pods\), H20-0 \(32 H20 in 4 pods\)\.") as refused:
        render(example_plan(), target="kubernetes")
    assert "lws" in refused.value.hint


WITHOUT_A_PLAN: dict[str, tuple[str, Callable[[str], str], str]] = {
    "GPUs": ("01-h200-0.yaml", lambda t: t.replace("nvidia.com/gpu: 8", "nvidia.com/gpu: 4"), "must be the 8 GPUs"),
    "size": (
        "02-h20-0.yaml",
        lambda t: t.replace("planner/size: '24'", "planner/size: '16'"),
        "metadata.annotations.planner/: must tell the island of a plan",
    ),
    "no annotation": (
        "02-h20-0.yaml",
        lambda t: re.sub(r" +planner/dp: .*\n", "", t),
        "must tell the island of a plan",
    ),
    "more than the inventory": (
        "routing.yaml",
        lambda t: t.replace('"H200": 16', '"H200": 8'),
        "GPUs of type H200 must be at most the 8 of the inventory, got 16",
    ),
    "unrouted": (
        "routing.yaml",
        lambda t: t.replace('"prefill", "range_start": 2048', '"prefill", "range_start": 2049'),
        "prefill 2048-6094: shares must sum to 1",
    ),
}


@pytest.mark.parametrize("fault", WITHOUT_A_PLAN)
def test_mistakes_are_caught_without_the_plan(fault: str) -> None:
    file, damage, told = WITHOUT_A_PLAN[fault]
    files = render(single_node_plan(), target="kubernetes")
    assert find_faults(files) == ()
    damaged = damage(files[file])
    assert damaged != files[file]
    text = "\n".join(str(one) for one in find_faults({**files, file: damaged}))
    assert told in text
