"""The planner's own model documents: written, read back, refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.domain import (
    Attention,
    DenseFfn,
    Experts,
    GroupedAttention,
    LayerGroup,
    MlaAttention,
    ModelSpec,
    Scenario,
)
from planner.domain.model import Gate, WeightFormat
from planner.files import load_model, model_document, scenario_document, shipped_models
from planner.files.disk.documents import parse_json
from planner.files.models.models import model_from_config

Refused = Callable[..., None]

_LATER = (
    *("own_code", "tower_parameters", "tower_width", "tower_patches", "shared_bytes", "head_bytes", "formats"),
    *("weight_only", "kept_states", "residual_streams", "assumed", "architecture", "quantization", "weight_block"),
)
"""Fields that older documents lack."""

SIZES = st.integers(1, 200_000)
BYTES = st.floats(0.25, 8.0)


@st.composite
def attentions(draw: st.DrawFn) -> Attention:
    """Either kind, as the reader accepts it."""
    if draw(st.booleans()):
        return MlaAttention(
            heads=draw(SIZES),
            query_rank=draw(st.integers(0, 4096)),
            kv_rank=draw(SIZES),
            nope_dim=draw(SIZES),
            rope_dim=draw(SIZES),
            value_dim=draw(SIZES),
            gate=draw(st.sampled_from(Gate)),
        )
    kv_heads = draw(st.integers(1, 64))
    return GroupedAttention(
        heads=kv_heads * draw(st.integers(1, 16)),
        kv_heads=kv_heads,
        head_dim=draw(SIZES),
        window=draw(st.integers(0, 4096)),
        chunked=draw(st.booleans()),
        value_dim=draw(st.integers(0, 256)),
        keys_are_values=draw(st.booleans()),
        gate=draw(st.sampled_from(Gate)),
    )


@st.composite
def groups(draw: st.DrawFn, experts: Experts) -> LayerGroup:
    """Layers of either kind of feed-forward block, or with one part alone."""
    ffn = draw(st.sampled_from([None, experts, DenseFfn(size=draw(SIZES), gated=draw(st.booleans()))]))
    attention = draw(attentions()) if ffn is None or draw(st.booleans()) else None
    return LayerGroup(count=draw(st.integers(1, 200)), attention=attention, ffn=ffn)


@st.composite
def models(draw: st.DrawFn) -> ModelSpec:
    """Any model that the reader accepts: dense, mixed or with experts in every layer."""
    routed = draw(st.integers(1, 512))
    experts = Experts(
        routed=routed,
        active=draw(st.integers(1, routed)),
        shared=draw(st.integers(0, 8)),
        ffn_size=draw(SIZES),
        node_limit=draw(st.integers(0, routed)),
        shared_size=draw(st.integers(0, 8192)),
        gated=draw(st.booleans()),
        zero=draw(st.integers(0, 256)),
        latent=draw(st.integers(0, 2048)),
    )
    first = LayerGroup(count=1, attention=draw(attentions()), ffn=None)
    return ModelSpec(
        name=draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True)),
        uri=draw(st.sampled_from(["hf://org/model", "pvc://claim/path", "s3://bucket/a-b_c"])),
        hidden_size=draw(SIZES),
        groups=(first, *draw(st.lists(groups(experts), max_size=4))),
        vocab_size=draw(SIZES),
        max_context=draw(SIZES),
        weight_bytes=draw(BYTES),
        expert_bytes=draw(BYTES),
        head_bytes=draw(BYTES),
        formats=tuple(draw(st.lists(st.sampled_from(WeightFormat), max_size=2))),
        weight_only=draw(st.booleans()),
        kv_bytes=draw(BYTES),
        mtp_layers=draw(st.integers(0, 4)),
        tied_embeddings=draw(st.booleans()),
        tower_parameters=draw(st.integers(0, 10**9)),
        tower_width=draw(st.integers(0, 10**6)),
        tower_patches=draw(st.integers(0, 64)),
        own_code=draw(st.booleans()),
        architecture=draw(st.sampled_from(["", "DeepseekV3ForCausalLM"])),
        quantization=draw(st.sampled_from(["", "fp8"])),
        weight_block=draw(st.sampled_from([0, 128])),
        source=draw(st.text(max_size=40)),
        assumed=draw(st.sampled_from([(), ("Its layers are read as those of a neighbour.",)])),
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
    assert document["model_spec"] == 2
    assert set(document) == {"model_spec", *ModelSpec.__dataclass_fields__}
    windowed, full = document["groups"]
    assert (windowed["count"], full["count"]) == (18, 18)
    assert windowed["attention"] == {
        "kind": "grouped",
        "heads": 64,
        "kv_heads": 8,
        "head_dim": 64,
        "window": 128,
        "chunked": False,
        "value_dim": 0,
        "keys_are_values": False,
        "gate": "none",
        "indexer": None,
    }


VERSION_1 = {
    "model_spec": 1,
    "name": "old",
    "uri": "hf://org/old",
    "hidden_size": 2880,
    "layers": 36,
    "moe_layer_indices": list(range(4, 36)),
    "dense_ffn_size": 4096,
    "attention": {"kind": "grouped", "heads": 64, "kv_heads": 8, "head_dim": 64, "window": 128, "windowed_layers": 18},
    "experts": {"routed": 128, "active": 4, "shared": 0, "ffn_size": 2880, "node_limit": 0},
    "vocab_size": 201088,
    "max_context": 131072,
    "weight_bytes": 2.0,
    "expert_bytes": 0.53125,
    "kv_bytes": 2.0,
    "mtp_layers": 0,
    "tied_embeddings": False,
    "own_code": False,
    "architecture": "",
    "quantization": "",
    "weight_block": 0,
    "source": "",
}


def test_documents_of_before_layers_could_differ_still_read() -> None:
    model = _read(VERSION_1)
    assert (model.layers, model.moe_layers, model.dense_layers, model.windowed) == (36, 32, 4, 18)
    assert model.experts == Experts(routed=128, active=4, shared=0, ffn_size=2880)
    assert {kind.window for kind in model.grouped} == {0, 128}
    assert model.kv_bytes_per_token == 36 * 2 * 8 * 64 * 2
    assert _read(model_document(model)) == model


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
        ({"model_spec": 3}, ("model_spec", "at most 2", "3")),
        ({"hidden": 1}, ("hidden is not a known key",)),
        ({"groups": []}, ("groups", "attention")),
        ({"groups": [{"count": 0}]}, ("groups[0].count", "at least 1")),
        ({"groups": [{"count": 1, "attention": None, "ffn": None}]}, ("groups[0].ffn", "no attention")),
        ({"groups": [{"count": 1, "attention": None, "ffn": {"kind": "dense", "size": 8}}]}, ("groups", "attention")),
        ({"groups": [{"count": 1, "ffn": {"kind": "dense"}}]}, ("groups[0].ffn.size", "it is missing")),
        ({"groups": [{"count": 1, "layers": 3}]}, ("groups[0].layers is not a known key",)),
        ({"tied_embeddings": 0}, ("tied_embeddings", "true or false", "0 (int)")),
        ({"uri": "hf://a b"}, ("uri", "URI")),
        ({"kv_bytes": 0}, ("kv_bytes", "more than 0")),
    ],
)
def test_impossible_documents_are_refused(refused: Refused, change: dict[str, Any], words: tuple[str, ...]) -> None:
    document = model_document(load_model("deepseek-v3"))
    refused(lambda: _read(document | change), "model.json", *words)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"attention": {"kind": "quadratic"}}, ("attention.kind", "mla, grouped", "'quadratic'")),
        ({"attention": {"kind": "mla", "kv_heads": 8}}, ("attention.kv_heads is not a known key",)),
        ({"attention": {"kind": "mla", "heads": 8}}, ("attention.query_rank", "it is missing")),
        (
            {"attention": {"kind": "grouped", "heads": 12, "kv_heads": 8, "head_dim": 1}},
            ("attention.kv_heads", "a divisor of heads, 12", "8"),
        ),
        (
            {"ffn": {"kind": "experts", "routed": 8, "active": 9, "shared": 0, "ffn_size": 1}},
            ("active", "routed, 8", "9"),
        ),
    ],
)
def test_impossible_layers_are_refused(refused: Refused, part: dict[str, Any], words: tuple[str, ...]) -> None:
    document = model_document(load_model("deepseek-v3"))
    dense, _ = document["groups"]  # type: ignore[misc]
    refused(lambda: _read(document | {"groups": [{**dense, **part}]}), "model.json: groups[0].", *words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layers": 35}, ("moe_layer_indices", "at most 34")),
        ({"moe_layer_indices": [True]}, ("moe_layer_indices", "whole numbers")),
        ({"attention": {**VERSION_1["attention"], "windowed_layers": 37}}, ("windowed_layers", "at most 36")),
        ({"experts": None}, ("experts", "a mapping")),
        ({"dense_ffn_size": -1}, ("dense_ffn_size", "at least 0")),
    ],
)
def test_impossible_documents_of_before_are_refused(
    refused: Refused, change: dict[str, Any], words: tuple[str, ...]
) -> None:
    refused(lambda: _read(VERSION_1 | change), "model.json", *words)


def test_documents_of_before_models_could_bring_code_still_read() -> None:
    document = model_document(load_model("kimi-k2"))
    assert _read(document).own_code
    del document["own_code"]
    assert not _read(document).own_code


def test_documents_of_before_engines_were_asked_still_read() -> None:
    document = model_document(load_model("deepseek-v3"))
    assert [document[name] for name in _LATER[-3:]] == ["DeepseekV3ForCausalLM", "fp8", 128]
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
    assert (model.name, model.layers, model.moe_layers, model.widest_dense_ffn) == ("mine", 6, 4, 4096)
    assert (model.weight_bytes, model.expert_bytes, model.kv_bytes) == (1.0, 1.0, 2.0)
    assert model.experts == Experts(routed=32, active=4, shared=1, ffn_size=512)
