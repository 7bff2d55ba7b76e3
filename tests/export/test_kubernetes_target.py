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
        *(f"{name}.yaml" for name in ("01-h200-0", "02-h20-0", "03-h20-1", "routing", "disruption-budgets"))
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


Damage = tuple[str, str, str, str]
FAULTS: dict[str, Damage] = {
    "replicas": (
        "02-h20-0.yaml",
        "replicas: 3",
        "replicas: 2",
        "spec.replicas: must be the 3 replicas of H20-0, got 2",
    ),
    "GPUs": (
        "01-h200-0.yaml",
        "nvidia.com/gpu: 8",
        "nvidia.com/gpu: 4",
        "spec.template x limits: must be the 8 GPUs of one replica of H200-0, got 4",
    ),
    "more GPUs than a host": (
        "01-h200-0.yaml",
        "nvidia.com/gpu: 8",
        "nvidia.com/gpu: 9",
        "spec.template.spec.containers.0.resources.limits: must ask for 1 to 8 GPUs",
    ),
    "half a GPU": (
        "01-h200-0.yaml",
        "nvidia.com/gpu: 8",
        "nvidia.com/gpu: 7500m",
        "spec.template.spec.containers.0.resources.limits.nvidia.com/gpu: must be a whole number of GPUs",
    ),
    "memory": (
        "01-h200-0.yaml",
        "memory: 512Gi",
        "memory: 512GiB",
        "spec.template.spec.containers.0.resources.limits.memory: must follow the schema",
    ),
    "shared memory": (
        "01-h200-0.yaml",
        "sizeLimit: 16Gi",
        "sizeLimit: 16 Gi",
        "spec.template.spec.volumes.0.emptyDir.sizeLimit: must follow the schema",
    ),
    "a request below its limit": (
        "01-h200-0.yaml",
        "          limits:\n",
        "          requests:\n            cpu: 1\n          limits:\n",
        "resources.requests.cpu: must equal its limit 64",
    ),
    "degrees": (
        "02-h20-0.yaml",
        "--tensor-parallel-size=4",
        "--tensor-parallel-size=8",
        "spec.template.spec.containers.0.args: the parallel degrees must count 8 GPUs in 1 pods, got 16 in 1",
    ),
    "context below the longest prompt": (
        "02-h20-0.yaml",
        "--max-model-len=6095",
        "--max-model-len=4094",
        "--max-model-len must take the longest prompt of 4095 tokens and an answer, 6095 in all, got 4094",
    ),
    "no bound of the context": (
        "02-h20-0.yaml",
        "--max-model-len=6095",
        "--disable-log-requests",
        "--max-model-len must take the longest prompt of 4095 tokens and an answer, 6095 in all, got none",
    ),
    "phase label": (
        "02-h20-0.yaml",
        "planner/phase: decode",
        "planner/phase: decod",
        "metadata.labels.planner/phase: must be decode, which H20-0 serves, got decod",
    ),
    "annotation": (
        "02-h20-0.yaml",
        "planner/tp: '4'",
        "planner/tp: '2'",
        "metadata.annotations.planner/tp: must be '4' as in the plan, got '2'",
    ),
    "target port": (
        "02-h20-0.yaml",
        "targetPort: http",
        "targetPort: htpp",
        "Service single-nodes-h20-0, spec.ports.0.targetPort: must be a port of the pods, got htpp",
    ),
    "selector": (
        "02-h20-0.yaml",
        "  selector:\n    app.kubernetes.io/part-of: single-nodes\n    planner/island: h20-0",
        "  selector:\n    app.kubernetes.io/part-of: single-nodes",
        "Service single-nodes-h20-0, spec.selector: must select the pods of one workload, got 3 workloads",
    ),
    "selector typo": (
        "02-h20-0.yaml",
        "  selector:\n    app.kubernetes.io/part-of: single-nodes\n    planner/island: h20-0",
        "  selector:\n    app.kubernetes.io/part-of: single-nodes\n    planner/island: h20-9",
        "Service single-nodes-h20-0, spec.selector.planner/island: must select pods of these files, got h20-9",
    ),
    "priority class": (
        "02-h20-0.yaml",
        "      tolerations:",
        "      priorityClassName: gone\n      tolerations:",
        "spec.template.spec.priorityClassName: must name a PriorityClass of these files, got 'gone'",
    ),
    "strategy": (
        "02-h20-0.yaml",
        "type: RollingUpdate",
        "type: RollUpdate",
        "spec.strategy.type: must follow the schema, got 'RollUpdate' is not one of",
    ),
    "type of a field": (
        "02-h20-0.yaml",
        "replicas: 3",
        "replicas: three",
        "spec.replicas: must follow the schema, got 'three' is not of type 'integer'",
    ),
    "API version": (
        "02-h20-0.yaml",
        "apiVersion: apps/v1",
        "apiVersion: apps/v1beta1",
        "02-h20-0.yaml, kind: must be one of",
    ),
    "island of a route": (
        "routing.yaml",
        '"island": "H20-1"',
        '"island": "H20-0"',
        "services single-nodes-h20-1: must answer for island H20-0",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_mistakes_are_caught_with_their_field(fault: str) -> None:
    file, old, new, told = FAULTS[fault]
    files = render(single_node_plan(), target="kubernetes")
    assert old in files[file]
    files[file] = files[file].replace(old, new)
    text = "\n".join(str(one) for one in find_faults(files, single_node_plan()))
    assert re.search(re.escape(told), text), text


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


def test_all_faults_are_told_at_once() -> None:
    files = render(single_node_plan(), target="kubernetes")
    files["01-h200-0.yaml"] = (
        files["01-h200-0.yaml"].replace("replicas: 2", "replicas: 5").replace(":v0.18.0", ":latest")
    )
    files["02-h20-0.yaml"] = files["02-h20-0.yaml"].replace("maxSurge", "maxSurg")
    told = [fault.where for fault in find_faults(files, single_node_plan())]
    assert any(where.endswith("spec.replicas") for where in told)
    assert any(where.endswith("containers.0.image") for where in told)
    assert any(where.startswith("02-h20-0.yaml") for where in told)
