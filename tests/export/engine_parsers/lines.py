"""The command lines of manifests as cases for a judge."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import dropwhile, pairwise
from typing import Any

from engine_parsers.installing import DYNAMOS, EXPORTED
from engine_parsers.verdicts import MODEL, Case, Gpus
from planner.domain import Plan
from planner.export import read_manifests
from planner.export.checking.faults import pod_gpus
from planner.export.engines.arguments import read_count, read_flags
from planner.export.engines.vllm import START_RANK_SCRIPT
from planner.export.found import FoundPod, FoundWorkload
from planner.files import shipped_models

_PROGRAMS = (
    ("vllm", "serve"),
    ("python3", "-m", "vllm.entrypoints.openai.api_server"),
    ("sglang", "serve"),
    ("python3", "-m", "sglang.launch_server"),
)
_LEADER = "10.0.0.1"
_WEIGHTS = "--model-path="
_WEIGHT_FLAGS = ("--model", "--model-path")
# what older shipped configurations leave out, as the planner reads nothing of it, and the engines do
_ADDED: Mapping[str, Mapping[str, Any]] = {
    "DeepseekV2ForCausalLM": {"model_type": "deepseek_v2", "scoring_func": "softmax"},
    "DeepseekV3ForCausalLM": {"model_type": "deepseek_v3", "scoring_func": "sigmoid"},
    "Glm4MoeForCausalLM": {"model_type": "glm4_moe"},
    "GptOssForCausalLM": {"model_type": "gpt_oss"},
    "LlamaForCausalLM": {"model_type": "llama"},
    "MixtralForCausalLM": {"model_type": "mixtral"},
    "Qwen3MoeForCausalLM": {"model_type": "qwen3_moe"},
}
_ARCHITECTURES = {"cdna3": "gfx942", "cdna4": "gfx950"}
_OWN = ("_planner", "auto_map")  # the latter names files of the model's repository


def model_config(name: str) -> dict[str, Any]:
    """The config.json of a shipped model as its engine would find it."""
    shipped = json.loads(shipped_models()[name])
    added = _ADDED.get(shipped["architectures"][0], {})
    return {key: value for key, value in shipped.items() if key not in _OWN} | added


def cases(files: Mapping[str, str], plan: Plan, engine: str) -> Iterator[Case]:
    """Every command line of the manifests of `plan`: the leader's, and the first and the last worker's."""
    for line in lines(files, plan, engine):
        yield line.case


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A command line of a file's object, and who has to take it: the engine's version, or Dynamo's workers of it."""

    version: str
    where: str
    case: Case


def lines(files: Mapping[str, str], plan: Plan, engine: str, config: Mapping[str, Any] | None = None) -> Iterator[Line]:
    """Every command line of the manifests of `plan`: the leader's, and the first and the last worker's. `config`: of
    the model, a shipped one's where it is not given."""
    config = config or model_config(plan.scenario.model.name)
    for manifest, kind in read_manifests(files).sound:
        for workload in kind.workloads(manifest) if kind and kind.workloads else ():
            for index, pod in _pods(workload):
                dynamo = is_dynamo(pod)
                words = (_dynamo_words if dynamo else _engine_words)(workload, pod, index, engine)
                yield Line(
                    version=next(name for name in (DYNAMOS if dynamo else EXPORTED) if engine in name),
                    where=f"{manifest.file}, {manifest.kind} {manifest.name}, pod {index}",
                    case=Case(
                        arguments=words,
                        environment=_variables(pod) | _nodes(workload, engine),
                        config=config,
                        gpu=_gpus(plan, workload, pod),
                    ),
                )


def _engine_words(workload: FoundWorkload, pod: FoundPod, index: int, engine: str) -> tuple[str, ...]:
    words = _expanded(pod.arguments or (), workload, index)
    return _behind(words, engine) if pod.command_path else (MODEL, *words)  # a preset of KServe starts vLLM


def _dynamo_words(workload: FoundWorkload, pod: FoundPod, index: int, engine: str) -> tuple[str, ...]:
    """What the container has, and behind it what Dynamo's operator adds (see targets/dynamo/engines.py)."""
    words = [str(word) for word in pod.spec["containers"][0]["args"]]
    for flag in _WEIGHT_FLAGS:
        if flag in words:
            words[words.index(flag) + 1] = MODEL
    pods = workload.pods_per_copy
    return (*words, *(_operators(pod, pods, index, engine) if pods > 1 else ()))


