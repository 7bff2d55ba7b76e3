"""What engines refuse while they load a model is refused at export, in words, and told by the checks.

Truth from outside: SGLang 0.5.23 ends in an AssertionError (distributed/utils.py, divide) for DeepSeek-V3's shared
expert of 2048 columns on 10 to 15, 17 and 20 GPUs without DeepEP, and in a ValueError of
validate_block_quant_shapes where FP8 blocks of 128 would be cut.
"""

from dataclasses import replace
from typing import Any

import pytest
from export_plans import DENSE, MODEL, dense_layers, gpu, island, plan_of
from test_engine_arguments import an_island, containers, flags, group_of

from planner.domain import CostSettings, GroupedAttention, ModelSpec, ParallelConfig, Phase, Plan
from planner.errors import ExportError
from planner.export import render
from planner.export.engines.dialects import ENGINES
from planner.export.engines.loading import sglang_faults, trtllm_faults, vllm_faults
from planner.export.islands import serving_islands
from planner.files import load_model

CHECKS = {
    "sglang": sglang_faults,
    "vllm": vllm_faults,
    "trtllm": lambda words, island: trtllm_faults(words, {}, island),
}
DEGREES = {"vllm": "tensor-parallel-size", "sglang": "tp-size", "trtllm": "tensor_parallel_size"}

FP8 = replace(MODEL, architecture="DeepseekV3ForCausalLM", quantization="fp8", weight_block=128)
GLM = load_model("glm-4.5")
MIXTRAL = load_model("mixtral-8x7b")
GPT_OSS = load_model("gpt-oss-120b")
HALF_CACHE = replace(FP8, kv_bytes=2.0)
EXPERTS_TWICE = CostSettings(redundant_experts=32)
A100 = gpu("H20", compute_capability=8.0)
AMD = gpu("H20", vendor="AMD", compute_capability=0.0, node_selector=(("amd.com/gpu.family", "AI"),))


