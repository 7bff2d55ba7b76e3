"""The planner's own model documents: written, read back, refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.domain import Attention, Experts, GroupedAttention, MlaAttention, ModelSpec, Scenario
from planner.files import load_model, model_document, scenario_document, shipped_models
from planner.files.disk.documents import parse_json
from planner.files.models.models import model_from_config

Refused = Callable[..., None]

_LATER = ("own_code", "architecture", "quantization", "weight_block")  # fields that older documents lack

SIZES = st.integers(1, 200_000)
BYTES = st.floats(0.25, 8.0)


@st.composite
def attentions(draw: st.DrawFn, layers: int) -> Attention:
    """Either kind, as the reader accepts it."""
    if draw(st.booleans()):
        return MlaAttention(
            heads=draw(SIZES),
            query_rank=draw(st.integers(0, 4096)),
            kv_rank=draw(SIZES),
            nope_dim=draw(SIZES),
            rope_dim=draw(SIZES),
            value_dim=draw(SIZES),
        )
    kv_heads = draw(st.integers(1, 64))
    return GroupedAttention(
        heads=kv_heads * draw(st.integers(1, 16)),
        kv_heads=kv_heads,
        head_dim=draw(SIZES),
        window=draw(SIZES),
        windowed_layers=draw(st.integers(0, layers)),
    )


@st.composite
def models(draw: st.DrawFn) -> ModelSpec:
    """Any model that the reader accepts: dense, mixed or with experts in every layer."""
    layers = draw(st.integers(1, 200))
    indices = tuple(sorted(draw(st.sets(st.integers(0, layers - 1)))))
    routed = draw(st.integers(1, 512))
    experts = Experts(
        routed=routed,
        active=draw(st.integers(1, routed)),
        shared=draw(st.integers(0, 8)),
        ffn_size=draw(SIZES),
        node_limit=draw(st.integers(0, routed)),
    )
    return ModelSpec(
        name=draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True)),
        uri=draw(st.sampled_from(["hf://org/model", "pvc://claim/path", "s3://bucket/a-b_c"])),
        hidden_size=draw(SIZES),
        layers=layers,
        moe_layer_indices=indices,
        dense_ffn_size=draw(SIZES) if len(indices) < layers else 0,
        attention=draw(attentions(layers)),
        experts=experts if indices else None,
        vocab_size=draw(SIZES),
        max_context=draw(SIZES),
        weight_bytes=draw(BYTES),
        expert_bytes=draw(BYTES),
        kv_bytes=draw(BYTES),
        mtp_layers=draw(st.integers(0, 4)),
        tied_embeddings=draw(st.booleans()),
        own_code=draw(st.booleans()),
        architecture=draw(st.sampled_from(["", "DeepseekV3ForCausalLM"])),
        quantization=draw(st.sampled_from(["", "fp8"])),
        weight_block=draw(st.sampled_from([0, 128])),
        source=draw(st.text(max_size=40)),
    )


def _read(document: dict[str, Any]) -> ModelSpec:
    return model_from_config(parse_json(json.dumps(document), file="model.json"))


@settings(max_examples=200, deadline=None)
@given(model=models())
def test_any_model_reads_back_as_it_was_written(model: ModelSpec) -> None:
    assert _read(model_document(model)) == model


@pytest.mark.parametrize("name", list(shipped_models()))
def test_shipped_models_read_back(name: str) -> None:
    assert _read(model_document(load_model(name))) == load_model(name)


def test_every_field_is_spelt_out() -> None:
    document = model_document(load_model("gpt-oss-120b"))
    assert document["model_spec"] == 1
    assert set(document) == {"model_spec", *ModelSpec.__dataclass_fields__}
    assert document["attention"] == {
        "kind": "grouped",
        "heads": 64,
        "kv_heads": 8,
        "head_dim": 64,
        "window": 128,
        "windowed_layers": 18,
    }


def test_a_scenario_names_a_shipped_model_and_embeds_any_other(
    read: Callable[[dict[str, Any]], Scenario], document: dict[str, Any]
) -> None:
    scenario = read(document)
    assert scenario_document(scenario)["model"] == "deepseek-v3"
    changed = replace(scenario, model=replace(scenario.model, kv_bytes=2.0))
    written = scenario_document(changed)
    assert written["model"] == model_document(changed.model)
    assert read(document | {"model": written["model"]}).model == changed.model


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_spec": 2}, ("model_spec", "at most 1", "2")),
        ({"hidden": 1}, ("hidden is not a known key",)),
        ({"layers": 57}, ("moe_layer_indices", "at most 56", "a list of 58")),
        ({"moe_layer_indices": [4, 3]}, ("moe_layer_indices", "rising")),
        ({"moe_layer_indices": [3, 3]}, ("moe_layer_indices", "rising")),
        ({"moe_layer_indices": [True]}, ("moe_layer_indices", "whole numbers")),
        ({"moe_layer_indices": []}, ("experts", "null", "a mapping")),
        ({"experts": None}, ("experts", "a mapping", "None")),
        ({"dense_ffn_size": 0}, ("dense_ffn_size", "at least 1")),
        ({"tied_embeddings": 0}, ("tied_embeddings", "true or false", "0 (int)")),
        ({"uri": "hf://a b"}, ("uri", "URI")),
        ({"kv_bytes": 0}, ("kv_bytes", "more than 0")),
        ({"attention": {"kind": "linear"}}, ("attention.kind", "mla, grouped", "'linear'")),
        ({"attention": {"kind": "mla", "kv_heads": 8}}, ("attention.kv_heads is not a known key",)),
        ({"attention": {"kind": "mla", "heads": 8}}, ("attention.query_rank", "it is missing")),
        (
            {"attention": {"kind": "grouped", "heads": 12, "kv_heads": 8}},
            ("attention.kv_heads", "a divisor of heads, 12", "8"),
        ),
        (
            {"attention": {"kind": "grouped", "heads": 8, "kv_heads": 8, "head_dim": 1, "window": 0}},
            ("attention.windowed_layers", "it is missing"),
        ),
        (
            {
                "attention": {
                    "kind": "grouped",
                    "heads": 8,
                    "kv_heads": 8,
                    "head_dim": 1,
                    "window": 0,
                    "windowed_layers": 1,
                }
            },
            ("attention.window ", "at least 1"),
        ),
        ({"experts": {"routed": 8, "active": 9}}, ("experts.active", "at most 8", "9")),
    ],
)
def test_impossible_documents_are_refused(refused: Refused, change: dict[str, Any], words: tuple[str, ...]) -> None:
    document = model_document(load_model("deepseek-v3"))
    refused(lambda: _read(document | change), "model.json", *words)


def test_documents_of_before_models_could_bring_code_still_read() -> None:
    document = model_document(load_model("kimi-k2"))
    assert _read(document).own_code
    del document["own_code"]
    assert not _read(document).own_code


def test_documents_of_before_engines_were_asked_still_read() -> None:
    document = model_document(load_model("deepseek-v3"))
    assert [document[name] for name in _LATER[1:]] == ["DeepseekV3ForCausalLM", "fp8", 128]
    read = _read({name: value for name, value in document.items() if name not in _LATER})
    assert (read.architecture, read.quantization, read.weight_block) == ("", "", 0)


@pytest.mark.parametrize("field", [name for name in ModelSpec.__dataclass_fields__ if name not in _LATER])
def test_no_field_may_be_left_out(refused: Refused, field: str) -> None:
    document = model_document(load_model("deepseek-v3"))
    del document[field]
    refused(lambda: _read(document), field, "it is missing")


def test_documents_of_earlier_plans_still_read() -> None:
    """They stood as a config.json, with the bytes per element under `_planner` and no dtype."""
    old = {
        "architectures": ["DeepseekV3ForCausalLM"],
        "hidden_size": 1024,
        "num_hidden_layers": 6,
        "first_k_dense_replace": 2,
        "intermediate_size": 4096,
        "num_attention_heads": 16,
        "q_lora_rank": 256,
        "kv_lora_rank": 128,
        "qk_nope_head_dim": 64,
        "qk_rope_head_dim": 32,
        "v_head_dim": 64,
        "n_routed_experts": 32,
        "num_experts_per_tok": 4,
        "n_shared_experts": 1,
        "moe_intermediate_size": 512,
        "vocab_size": 32000,
        "max_position_embeddings": 8192,
        "_planner": {"name": "mine", "uri": "hf://a/b", "source": "", "weight_bytes": 1.0, "kv_bytes": 2.0},
    }
    model = _read(old)
    assert (model.name, model.moe_layer_indices, model.dense_ffn_size) == ("mine", (2, 3, 4, 5), 4096)
    assert (model.weight_bytes, model.expert_bytes, model.kv_bytes) == (1.0, 1.0, 2.0)
    assert model.experts == Experts(routed=32, active=4, shared=1, ffn_size=512)
