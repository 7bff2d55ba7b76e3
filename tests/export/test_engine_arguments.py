"""Engine arguments: every engine's own GPU arithmetic, read back the way the engine reads it."""

import json
import shutil
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from export_plans import MODEL, PREFILL, UNSHARED, gpu, island, plan_of
from quick_yaml import load_documents

from planner.domain import ENGINE_MEMORY_SHARE, PHASES, MlaAttention, ParallelConfig, Phase, PlannedIsland
from planner.domain.model import Indexer
from planner.errors import ExportError, InconsistentPlanError
from planner.export import ExportOptions, render

# (tp, dp, GPUs a host) -> (pods, GPUs a pod): the largest divisor that no tensor-parallel group straddles
GROUPINGS = {
    (1, 1, 8): (1, 1),
    (1, 8, 8): (1, 8),
    (8, 1, 8): (1, 8),
    (1, 32, 8): (4, 8),
    (4, 4, 8): (2, 8),
    (16, 1, 8): (2, 8),
    (16, 2, 8): (4, 8),
    (2, 6, 8): (2, 6),
    (1, 37, 8): (37, 1),
    (4, 3, 8): (3, 4),
    (8, 2, 4): (4, 4),
    (1, 72, 4): (18, 4),
}


def group_of(other: PlannedIsland, engine: str, **changes: Any) -> dict[str, Any]:
    """The rendered group of `other`, beside an island of the other phase."""
    phase = Phase.DECODE if other.phase is Phase.PREFILL else Phase.PREFILL
    stages = other.parallel.pp if other.parallel else 1  # SGLang hands caches over between as many
    partner = island("partner", "H200", phase, ParallelConfig(tp=8, dp=1, pp=stages))
    types = (gpu("H200"), gpu("H20", gpus_per_host=changes.pop("gpus_per_host", 8)))
    options = ExportOptions(ranks=changes.pop("ranks", "auto"))
    files = render(plan_of((other, partner), gpus=types, **changes), engine=engine, options=options)
    workload = next(iter(load_documents(next(iter(files.values())))))
    group: dict[str, Any] = workload["spec"]["leaderWorkerTemplate"]
    return group