def a_plan(parallel: ParallelConfig, model: ModelSpec = FP8, **changes: Any) -> Plan:
    """One prefill island of eight GPUs, and the decode island in question."""
    prefill = island("H200-0", "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=1), batch_size=2)
    decode = island("H20-0", "H20", Phase.DECODE, parallel, batch_size=changes.pop("batch_size", 64))
    return plan_of((prefill, decode), model=model, **changes)


def refusal(plan: Plan, engine: str = "sglang", target: str = "lws") -> str:
    """Why the plan does not export; empty where it does."""
    try:
        render(plan, target=target, engine=engine)
    except ExportError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("ranks", [10, 11, 12, 13, 14, 15, 17, 20])
@pytest.mark.parametrize("target", ["lws", "disaggregatedset", "dynamo", "llm-d", "script"])
def test_a_shared_expert_that_ranks_do_not_divide_is_refused(ranks: int, target: str) -> None:
    told = refusal(a_plan(ParallelConfig(tp=1, dp=ranks)), target=target)
    assert "Island H20-0: SGLang cannot load deepseek-v3" in told
    assert f"--tp-size must share out the 2048 columns of the shared expert evenly, got {ranks}." in told
    assert "Export for vllm" in told
    assert "search: {method: exact, sizes: powers_of_two}" in told


@pytest.mark.parametrize("ranks", [10, 11, 13, 17])
def test_vllm_keeps_it_whole(ranks: int) -> None:
    assert not refusal(a_plan(ParallelConfig(tp=1, dp=ranks)), "vllm", "lws")


@pytest.mark.parametrize(
    ("parallel", "changes", "told"),
    [
        (ParallelConfig(tp=1, dp=8), {}, ""),  # DeepEP keeps it whole
        (ParallelConfig(tp=1, dp=24), {}, ""),
        (ParallelConfig(tp=2, dp=5), {}, "2048 columns of the shared expert evenly, got 10"),
        (ParallelConfig(tp=1, dp=13, replicas=2), {}, "got 13"),
        (ParallelConfig(tp=1, dp=16), {"batch_size": 2048}, ""),  # parts of 128, one block
        (
            ParallelConfig(tp=1, dp=32),
            {"batch_size": 2048},
            "in whole blocks of 128 FP8 weights, got 32, which gives 64",
        ),
        (ParallelConfig(tp=1, dp=32), {"batch_size": 2048, "model": MODEL}, ""),  # whose blocks nobody told
        (ParallelConfig(tp=1, dp=4), {"model": GLM}, ""),
        (ParallelConfig(tp=1, dp=12), {"model": GLM}, "160 experts (0 of them redundant) evenly, got 12"),
        (ParallelConfig(tp=1, dp=8), {"model": GLM, "cost": EXPERTS_TWICE}, "must be left out"),
        (ParallelConfig(tp=1, dp=10), {"model": GLM}, "1536 columns"),
        (ParallelConfig(tp=1, dp=12), {"model": load_model("deepseek-v2")}, ""),  # two of 1536, side by side
        (ParallelConfig(tp=1, dp=13), {"model": load_model("qwen3-235b-a22b")}, ""),  # no shared expert
        (
            ParallelConfig(tp=1, dp=24),
            {"gpus": (A100, gpu("H200")), "model": HALF_CACHE},
            "got 24",
        ),  # no DeepEP for these
        (ParallelConfig(tp=4, dp=2), {"gpus": (A100, gpu("H200")), "model": HALF_CACHE}, ""),
        (ParallelConfig(tp=1, dp=13), {"gpus": (AMD, gpu("H200"))}, ""),  # where it may be one of the experts
    ],
)
def test_sglang_loads_what_divides(parallel: ParallelConfig, changes: dict[str, Any], told: str) -> None:
    came = refusal(a_plan(parallel, **changes))
    assert told in came
    assert bool(told) == bool(came)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("model", "parallel", "told"),
    [
        (
            replace(DENSE, groups=dense_layers(DENSE.grouped[0], 28670)),
            ParallelConfig(tp=4, dp=1),
            "28670 columns of the dense feed-forward",
        ),
        (replace(DENSE, vocab_size=96), ParallelConfig(tp=16, dp=1), ""),
        (replace(DENSE, vocab_size=100, weight_block=128), ParallelConfig(tp=8, dp=1), ""),
        (
            replace(DENSE, groups=dense_layers(DENSE.grouped[0], 28672 + 64), weight_block=128),
            ParallelConfig(tp=4, dp=1),
            "blocks of 128",
        ),
        (
            replace(DENSE, groups=dense_layers(GroupedAttention(heads=48, kv_heads=8, head_dim=128))),
            ParallelConfig(tp=3, dp=1),
            "8 copies of KV heads evenly, got 3",
        ),
        (
            replace(DENSE, groups=dense_layers(GroupedAttention(heads=48, kv_heads=48, head_dim=128)), vocab_size=64),
            ParallelConfig(tp=3, dp=1),
            "64 rows of the padded vocabulary evenly, got 3",
        ),
    ],
)
def test_what_both_engines_split_over_a_group(
    engine: str, model: ModelSpec, parallel: ParallelConfig, told: str
) -> None:
    plan = plan_of((island("H20-0", "H20", Phase.DECODE, parallel),), model=model)
    (only,) = serving_islands(plan, "plan")
    faults = [
        expected + ", got " + came for expected, came in CHECKS[engine]((f"--{DEGREES[engine]}={parallel.tp}",), only)
    ]
    assert any(told in fault for fault in faults) if told else not faults


def test_experts_that_do_not_come_out_even_are_told() -> None:
    (prefill, only) = serving_islands(a_plan(ParallelConfig(tp=1, dp=24)), "plan")
    assert prefill.phase is Phase.PREFILL
    line = ("--tp-size=24", "--dp-size=24", "--enable-dp-attention", "--moe-dense-tp-size=1", "--ep-size=24")
    deepep = (*line, "--moe-a2a-backend=deepep")
    assert not list(CHECKS["sglang"]((*deepep, "--ep-num-redundant-experts=8"), only))
    assert [came for _, came in CHECKS["sglang"](deepep, only)] == ["24"]
    ranks = ("--data-parallel-size=24", "--enable-expert-parallel", "--enable-eplb")
    assert not list(CHECKS["vllm"]((*ranks, '--eplb-config={"num_redundant_experts": 8}'), only))
    assert [came for _, came in CHECKS["vllm"](ranks, only)] == ["24"]


