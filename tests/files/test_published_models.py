"""Published models read as they are: parameters against other implementations, caches against claims, and refusals."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from published import FOLDER, PUBLISHED, beside, config_of, model_of, read

from planner.cost import attention
from planner.cost.layers import Intake, cost_of
from planner.domain.model import CompressedAttention, GroupedAttention, LinearAttention, Mamba2, MlaAttention
from planner.files import load_model

Refused = Callable[..., None]
with (FOLDER / "published_parameters.csv").open(encoding="utf-8") as rows:
    COUNTED = list(csv.DictReader(rows))
"""Parameters of the classes that transformers 5.23 (Apache-2.0) builds of these files on torch's meta device, by part;
norms, biases, routers and scales are left out. Kimi-K2 and DeepSeek-V4 of SGLang under the names of their kin."""


def test_every_file_reads_as_published(tmp_path: Path) -> None:
    """None is refused. What is told beside a file is found in its folder."""
    assert len(PUBLISHED) == 89
    assert all(model_of(name).layers > 0 for name in PUBLISHED)
    told_beside = [name for name in PUBLISHED if beside(name) is not None]
    assert len(told_beside) > 10
    for name in told_beside:
        folder = tmp_path / name.replace("/", "-")
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config_of(name)), encoding="utf-8")
        (folder / "hf_quant_config.json").write_text(json.dumps(beside(name)), encoding="utf-8")
        model = load_model(str(folder))
        assert replace(model, name="m") == model_of(name)
        assert (model.name, model.uri) == (folder.name, "")


def test_all_but_a_few_are_counted_by_transformers() -> None:
    """Kimi-K3, MiMo 7B, Nemotron-Super 49B and MiniMax-M3's text model have no class there."""
    without = set(PUBLISHED) - {row["id"].casefold() for row in COUNTED}
    assert without == {
        "moonshotai/kimi-k3",
        "xiaomimimo/mimo-7b-base",
        "nvidia/llama-3_3-nemotron-super-49b-v1",
        "minimaxai/minimax-m3",
    }


@pytest.mark.parametrize("row", COUNTED, ids=lambda row: row["id"])
def test_parameters_by_part_are_those_of_transformers(row: dict[str, str]) -> None:
    model = model_of(row["id"].casefold())
    experts = model.moe_layers * model.routed_experts * model.expert_parameters
    shared = model.moe_layers * model.shared_parameters
    counted = {
        "attention": model.attention_parameters,
        "experts": experts,
        "dense and shared": model.dense_ffn_parameters + shared,  # Gemma's shared expert is called its dense block
        "embeddings": model.embedding_parameters,
        "connections": model.connection_parameters,
    }
    expected = {part: int(row[part]) for part in ("attention", "experts", "embeddings", "connections")}
    expected["dense and shared"] = int(row["dense"]) + int(row["shared"])
    if "vision_config" in config_of(row["id"].casefold()):  # without one the class has a tower of its own making
        counted["tower"], expected["tower"] = model.tower_parameters, int(row["tower"])
    assert counted == {part: pytest.approx(count, rel=0.001) for part, count in expected.items()}


def test_totals_without_a_class_are_those_that_were_published() -> None:
    """Nemotron-Super 49B has 49.9, MiMo 7B 7.83 with the 0.21 of its layer that drafts (their model cards)."""
    assert read("nvidia/llama-3_3-nemotron-super-49b-v1").parameters / 1e9 == pytest.approx(49.9, rel=0.002)
    assert read("xiaomimimo/mimo-7b-base").parameters / 1e9 == pytest.approx(7.83 - 0.21, rel=0.002)


def test_a_million_tokens_of_v4_take_a_tenth_of_v32() -> None:
    """DeepSeek-V4's report: about 10 % of the cache of V3.2 at a million tokens."""
    sparse = read("deepseek-ai/deepseek-v3.2", max_position_embeddings=2**20)
    small, large = (read(f"deepseek-ai/deepseek-v4-{which}") for which in ("flash", "pro"))
    for model in (small, large):
        assert 0.05 < model.cached_bytes(2**20) / sparse.cached_bytes(2**20) < 0.15


def test_caches_by_hand() -> None:
    """Bytes of one sequence: latent cache and index keys; windows; states that do not grow. FP8 checkpoints are planned
    with an FP8 cache."""
    tokens = 10_000
    assert read("deepseek-ai/deepseek-v3.2").cached_bytes(tokens) == 61 * tokens * (576 + 128 + 4)
    gemma = read("google/gemma-4-26b-a4b")
    assert gemma.cached_bytes(tokens) == 25 * 1024 * 8 * 512 * 2 + 5 * tokens * 2 * 1024 * 2
    qwen = read("qwen/qwen3.5-397b-a17b")
    state = 64 * 128 * 128 * 4 + 3 * (2 * 16 * 128 + 64 * 128) * 2
    assert qwen.state_bytes == 45 * state
    assert qwen.cached_bytes(tokens) == 45 * state + 15 * tokens * 2 * 2 * 256 * 2
    nemotron = read("nvidia/nvidia-nemotron-3-super-120b-a12b-fp8")
    state = 128 * 64 * 128 * 4 + 3 * (8192 + 2 * 8 * 128) * 2
    assert nemotron.cached_bytes(tokens) == 40 * state + 8 * tokens * 2 * 2 * 128


KINDS = (MlaAttention, GroupedAttention, CompressedAttention, LinearAttention, Mamba2)


def test_every_kind_stands_in_a_published_model() -> None:
    kinds = {type(kind) for name in PUBLISHED for kind, _ in model_of(name).attentions}
    assert kinds == set(KINDS)


