"""Model shapes against published sizes, and refusals."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.files import load_model, shipped_models

Refused = Callable[..., None]


@pytest.fixture
def config() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(shipped_models()["deepseek-v3"].read_text(encoding="utf-8"))
    return loaded


@pytest.mark.parametrize("name", ["deepseek-v3", "deepseek-r1"])
def test_parameters_match_the_published_671_billion(name: str) -> None:
    model = load_model(name)
    assert model.name == name
    assert model.parameters == pytest.approx(671e9, rel=5e-3)
    assert (model.weight_bytes, model.kv_bytes) == (1.0, 1.0)


def test_kv_cache_of_a_token_is_576_elements_a_layer() -> None:
    assert load_model("deepseek-v3").kv_bytes_per_token == 576 * 61


def test_uris_name_the_weights() -> None:
    assert load_model("deepseek-v3").uri == "hf://deepseek-ai/DeepSeek-V3"
    assert load_model("deepseek-r1").uri == "hf://deepseek-ai/DeepSeek-R1"


def test_a_path_is_relative_to_the_scenarios_folder(tmp_path: Path, config: dict[str, Any]) -> None:
    folder = tmp_path / "My-Model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert load_model("./My-Model", tmp_path).name == "My-Model"
    assert load_model("My-Model/config.json", tmp_path) == load_model("./My-Model", tmp_path)


def test_unquantised_weights_take_two_bytes(tmp_path: Path, config: dict[str, Any]) -> None:
    del config["quantization_config"]
    path = tmp_path / "m.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    model = load_model(str(path))
    assert (model.weight_bytes, model.kv_bytes) == (2.0, 2.0)


def test_the_origin_in_the_config_serves_as_uri(tmp_path: Path, config: dict[str, Any]) -> None:
    del config["_planner"]
    path = tmp_path / "m.json"
    path.write_text(json.dumps(config | {"_name_or_path": "org/model"}), encoding="utf-8")
    assert load_model(str(path)).uri == "hf://org/model"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"architectures": ["LlamaForCausalLM"]},
            ("architectures", "DeepseekV3ForCausalLM", "LlamaForCausalLM"),
        ),
        ({"architectures": []}, ("architectures", "none")),
        ({"architectures": "DeepseekV3ForCausalLM"}, ("architectures", "a list of texts")),
        ({"moe_layer_freq": 2}, ("moe_layer_freq", "must be 1", "2 (int)")),
        ({"tie_word_embeddings": True}, ("tie_word_embeddings", "false")),
        ({"q_lora_rank": None}, ("q_lora_rank", "whole number", "None")),
        ({"hidden_size": 7168.5}, ("hidden_size", "whole number", "7168.5")),
        ({"hidden_size": True}, ("hidden_size", "whole number", "True (bool)")),
        ({"num_experts_per_tok": 257}, ("num_experts_per_tok", "at most 256", "257")),
        ({"first_k_dense_replace": 62}, ("first_k_dense_replace", "at most 61")),
        (
            {"quantization_config": {"quant_method": "awq"}},
            ("quantization_config.quant_method", "fp8", "'awq'"),
        ),
        ({"_planner": {"uri": "hf://a/b; rm -rf"}}, ("_planner.uri", "URI")),
        ({"_planner": {"url": "hf://a/b"}}, ("_planner.url is not a known key",)),
        ({"_planner": {}}, ("_planner.uri", "it is missing")),
    ],
)
def test_what_the_planner_does_not_know_is_refused_by_name(
    tmp_path: Path, config: dict[str, Any], refused: Refused, change: dict[str, Any], words: tuple[str, ...]
) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps(config | change), encoding="utf-8")
    refused(lambda: load_model(str(path)), str(path), *words)


@pytest.mark.parametrize(
    "field",
    [
        "hidden_size",
        "num_hidden_layers",
        "kv_lora_rank",
        "n_routed_experts",
        "moe_intermediate_size",
        "vocab_size",
    ],
)
def test_a_missing_field_is_named(tmp_path: Path, config: dict[str, Any], refused: Refused, field: str) -> None:
    del config[field]
    path = tmp_path / "m.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    refused(lambda: load_model(str(path)), str(path), field, "it is missing")


def test_unknown_name_lists_the_shipped_and_says_how_to_bring_ones_own(refused: Refused) -> None:
    refused(lambda: load_model("deepseek-v4"), "deepseek-v4", hint="Did you mean deepseek-v3")
    refused(lambda: load_model("deepseek-v4"), hint="path of its config.json")