def test_no_more_gpus_than_experts_in_sglang() -> None:
    plan = a_plan(ParallelConfig(tp=1, dp=288), cost=CostSettings(redundant_experts=32))
    assert "must be at most the 256 experts of a layer, got 288" in refusal(plan)
    assert not refusal(plan, "vllm")


def test_unquantised_experts_need_one_runner_for_deepep() -> None:
    bf16 = {"model": GLM}
    values = flags(containers(group_of(an_island(1, 8), "sglang", **bf16))[0])
    assert (values["moe-a2a-backend"], values["moe-runner-backend"]) == ("deepep", "deep_gemm")
    without = render(a_plan(ParallelConfig(tp=1, dp=8), GLM, gpus=(A100, gpu("H200"))), engine="sglang")
    assert "moe-runner-backend" not in without["02-h20-0.yaml"]
    assert "moe-runner-backend" not in flags(containers(group_of(an_island(1, 8), "sglang", model=FP8))[0])


def test_what_dynamos_version_has_no_code_for_is_refused() -> None:
    newer = a_plan(ParallelConfig(tp=1, dp=8), replace(FP8, architecture="BeamForCausalLM"))
    assert "Island H200-0: sglang 0.5.21 has no code for BeamForCausalLM" in refusal(newer, target="dynamo")
    assert not refusal(newer, target="lws")
    unknown = a_plan(ParallelConfig(tp=1, dp=8), replace(FP8, architecture="FooForCausalLM"))
    assert "Island H200-0: sglang 0.5.23 has no code for FooForCausalLM" in refusal(unknown)


@pytest.mark.parametrize("quantization", ["compressed-tensors", "modelopt", "mxfp4"])
def test_deepep_is_for_the_weights_that_its_path_takes(quantization: str) -> None:
    model = replace(FP8, quantization=quantization, weight_block=0)
    assert flags(containers(group_of(an_island(1, 8), "sglang", model=model))[0])["moe-a2a-backend"] == "none"
    assert flags(containers(group_of(an_island(1, 8), "vllm", model=model))[0])["all2all-backend"].startswith("deepep")


def test_models_whose_code_has_no_such_path() -> None:
    assert flags(containers(group_of(an_island(1, 8), "sglang", model=GPT_OSS))[0])["moe-a2a-backend"] == "none"
    assert flags(containers(group_of(an_island(8, 1), "sglang", model=MIXTRAL))[0])["moe-a2a-backend"] == "none"
    told = refusal(a_plan(ParallelConfig(tp=1, dp=8), MIXTRAL))
    assert "SGLang's Mixtral has no attention groups" in told
    assert not refusal(a_plan(ParallelConfig(tp=1, dp=8), MIXTRAL), "vllm")


def test_mxfp4_experts_that_sglang_widens_are_told() -> None:
    plan = a_plan(ParallelConfig(tp=1, dp=8), GPT_OSS)
    assert "turns MXFP4 experts that are spread over GPUs into BF16" in "".join(render(plan, engine="sglang").values())
    assert "into BF16" not in "".join(render(plan, engine="vllm").values())


def test_wider_layers_than_the_low_latency_kernels_take() -> None:
    wide = replace(FP8, hidden_size=16384)
    assert (
        flags(containers(group_of(an_island(1, 8), "vllm", model=wide))[0])["all2all-backend"]
        == "allgather_reducescatter"
    )


def test_a_refusal_ends_the_command_in_3() -> None:
    with pytest.raises(ExportError, match="cannot load") as refused:
        render(a_plan(ParallelConfig(tp=1, dp=13)), engine="sglang")
    assert refused.value.exit_status == 3