def _nodes(workload: FoundWorkload, engine: str) -> dict[str, str]:
    """The nodes over which Dynamo's operator starts TensorRT-LLM, which no word of the worker says."""
    return {"NODES": str(workload.pods_per_copy)} if engine == "trtllm" and workload.pods_per_copy > 1 else {}


def _operators(pod: FoundPod, pods: int, index: int, engine: str) -> tuple[str, ...]:
    nodes = ("--nnodes", str(pods), "--node-rank", str(index))
    if engine == "trtllm":
        return ()
    if engine == "sglang":
        return ("--dist-init-addr", f"{_LEADER}:29500", *nodes)
    flags = read_flags(pod.arguments or ())
    rank = read_count(flags, "tensor-parallel-size", 1) * read_count(flags, "pipeline-parallel-size", 1)
    if rank > pod_gpus(pod):
        headless = ("--headless",) if index else ()
        master = ("--master-addr", _LEADER, "--master-port", "29500")
        return ("--distributed-executor-backend", "mp", *nodes, *master, *headless)
    local = pod_gpus(pod) // rank
    start = ("--data-parallel-size-local", str(local), "--data-parallel-start-rank", str(local * index))
    return (
        "--data-parallel-hybrid-lb",
        *start,
        "--data-parallel-address",
        _LEADER,
        "--data-parallel-rpc-port",
        "13445",
    )


def _pods(workload: FoundWorkload) -> Iterator[tuple[int, FoundPod]]:
    """Pods that run the engine, and their numbers in the copy; of many of a kind the first and the last."""
    for copy in workload.copies:
        start = 0
        for pod in copy:
            if pod.arguments is not None:
                for index in sorted({start, start + pod.count - 1}):
                    yield index, pod
                start += pod.count


def _expanded(words: tuple[str, ...], workload: FoundWorkload, index: int) -> tuple[str, ...]:
    """The words with the leader's address and the pod's number, as the controller would put them in."""
    values = {workload.leader_address: _LEADER, workload.pod_index: str(index)}
    for name, value in values.items():
        words = tuple(word.replace(name, value) if name else word for word in words)
    return words


def _behind(words: tuple[str, ...], engine: str) -> tuple[str, ...]:
    """The words behind the program, with MODEL for the weights and the start rank that a script would count."""
    if engine == "trtllm":  # its judge runs the pod's words
        return tuple(MODEL if before == "serve" else word for before, word in pairwise(("", *words)))
    line = tuple(dropwhile(lambda word: word == "env" or "=" in word, words)) if words[0] == "env" else words
    counted = line[4:6] if line[1:3] == ("-c", START_RANK_SCRIPT) else ()  # sh -c SCRIPT NAME INDEX RANKS
    line = line[6:] if counted else line
    program = next((program for program in _PROGRAMS if line[: len(program)] == program), None)
    assert program is not None, words
    behind = line[len(program) :]
    if counted:
        index, ranks = map(int, counted)
        behind = (*behind, f"--data-parallel-start-rank={index * ranks}")
    if engine == "vllm":
        return (MODEL, *behind[1:])
    return tuple(f"{_WEIGHTS}{MODEL}" if word.startswith(_WEIGHTS) else word for word in behind)


def is_dynamo(pod: FoundPod) -> bool:
    """Whether Dynamo's own module starts the engine, and so gives it what it needs to know of its pod."""
    return any(word.startswith("dynamo.") for word in pod.spec["containers"][0].get("command", ()))


def variables(pod: FoundPod) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and row of each variable of the engine's container; words as `env NAME=VALUE program` count as well."""
    for row in pod.spec["containers"][0].get("env", ()):
        yield row["name"], row
    words, command = tuple(pod.arguments or ()), tuple(map(str, pod.spec["containers"][0].get("command", ())))
    started = words if words[: len(command)] == command else (*command, *words)
    for word in started[1:] if started[:1] == ("env",) else ():
        name, equals, value = word.partition("=")
        if not equals:
            return
        yield name, {"name": name, "value": value}


def _variables(pod: FoundPod) -> dict[str, str]:
    """Those with a value of their own."""
    return {name: str(row["value"]) for name, row in variables(pod) if "value" in row}


def _gpus(plan: Plan, workload: FoundWorkload, pod: FoundPod) -> Gpus:
    gpu = plan.scenario.inventory.item(workload.annotations["planner/gpu-type"]).gpu
    return Gpus(
        name=gpu.name,
        compute_capability=str(gpu.compute_capability),
        memory_bytes=int(gpu.device_gb * 1e9),
        count=pod_gpus(pod),
        architecture=_ARCHITECTURES.get(gpu.family, ""),
    )
