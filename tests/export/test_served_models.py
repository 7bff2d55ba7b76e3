"""What command lines of published models hold beyond the usual, and what engines cannot do of them.

Truth from outside: vLLM 0.33.0 asserts a layout of convolutions before it hands states over (nixl/base_worker.py), and
keeps chunks alone only when a variable allows it (config/vllm.py); SGLang 0.5.23 halves the memory between states and
KV cache where nobody says how many states there are, and hands a block index over between equals only (nixl/conn.py).
That the lines are taken is said by the engines' own parsers in `test_engine_parsers`.
"""

from dataclasses import replace

import pytest
from export_plans import gpu, island, plan_of, route
from published import model_of

from planner.cost.device import CostContext
from planner.cost.engine_rules import refusals
from planner.domain import CostSettings, ModelSpec, ParallelConfig, Phase, halves_of
from planner.domain.engine.profile import common_reader, own_reader
from planner.errors import ExportError
from planner.export import ENGINES
from planner.export.engines.seam import Launch, Rendezvous
from planner.export.islands import serving_islands
from planner.files import load_engine, load_gpu_spec

QWEN, NEMOTRON, LLAMA4 = map(
    model_of,
    (
        "qwen/qwen3.5-397b-a17b",
        "nvidia/nvidia-nemotron-3-super-120b-a12b-fp8",
        "meta-llama/llama-4-maverick-17b-128e-instruct",
    ),
)
V4, GLM5, M3 = map(model_of, ("deepseek-ai/deepseek-v4-flash", "zai-org/glm-5-fp8", "nvidia/minimax-m3-nvfp4"))
DENSE = model_of("qwen/qwen3-32b")
EIGHT = ParallelConfig(tp=8, dp=1)


def launches(
    engine: str,
    model: ModelSpec,
    phase: Phase,
    parallel: ParallelConfig = EIGHT,
    partner: ParallelConfig = EIGHT,
    **cost: float,
) -> Launch:
    """The server of `phase`; the other phase's has the degrees `partner`."""
    others = {Phase.PREFILL: Phase.DECODE, Phase.DECODE: Phase.PREFILL}
    placed = [island("own", "H200", phase, parallel, batch_size=16)]
    if phase in others:
        placed += [island("other", "H200", others[phase], partner, batch_size=16)]
    routes = tuple(route(i.id, half, 0, 1.0) for i in placed if i.phase for half in halves_of(i.phase))
    plan = plan_of(
        tuple(placed),
        gpus=(gpu("H200"),),
        model=replace(model, uri="hf://org/name"),
        routing=routes,
        cost=CostSettings(**cost),  # type: ignore[arg-type]  # the keys are its own
    )
    own = next(i for i in serving_islands(plan, "p") if i.id == "own")
    return ENGINES[engine].launch(own, Rendezvous(leader_address="127.0.0.1", pod_index="0"))


@pytest.mark.parametrize(
    "model", [QWEN, NEMOTRON, model_of("moonshotai/kimi-k3")], ids=lambda model: model.architecture
)
def test_states_are_handed_over_in_the_layout_that_vllm_reads(model: ModelSpec) -> None:
    name = ("VLLM_SSM_CONV_STATE_LAYOUT", "DS")
    for phase in (Phase.PREFILL, Phase.DECODE):
        assert name in launches("vllm", model, phase).leader.environment
    assert name not in launches("vllm", model, Phase.MIXED).leader.environment
    assert name not in launches("vllm", DENSE, Phase.DECODE).leader.environment


def test_chunks_are_cached_alone_where_vllm_is_told_so() -> None:
    name = ("VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE", "1")
    for phase in (Phase.PREFILL, Phase.DECODE, Phase.MIXED):
        assert name in launches("vllm", LLAMA4, phase).leader.environment
        assert name not in launches("vllm", model_of("google/gemma-4-26b-a4b"), phase).leader.environment


