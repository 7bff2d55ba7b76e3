"""Published models read as they are: parameters against other implementations, caches against claims, and refusals."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.cost.layers import cost_of
from planner.domain import ModelSpec
from planner.domain.model import CompressedAttention, GroupedAttention, LinearAttention, Mamba2, MlaAttention
from planner.errors import InputError
from planner.files import describe_model, load_model, shipped_models
from planner.files.disk.documents import parse_json
from planner.files.models.models import model_from_config

Refused = Callable[..., None]
FOLDER = Path(__file__).parent / "published_models"
FILES = sorted(FOLDER.glob("*.json"))
with (FOLDER / "parameters.csv").open(encoding="utf-8") as rows:
    COUNTED = list(csv.DictReader(rows))
UNTOLD_TOWERS = ("llama-4", "minimax-m3", "step-3.7")
"""Their towers are not described, or have no rule here: weights of text alone."""


def config_of(name: str) -> dict[str, Any]:
    return dict(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def read(name: str, **changes: object) -> ModelSpec:
    """A change to `...` takes the key away; keys of a nested text model are changed there."""
    config = config_of(name)
    text = config.get("text_config", config)
    for key, value in changes.items():
        text[key] = value
        if value is ...:
            del text[key]
    return model_from_config(parse_json(json.dumps(config), file=f"{name}.json"), name="m")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_reads_as_published(path: Path) -> None:
    model = describe_model(str(path))
    assert model.layers > 0
    assert model.name == path.stem
    assert not model.uri


@pytest.mark.parametrize("row", COUNTED, ids=lambda row: row["model"])
def test_parameters_by_part_are_those_of_transformers(row: dict[str, str]) -> None:
    model = read(row["model"])
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
    if not any(name in row["model"] for name in UNTOLD_TOWERS):
        counted["tower"], expected["tower"] = model.tower_parameters, int(row["tower"])
    assert counted == {part: pytest.approx(count, rel=0.001) for part, count in expected.items()}


def test_totals_without_a_class_are_those_that_were_published() -> None:
    """Nemotron-Super 49B has 49.9, MiMo 7B 7.83 with the 0.21 of its layer that drafts (their model cards)."""
    assert read("nvidia-llama-3_3-nemotron-super-49b-v1").parameters / 1e9 == pytest.approx(49.9, rel=0.002)
    assert read("xiaomimimo-mimo-7b-base").parameters / 1e9 == pytest.approx(7.83 - 0.21, rel=0.002)


def test_caches_by_hand() -> None:
    """Bytes of one sequence: latent cache and index keys; windows; states that do not grow."""
    tokens = 10_000
    assert read("deepseek-ai-deepseek-v3.2").cached_bytes(tokens) == 61 * tokens * (576 * 2 + 128 + 4)
    gemma = read("google-gemma-4-26b-a4b")
    assert gemma.cached_bytes(tokens) == 25 * 1024 * 8 * 512 * 2 + 5 * tokens * 2 * 1024 * 2
    qwen = read("qwen-qwen3.5-397b-a17b")
    state = 64 * 128 * 128 * 4 + 3 * (2 * 16 * 128 + 64 * 128) * 2
    assert qwen.state_bytes == 45 * state
    assert qwen.cached_bytes(tokens) == 45 * state + 15 * tokens * 2 * 2 * 256 * 2
    nemotron = read("nvidia-nvidia-nemotron-3-super-120b-a12b-fp8")
    state = 128 * 64 * 128 * 4 + 3 * (8192 + 2 * 8 * 128) * 2
    assert nemotron.cached_bytes(tokens) == 40 * state + 8 * tokens * 2 * 2 * 128 * 2


KINDS = (MlaAttention, GroupedAttention, CompressedAttention, LinearAttention, Mamba2)


def test_every_kind_stands_in_a_published_model() -> None:
    kinds = {type(kind) for path in FILES for kind, _ in describe_model(str(path)).attentions}
    assert kinds == set(KINDS)


def test_tensor_parallelism_parts_the_work_and_repeats_what_all_need() -> None:
    """Over as many GPUs, all of them together hold and do at least what one alone does, and no more than each all."""
    for path in FILES:
        model = describe_model(str(path))
        for kind, _ in model.attentions:
            alone, each = (float(cost_of(kind).weights(kind, model.hidden_size, np.array(tp))) for tp in (1.0, 4.0))
            assert alone == pytest.approx(kind.parameters(model.hidden_size))
            assert alone / 4 - 1 <= each <= alone


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("deepseek-ai-deepseek-v3.2", {"index_topk": ...}, ("index_topk", "it is missing")),
        ("zai-org-glm-5.2", {"indexer_types": ["full"] * 3}, ("indexer_types", "one entry a layer, 78")),
        ("zai-org-glm-5.2", {"indexer_types": ["half"] * 78}, ("indexer_types", "full or shared", "half")),
        ("deepseek-ai-deepseek-v4-flash", {"compress_ratios": [4] * 10}, ("compress_ratios", "43 layers")),
        ("qwen-qwen3.5-27b", {"layer_types": ["full_attention"]}, ("layer_types", "one entry a layer, 64")),
        ("qwen-qwen3.5-27b", {"linear_num_value_heads": ...}, ("linear_num_value_heads", "it is missing")),
        (
            "nvidia-nemotron-h-56b-base-8k",
            {"hybrid_override_pattern": "MX"},
            ("hybrid_override_pattern", "one a layer"),
        ),
        ("nvidia-nvidia-nemotron-3-super-120b-a12b-fp8", {"mlp_hidden_act": "silu"}, ("mlp_hidden_act", "relu2")),
        ("xiaomimimo-mimo-v2-flash", {"hybrid_layer_pattern": [0, 1]}, ("hybrid_layer_pattern", "48")),
        ("xiaomimimo-mimo-v2-flash", {"swa_num_key_value_heads": 7}, ("swa_num_key_value_heads", "a divisor")),
        ("google-gemma-4-26b-a4b", {"hidden_size_per_layer_input": 256}, ("hidden_size_per_layer_input", "0")),
        ("nvidia-minimax-m3-nvfp4", {"sparse_attention_config": {}}, ("sparse_num_index_heads", "it is missing")),
        ("minimaxai-minimax-m2.5", {"shared_intermediate_size": 512}, ("shared_intermediate_size", "0")),
        ("stepfun-ai-step-3.7-flash", {"layer_types": ["full_attention"] * 44}, ("layer_types", "45")),
    ],
)
def test_contradictory_files_are_refused(
    refused: Refused, name: str, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    refused(lambda: read(name, **changes), name, *words)


def test_files_that_say_nothing_of_their_weights_are_shown_and_not_planned_for() -> None:
    for path in FILES:
        with pytest.raises(InputError, match=r"_planner.uri"):
            load_model(str(path))
    for name in shipped_models():
        assert load_model(name) == describe_model(name)


def test_quantisation_beside_the_file_is_found(tmp_path: Path) -> None:
    """NVIDIA's checkpoints tell it in hf_quant_config.json: experts in NVFP4, attention left in BF16."""
    config = {key: value for key, value in config_of("minimaxai-minimax-m2.5").items() if key != "quantization_config"}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    excluded = ["lm_head", *(f"model.layers.{layer}.self_attn*" for layer in range(62))]
    beside = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": excluded}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside), encoding="utf-8")
    model = describe_model(str(tmp_path))
    assert (model.weight_bytes, model.expert_bytes, model.shared_bytes, model.kv_bytes) == (2.0, 0.5625, None, 1.0)


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
    model = read("deepseek-ai-deepseek-v3", quantization_config=quantization)
    if sizes is None:  # one of three dense layers, and its attention
        assert 0.5625 < model.weight_bytes < 0.7
        assert model.expert_bytes == 0.5625
        return
    found = model.weight_bytes, model.expert_bytes, model.shared_bytes
    assert found == tuple(size if size is None else pytest.approx(size) for size in sizes)
