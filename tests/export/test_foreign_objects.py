"""Engines in objects that the planner did not write: which they are, and what their command lines say."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from planner.domain import ParallelConfig, Phase
from planner.domain.advice import EngineStart, RunningDeployment
from planner.errors import InputError
from planner.export.engines.started import dialect_of, dialect_of_image, engine_start, image_version
from planner.export.objects.commands import container_commands, shell_commands
from planner.export.objects.running import ForeignObject, foreign_objects, running_deployments

FOLDER = Path(__file__).parents[1] / "cli" / "foreign_cluster"


def start_of(line: str) -> EngineStart:
    dialect, words = dialect_of(line.split()) or pytest.fail("no engine")
    return engine_start(dialect, words)


def deployments() -> dict[str, RunningDeployment]:
    texts = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.yaml"))}
    return {item.name: item for item in running_deployments(foreign_objects(texts, "folder"))}


def pod(container: Mapping[str, Any], **spec: Any) -> ForeignObject:
    body = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", **container}], **spec}}
    return ForeignObject(file="f.yaml", body=body)


def only(*objects: ForeignObject) -> RunningDeployment:
    (deployment,) = running_deployments(objects)
    return deployment


def test_engines_are_found_and_nothing_else() -> None:
    """Neither a router, nor a web server, an init container, nor pods of what is read already."""
    assert set(deployments()) == {
        "chat-llama70b-deployment-vllm", "summarise", "sgl-qwen", "large", "by-script", "odd",
    }  # fmt: skip


def test_a_deployment_of_the_production_stack() -> None:
    chat = deployments()["chat-llama70b-deployment-vllm"]
    start = chat.start
    assert (start.engine, chat.version, start.model) == ("vllm", "0.18.0", "meta-llama/Llama-3.1-70B-Instruct")
    assert (start.parallel, chat.copies, chat.claimed_gpus) == (ParallelConfig(tp=4, dp=1), 4, 16)
    assert (start.context, start.sequences, start.tokens_per_step) == (16_000, 64, 8192)
    assert start.served_as == ("chat",)
    assert dict(chat.node_labels) == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert chat.reasons == start.notes == ()


def test_arguments_out_of_the_environment_and_a_config_map() -> None:
    summarise = deployments()["summarise"]
    assert summarise.start.model == "Qwen/Qwen3-32B"
    assert (summarise.start.parallel.tp, summarise.start.context) == (2, 8192)
    assert summarise.scaled_by == "HorizontalPodAutoscaler summarise"
    notes = " ".join(summarise.start.notes)
    assert "--enforce-eager is not priced" in notes
    assert "--some-new-flag" in notes
    assert "hidden-value" not in notes  # what a strange flag has may be a secret
    assert dict(summarise.node_labels) == {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}


def test_a_shell_that_starts_sglang() -> None:
    sglang = deployments()["sgl-qwen"]
    start = sglang.start
    assert (start.engine, sglang.version, start.model) == ("sglang", "0.5.21", "Qwen/Qwen3-30B-A3B")
    assert (start.sequences, start.tokens_per_step, start.cache_format) == (128, 8192, "fp8_e4m3")
    assert sglang.copies == 3


def test_a_copy_over_two_nodes() -> None:
    large = deployments()["large"]
    assert (large.copies, large.pods_per_copy, large.claimed_gpus, large.used_gpus) == (1, 2, 16, 16)
    assert large.start.parallel == ParallelConfig(tp=8, dp=1, pp=2)


def test_what_cannot_be_read_is_told_with_its_field() -> None:
    told = deployments()["by-script"].reasons
    assert len(told) == 1
    assert told[0].startswith("spec.template.spec.containers[vllm]: the engine must be started by its command")
    assert "/scripts/start.sh" in told[0]
    assert deployments()["odd"].reasons == ("its degrees take 8 GPUs a copy, and its pods claim 4",)


@pytest.mark.parametrize(
    ("line", "parallel", "copies"),
    [
        ("vllm serve m -tp 8", ParallelConfig(tp=8, dp=1), 1),
        ("/usr/bin/vllm serve m --tensor_parallel_size=2 -pp 2", ParallelConfig(tp=2, dp=1, pp=2), 1),
        ("python -m vllm.entrypoints.openai.api_server --model m -dp=4", ParallelConfig(tp=1, dp=4), 1),
        ("sglang serve --model m --tp 8 --dp 4 --enable-dp-attention", ParallelConfig(tp=2, dp=4), 1),
        ("python3 -m sglang.launch_server --model-path m --tp-size 4 --dp-size 2", ParallelConfig(tp=4, dp=1), 2),
    ],
)
def test_degrees_in_every_form(line: str, parallel: ParallelConfig, copies: int) -> None:
    """SGLang's groups share the GPUs of a stage where attention is split over them; else each is a server."""
    start = start_of(line)
    assert (start.model, start.parallel, start.copies) == ("m", parallel, copies)
    assert start.gaps == ()