def test_towers_stay_out_where_text_alone_is_planned() -> None:
    flag = "--language-model-only"
    told = launches("vllm", QWEN, Phase.MIXED)
    assert flag in told.leader.arguments
    assert any("images are refused" in note for note in told.notes)
    assert flag not in launches("vllm", QWEN, Phase.MIXED, images_per_request=0.5).leader.arguments
    assert flag not in launches("vllm", V4, Phase.MIXED).leader.arguments
    assert flag not in launches("sglang", QWEN, Phase.MIXED).leader.arguments


def test_sglang_keeps_as_many_states_as_its_sequences_need() -> None:
    groups = ParallelConfig(tp=4, dp=2)
    assert load_engine("sglang").kept_states == 5  # mem_cache/kv_cache_configurator.py, _calculate_mamba_ratio
    told = launches("sglang", replace(QWEN, kept_states=5), Phase.MIXED, groups).leader.arguments
    assert "--max-running-requests=32" in told
    assert "--max-mamba-cache-size=160" in told
    decode = launches("sglang", QWEN, Phase.DECODE).leader.arguments  # without prefixes it counts them itself
    assert not any("mamba" in word for word in decode)
    assert not any("mamba" in word for word in launches("sglang", V4, Phase.MIXED).leader.arguments)


def test_sglang_hands_a_block_index_over_between_equals() -> None:
    wide, stages = ParallelConfig(tp=4, dp=2), ParallelConfig(tp=4, dp=1, pp=2)
    assert launches("sglang", M3, Phase.PREFILL)
    assert launches("sglang", M3, Phase.MIXED, wide)
    assert launches("vllm", M3, Phase.PREFILL, partner=wide)
    for parallel, partner in ((EIGHT, wide), (wide, EIGHT), (stages, stages)):
        with pytest.raises(
            ExportError, match=r"hands the block index of .* over between equal tensor-parallel degrees"
        ):
            launches("sglang", M3, Phase.PREFILL, parallel, partner)


@pytest.mark.parametrize(
    ("model", "tp", "words"),
    [
        (NEMOTRON, 16, "share out the 8 groups of Mamba2's heads evenly"),
        (V4, 16, "share out the 8 groups of the output projection evenly"),
        (QWEN, 32, "tp must share out the 16 attention heads"),
        (NEMOTRON, 8, ""),
        (V4, 8, ""),
        (QWEN, 16, ""),
    ],
)
def test_states_and_groups_divide(model: ModelSpec, tp: int, words: str) -> None:
    context = CostContext(gpu=load_gpu_spec("GB200-NVL72"), model=model, settings=CostSettings())
    for profile in (load_engine(name) for name in ENGINES):
        if not profile.loads(model.architecture) or not profile.spans_hosts:
            continue
        told = " ".join(refusals(context, Phase.DECODE, ParallelConfig(tp=tp, dp=1), profile))
        assert words in told
        assert bool(told) == bool(words), told


def test_an_older_version_has_no_code_for_newer_models() -> None:
    context = CostContext(gpu=load_gpu_spec("H200"), model=V4, settings=CostSettings())
    older, newer = load_engine("vllm", "0.18.0"), load_engine("vllm")
    assert "vllm 0.18.0 has no code for DeepseekV4ForCausalLM" in refusals(context, Phase.DECODE, EIGHT, older)[0]
    assert not refusals(context, Phase.DECODE, EIGHT, newer)


def test_readers_of_chosen_tokens_are_not_known_across_generations() -> None:
    a100, h200 = load_gpu_spec("A100"), load_gpu_spec("H200")
    for model in (replace(each, kv_bytes=2.0) for each in (V4, GLM5, M3)):
        assert common_reader("vllm", model, (a100, h200)) == ""
        assert own_reader("vllm", model, a100) == ""
    assert common_reader("vllm", NEMOTRON, (a100, h200)) in {"FLASH_ATTN", "FLASHINFER"}
