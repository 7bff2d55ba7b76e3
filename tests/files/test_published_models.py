"""Published models read as they are: parameters against other implementations, caches against claims, and refusals."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from count_parameters import CSV, build
from published import PUBLISHED, beside, config_of, model_of, read

from planner.cost.layers import cost_of
from planner.domain.model import CompressedAttention, GroupedAttention, LinearAttention, Mamba2, MlaAttention
from planner.files import load_model
from planner.files.models.models import model_from_config
from planner.files.sections import Section

Refused = Callable[..., None]
with CSV.open(encoding="utf-8") as rows:
    COUNTED = {row["id"]: row for row in csv.DictReader(rows)}
"""Parameters of the classes that transformers 5.23 builds of these files: see count_parameters.py."""


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
    without = set(PUBLISHED) - set(COUNTED)
    assert without == {
        "moonshotai/kimi-k3",
        "xiaomimimo/mimo-7b-base",
        "nvidia/llama-3_3-nemotron-super-49b-v1",
        "minimaxai/minimax-m3",
    }


QUICK = ("qwen/qwen3-0.6b", "moonshotai/kimi-k2.5")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.study) for n in COUNTED])
def test_the_table_is_what_transformers_counts(name: str) -> None:
    pytest.importorskip("transformers", reason="it comes with the extra [models]")
    kind, counts = build(config_of(name))
    assert {"id": name, "class": kind} | {part: str(number) for part, number in counts.items()} == COUNTED[name]


@pytest.mark.parametrize("name", COUNTED)
def test_parameters_by_part_are_those_of_transformers(name: str) -> None:
    model, row = model_of(name), COUNTED[name]
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
    if "vision_config" in config_of(name):  # without one the class has a tower of its own making
        counted["tower"], expected["tower"] = model.tower_parameters, int(row["tower"])
    assert counted == {part: pytest.approx(count, rel=0.001) for part, count in expected.items()}


LINEAR = {"num_attention_heads": 32, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64} | {
    "v_head_dim": 128,
    "q_lora_rank": None,
    "torch_dtype": "bfloat16",
}
KIMI_LINEAR = LINEAR | {
    "architectures": ["KimiLinearForCausalLM"],
    "hidden_size": 2304,
    "num_hidden_layers": 27,
    "linear_attn_config": {
        "full_attn_layers": [5, 9, 13, 17, 21, 25],
        "kda_layers": [layer for layer in range(1, 28) if layer % 4 != 1 or layer == 1],
        "num_heads": 32,
        "head_dim": 128,
        "short_conv_kernel_size": 4,
    },
    "first_k_dense_replace": 1,
    "intermediate_size": 9216,
    "num_experts": 256,
    "num_experts_per_token": 8,
    "num_shared_experts": 1,
    "moe_intermediate_size": 1024,
    "vocab_size": 163840,
    "model_max_length": 1048576,
}
LING_3 = LINEAR | {
    "architectures": ["BailingHybridForCausalLM"],
    "hidden_size": 2560,
    "num_hidden_layers": 42,
    "layer_group_size": 6,
    "linear_head_dim": 128,
    "short_conv_kernel_size": 4,
    "first_k_dense_replace": 2,
    "intermediate_size": 6144,
    "num_experts": 512,
    "num_experts_per_token": 8,
    "num_shared_experts": 1,
    "moe_intermediate_size": 768,
    "num_expert_group": 8,
    "topk_group": 4,
    "vocab_size": 157184,
    "model_max_length": 262144,
}
LONGCAT = LINEAR | {
    "architectures": ["LongcatFlashForCausalLM"],
    "hidden_size": 6144,
    "num_layers": 28,
    "num_attention_heads": 64,
    "q_lora_rank": 1536,
    "ffn_hidden_size": 12288,
    "expert_ffn_hidden_size": 2048,
    "n_routed_experts": 512,
    "zero_expert_num": 256,
    "moe_topk": 12,
    "vocab_size": 131072,
    "max_position_embeddings": 131072,
}


def test_two_spellings_of_ling_3_are_one_model() -> None:
    """As its makers' own code reads it, and as transformers' class does."""
    spelt = {
        "linear_head_dim": "head_dim",
        "num_experts_per_token": "num_experts_per_tok",
        "num_expert_group": "n_group",
    }
    own = {spelt.get(key, key): value for key, value in LING_3.items()} | {"no_kda_lora": True}
    model, other = (model_from_config(Section(config, file="c"), name="m") for config in (LING_3, own))
    assert model == other


@pytest.mark.parametrize(
    ("config", "counts"),
    [
        (KIMI_LINEAR, (1_004_396_544, 47_110_422_528, 15_335_424, 247_726_080, 754_974_720)),
        (LING_3, (2_430_353_408, 120_795_955_200, 52_428_800, 330_301_440, 804_782_080)),
        (LONGCAT, (5_071_962_112, 541_165_879_296, 132_120_576, 12_683_575_296, 1_610_612_736)),
    ],
    ids=["kimi-linear", "ling-3", "longcat"],
)
def test_defaults_of_classes_without_a_kept_file(config: dict[str, Any], counts: tuple[int, ...]) -> None:
    """Attention, experts, routers, dense blocks with shared experts, and embeddings of transformers 5.23, which has two
    matrices of LongCat's experts for those that do nothing, too: here they have none, as in its 560 * 10^9."""
    model = model_from_config(Section(config, file="config.json"), name="m")
    found = (
        model.attention_parameters,
        model.moe_layers * model.routed_experts * model.expert_parameters,
        model.moe_layers * model.router_parameters,
        model.dense_ffn_parameters + model.moe_layers * model.shared_parameters,
        model.embedding_parameters,
    )
    assert found == pytest.approx(counts, rel=0.001)