def containers(group: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Leader and worker container; no worker in a group of one pod."""
    worker = group["workerTemplate"]["spec"]["containers"][0]
    if "leaderTemplate" not in group:
        return worker, None
    return group["leaderTemplate"]["spec"]["containers"][0], worker


def flags(container: dict[str, Any]) -> dict[str, str]:
    """Flag -> value."""
    pairs = (a[2:].partition("=") for a in container["args"] if a.startswith("--"))
    return {name: value for name, _, value in pairs}


def environment(container: dict[str, Any]) -> dict[str, str]:
    """Variables with a fixed value."""
    return {e["name"]: e["value"] for e in container.get("env", []) if "value" in e}


def an_island(tp: int, dp: int, phase: Phase = Phase.DECODE, batch_size: int = 64) -> PlannedIsland:
    return island("H20-x", "H20", phase, ParallelConfig(tp=tp, dp=dp), batch_size=batch_size)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(("shape", "expected"), GROUPINGS.items())
def test_pods_multiply_out_exactly(engine: str, shape: tuple[int, int, int], expected: tuple[int, int]) -> None:
    tp, dp, host = shape
    group = group_of(an_island(tp, dp), engine, gpus_per_host=host, model=UNSHARED)
    gpus = containers(group)[0]["resources"]["limits"]["nvidia.com/gpu"]
    assert (group["size"], gpus) == expected


def run_start_rank_script(container: dict[str, Any], index: int) -> list[str]:
    """What the shell makes of a worker's command in the pod `index`, with `echo` for the engine."""
    assert container["command"][:2] == ["sh", "-c"]
    arguments = [a.replace("$(LWS_WORKER_INDEX)", str(index)) for a in container["args"]]
    assert arguments[2:4] == ["vllm", "serve"]
    shell = shutil.which("sh")
    assert shell is not None
    command = [shell, "-c", *container["command"][2:], *arguments[:2], "printf", "%s\n", *arguments[4:]]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def worker_start_rank(container: dict[str, Any], index: int) -> int:
    if container["command"][0] == "sh":
        arguments = run_start_rank_script(container, index)
    else:
        arguments = [a.replace("$(LWS_WORKER_INDEX)", str(index)) for a in container["args"]]
    return int(next(a for a in arguments if a.startswith("--data-parallel-start-rank=")).split("=")[1])


@pytest.mark.parametrize(("tp", "dp"), [(1, 32), (4, 4), (2, 6), (1, 37), (8, 2)])
def test_vllm_ranks_cover_every_rank_once(tp: int, dp: int) -> None:
    group = group_of(an_island(tp, dp), "vllm", ranks="server")
    leader, worker = containers(group)
    assert worker is not None
    local = int(flags(leader)["data-parallel-size-local"])
    ranks = list(range(local))
    for index in range(1, group["size"]):
        start = worker_start_rank(worker, index)
        ranks += range(start, start + local)
    assert ranks == list(range(dp))
    assert local * tp == leader["resources"]["limits"]["nvidia.com/gpu"]


def test_the_vllm_leader_gets_no_start_rank_and_workers_are_headless() -> None:
    leader, worker = containers(group_of(an_island(1, 32), "vllm", ranks="server"))
    assert worker is not None
    assert "headless" not in flags(leader)
    assert "data-parallel-start-rank" not in flags(leader)
    assert leader["command"] == ["vllm", "serve"]
    assert "headless" in flags(worker)
    assert "api-server-count" not in flags(worker)
    for container in (leader, worker):
        assert flags(container)["data-parallel-address"] == "$(LWS_LEADER_ADDRESS)"
        assert flags(container)["data-parallel-rpc-port"] == "13345"


def test_a_tensor_parallel_group_over_pods_uses_vllms_multi_node_form() -> None:
    group = group_of(an_island(16, 2), "vllm")
    leader, worker = containers(group)
    assert worker is not None
    for container in (leader, worker):
        values = flags(container)
        assert (values["nnodes"], values["node-rank"]) == ("4", "$(LWS_WORKER_INDEX)")
        assert values["master-addr"] == "$(LWS_LEADER_ADDRESS)"
        assert "data-parallel-size-local" not in values
        assert "data-parallel-start-rank" not in values
    assert "headless" in flags(worker)
    assert "headless" not in flags(leader)


def test_vllm_decode_arguments() -> None:
    values = flags(containers(group_of(an_island(1, 32), "vllm"))[0])
    assert values["all2all-backend"] == "deepep_low_latency"
    assert "enable-expert-parallel" in values
    assert values["max-num-seqs"] == "64"
    assert values["max-num-batched-tokens"] == "256"
    assert values["max-model-len"] == str(4095 + 2000)
    assert values["kv-cache-dtype"] == "fp8"
    assert json.loads(values["kv-transfer-config"]) == {
        "kv_connector": "NixlConnector",
        "kv_role": "kv_consumer",
        "kv_load_failure_policy": "fail",
    }


def test_vllm_prefill_arguments() -> None:
    container = containers(group_of(an_island(4, 4, Phase.PREFILL, 2), "vllm"))[0]
    values = flags(container)
    assert values["all2all-backend"] == "deepep_high_throughput"
    assert values["max-num-seqs"] == "2"
    assert values["max-num-batched-tokens"] == "16384"
    assert json.loads(values["kv-transfer-config"])["kv_role"] == "kv_producer"
    address = next(e for e in container["env"] if e["name"] == "VLLM_NIXL_SIDE_CHANNEL_HOST")
    assert address["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_one_gpu_has_no_parallel_flags() -> None:
    vllm = flags(containers(group_of(an_island(1, 1), "vllm"))[0])
    assert not {"enable-expert-parallel", "data-parallel-size", "all2all-backend", "nnodes"} & set(vllm)
    sglang = flags(containers(group_of(an_island(1, 1), "sglang"))[0])
    assert not {"ep-size", "dp-size", "moe-a2a-backend", "enable-dp-attention", "nnodes"} & set(sglang)


def test_bf16_kv_sets_no_cache_type_and_context_is_the_models_at_most() -> None:
    small = replace(MODEL, kv_bytes=2.0, max_context=4096)
    for engine, key in (("vllm", "max-model-len"), ("sglang", "context-length")):
        values = flags(containers(group_of(an_island(1, 8), engine, model=small))[0])
        assert "kv-cache-dtype" not in values
        assert values[key] == "4096"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_cache_of_16_bits_is_told_where_the_engine_might_take_another(engine: str) -> None:
    """A checkpoint of modelopt may say FP8, which an engine that is told nothing heeds."""
    modelopt = replace(MODEL, kv_bytes=2.0, quantization="modelopt")
    mla = next(kind for kind, _ in modelopt.attentions if isinstance(kind, MlaAttention))
    sparse = replace(mla, indexer=Indexer(heads=64, dim=128, top=2048))
    groups = tuple(replace(group, attention=sparse) for group in modelopt.groups)
    for model in (modelopt, replace(modelopt, quantization="", groups=groups)):
        assert flags(containers(group_of(an_island(1, 8), engine, model=model))[0])["kv-cache-dtype"] == "bfloat16"


def test_sglang_counts_gpus_requests_and_tokens_for_the_whole_engine() -> None:
    leader, worker = containers(group_of(an_island(4, 4), "sglang"))
    values = flags(leader)
    assert leader["args"] == worker["args"]
    assert (values["tp-size"], values["dp-size"], values["ep-size"]) == ("16", "4", "16")
    assert "enable-dp-attention" in values
    assert values["max-running-requests"] == str(64 * 4)
    assert (values["moe-a2a-backend"], values["deepep-mode"]) == ("deepep", "low_latency")
    assert (values["nnodes"], values["node-rank"]) == ("2", "$(LWS_WORKER_INDEX)")
    assert values["dist-init-addr"] == "$(LWS_LEADER_ADDRESS):5000"
    assert (values["disaggregation-mode"], values["kv-cache-dtype"]) == ("decode", "fp8_e4m3")
    assert environment(leader)["SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK"] == "128"


def test_sglang_prefill_arguments() -> None:
    values = flags(containers(group_of(an_island(4, 4, Phase.PREFILL, 2), "sglang"))[0])
    assert values["deepep-mode"] == "normal"
    assert values["chunked-prefill-size"] == str(16384 * 4)
    assert values["max-prefill-tokens"] == "16384"
    assert values["prefill-max-requests"] == "2"
    assert values["disaggregation-transfer-backend"] == "nixl"
    assert values["disaggregation-bootstrap-port"] == "8998"


def test_sglang_runs_a_tensor_parallel_group_over_pods() -> None:
    values = flags(containers(group_of(an_island(16, 1), "sglang"))[0])
    assert (values["tp-size"], values["nnodes"]) == ("16", "2")
    assert "enable-dp-attention" not in values


@pytest.mark.parametrize(
    ("dp", "phase", "batch", "deepep"),
    [
        (8, Phase.DECODE, 64, True),
        (4, Phase.PREFILL, 2, True),
        (160, Phase.PREFILL, 2, True),
        (168, Phase.PREFILL, 2, False),  # 21 nodes, the throughput kernels know 20
        (168, Phase.DECODE, 64, True),
        (12, Phase.DECODE, 64, False),  # neither within a node nor whole nodes
        (8, Phase.DECODE, 2048, False),  # more tokens a step than the low-latency kernels take
    ],
)
def test_deepep_where_its_kernels_fit(dp: int, phase: Phase, batch: int, deepep: bool) -> None:
    one = an_island(1, dp, phase, batch)
    vllm = flags(containers(group_of(one, "vllm"))[0])["all2all-backend"]
    sglang = flags(containers(group_of(one, "sglang", model=UNSHARED))[0])["moe-a2a-backend"]
    assert vllm.startswith("deepep_") is deepep
    assert vllm == "allgather_reducescatter" or deepep
    assert sglang == ("deepep" if deepep else "none")


def test_experts_are_filled_up_to_the_same_number_on_every_gpu() -> None:
    wide = an_island(1, 144)
    vllm = flags(containers(group_of(wide, "vllm"))[0])
    assert json.loads(vllm["eplb-config"]) == {"num_redundant_experts": 32}
    assert "enable-eplb" in vllm
    assert flags(containers(group_of(wide, "sglang"))[0])["ep-num-redundant-experts"] == "32"
    assert "eplb-config" not in flags(containers(group_of(an_island(1, 128), "vllm"))[0])


@pytest.mark.parametrize(("batch", "depth"), [(511, None), (512, "2048"), (1023, "2048"), (1024, "4096")])
def test_large_batches_deepen_the_nvshmem_queue(batch: int, depth: str | None) -> None:
    """DeepEP asserts depth >= 2 x (tokens + 1); NVSHMEM starts with 1024."""
    for engine in ("vllm", "sglang"):
        container = containers(group_of(an_island(1, 8, batch_size=batch), engine))[0]
        assert environment(container).get("NVSHMEM_QP_DEPTH") == depth


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_heads_that_do_not_divide_name_the_island(engine: str) -> None:
    with pytest.raises(ExportError, match=r"Island H20-x, parallel.tp: must divide the model's 128"):
        group_of(an_island(3, 8), engine)


def test_an_island_that_its_parallelism_does_not_fill_is_named() -> None:
    wrong = replace(an_island(1, 8), size=9)
    with pytest.raises(InconsistentPlanError, match=r"Island H20-x, parallel: .* its 9 GPUs"):
        group_of(wrong, "vllm")


def test_a_route_to_an_island_of_the_other_phase_is_named() -> None:
    from export_plans import route

    rows = (route(PREFILL.id, Phase.PREFILL, 0, 1.0), route(PREFILL.id, Phase.DECODE, 0, 1.0))
    with pytest.raises(InconsistentPlanError, match=r"decode 0-2047: must name an island that serves decode"):
        render(plan_of((PREFILL,), routing=rows))


@pytest.mark.parametrize("phase", list(PHASES))
def test_memory_shares_are_those_that_the_cost_model_counts_on(phase: Phase) -> None:
    """vLLM's share is of weights, cache and buffers, SGLang's of weights and cache: both leave the cache the same room.

    141 GB: 16 384 prompt tokens take 5.9 GB of buffers at TP1, so SGLang gets 0.859; few tokens of decode take none.
    """
    other = island("mine", "H200", phase, ParallelConfig(tp=1, dp=8))
    vllm, sglang = (flags(containers(group_of(other, engine))[0]) for engine in ("vllm", "sglang"))
    whole, static = float(vllm["gpu-memory-utilization"]), float(sglang["mem-fraction-static"])
    assert whole == ENGINE_MEMORY_SHARE
    tokens = 16_384 if phase is Phase.PREFILL else 64
    buffers = tokens * (MODEL.hidden_size * (16 + 8 * 3) + MODEL.widest_dense_ffn * 4) / 141e9
    assert 0 <= static - (whole - buffers) < 0.001
    assert static == {Phase.PREFILL: 0.859, Phase.DECODE: 0.9}[phase]
