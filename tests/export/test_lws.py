"""The `lws` target against upstream's own schemas, and against the plan it came from."""

import json
from collections import Counter
from typing import Any

import kubernetes_validate
import pytest
from crd_schema import crd_schema
from export_plans import DECODE, IDLE, PREFILL, SMALL_DECODE, example_plan, gpu, plan_of
from jsonschema import Draft202012Validator
from quick_yaml import load_documents

from planner.domain import ParallelConfig, Phase
from planner.errors import ExportError, InputError
from planner.export import ExportOptions, render
from planner.export.checking.crds import with_defaults
from planner.files import load_engine

ENGINES = ("vllm", "sglang")
KUBERNETES = kubernetes_validate.latest_version()


def objects(files: dict[str, str], kind: str) -> list[dict[str, Any]]:
    """Every object of one kind, in the files' order."""
    return [d for text in files.values() for d in load_documents(text) if d["kind"] == kind]


def templates(workload: dict[str, Any]) -> list[dict[str, Any]]:
    """The pod templates of a LeaderWorkerSet."""
    group = workload["spec"]["leaderWorkerTemplate"]
    return [group[key] for key in ("leaderTemplate", "workerTemplate") if key in group]


@pytest.fixture(scope="module")
def strict_lws() -> dict[str, Any]:
    return crd_schema("lws_leaderworkersets*")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "replica"), 2),
        (("spec", "startupPolicy"), "Whenever"),
        (("spec", "leaderWorkerTemplate", "size"), "two"),
        (("spec", "leaderWorkerTemplate", "workerTemplate", "spec", "contaners"), []),
    ],
)
def test_the_strict_crd_schema_can_fail(path: tuple[str, ...], value: object, strict_lws: dict[str, Any]) -> None:
    workload = objects(render(example_plan()), "LeaderWorkerSet")[0]
    target = workload
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    validator = Draft202012Validator(strict_lws)
    assert not validator.is_valid(with_defaults(workload, strict_lws))


