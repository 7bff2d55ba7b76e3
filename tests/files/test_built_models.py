"""Models that transformers builds without weights: those that we read, too, come out alike, the others as they are."""

import json
from collections.abc import Callable
from math import prod
from typing import Any

import pytest
import torch
import transformers
from published import PUBLISHED, config_of, model_of

from planner.domain import ModelSpec
from planner.errors import InputError
from planner.files import load_model, model_document, shipped_models
from planner.files.disk.documents import parse_json
from planner.files.models.built_models import built_model
from planner.files.models.models import model_from_config

Refused = Callable[..., None]
TOLERANCE = 1e-3
PARTS = ("attention_parameters", "dense_ffn_parameters", "embedding_parameters", "parameters", "active_parameters")
READ = (
    *("meta-llama/meta-llama-3.1-8b", "openai/gpt-oss-20b", "qwen/qwen3-30b-a3b", "minimaxai/minimax-m2.5"),
    *("nvidia/nvidia-nemotron-3-nano-30b-a3b-bf16", "qwen/qwen3.5-35b-a3b", "zai-org/glm-5", "deepseek-ai/deepseek-v3"),
)
NEW = ("exaone4", "olmo3", "falcon_h1", "granitemoehybrid", "ernie4_5_moe", "phi3", "cohere2", "seed_oss")
NEW_DENSE = ("olmo3", "cohere2", "seed_oss", "glm4", "smollm3", "starcoder2")
NOT_BUILT = {
    **dict.fromkeys(("minimaxai/minimax-m3", "xiaomimimo/mimo-7b-base"), "model_type"),
    "nvidia/minimax-m3-nvfp4": "minimax_m3_sparse",
    **dict.fromkeys(("google/gemma-4-26b-a4b", "nvidia/gemma-4-26b-a4b-nvfp4"), "per-layer attribute"),
    "nvidia/gemma-4-31b-it-nvfp4": "per-layer attribute",
    **dict.fromkeys(("moonshotai/kimi-k2-instruct", "moonshotai/kimi-k3"), "model_type"),
    **dict.fromkeys(("sgl-project/deepseek-v4-flash-fp8", "sgl-project/deepseek-v4-pro-fp8"), "model_type"),
    **dict.fromkeys(("deepseek-ai/deepseek-v4-flash", "deepseek-ai/deepseek-v4-pro"), "o_a_proj"),
    **dict.fromkeys(("nvidia/deepseek-v4-flash-nvfp4", "nvidia/deepseek-v4-pro-nvfp4"), "o_a_proj"),
    **dict.fromkeys(("stepfun-ai/step-3.7-flash", "stepfun-ai/step-3.7-flash-fp8"), "vocab_size"),
    "nvidia/llama-3_3-nemotron-super-49b-v1": "model_type",
}
"""What there is no class for, whose layers have no formulas here, or of whose file the class takes other sizes."""

OTHER_TOWER = ("meta-llama/llama-4-maverick-17b-128e-instruct", "meta-llama/llama-4-scout-17b-16e-instruct")
"""Files without a vision_config: their class has one by default."""
OTHER_WINDOW = ("xiaomimimo/mimo-v2-flash",)
"""Of 128 tokens, which the class counts beside the one that comes."""


def built(config: dict[str, Any]) -> ModelSpec:
    return built_model(parse_json(json.dumps(config), file="config.json"), name="m")


def published(name: str) -> dict[str, Any]:
    """As it was before it was quantised."""
    config = config_of(name) | {"torch_dtype": "bfloat16"}
    text = {key: value for key, value in config.get("text_config", {}).items() if key != "quantization_config"}
    config.pop("quantization_config", None)
    return config | ({"text_config": text} if text else {})


def assert_alike(name: str) -> None:
    ours, theirs = model_of(name), built(published(name))
    for part in PARTS if name in OTHER_TOWER else (*PARTS, "tower_parameters"):
        if part == "parameters" and name in OTHER_TOWER:
            assert theirs.parameters - theirs.tower_parameters == ours.parameters
            continue
        assert getattr(theirs, part) == pytest.approx(getattr(ours, part), rel=TOLERANCE), part
    for tokens in (1_000, 32_768, 1_000_000):
        cached = [sum(n * kind.cached_bytes(tokens, 2.0) for kind, n in model.attentions) for model in (ours, theirs)]
        assert cached[0] == cached[1] or name in OTHER_WINDOW
    assert (theirs.max_context, theirs.vocab_size) == (ours.max_context, ours.vocab_size)


