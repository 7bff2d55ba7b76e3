"""Caches as engines compute them: vLLM's own classes (`make_engine_caches.py`), published claims, and what grows."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from published import model_of

from planner.cost import CostContext, attention, memory
from planner.cost.drafts import draft_of
from planner.cost.efficiency import efficiency_of
from planner.cost.grid import Degrees
from planner.cost.prefix_hits import cache_tokens, shape_hits
from planner.cost.service_levels import nic_s, transfer_ms
from planner.domain import CostSettings, LayerGroup, ModelSpec, NetworkSettings, ParallelConfig, Phase, kv_gb
from planner.domain.model import LinearAttention
from planner.files import load_gpu_spec

with (Path(__file__).parent / "engine_caches.csv").open(encoding="utf-8") as table:
    COUNTED = list(csv.DictReader(table))
FAR = 2.0**22  # tokens, whole blocks of every model


def published(name: str, kv_bytes: float) -> ModelSpec:
    return replace(model_of(name), kv_bytes=kv_bytes)


def has_windows(model: ModelSpec) -> bool:
    return any(kind.window for kind in model.grouped)


@pytest.mark.parametrize("row", COUNTED, ids=lambda row: f"{row['model']}-tp{row['tp']}-{row['tokens']}")
def test_caches_are_those_of_the_engines_own_classes(row: dict[str, str]) -> None:
    """A token, and what does not grow, to the byte. So is what is set aside for a request, but for windows: each takes
    up to a block more, and so do layers that its group lacks to be as large as others."""
    model, tp = published(row["model"], float(row["kv_bytes"])), np.array(float(row["tp"]))
    once, twice = attention.cache_bytes_per_sequence(model, np.array([FAR, 2 * FAR]), tp)
    assert (twice - once) / FAR == float(row["token_bytes"])
    assert once - (twice - once) == float(row["fixed_bytes"])
    tokens, request = float(row["tokens"]), float(row["request_bytes"])
    reserved = float(attention.reserved_bytes(model, np.array(tokens), tp))
    if not has_windows(model):
        assert reserved == pytest.approx(request, rel=1e-12)
    else:
        assert reserved <= request
        assert reserved == pytest.approx(request, rel=0.005 if tokens > 10_000 else 0.14)


def test_a_dozen_sparse_and_hybrid_models_are_compared() -> None:
    assert len({row["model"] for row in COUNTED}) >= 12


@pytest.mark.parametrize(("model", "share"), [("flash", 0.07), ("pro", 0.10)])
def test_a_million_tokens_of_v4_take_a_tenth_of_v32(model: str, share: float) -> None:
    """DeepSeek-V4's model card: at a million tokens 10 % (Pro) and 7 % (Flash) of the cache of V3.2."""
    sparse, small = (published(f"deepseek-ai/deepseek-v{name}", 1) for name in ("3.2", f"4-{model}"))
    assert small.cached_bytes(2**20) / sparse.cached_bytes(2**20) == pytest.approx(share, abs=0.02)


def test_three_layers_of_four_with_a_state_save_three_quarters() -> None:
    """Kimi Linear's report: up to 75 % less cache than full attention; 7 of its 27 layers have latent attention."""
    full = published("moonshotai/kimi-k2.5", 2)
    latent, ffn = full.groups[0].attention, full.groups[0].ffn
    linear = LinearAttention(key_heads=32, value_heads=32, key_dim=128, value_dim=128, convolution=4)
    layers = [LayerGroup(count=count, attention=kind, ffn=ffn) for kind, count in ((latent, 7), (linear, 20))]
    mixed = replace(full, groups=tuple(layers))
    alone = replace(full, groups=(replace(layers[0], count=27),))
    assert 1 - mixed.cached_bytes(2**20) / alone.cached_bytes(2**20) == pytest.approx(0.75, abs=0.02)