@pytest.mark.parametrize("engine", ENGINES)
def test_gpus_add_up_to_the_serving_islands(engine: str) -> None:
    found: Counter[str] = Counter()
    for workload in objects(render(example_plan(), engine=engine), "LeaderWorkerSet"):
        group = workload["spec"]["leaderWorkerTemplate"]
        counts = [t["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for t in templates(workload)]
        kind = templates(workload)[0]["spec"]["nodeSelector"]["nvidia.com/gpu.product"]
        found[kind] += workload["spec"]["replicas"] * (counts[0] + (group["size"] - 1) * counts[-1])
    assert found == {"NVIDIA-H200": 32, "NVIDIA-H20": 40}


def test_one_file_an_island_and_the_routing_table() -> None:
    files = render(example_plan())
    assert list(files) == [
        *("01-h200-0.yaml", "02-h20-0.yaml", "03-h20-1.yaml"),
        *("routing.yaml", "network-policies.yaml", "router.yaml", "disruption-budgets.yaml"),
    ]
    assert not any(IDLE.id in text for text in files.values())


def test_a_prime_number_of_gpus_is_exact_and_explained() -> None:
    wide = plan_of((PREFILL, _decode(ParallelConfig(tp=1, dp=37))))
    files = render(wide)
    group = objects(files, "LeaderWorkerSet")[1]["spec"]["leaderWorkerTemplate"]
    limits = group["workerTemplate"]["spec"]["containers"][0]["resources"]["limits"]
    assert (group["size"], limits["nvidia.com/gpu"]) == (37, 1)
    assert "# Pods of 1 GPU although a host has 8" in files["02-h20-x.yaml"]
    assert "# Experts exchange tokens by all-gather" in files["02-h20-x.yaml"]


def _decode(parallel: ParallelConfig) -> Any:
    from export_plans import island

    return island("H20-x", "H20", Phase.DECODE, parallel)


def test_the_routing_table_names_services_shares_and_leaders() -> None:
    files = render(example_plan(), router="none")
    table = json.loads(objects(files, "ConfigMap")[0]["data"]["routing.json"])
    first = next(row for row in table["routes"] if row["phase"] == "prefill")
    assert first == {
        "phase": "prefill",
        "range_start": 0,
        "range_end": 2048,
        "service": "mixed-fleet-h200-0-leader",
        "share": 1.0,
        "probability": 0.5,
    }
    assert {row["service"] for row in table["routes"]} == {s["metadata"]["name"] for s in objects(files, "Service")}
    prefill = next(row for row in table["services"] if row["phase"] == "prefill")
    assert prefill["leaders"] == [
        "mixed-fleet-h200-0-0.mixed-fleet-h200-0:8000",
        "mixed-fleet-h200-0-1.mixed-fleet-h200-0:8000",
    ]


def test_services_select_the_leaders_and_leave_the_controllers_name_free() -> None:
    files = render(example_plan(), engine="sglang", router="none")
    names = {w["metadata"]["name"] for w in objects(files, "LeaderWorkerSet")}
    services = objects(files, "Service")
    for service in services:
        assert service["metadata"]["name"] not in names
        assert service["spec"]["selector"]["leaderworkerset.sigs.k8s.io/name"] in names
        assert service["spec"]["selector"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"
    assert [p["port"] for p in services[0]["spec"]["ports"]] == [30000, 8998]
    assert [p["port"] for p in services[1]["spec"]["ports"]] == [30000]


def test_amd_gpus_ask_for_their_resource_and_have_an_image() -> None:
    types = (gpu("H200"), gpu("MI308", vendor="AMD", node_selector=(("amd.com/gpu.product-name", "MI308"),)))
    from export_plans import island

    decode = island("MI308-0", "MI308", Phase.DECODE, ParallelConfig(tp=1, dp=8))
    plan = plan_of((PREFILL, decode), gpus=types)
    for engine in ENGINES:
        workload = objects(render(plan, engine=engine), "LeaderWorkerSet")[1]
        assert templates(workload)[0]["spec"]["containers"][0]["image"] == dict(load_engine(engine).images)["AMD"]
    options = ExportOptions(images=(("AMD", "registry.example/sglang:v0.5.23-rocm700"),))
    workload = objects(render(plan, engine="sglang", options=options), "LeaderWorkerSet")[1]
    container = templates(workload)[0]["spec"]["containers"][0]
    assert container["resources"]["limits"]["amd.com/gpu"] == 8
    assert container["image"] == "registry.example/sglang:v0.5.23-rocm700"
    assert "--moe-a2a-backend=none" in container["args"]


def test_unknown_vendors_are_refused() -> None:
    plan = plan_of((PREFILL, SMALL_DECODE), gpus=(gpu("H200"), gpu("H20", vendor="Abacus")))
    with pytest.raises(ExportError, match=r"H20-1, GPU H20, vendor: must be one of NVIDIA, AMD"):
        render(plan)


@pytest.mark.parametrize("selector", [(), (("nvidia.com/gpu.product", "NVIDIA-H200"),), (("zone", "a"),)])
def test_gpu_types_that_no_label_tells_apart_are_refused(selector: tuple[tuple[str, str], ...]) -> None:
    types = (gpu("H200"), gpu("H20", node_selector=selector))
    with pytest.raises(ExportError, match="node_selector: must differ"):
        render(plan_of((PREFILL, DECODE), gpus=types))


def test_one_gpu_type_needs_no_labels() -> None:
    from export_plans import island

    prefill = island("H20-p", "H20", Phase.PREFILL, ParallelConfig(tp=8, dp=1))
    files = render(plan_of((prefill, DECODE), gpus=(gpu("H20", node_selector=()),)))
    assert all("nodeSelector" not in t["spec"] for w in objects(files, "LeaderWorkerSet") for t in templates(w))


def test_further_pod_resources_are_passed_on_and_not_overwritten() -> None:
    files = render(example_plan(), options=ExportOptions(pod_resources=(("rdma/ib", 8),)))
    limits = templates(objects(files, "LeaderWorkerSet")[0])[1]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": 64, "memory": "512Gi", "nvidia.com/gpu": 8, "rdma/ib": 8}
    with pytest.raises(InputError, match=r"pod_resources: must not repeat nvidia.com/gpu"):
        render(example_plan(), options=ExportOptions(pod_resources=(("nvidia.com/gpu", 1),)))
