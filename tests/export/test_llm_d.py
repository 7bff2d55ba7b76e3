"""Target `llm-d`: values against the chart's own schema and its GPU arithmetic, pairs, and the script of a group."""

import json
import re
import subprocess
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from contract_plans import PLANS, placed_plan, single_node_plan
from export_plans import DECODE, MODEL, PREFILL, example_plan, gpu, island, plan_of
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from quick_yaml import load_document, load_documents
from reference_data import reference_text

from planner.domain import ParallelConfig, Phase, Plan
from planner.errors import ExportError, InputError
from planner.export import ExportOptions, render
from planner.export.targets.llm_d_releases import GROUP_SCRIPT

ENGINES = ("vllm", "sglang")
SMALL = ParallelConfig(tp=8, dp=1)


def llm_d(plan: Plan, engine: str = "vllm", options: ExportOptions | None = None) -> dict[str, str]:
    return render(plan, target="llm-d", engine=engine, options=options)


def values(files: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Values file -> its body."""
    return {name: load_document(text) for name, text in files.items() if name.endswith(".values.yaml")}


def merged(defaults: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Values over the chart's defaults, as Helm lays them."""
    both = [key for key in own if isinstance(own[key], dict) and isinstance(defaults.get(key), dict)]
    return defaults | own | {key: merged(defaults[key], own[key]) for key in both}


@pytest.mark.parametrize("engine", ENGINES)
def test_decode_groups_install(engine: str) -> None:
    """Chart 0.4.12 prints `env:` and nothing below it for their sidecar unless tracing is on: no list for the API."""
    groups, single = values(llm_d(placed_plan(), engine)), values(llm_d(single_node_plan(), engine))
    assert all(body["tracing"]["enabled"] is True for body in groups.values())
    assert all(body["tracing"]["sampling"]["samplerArg"] == "0.0" for body in groups.values())
    assert all("tracing" not in body for body in single.values())
    assert "http://otel-collector:4317" in "".join(llm_d(placed_plan(), engine).values())


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("engine", ENGINES)
def test_values_follow_the_charts_schema_alone_and_over_its_defaults(engine: str, plan: str) -> None:
    schema = json.loads(reference_text("crds/llm-d-modelservice_values.schema.json"))
    defaults = load_document(reference_text("crds/llm-d-modelservice_values.yaml"))
    bodies = list(values(llm_d(PLANS[plan](), engine)).values())[:3]
    for body in bodies:
        for held in (body, merged(defaults, body)):
            assert [e.message for e in Draft7Validator(schema).iter_errors(held)] == []
    wrong = merged(defaults, bodies[0]) | {"multinode": "yes"}
    assert not Draft7Validator(schema).is_valid(wrong)


def chart_gpus(body: dict[str, Any]) -> Counter[str]:
    """GPUs that the chart asks for: replicas x group size x tensor x dataLocal, its templates' arithmetic."""
    found: Counter[str] = Counter()
    for role in ("prefill", "decode"):
        block = body[role]
        if block["create"]:
            degrees = block["parallelism"]
            size = degrees["workers"] if body["multinode"] else 1
            (value,) = block["acceleratorTypes"]["labelValues"]
            found[value] += block["replicas"] * size * degrees["tensor"] * degrees["dataLocal"]
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_the_charts_own_arithmetic_gives_the_plans_gpus(engine: str) -> None:
    found = sum((chart_gpus(body) for body in values(llm_d(example_plan(), engine)).values()), Counter[str]())
    assert found == {"NVIDIA-H200": 32, "NVIDIA-H20": 40}


def phases(prefill: int, decode: int) -> Plan:
    """Islands of a node each, named by phase."""
    counts = ((Phase.PREFILL, "H200", prefill), (Phase.DECODE, "H20", decode))
    return plan_of(
        tuple(island(f"{phase}-{n}", kind, phase, SMALL) for phase, kind, count in counts for n in range(count))
    )


@given(st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=8, deadline=None)
def test_each_island_is_in_one_release_whatever_the_numbers(prefill: int, decode: int) -> None:
    files = llm_d(phases(prefill, decode))
    bodies = values(files)
    assert len(bodies) == max(prefill, decode)
    held = [
        (role, body[role]["annotations"]["planner/island"])
        for body in bodies.values()
        for role in ("prefill", "decode")
        if body[role]["create"]
    ]
    assert sorted(held) == sorted(
        [("prefill", f"prefill-{n}") for n in range(prefill)] + [("decode", f"decode-{n}") for n in range(decode)]
    )
    alone = [text for name, text in files.items() if name in bodies and "alone: the other phase" in text]
    assert len(alone) == abs(prefill - decode)


def test_releases_are_listed_with_chart_version_and_values() -> None:
    files = llm_d(example_plan())
    assert load_document(files["releases.yaml"])["releases"] == [
        {
            "name": f"mixed-fleet-{number}",
            "chart": "llm-d-modelservice/llm-d-modelservice",
            "version": "v0.4.12",
            "values": [f"{number}.values.yaml"],
        }
        for number in ("01", "02")
    ]


def first_words(script: str, words: list[str], index: str) -> list[str]:
    """What the group's script starts, under a shell of its own, at a pod's index."""
    shown = ["sh", "-c", script, "group", *words]
    run = subprocess.run(
        shown, env={"LWS_WORKER_INDEX": index, "PATH": "/usr/bin:/bin"}, capture_output=True, check=True, timeout=20
    )
    return run.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize(("index", "expected"), [("0", ["a b", "$(c)", '"']), ("1", ["d", ""]), ("12", ["d", ""])])
def test_the_script_of_a_group_starts_the_leaders_words_or_the_workers(index: str, expected: list[str]) -> None:
    show = ["printf", "%s\\0"]
    words = ["5", *show, "a b", "$(c)", '"', *show, "d", ""]
    assert first_words(GROUP_SCRIPT, words, index) == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_a_group_runs_what_target_lws_runs_but_for_the_decode_port(engine: str) -> None:
    by_server = ExportOptions(ranks="server")
    body = values(llm_d(example_plan(), engine, options=by_server))["01.values.yaml"]
    others = render(example_plan(), engine=engine, options=by_server)
    lws = [load_documents(others[f]) for f in ("01-h200-0.yaml", "02-h20-0.yaml")]
    for role, documents in zip(("prefill", "decode"), lws, strict=True):
        group = next(iter(documents))["spec"]["leaderWorkerTemplate"]
        both = [group[key]["spec"]["containers"][0] for key in ("leaderTemplate", "workerTemplate")]
        words = [one["command"] + one["args"] for one in both]
        port = "8000" if role == "prefill" else "8200"
        words = [[word for word in one if not word.startswith("--shutdown-timeout=")] for one in words]
        moved = [[re.sub(r"^--port=\d+$", f"--port={port}", word) for word in one] for one in words]
        container = body[role]["containers"][0]
        assert container["command"] == ["sh", "-c", GROUP_SCRIPT, "group"]
        assert container["args"] == [str(len(moved[0])), *moved[0], *moved[1]]
        assert "readinessProbe" not in container


@pytest.mark.parametrize(("engine", "connector"), [("vllm", "nixlv2"), ("sglang", "sglang")])
def test_decode_stands_behind_the_sidecar_and_prefill_takes_the_same_port(engine: str, connector: str) -> None:
    body = values(llm_d(phases(1, 1), engine))["01.values.yaml"]
    proxy = body["routing"]["proxy"]
    assert (body["routing"]["servicePort"], proxy["targetPort"], proxy["connector"]) == (8000, 8200, connector)
    assert not proxy["image"].endswith(":latest")
    for role, port in (("prefill", 8000), ("decode", 8200)):
        container = body[role]["containers"][0]
        assert f"--port={port}" in container["args"]
        assert container["ports"][0] == {"name": "http", "containerPort": port}
        assert container["readinessProbe"]["httpGet"]["port"] == "http"


def test_pods_go_to_the_inventorys_nodes_and_pins_take_the_affinitys_place() -> None:
    prefill = values(llm_d(placed_plan()))["01.values.yaml"]["prefill"]
    assert prefill["acceleratorTypes"] == {"labelKey": "nvidia.com/gpu.product", "labelValues": ["NVIDIA-H200"]}
    pinned = values(llm_d(placed_plan(), options=ExportOptions(pin_nodes=True)))["01.values.yaml"]["prefill"]
    assert "acceleratorTypes" not in pinned
    assert pinned["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H200"}
    terms = pinned["extraConfig"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] == [f"h{n}.example" for n in range(4)]


def test_options_reach_the_release() -> None:
    options = ExportOptions(queue="serving", priority_class="llm", model_volume="weights")
    files = llm_d(placed_plan(), options=options)
    body = values(files)["01.values.yaml"]
    assert body["modelArtifacts"]["labels"]["kueue.x-k8s.io/queue-name"] == "serving"
    assert body["decode"]["priorityClassName"] == "llm"
    assert body["decode"]["containers"][0]["mountModelVolume"] is False
    assert {"name": "model", "persistentVolumeClaim": {"claimName": "weights"}} in body["decode"]["volumes"]
    assert {"priority-class.yaml", "model-volume.yaml"} <= set(files)


LEVELS = (("asw", "example.com/rack"), ("aggregation", "example.com/block"))


def test_packing_is_asked_of_the_controller_or_of_kueue() -> None:
    alone = values(llm_d(placed_plan(), options=ExportOptions(topology_labels=LEVELS)))["01.values.yaml"]
    key = "leaderworkerset.sigs.k8s.io/exclusive-topology"
    assert [alone[role]["annotations"][key] for role in ("prefill", "decode")] == [
        "example.com/rack",
        "example.com/block",
    ]
    queued = ExportOptions(topology_labels=LEVELS, queue="serving")
    body = values(llm_d(placed_plan(), options=queued))["01.values.yaml"]
    assert key not in body["prefill"]["annotations"]
    assert body["prefill"]["podAnnotations"] == {
        "kueue.x-k8s.io/podset-required-topology": "example.com/rack",
        "kueue.x-k8s.io/podset-group-name": "h200-0",
        "llm-d.ai/active-ports": "8000,8001",  # two ranks a pod, where others of the pool have more
    }
    shared = llm_d(placed_plan(shared_switch=True), options=ExportOptions(topology_labels=LEVELS))
    assert "WARNING: not asked for below: without a Kueue queue" in shared["01.values.yaml"]


def test_the_models_volume_is_sized_from_the_model() -> None:
    body = values(llm_d(example_plan()))["01.values.yaml"]
    container = body["decode"]["containers"][0]
    assert container["mountModelVolume"] is True
    gib = int(body["modelArtifacts"]["size"].removesuffix("Gi"))
    assert MODEL.weights_gb * 1e9 / 2**30 < gib < 1.3 * MODEL.weights_gb * 1e9 / 2**30


@pytest.mark.parametrize(
    ("parallel", "told"),
    [
        (ParallelConfig(tp=16, dp=1), "tp 16 x pp 1 GPUs must be one stage within a pod of 8"),
        (ParallelConfig(tp=4, dp=1, pp=2), "tp 4 x pp 2 GPUs must be one stage within a pod of 8"),
    ],
)
def test_ranks_that_the_chart_cannot_count_are_refused(parallel: ParallelConfig, told: str) -> None:
    wide = island("H20-9", "H20", Phase.DECODE, parallel)
    with pytest.raises(ExportError, match=told) as refused:
        llm_d(plan_of((PREFILL, wide)))
    assert (refused.value.exit_status, "H20-9" in refused.value.message) == (3, True)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["a{{ .Release }}", '{{ fail "x" }}'])