def test_limits_of_sglang_are_shared_out_over_groups() -> None:
    start = start_of("sglang serve --model m --tp 8 --dp 4 --enable-dp-attention --max-running-requests 64 "
                     "--chunked-prefill-size 32768")  # fmt: skip
    assert (start.sequences, start.tokens_per_step) == (16, 8192)


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        ("sglang serve --model m --disaggregation-mode prefill", Phase.PREFILL),
        ("sglang serve --model m --disaggregation-mode=decode", Phase.DECODE),
        ('vllm serve m --kv-transfer-config {"kv_role":"kv_producer"}', Phase.PREFILL),
        ('vllm serve m --kv-transfer-config={"kv_role":"kv_consumer"}', Phase.DECODE),
        ('vllm serve m --kv-transfer-config {"kv_role":"kv_both"}', Phase.MIXED),
        ("vllm serve m", Phase.MIXED),
    ],
)
def test_roles(line: str, phase: Phase) -> None:
    assert start_of(line).phase is phase


@pytest.mark.parametrize(
    ("line", "gap"),
    [
        ("vllm serve --port 1", "must name a model"),
        ("vllm serve $(MODEL)", "must stand in its command line or environment"),
        ("vllm serve m -tp eight", "--tensor-parallel-size must be a number above 0, got 'eight'"),
        ("vllm serve m --kv-transfer-config x", "must be JSON"),
        ("sglang serve --model m --tp 8 --dp 3 --enable-dp-attention", "must share out the 8 GPUs"),
    ],
)
def test_what_a_command_line_leaves_open_is_a_gap(line: str, gap: str) -> None:
    assert any(gap in told for told in start_of(line).gaps)


@pytest.mark.parametrize(
    "line", ["vllm serve m --gpu-memory-utilization {}", "sglang serve --model m --mem-fraction-static={}"]
)
def test_little_memory_is_told(line: str) -> None:
    """Engines are priced with nine tenths of it."""
    assert any("less memory than is priced" in note for note in start_of(line.format(0.5)).notes)
    assert start_of(line.format(0.85)).notes == start_of(line.format("auto")).notes == ()


def test_other_programs_are_no_engine() -> None:
    for line in ("nginx", "python -m http.server", "vllm bench serve", "sglang_router.launch_router", "ray start"):
        assert dialect_of(line.split()) is None
    assert dialect_of_image("lmcache/lmstack-router:v0.1.7") is None
    assert dialect_of_image("host:5000/vllm/vllm-openai:v1@sha256:aa").engine == "vllm"  # type: ignore[union-attr]


def test_versions_of_images() -> None:
    tags = {"a/b:v0.18.0": "0.18.0", "a/b:v0.5.21-cu129": "0.5.21", "a/b:latest": "", "host:5000/a/b": "",
            "b:0.11.0.post1": "0.11.0.post1", "rocm/vllm:rocm6.4.1_vllm_0.10.1_20250909": "0.10.1",
            "rocm/vllm:rocm6.4.1": "", "b:nightly_vllm_0.11.0rc2_x": ""}  # fmt: skip
    assert {tag: image_version(tag) for tag in tags} == tags


def test_a_shell_is_read_as_it_would_run() -> None:
    script = (
        "set -e\n# vllm serve not-this\nA=x B='y z'\nexport C=$A\n"
        'cd /m && exec vllm serve "$C" \\\n  --q "$B" ; echo done'
    )
    commands = list(shell_commands(script, {}))
    assert ("exec", "vllm", "serve", "x", "--q", "y z") in commands
    assert not any("not-this" in command for command in commands)
    assert list(shell_commands("vllm serve 'unclosed", {})) == []
    assert list(shell_commands("vllm serve ${M:-standard} $UNKNOWN", {})) == [("vllm", "serve", "standard", "$UNKNOWN")]


def test_kubernetes_fills_in_what_it_knows_alone() -> None:
    container = {
        "command": ["vllm", "serve", "$(M)", "$$(M)", "$(SECRET)"],
        "env": [
            {"name": "M", "value": "m"},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ],
    }
    assert list(container_commands(container, {})) == [("vllm", "serve", "m", "$(M)", "$(SECRET)")]


