"""What engines refuse before a configuration is priced.

Truth from outside: SGLang 0.5.23 ends in an AssertionError at load for DeepSeek-V3 (shared expert of 2048 columns) on
10 to 15, 17 and 20 GPUs without DeepEP, for GLM-4.5 (1536) on 10, 11, 13; vLLM's NixlConnector hands no cache over
from or to pipeline stages; DeepEP takes 8 ranks or fewer in a node, or whole nodes.
"""

from dataclasses import replace

import pytest

from planner.cost.device import CostContext
from planner.cost.engine_rules import (
    greatest_batch,
    kv_backends,
    may_overlap,
    prefill_budgets,
    refusals,
    uses_deepep,
)
from planner.domain import PHASES, CostMode, CostSettings, EngineProfile, GpuSpec, ModelSpec, ParallelConfig, Phase
from planner.files import engine_profiles, load_engine, load_gpu_spec, load_model

SGLANG, VLLM = load_engine("sglang", "0.5.23"), load_engine("vllm", "0.33.0")
DEEPSEEK, GLM, MIXTRAL = load_model("deepseek-v3"), load_model("glm-4.5"), load_model("mixtral-8x7b")
LLAMA, QWEN, GPT_OSS = load_model("llama-3.1-70b"), load_model("qwen3-235b-a22b"), load_model("gpt-oss-120b")
H200, A100, MI300X = load_gpu_spec("H200"), load_gpu_spec("A100"), load_gpu_spec("MI300X")
NVFP4 = replace(DEEPSEEK, weight_bytes=0.5625, expert_bytes=0.5625, quantization="modelopt", weight_block=0)


def context(model: ModelSpec = DEEPSEEK, gpu: GpuSpec = H200, **settings: object) -> CostContext:
    return CostContext(gpu=gpu, model=model, settings=CostSettings(**settings))  # type: ignore[arg-type]


def refused(
    profile: EngineProfile,
    parallel: ParallelConfig,
    model: ModelSpec = DEEPSEEK,
    gpu: GpuSpec = H200,
    phase: Phase = Phase.DECODE,
    **settings: object,
) -> str:
    return "; ".join(refusals(context(model, gpu, **settings), phase, parallel, profile))


@pytest.mark.parametrize("ranks", [10, 11, 12, 13, 14, 15, 17, 20])
@pytest.mark.parametrize("phase", PHASES)
def test_sglang_cannot_split_the_shared_expert_so(ranks: int, phase: Phase) -> None:
    words = refused(SGLANG, ParallelConfig(tp=1, dp=ranks), phase=phase)
    assert "must share out the 2048 columns of the shared expert evenly (sglang 0.5.23)" in words
    assert f"got {ranks}" in words
    assert not refused(VLLM, ParallelConfig(tp=1, dp=ranks), phase=phase)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32])
def test_by_deepep_it_stays_whole(ranks: int) -> None:
    assert not refused(SGLANG, ParallelConfig(tp=1, dp=ranks))


@pytest.mark.parametrize(("ranks", "fits"), [(10, False), (11, False), (12, True), (13, False), (16, True)])
def test_another_width_divides_otherwise(ranks: int, fits: bool) -> None:
    words = refused(SGLANG, ParallelConfig(tp=1, dp=ranks), GLM)
    assert ("1536 columns of the shared expert" in words) is not fits


@pytest.mark.parametrize(
    ("profile", "model", "parallel", "words"),
    [
        (SGLANG, LLAMA, ParallelConfig(tp=8, dp=2), "dp must be 1 for llama-3.1-70b, which has no experts, got 2"),
        (VLLM, LLAMA, ParallelConfig(tp=3, dp=1), "tp must share out the 64 attention heads"),
        (SGLANG, MIXTRAL, ParallelConfig(tp=1, dp=4), "no attention groups for MixtralForCausalLM, got 4"),
        (VLLM, MIXTRAL, ParallelConfig(tp=1, dp=4), ""),
        (SGLANG, QWEN, ParallelConfig(tp=1, dp=160), "at most the 128 experts of a layer"),
        (SGLANG, MIXTRAL, ParallelConfig(tp=8, dp=1), ""),
        (SGLANG, LLAMA, ParallelConfig(tp=8, dp=1, pp=2), "hands no KV cache over to pipeline stages, got 2"),
        (VLLM, LLAMA, ParallelConfig(tp=8, dp=1, pp=2), "hands no KV cache over to pipeline stages, got 2"),
        (EngineProfile(), LLAMA, ParallelConfig(tp=8, dp=1, pp=2), ""),
        (EngineProfile(), DEEPSEEK, ParallelConfig(tp=1, dp=13), ""),
    ],
)
def test_what_each_engine_refuses(
    profile: EngineProfile, model: ModelSpec, parallel: ParallelConfig, words: str
) -> None:
    came = refused(profile, parallel, model)
    assert words in came
    assert bool(words) == bool(came)


def test_stages_of_prefill_are_handed_over_by_sglang_alone() -> None:
    stages = ParallelConfig(tp=8, dp=1, pp=2)
    assert not refused(SGLANG, stages, LLAMA, phase=Phase.PREFILL)
    assert "over from pipeline stages, got 2" in refused(VLLM, stages, LLAMA, phase=Phase.PREFILL)