@pytest.mark.parametrize("name", PUBLISHED)
def test_longer_contexts_are_never_cheaper(name: str) -> None:
    model, tp = model_of(name), np.array(1.0)
    lengths = np.unique(np.geomspace(1, 200_000, 60).round())
    decode = attention.decode_work(model, sequences=np.array(8.0), tokens=np.array(1.0), cached=lengths, tp=tp)
    taken_in = Intake(new=lengths, expanded=lengths, prompts=np.array(1.0), fresh=lengths, prompt=lengths)
    prefill = attention.prefill_work(model, taken_in, tp)
    for work in (decode.score_macs, decode.cache_bytes, prefill.score_macs + prefill.expansion_macs):
        assert (np.diff(work) >= -1e-9 * work[1:]).all()
    cached = attention.cache_bytes_per_sequence(model, lengths, tp)
    assert cached == pytest.approx([model.cached_bytes(int(length)) for length in lengths])


def test_a_state_does_not_feel_the_context() -> None:
    """A pass of decode of a linear or a state-space layer is the same at any length."""
    one = np.array(1.0)
    for name in ("qwen/qwen3.5-397b-a17b", "nvidia/nvidia-nemotron-3-super-120b-a12b-fp8"):
        model = read(name)
        for kind, _ in model.attentions:
            work = attention.decode_work(model, sequences=one, tokens=one, cached=np.array([1.0, 1e6]), tp=one)
            assert work.score_macs[0] < work.score_macs[1]  # of the full layers
            if isinstance(kind, LinearAttention | Mamba2):
                alone = cost_of(kind).cached(kind, np.array([1.0, 1e6]), one, 2.0)
                assert alone[0] == alone[1] == kind.held_bytes


def test_tensor_parallelism_parts_the_work_and_repeats_what_all_need() -> None:
    """Over as many GPUs, all of them together hold and do at least what one alone does, and no more than each all."""
    for name in PUBLISHED:
        model = model_of(name)
        for kind, _ in model.attentions:
            alone, each = (float(cost_of(kind).weights(kind, model.hidden_size, np.array(tp))) for tp in (1.0, 4.0))
            assert alone == pytest.approx(kind.parameters(model.hidden_size))
            assert alone / 4 - 1 <= each <= alone


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("deepseek-ai/deepseek-v3.2", {"index_topk": ...}, ("index_topk", "it is missing")),
        ("zai-org/glm-5.2", {"indexer_types": ["full"] * 3}, ("indexer_types", "one entry a layer, 78")),
        ("zai-org/glm-5.2", {"indexer_types": ["half"] * 78}, ("indexer_types", "full or shared", "half")),
        ("deepseek-ai/deepseek-v4-flash", {"compress_ratios": [4] * 10}, ("compress_ratios", "43 layers")),
        ("qwen/qwen3.5-27b", {"layer_types": ["full_attention"]}, ("layer_types", "one entry a layer, 64")),
        ("qwen/qwen3.5-27b", {"linear_num_value_heads": ...}, ("linear_num_value_heads", "it is missing")),
        (
            "nvidia/nemotron-h-56b-base-8k",
            {"hybrid_override_pattern": "MX"},
            ("hybrid_override_pattern", "one a layer"),
        ),
        ("nvidia/nvidia-nemotron-3-super-120b-a12b-fp8", {"mlp_hidden_act": "silu"}, ("mlp_hidden_act", "relu2")),
        ("xiaomimimo/mimo-v2-flash", {"hybrid_layer_pattern": [0, 1]}, ("hybrid_layer_pattern", "48")),
        ("xiaomimimo/mimo-v2-flash", {"swa_num_key_value_heads": 7}, ("swa_num_key_value_heads", "a divisor")),
        ("google/gemma-4-26b-a4b", {"hidden_size_per_layer_input": 256}, ("hidden_size_per_layer_input", "0")),
        ("nvidia/minimax-m3-nvfp4", {"sparse_attention_config": {}}, ("sparse_num_index_heads", "it is missing")),
        ("minimaxai/minimax-m2.5", {"shared_intermediate_size": 512}, ("shared_intermediate_size", "0")),
        ("stepfun-ai/step-3.7-flash", {"layer_types": ["full_attention"] * 44}, ("layer_types", "45")),
    ],
)
def test_contradictory_files_are_refused(
    refused: Refused, name: str, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    refused(lambda: read(name, **changes), name, *words)


DENSE_ALONE = (11_413_422_080 * 2 + 1_189_085_184 * 0.5625) / (11_413_422_080 + 1_189_085_184)
"""Bytes of DeepSeek-V3's weights aside its experts, where attention is left in 16 bits."""


@pytest.mark.parametrize(
    ("left", "sizes"),
    [
        ([], (0.5625, 0.5625, None)),
        (
            ["re:.*self_attn.*", "re:.*shared_experts.*"],
            ((11413422080 * 2 + 1189085184 * 0.5625) / 12602507264, 0.5625, 2.0),
        ),
        (["model.layers.0*"], None),
        (["*.mlp.shared_experts*"], (0.5625, 0.5625, 2.0)),
        (["self_attn", "mlp.gate"], (DENSE_ALONE, 0.5625, None)),
    ],
)
def test_what_is_left_out_of_quantisation_keeps_16_bits(
    left: list[str], sizes: tuple[float, float, float | None] | None
) -> None:
    quantization = {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": left}
    model = read("deepseek-ai/deepseek-v3", quantization_config=quantization)
    if sizes is None:  # one of three dense layers, and its attention
        assert 0.5625 < model.weight_bytes < 0.7
        assert model.expert_bytes == 0.5625
        return
    found = model.weight_bytes, model.expert_bytes, model.shared_bytes
    assert found == tuple(size if size is None else pytest.approx(size) for size in sizes)