@pytest.mark.parametrize(
    ("config", "changes", "words"),
    [
        (KIMI_LINEAR, {"linear_attn_config": None}, ("linear_attn_config.num_heads", "missing")),
        (
            KIMI_LINEAR,
            {"linear_attn_config": KIMI_LINEAR["linear_attn_config"] | {"kda_layers": [1, 2]}},
            ("kda_layers", "each of the layers 1 to 27 once"),
        ),
        (KIMI_LINEAR, {"num_expert_group": 3}, ("num_expert_group", "a divisor")),
        (LING_3, {"layer_group_size": ...}, ("layer_group_size", "missing")),
        (LING_3, {"no_kda_lora": False}, ("no_kda_lora", "true")),
        (LONGCAT, {"moe_topk": 1000}, ("moe_topk", "768")),
        (LONGCAT, {"linear_attn_config": {"num_heads": 2}}, ("linear_attn_config", "absent")),
    ],
)
def test_contradictory_layers_with_states_are_refused(
    refused: Refused, config: dict[str, Any], changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    changed = {key: value for key, value in (config | changes).items() if value is not ...}
    refused(lambda: model_from_config(Section(changed, file="config.json"), name="m"), "config.json", *words)


def test_a_token_meets_fewer_experts_where_some_do_nothing() -> None:
    """LongCat's report: 27 of 560 * 10^9 parameters on average; a token's router chooses 12 of 768 experts."""
    model = model_from_config(Section(LONGCAT, file="config.json"), name="m")
    assert (model.parameters / 1e9, model.active_parameters / 1e9) == pytest.approx((560, 27), rel=0.01)
    assert [group.count for group in model.groups] == [56, 28]


def test_kimi_k3_is_as_large_as_its_makers_say() -> None:
    """2.8 * 10^12 parameters, of which a token meets 104.2 * 10^9; a quarter of its layers caches tokens."""
    model = model_of("moonshotai/kimi-k3")
    assert (model.parameters / 1e12, model.active_parameters / 1e9) == pytest.approx((2.8, 104.2), rel=0.01)
    assert model.kv_bytes_per_token == 24 * (512 + 64) * 2
    assert model.state_bytes == 69 * (96 * 128 * 128 * 4 + 3 * 3 * 96 * 128 * 2)


def test_totals_without_a_class_are_those_that_were_published() -> None:
    """Nemotron-Super 49B has 49.9, MiMo 7B 7.83 with the 0.21 of its layer that drafts (their model cards)."""
    assert read("nvidia/llama-3_3-nemotron-super-49b-v1").parameters / 1e9 == pytest.approx(49.9, rel=0.002)
    assert read("xiaomimimo/mimo-7b-base").parameters / 1e9 == pytest.approx(7.83 - 0.21, rel=0.002)


def test_caches_by_hand() -> None:
    """Bytes of one sequence: latent cache and index keys; windows; states that do not grow. FP8 checkpoints are planned
    with an FP8 cache: 656 bytes an entry as engines pack it, with scales and a rotary part of 16 bits."""
    tokens = 10_000
    assert read("deepseek-ai/deepseek-v3.2").cached_bytes(tokens) == 61 * tokens * (656 + 128 + 4)
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