def test_names_that_helm_would_expand_are_refused(engine: str, name: str) -> None:
    with pytest.raises(InputError, match=r"must not hold \{\{"):
        llm_d(plan_of((PREFILL, DECODE), name=name), engine)
    with pytest.raises(InputError, match=r"Model, name: must not hold \{\{"):
        llm_d(plan_of((PREFILL, DECODE), model=replace(MODEL, name=name)), engine)


def test_two_vendors_get_their_own_resources_and_images() -> None:
    types = (gpu("H20"), gpu("MI300X", vendor="AMD", node_selector=(("amd.com/gpu.family", "AI"),)))
    islands = (island("a", "H20", Phase.PREFILL, SMALL), island("b", "MI300X", Phase.DECODE, SMALL))
    options = ExportOptions(images=(("AMD", "example/rocm:1"),))
    body = values(llm_d(plan_of(islands, gpus=types), options=options))["01.values.yaml"]
    assert (body["prefill"]["accelerator"], body["decode"]["accelerator"]) == ({"type": "nvidia"}, {"type": "amd"})
    container = body["decode"]["containers"][0]
    assert (container["image"], container["resources"]["limits"]["amd.com/gpu"]) == ("example/rocm:1", 8)


ONE, TWO, LIST = "01.values.yaml", "02.values.yaml", "releases.yaml"