def test_drafts_and_stages_do_not_go_together() -> None:
    stages = ParallelConfig(tp=8, dp=1, pp=2)
    words = refused(SGLANG, stages, phase=Phase.PREFILL, mtp_tokens=2)
    assert "drafts no tokens in pipeline stages (2 are asked for), got 2" in words
    assert not refused(SGLANG, stages, phase=Phase.PREFILL, mtp_tokens=2, mode=CostMode.REFERENCE)
    assert not refused(SGLANG, ParallelConfig(tp=8, dp=1), mtp_tokens=2)


@pytest.mark.parametrize(
    ("profile", "model", "gpu", "words"),
    [
        (load_engine("vllm", "0.18.0"), NVFP4, "MI300X", "vllm 0.18.0 loads no nvfp4 weights on MI300X"),
        (VLLM, NVFP4, "MI300X", ""),
        (
            SGLANG,
            replace(DEEPSEEK, quantization="modelopt"),
            "MI300X",
            "loads no weights of quant_method modelopt on MI",
        ),
        (VLLM, replace(DEEPSEEK, quantization="modelopt"), "MI300X", ""),
        (SGLANG, replace(DEEPSEEK, quantization="modelopt"), "H200", ""),
        (SGLANG, NVFP4, "MI355X", "sglang 0.5.23 loads no nvfp4 weights on MI355X"),
        (SGLANG, NVFP4, "H200", ""),
        (
            VLLM,
            DEEPSEEK,
            "A100",
            "an FP8 cache of latent attention from compute capability 8.9 on, that of A100 is 8.0",
        ),
        (VLLM, replace(DEEPSEEK, kv_bytes=2.0), "A100", ""),
        (SGLANG, DEEPSEEK, "MI300X", ""),
        (VLLM, GPT_OSS, "A100", ""),
        (VLLM, DEEPSEEK, "Rubin-NVL144", ""),
    ],
)
def test_formats_that_gpus_can_load(profile: EngineProfile, model: ModelSpec, gpu: str, words: str) -> None:
    came = refused(profile, ParallelConfig(tp=8, dp=1), model, load_gpu_spec(gpu))
    assert words in came
    assert bool(words) == bool(came)


@pytest.mark.parametrize(
    ("profile", "parallel", "phase", "expected"),
    [
        (SGLANG, ParallelConfig(tp=1, dp=8), Phase.DECODE, True),
        (SGLANG, ParallelConfig(tp=8, dp=1), Phase.DECODE, True),
        (VLLM, ParallelConfig(tp=8, dp=1), Phase.DECODE, False),  # ranks alone
        (VLLM, ParallelConfig(tp=1, dp=16), Phase.DECODE, True),
        (VLLM, ParallelConfig(tp=1, dp=12), Phase.DECODE, False),  # no whole nodes
        (VLLM, ParallelConfig(tp=1, dp=16), Phase.PREFILL, True),
        (VLLM, ParallelConfig(tp=1, dp=168), Phase.PREFILL, False),  # beyond its throughput kernels
        (VLLM, ParallelConfig(tp=1, dp=1), Phase.DECODE, False),
        (EngineProfile(), ParallelConfig(tp=1, dp=12), Phase.DECODE, False),
    ],
)
def test_two_micro_batches_need_deepep(
    profile: EngineProfile, parallel: ParallelConfig, phase: Phase, expected: bool
) -> None:
    assert may_overlap(context(), phase, parallel, profile) is expected


@pytest.mark.parametrize(
    ("model", "gpu"), [(LLAMA, H200), (DEEPSEEK, A100), (DEEPSEEK, MI300X), (DEEPSEEK, load_gpu_spec("L40S"))]
)
def test_nor_without_experts_or_kernels(model: ModelSpec, gpu: GpuSpec) -> None:
    parallel = ParallelConfig(tp=1, dp=8) if model.experts else ParallelConfig(tp=8, dp=1)
    for profile in engine_profiles():
        assert not may_overlap(context(model, gpu), Phase.DECODE, parallel, profile)


def test_a_batch_has_bounds() -> None:
    wide = ParallelConfig(tp=1, dp=16)
    assert greatest_batch(context(), Phase.DECODE, wide, SGLANG) == 1024  # DeepEP's low-latency kernels
    assert greatest_batch(context(mtp_tokens=1), Phase.DECODE, wide, SGLANG) == 512
    assert greatest_batch(context(gpu=MI300X), Phase.DECODE, wide, SGLANG) == 4096
    assert greatest_batch(context(), Phase.PREFILL, wide, VLLM) == 1024
    assert greatest_batch(context(LLAMA), Phase.DECODE, ParallelConfig(tp=8, dp=1), EngineProfile()) == 0
    assert not may_overlap(context(), Phase.DECODE, wide, SGLANG, batch_size=1025)
    assert not may_overlap(context(), Phase.DECODE, wide, SGLANG, batch_size=1)
    assert may_overlap(context(), Phase.DECODE, wide, SGLANG, batch_size=1024)
    assert not uses_deepep(context(), Phase.DECODE, wide, SGLANG, batch_size=1025)


def test_budgets_and_backends() -> None:
    assert all(8192 <= budget <= 32768 for profile in engine_profiles() for budget in prefill_budgets(profile))
    assert prefill_budgets(VLLM) == (8192, 16384)
    assert kv_backends(SGLANG, H200, A100) == ("nixl", "mooncake")
    assert kv_backends(SGLANG, H200, MI300X) == kv_backends(SGLANG, MI300X, H200) == ()
    assert kv_backends(EngineProfile(), H200, H200) is None