def test_states_bound_the_batch() -> None:
    """Of short sequences a model with states holds as many as states fit: three each, one more for a drafted token."""
    model, one = published("qwen/qwen3.5-397b-a17b", 2), np.array(1.0)
    block = attention.block_tokens(model, one)
    short, long = (float(attention.reserved_bytes(model, np.array(float(n)), one)) for n in (1, block))
    assert short == long  # of a block all is set aside
    page = short / 15 / (1 + 3 * 3)  # 15 full layers, 45 with a state
    assert 1 <= page / (model.state_bytes / 45) < 1.04
    drafting = attention.reserved_bytes(model, one, one, states=model.kept_states + 1)
    assert float(drafting - short) == pytest.approx(45 * page)
    assert float(memory.cache_gb(model, length=1, batch=2, tp=1)) == pytest.approx(2 * short / 1e9)
    drafted = draft_of(model, CostSettings(mtp_tokens=1))
    assert drafted is not None
    beside = drafted.copies * float(memory.cache_gb(drafted.layer, length=1, batch=1, tp=1))
    each = float(memory.cache_gb(model, length=1, batch=1, tp=1, draft=drafted))
    assert each - beside == pytest.approx(float(drafting) / 1e9)


HYBRID, SHAPE = published("qwen/qwen3.5-397b-a17b", 2), ParallelConfig(tp=8, dp=1)
BLOCK = float(attention.block_tokens(HYBRID, np.array(8.0)))


def of_hybrid(**settings: float) -> CostContext:
    network = NetworkSettings(nic_share=1.0)
    return CostContext(gpu=load_gpu_spec("H200"), model=HYBRID, settings=CostSettings(**settings), network=network)


@given(share=st.floats(0, 0.99), prompt=st.integers(1, 200_000))
def test_a_prefix_of_states_is_found_at_the_end_of_a_block(share: float, prompt: int) -> None:
    found = float(np.ravel(shape_hits(of_hybrid(kv_cache_rate=share), np.array([[float(prompt)]]), SHAPE))[0]) * prompt
    assert found / BLOCK == pytest.approx(round(found / BLOCK), abs=1e-6)
    assert share * prompt - BLOCK < found + 1e-6 <= share * prompt + 2e-6


def test_other_models_find_what_is_said() -> None:
    plain = replace(of_hybrid(kv_cache_rate=0.3), model=published("deepseek-ai/deepseek-v3.2", 2))
    assert shape_hits(plain, np.array([[1000.0]]), SHAPE) == 0.3


def test_a_prompt_that_is_over_keeps_one_state() -> None:
    """A prefix cache holds more tokens than the prompts that are worked on would have, by the states they give up."""
    prompt, degrees = np.array([[BLOCK * 2]]), Degrees.of([SHAPE])
    experts = memory.experts_on_device(HYBRID, CostSettings(), degrees.devices)

    def prompts(states: int | None) -> float:
        given = {"longest": prompt, "tp": degrees.tp, "experts_on_device": experts, "states": states}
        return float(memory.max_prompts(of_hybrid(), **given)[0, 0])

    at_work, over = prompts(None), prompts(1)
    assert over / at_work == pytest.approx((2 + 3 * 3) / (2 + 3))  # pages: two blocks, and states of three groups
    assert float(cache_tokens(of_hybrid(), prompt, degrees)[0, 0]) == pytest.approx(over * 2 * BLOCK)


@pytest.mark.parametrize("name", ["qwen/qwen3.5-397b-a17b", "google/gemma-4-26b-a4b", "deepseek-ai/deepseek-v4-flash"])
def test_state_and_window_are_handed_over_once(name: str) -> None:
    """However long the prompt; the rest grows with it. All of it leaves over NICs, and a GPU sends its part."""
    model, degrees = published(name, 2), Degrees.of([ParallelConfig(tp=1, dp=1)])
    handed = np.array([kv_gb(model, tokens) for tokens in (2**14, 2**15, 2**16)])
    assert handed[2] - handed[1] == pytest.approx(2 * (handed[1] - handed[0]))
    window_and_state = handed[0] - (handed[1] - handed[0])
    assert window_and_state * 1e9 == pytest.approx(model.cached_bytes(FAR) * 2 - model.cached_bytes(2 * FAR))
    context = replace(of_hybrid(), model=model)
    gb_s = context.gpu.nic_gb_s
    assert nic_s(context, np.array([2.0**14]), np.array([4.0]))[0, 0] == pytest.approx(handed[0] / (4 * gb_s))
    rate = efficiency_of(context.gpu, context.settings.calibration).nic(Phase.PREFILL)
    sent_ms = float(transfer_ms(context, np.array([[2.0**14]]), degrees)[0, 0])
    assert sent_ms == pytest.approx(1000 * handed[0] / (gb_s * rate))
