"""Names, labels, images and model locations from outside: quoted, made into DNS labels, or refused."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from export_plans import DECODE, MODEL, PREFILL, example_plan, gpu, plan_of
from hypothesis import given
from hypothesis import strategies as st
from quick_yaml import load_documents

from planner.domain import ParallelConfig, Phase
from planner.errors import InputError
from planner.export import ExportOptions, render

DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def test_a_hostile_plan_name_reaches_no_value_unquoted() -> None:
    hostile = "chat\nkind: Secret\n--- # `rm -rf /` $(HOME) \u2028 {{ x }} 'q' \"q\""
    files = render(example_plan(hostile), options=ExportOptions(name="chat"), router="none")
    clean = render(example_plan("chat"), router="none")
    told = " ".join(hostile.split())
    for name, text in files.items():
        objects = list(load_documents(text))
        assert _renamed(objects, told, "chat") == list(load_documents(clean[name]))
        comments = [line for line in text.splitlines() if line.startswith("# Island")]
        assert all("\u2028" not in line for line in comments)


def _renamed(objects: list[dict[str, Any]], old: str, new: str) -> list[dict[str, Any]]:
    """The plan's own name, which annotations and the routing table's head quote, replaced."""
    for thing in objects:
        annotations = thing["metadata"].get("annotations")
        if annotations:
            assert annotations["planner/plan"] == old
            annotations["planner/plan"] = new
        if thing["kind"] == "ConfigMap":
            assert json.loads(thing["data"]["routing.json"])["plan"]["name"] == old
            thing["data"]["routing.json"] = thing["data"]["routing.json"].replace(json.dumps(old), json.dumps(new))
    return objects


@pytest.mark.parametrize("name", ["", "!!!", "---", "日本"])
def test_plan_names_without_a_dns_label_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="Plan name"):
        render(example_plan(name))


def test_a_name_that_starts_with_a_digit_gets_a_letter_in_front() -> None:
    files = render(example_plan("9-lives"))
    assert "name: plan-9-lives-h200-0\n" in files["01-h200-0.yaml"]


def test_long_names_are_cut_and_stay_apart() -> None:
    ones, twos = (object_names(render(example_plan("a" * 59 + tail))) for tail in ("x", "y"))
    assert not ones & twos
    assert max(map(len, ones)) <= 63
    files = render(example_plan("a" * 60), options=ExportOptions(name="short"))
    assert "name: short-h200-0\n" in files["01-h200-0.yaml"]


def object_names(files: dict[str, str]) -> set[str]:
    return {thing["metadata"]["name"] for text in files.values() for thing in load_documents(text)}


def test_island_ids_that_become_one_label_are_refused() -> None:
    twin = replace(DECODE, id="h200.0", gpu="H20")
    with pytest.raises(InputError, match=r"'H200-0' and 'h200\.0': must differ"):
        render(plan_of((PREFILL, twin)))


@given(st.text(min_size=1, max_size=20))
def test_any_name_gives_dns_labels_or_an_input_error(name: str) -> None:
    try:
        files = render(example_plan(name))
    except InputError:
        return
    for text in files.values():
        for thing in load_documents(text):
            assert DNS_LABEL.fullmatch(thing["metadata"]["name"])


@pytest.mark.parametrize(
    "uri",
    [
        "hf://org/name; rm -rf /",
        "hf://org/$(HOME)",
        "hf://org",
        "hf://../name",
        "--config=/etc/passwd",
        "s3://bucket/model",
        "/models/../etc",
        "/models/a b",
    ],
)
def test_unusual_model_locations_are_refused(uri: str) -> None:
    with pytest.raises(InputError, match="Model deepseek-v3, uri: must be"):
        render(plan_of((PREFILL, DECODE), model=replace(MODEL, uri=uri)))


def test_manifests_need_to_know_where_weights_lie() -> None:
    """A plan does not."""
    with pytest.raises(InputError, match="Model deepseek-v3: uri must be given for manifests") as refused:
        render(plan_of((PREFILL, DECODE), model=replace(MODEL, uri="")))
    assert "uri: hf://ORG/NAME" in refused.value.hint


@pytest.mark.parametrize(
    ("uri", "location"), [("hf://org/a.b-c_1", "org/a.b-c_1"), ("/models/deepseek", "/models/deepseek")]
)
def test_model_locations_that_engines_load(uri: str, location: str) -> None:
    plan = plan_of((PREFILL, DECODE), model=replace(MODEL, uri=uri))
    for engine, prefix in (("vllm", ""), ("sglang", "--model-path=")):
        workload = next(iter(load_documents(render(plan, engine=engine)["01-h200-0.yaml"])))
        pod = workload["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]
        assert f"{prefix}{location}" in pod["containers"][0]["args"]


@pytest.mark.parametrize(
    ("key", "value"), [("a b", "x"), ("k", "x; y"), ("k", "v" * 64), ("k", "a\nb"), ("/k", "v"), ("", "v")]
)
def test_node_selectors_that_no_node_can_carry_are_refused(key: str, value: str) -> None:
    types = (gpu("H200"), gpu("H20", node_selector=((key, value),)))
    with pytest.raises(InputError, match=r"GPU H20, node_selector"):
        render(plan_of((PREFILL, DECODE), gpus=types))


@pytest.mark.parametrize("value", ["on", "1e3", "0x1F", "null", "1.0", "yes"])
def test_label_values_stay_strings(value: str) -> None:
    types = (gpu("H200"), gpu("H20", node_selector=(("nvidia.com/gpu.product", value),)))
    text = render(plan_of((PREFILL, DECODE), gpus=types))["02-h20-0.yaml"]
    workload = next(iter(load_documents(text)))
    pod = workload["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": value}


@pytest.mark.parametrize(
    "image",
    ["vllm/openai", "vllm/openai:latest", "vllm/openai:nightly", "host:5000/vllm", "a b:1", ":v1", ""],
)
def test_images_that_move_are_refused(image: str) -> None:
    with pytest.raises(InputError, match=r"deploy.images\[NVIDIA\]"):
        render(example_plan(), options=ExportOptions(images=(("NVIDIA", image),)))


@pytest.mark.parametrize(
    "image", ["host:5000/team/vllm:v1.2", "vllm/vllm-openai@sha256:" + "0" * 64, "a/b:1@sha256:" + "a" * 64]
)
def test_pinned_images_are_used(image: str) -> None:
    files = render(example_plan(), options=ExportOptions(images=(("nvidia", image),)))
    assert f"image: {image}\n" in files["01-h200-0.yaml"]


@pytest.mark.parametrize(
    "options",
    [
        ExportOptions(cpus_per_gpu=0),
        ExportOptions(memory_gib_per_gpu=0),
        ExportOptions(shared_memory_gib=-1),
        ExportOptions(shared_memory_gib=65),
    ],
)
def test_impossible_sizes_are_refused(options: ExportOptions) -> None:
    with pytest.raises(InputError, match=r"deploy\."):
        render(example_plan(), options=options)


def test_gpu_names_with_spaces_become_label_values() -> None:
    from export_plans import island

    decode = island("d", "H20 96 GB", Phase.DECODE, ParallelConfig(tp=1, dp=8))
    types = (gpu("H200"), gpu("H20 96 GB", node_selector=(("nvidia.com/gpu.product", "NVIDIA-H20"),)))
    files = render(plan_of((PREFILL, decode), gpus=types))
    assert "planner/gpu: h20-96-gb\n" in files["02-d.yaml"]
