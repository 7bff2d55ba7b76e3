"""How pods start and end: probes sized to the load time, grace for requests under way; and mistakes in both.

The figures are worked out again here from the plan: weights over bandwidth, the longest answer times its slowest step.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from contract_plans import single_node_plan
from export_plans import MODEL, example_plan
from hypothesis import given, settings
from hypothesis import strategies as st
from quick_yaml import load_documents

from planner.export import ExportOptions, render

HTTP_PATHS = {"vllm": "/health", "sglang": "/health"}
STEP_S, ANSWER = 0.030, 2000  # of the plans by hand: export_plans.route and plan_of
TARGETS = [
    (target, engine) for target in ("lws", "kubernetes", "disaggregatedset", "llm-d") for engine in ("vllm", "sglang")
]


def containers(value: Any) -> Iterator[dict[str, Any]]:
    """Every container that asks for GPUs, however deep."""
    if isinstance(value, dict):
        if any("gpu" in name for name in value.get("resources", {}).get("limits", {})):
            yield value
        for inner in value.values():
            yield from containers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from containers(inner)


def of_islands(files: dict[str, str]) -> dict[str, str]:
    """The files but for those of a router."""
    return {name: text for name, text in files.items() if name.endswith(".yaml") and name != "router.yaml"}


def engines_of(files: dict[str, str]) -> list[dict[str, Any]]:
    """The engines' containers of all files."""
    rows = [
        row
        for name, text in files.items()
        if name[:1].isdigit() or name == "disaggregatedset.yaml"
        for row in load_documents(text)
    ]
    return [container for row in rows for container in containers(row)]


def patience(probe: dict[str, Any]) -> int:
    """Seconds until a probe gives up."""
    return int(probe["periodSeconds"] * probe["failureThreshold"])


@pytest.mark.parametrize(("target", "engine"), TARGETS)
def test_nothing_kills_an_engine_that_loads(target: str, engine: str) -> None:
    load_s = 2 * MODEL.weights_gb / 1.0 + 300  # fetched from the hub and read
    found = engines_of(render(single_node_plan(), target=target, engine=engine))
    assert len(found) == 3
    for container in found:
        ports = {port["name"] for port in container["ports"]}
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            asked = container[name]["httpGet"]
            assert asked["path"] == HTTP_PATHS[engine]
            assert asked["port"] in ports
        assert 2 * load_s <= patience(container["startupProbe"]) <= 2 * load_s + 10
        assert patience(container["livenessProbe"]) < patience(container["startupProbe"])


@settings(max_examples=12)
@given(speed=st.floats(min_value=0.01, max_value=1000))
def test_the_budget_follows_the_storage(speed: float) -> None:
    options = ExportOptions(model_volume="weights", load_gb_per_s=speed)
    (first, *_) = engines_of(render(single_node_plan(), target="kubernetes", options=options))
    assert patience(first["startupProbe"]) >= 2 * (MODEL.weights_gb / speed + 300)


def test_workers_of_a_group_have_no_probes_and_outlive_their_leader() -> None:
    text = render(example_plan(), options=ExportOptions(ranks="server"))["02-h20-0.yaml"]
    (decode,) = [d for d in load_documents(text) if d["kind"] == "LeaderWorkerSet"]
    group = decode["spec"]["leaderWorkerTemplate"]
    leader, worker = (group[f"{part}Template"]["spec"] for part in ("leader", "worker"))
    engine = worker["containers"][0]
    assert not [name for name in engine if name.endswith("Probe")]
    drain = math.ceil(2 * STEP_S + ANSWER * STEP_S)
    assert engine["lifecycle"]["preStop"]["sleep"]["seconds"] == 15 + drain
    assert leader["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"] == 15
    assert f"--shutdown-timeout={drain}" in leader["containers"][0]["args"]
    assert leader["terminationGracePeriodSeconds"] == worker["terminationGracePeriodSeconds"] == 15 + drain + 30


@pytest.mark.parametrize(("target", "engine"), TARGETS)
def test_every_pod_has_time_for_its_hook_and_its_engine(target: str, engine: str) -> None:
    plan = example_plan() if target != "kubernetes" else single_node_plan()
    for text in of_islands(render(plan, target=target, engine=engine)).values():
        graces = [int(seconds) for seconds in re.findall(r"terminationGracePeriodSeconds: (\d+)", text)]
        hooks = [int(seconds) for seconds in re.findall(r"sleep:\n +seconds: (\d+)", text)]
        drains = [int(seconds) for seconds in re.findall(r"--shutdown-timeout=(\d+)", text)]
        assert len(graces) == len(hooks)
        assert all(hook < grace for hook, grace in zip(hooks, graces, strict=True))
        assert not drains or max(drains) + 15 < max(graces)
        assert engine == "vllm" or not drains, "SGLang has no such flag: it finishes what it has"


def test_prefill_pods_stay_while_others_fetch_their_caches() -> None:
    (prefill, decode, _) = engines_of(render(single_node_plan(), target="kubernetes"))
    assert prefill["lifecycle"]["preStop"]["sleep"]["seconds"] == 15 + math.ceil(2 * STEP_S)
    assert not [word for word in prefill["args"] if word.startswith("--shutdown-timeout")]
    assert decode["lifecycle"]["preStop"]["sleep"]["seconds"] == 15


def test_kserves_presets_get_their_patience_and_their_grace() -> None:
    files = render(single_node_plan(), target="kserve")
    (found, *_) = [row for row in load_documents(files["01.yaml"]) if row["kind"] == "LLMInferenceService"]
    template = found["spec"]["template"]
    assert patience(template["containers"][0]["startupProbe"]) >= 2 * (2 * MODEL.weights_gb + 300)
    assert template["terminationGracePeriodSeconds"] > 15 + ANSWER * STEP_S


def test_dynamos_workers_serve_what_they_have_before_they_end() -> None:
    for container in engines_of(render(single_node_plan(), target="dynamo")):
        waits = {row["name"]: row.get("value") for row in container["env"]}["DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS"]
        assert int(waits or 0) >= 1
        assert "lifecycle" not in container, "a hook would keep the worker in discovery"