def test_gpus_that_are_no_whole_ones_are_told() -> None:
    container = {"image": "vllm/vllm-openai:v0.18.0", "args": ["--model", "m"]}
    slices = only(pod({**container, "resources": {"limits": {"nvidia.com/mig-3g.40gb": 1}}}))
    assert any("must claim whole GPUs" in reason for reason in slices.reasons)
    none = only(pod(container))
    assert none.reasons == ("its container must claim GPUs (resources.limits), claims none",)


def test_several_engines_in_a_pod() -> None:
    """Neither is taken for all of it; one that claims no GPUs is a sidecar that uses the image."""

    def engine(model: str, gpus: int) -> dict[str, Any]:
        command = ["vllm", "serve", model]
        return {"name": model, "command": command, "resources": {"limits": {"nvidia.com/gpu": gpus}}}

    both = pod(engine("a", 1))
    both.body["spec"]["containers"].append(engine("b", 1))
    assert only(both).reasons == ("its pods must run one engine each to be judged, run 2 that claim GPUs",)
    sidecar = pod({"image": "vllm/vllm-openai:v0.18.0", "command": ["python3", "metrics.py"]})
    sidecar.body["spec"]["containers"].append(engine("b", 1))
    assert (only(sidecar).start.model, only(sidecar).reasons) == ("b", ())


def test_a_statefulset_of_several_nodes_a_copy() -> None:
    args = ["--model-path", "m", "--tp", "16", "--nnodes", "2"]
    container = {"name": "c", "command": ["python3", "-m", "sglang.launch_server"], "args": args,
                 "resources": {"limits": {"nvidia.com/gpu": 8}}}  # fmt: skip
    spec = {"replicas": 4, "template": {"spec": {"containers": [container]}}}
    body: dict[str, Any] = {"kind": "StatefulSet", "metadata": {"name": "s"}, "spec": spec}
    deployment = only(ForeignObject(file="f", body=body))
    assert (deployment.copies, deployment.pods_per_copy, deployment.claimed_gpus) == (2, 2, 32)
    spec["replicas"] = 3
    assert any("multiple of the 2 nodes" in reason for reason in only(ForeignObject(file="f", body=body)).reasons)


def test_an_operators_object_counts_where_nothing_of_it_does() -> None:
    container = {"name": "main", "image": "vllm/vllm-openai:v0.18.0", "args": ["m"],
                 "resources": {"limits": {"nvidia.com/gpu": "2"}}}  # fmt: skip
    owner = {"kind": "LLMInferenceService", "metadata": {"name": "o"},
             "spec": {"replicas": 3, "template": {"containers": [container]}}}  # fmt: skip
    made = {"kind": "Deployment", "metadata": {"name": "o-main", "ownerReferences": [
                {"kind": "LLMInferenceService", "name": "o"}]},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [container]}}}}  # fmt: skip
    alone = only(ForeignObject(file="f", body=owner))
    assert (alone.name, alone.copies, alone.claimed_gpus) == ("o", 3, 6)
    both = only(*(ForeignObject(file="f", body=body) for body in (owner, made)))
    assert both.name == "o-main"


def test_lists_and_texts_that_are_none() -> None:
    listed = json.dumps({"kind": "List", "items": [yaml.safe_load((FOLDER / "sglang.yaml").read_text())]})
    assert [item.name for item in foreign_objects({"a.json": listed, "values.yaml": "replicas: 2"}, "x")] == [
        "sgl-qwen"
    ]
    with pytest.raises(InputError, match=r"x/chart\.yaml: must be YAML or JSON"):
        foreign_objects({"chart.yaml": "a: {{ .Values.b }}\n  c: ["}, "x")


_WORDS = st.sampled_from(
    ["vllm", "serve", "--model", "-tp", "--tp-size=2", "$(A)", "${B}", "'", '"', "x", "sh", "-c", "", "--", "-", "8"]
)
_JSON = st.recursive(
    st.none() | st.integers(-3, 9) | _WORDS | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["containers", "command", "args", "env", "name", "value", "resources", "limits", "replicas",
                         "nvidia.com/gpu", "template", "spec", "image", "nodeSelector", "valueFrom"]), inner, max_size=4
    ),
    max_leaves=20,
)  # fmt: skip


@given(st.lists(_WORDS, max_size=8), _JSON, st.sampled_from(["Deployment", "LeaderWorkerSet", "Pod", "Odd"]))
def test_nothing_that_stands_in_an_object_breaks_the_reading(words: Sequence[str], spec: Any, kind: str) -> None:
    body = {"kind": kind, "metadata": {"name": "n", "ownerReferences": spec}, "spec": spec}
    running_deployments([ForeignObject(file="f", body=body), pod({"command": list(words)})])