@pytest.mark.parametrize("name", READ)
def test_what_we_read_comes_out_alike(name: str) -> None:
    assert_alike(name)


@pytest.mark.parametrize("name", ["qwen3-next-80b-a3b", "gemma-3-27b", "mistral-small-24b"])
def test_shipped_figures_are_those_of_their_classes(name: str) -> None:
    """Models that are written down here, and stand in no package."""
    ours, theirs = load_model(name), built(json.loads(shipped_models()[name]))
    assert (theirs.layers, theirs.architecture) == (ours.layers, ours.architecture)
    assert theirs.parameters == pytest.approx(ours.parameters, rel=TOLERANCE)
    assert theirs.cached_bytes(100_000) == ours.cached_bytes(100_000)


def of_class(kind: str) -> tuple[dict[str, Any], Any]:
    """The configuration that transformers has for a class, and the class without weights."""
    config = transformers.AutoConfig.for_model(kind)
    if kind == "granitemoehybrid":  # by default it has no attention
        config.layer_types = ["full_attention" if layer % 8 == 5 else "linear_attention" for layer in range(32)]
    with torch.device("meta"):
        return config.to_dict(), transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)


@pytest.mark.parametrize("kind", NEW)
def test_others_have_the_weights_of_their_class(kind: str) -> None:
    config, shapes = of_class(kind)
    model = built(config | {"torch_dtype": "bfloat16"})
    total = sum(prod(parameter.shape) for parameter in shapes.parameters())
    assert model.parameters == pytest.approx(total, rel=TOLERANCE)
    assert model.architecture == type(shapes).__name__
    assert model.architecture in model.assumed[0]
    assert model_from_config(parse_json(json.dumps(model_document(model)), file="m.json")) == model


@pytest.mark.parametrize("kind", ["exaone4", "phi3", *(pytest.param(k, marks=pytest.mark.study) for k in NEW_DENSE)])
def test_caches_are_those_that_the_class_fills(kind: str) -> None:
    """Keys and values after a prompt, counted on the meta device; a window leaves room for the token that comes."""
    config, shapes = of_class(kind)
    model = built(config | {"torch_dtype": "bfloat16"})
    for tokens in (1_000, 6_000):
        filled = shapes(input_ids=torch.zeros((1, tokens), dtype=torch.long, device="meta"), use_cache=True)
        elements = sum(layer.keys.numel() + layer.values.numel() for layer in filled.past_key_values.layers)
        room = sum(n * kind.kv_width for kind, n in model.attentions if 0 < kind.window <= tokens)
        assert elements + room == model.cached_bytes(tokens) / model.kv_bytes


def test_what_attends_side_by_side_is_said() -> None:
    config, _ = of_class("falcon_h1")
    model = built(config | {"torch_dtype": "bfloat16"})
    assert model.state_bytes > 0 < model.kv_bytes_per_token
    assert "side by side" in model.assumed[1]


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("jamba", {}, ("model.layers.0", "mamba.x_proj.weight")),
        ("lfm2", {"layer_types": ["conv"] * 32}, ("model.layers.0", "conv.in_proj.weight")),
        ("exaone4", {"model_type": "exaone99"}, ("model_type", "'exaone99'")),
        ("exaone4", {"max_position_embeddings": None}, ("max_position_embeddings",)),
        ("exaone4", {"layer_types": ["sliding_attention"] * 31 + ["lookback"]}, ("layer_types",)),
        ("gpt2", {}, ("attn.c_attn.weight",)),
    ],
)
def test_what_is_not_understood_is_refused_by_name(
    refused: Refused, kind: str, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    config = transformers.CONFIG_MAPPING[kind]().to_dict() | {"torch_dtype": "bfloat16"} | changes
    refused(lambda: built(config), *words)


@pytest.mark.study
@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - set(READ)))
def test_every_published_file_comes_out_alike_or_is_refused(name: str) -> None:
    if name not in NOT_BUILT:
        assert_alike(name)
        return
    with pytest.raises(InputError, match=NOT_BUILT[name]):
        built(published(name))
