"""Model shapes against published sizes, and refusals."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_configs import (
    GROUPED,
    WINDOWS,
    Config,
    attention_of,
    read_small,
)

from planner.domain import MlaAttention, ModelSpec
from planner.files import load_model, scenario_from_document, shipped_models
from planner.files.disk.documents import parse_json
from planner.files.models.models import model_from_config
from planner.workload import summarize

Refused = Callable[..., None]


@pytest.fixture
def config() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(shipped_models()["deepseek-v3"])
    del loaded["_planner"]["name"]
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


@pytest.mark.parametrize("name", ["Qwen/Qwen3-235B-A22B-FP8", "qwen/qwen3-235b-a22b-fp8", "qwen3 235b a22b fp8"])
def test_shipped_models_answer_to_their_ids_on_the_hub(name: str, tmp_path: Path) -> None:
    model = load_model(name, tmp_path)
    assert (model.name, model.uri) == ("qwen3-235b-a22b-fp8", "hf://Qwen/Qwen3-235B-A22B-FP8")


def test_a_file_goes_before_an_id_of_the_hub(tmp_path: Path, config: dict[str, Any]) -> None:
    folder = tmp_path / "zai-org" / "GLM-5"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert load_model("zai-org/GLM-5", tmp_path).architecture == "DeepseekV3ForCausalLM"


def _of_scenario(model: Any, base: Path = Path()) -> ModelSpec:
    document = {"name": "a", "model": model, "workload": "normal-500-2000", "inventory": {"H200": 16}}
    return scenario_from_document(document, origin="notebook", base=base, summarize=summarize).model


def test_what_one_knows_of_a_new_name_can_be_told(tmp_path: Path, config: dict[str, Any], refused: Refused) -> None:
    """The layers are those of the architecture that it is like; what was told is said."""
    path = tmp_path / "m.json"
    path.write_text(json.dumps(config | {"architectures": ["DeepseekV9ForCausalLM"]}), encoding="utf-8")
    refused(lambda: load_model(str(path)), "DeepseekV9ForCausalLM")
    like = {"like": "DeepseekV3ForCausalLM", "uri": "hf://org/v9", "kv_bytes": 2}
    model, known = _of_scenario({"config": "m.json", **like}, tmp_path), load_model("deepseek-v3")
    assert (model.name, model.uri, model.kv_bytes) == ("m", "hf://org/v9", 2.0)
    assert (model.groups, model.architecture) == (known.groups, known.architecture)
    assert ["DeepseekV9ForCausalLM" in model.assumed[0], "kv_bytes is 2" in model.assumed[1]] == [True, True]
    assert known.assumed == ()
    written_out = _of_scenario({"config": config | {"_name_or_path": "org/v9"}, "kv_bytes": 2})
    assert (written_out.name, written_out.uri, written_out.groups) == ("v9", known.uri, known.groups)
    of_an_id = _of_scenario({"config": "deepseek-ai/deepseek-v3", "uri": "pvc://weights/v3"})
    assert replace(of_an_id, uri=known.uri) == known
    refused(lambda: _of_scenario({"config": "deepseek-v3", "likes": "x"}), "model.likes is not a known key")
    refused(lambda: _of_scenario({"config": "deepseek-v3", "like": "x"}), "model.like", "LlamaForCausalLM")


def test_unquantised_weights_take_two_bytes(tmp_path: Path, config: dict[str, Any]) -> None:
    del config["quantization_config"]
    path = tmp_path / "m.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    model = load_model(str(path))
    assert (model.weight_bytes, model.kv_bytes) == (2.0, 2.0)


def test_a_model_brings_code_where_its_config_maps_classes_to_it(config: dict[str, Any]) -> None:
    mapped = config | {"auto_map": {"AutoConfig": "configuration_own.OwnConfig"}}
    forbidden = {**mapped, "_planner": {**config["_planner"], "own_code": False}}
    told = {"plain": config, "null": config | {"auto_map": None}, "mapped": mapped, "forbidden": forbidden}
    found = {
        name: model_from_config(parse_json(json.dumps(one), file="config.json"), name="own").own_code
        for name, one in told.items()
    }
    assert found == {"plain": False, "null": False, "mapped": True, "forbidden": False}
    shipped = {name for name in shipped_models() if load_model(name).own_code}
    assert {name.partition("-")[0] for name in shipped} == {"deepseek", "kimi", "minimax", "nemotron"}
    assert {name for name in shipped if name.startswith("deepseek")} == {"deepseek-v3.1-nvfp4"}


def test_the_origin_in_the_config_serves_as_uri(tmp_path: Path, config: dict[str, Any]) -> None:
    del config["_planner"]
    path = tmp_path / "m.json"
    path.write_text(json.dumps(config | {"_name_or_path": "org/model"}), encoding="utf-8")
    assert load_model(str(path)).uri == "hf://org/model"
    cached = tmp_path / "models--Own-Org--Our-Model" / "snapshots" / "0a1b"
    cached.mkdir(parents=True)
    (cached / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert (load_model(str(cached)).name, load_model(str(cached)).uri) == ("Our-Model", "hf://Own-Org/Our-Model")
    path.write_text(json.dumps(config), encoding="utf-8")
    assert load_model(str(path)).uri == ""  # only manifests need it


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"architectures": ["Qwen9NextForCausalLM"]},
            ("architectures", "DeepseekV3ForCausalLM", "LlamaForCausalLM", "got Qwen9NextForCausalLM"),
        ),
        ({"architectures": []}, ("architectures", "none")),
        ({"architectures": "DeepseekV3ForCausalLM"}, ("architectures", "a list of texts")),
        ({"architectures": ["DeepseekV32ForCausalLM"]}, ("index_n_heads", "it is missing")),
        ({"index_topk": 2048}, ("index_topk", "absent", "2048")),
        ({"vision_config": {}}, ("vision_config", "absent")),
        ({"hidden_act": "relu2"}, ("hidden_act", "silu", "'relu2'")),
        ({"moe_layer_freq": [0, 1]}, ("moe_layer_freq", "whole number", "a list of 2")),
        ({"moe_layer_freq": 0}, ("moe_layer_freq", "at least 1")),
        ({"tie_word_embeddings": "no"}, ("tie_word_embeddings", "true or false")),
        ({"sliding_window": 4096}, ("sliding_window", "null")),
        ({"n_group": 7}, ("n_group", "a divisor of n_routed_experts, 256")),
        ({"topk_group": 9}, ("topk_group", "at most 8", "9")),
        ({"hidden_size": 7168.5}, ("hidden_size", "whole number", "7168.5")),
        ({"hidden_size": True}, ("hidden_size", "whole number", "True (bool)")),
        ({"num_experts_per_tok": 257}, ("num_experts_per_tok", "at most 256", "257")),
        ({"first_k_dense_replace": 62}, ("first_k_dense_replace", "at most 61")),
        (
            {"quantization_config": {"quant_method": "exl3"}},
            ("quantization_config.quant_method", "fp8", "'exl3'"),
        ),
        ({"_planner": {"uri": "hf://a/b; rm -rf"}}, ("_planner.uri", "URI")),
        ({"_planner": {"url": "hf://a/b"}}, ("_planner.url is not a known key",)),
        ({"_planner": {"like": "Llama"}}, ("_planner.like", "LlamaForCausalLM", "'Llama'")),
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
        "q_lora_rank",
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
    refused(lambda: load_model("deepseek-v5"), "deepseek-v5", hint="Did you mean deepseek-v3")
    refused(lambda: load_model("deepseek-v5"), hint="path of its config.json")
    refused(lambda: load_model("zai-org/GLM-6"), "zai-org/GLM-6", hint="Did you mean zai-org/GLM-5")


@pytest.mark.parametrize("architecture", GROUPED)
def test_grouped_architectures_read_alike(architecture: str) -> None:
    model = read_small(architecture)
    assert {(kind.heads, kind.kv_heads, kind.head_dim) for kind in model.grouped} == {(16, 4, 128)}
    assert (model.layers, model.hidden_size, model.tied_embeddings, model.weight_bytes) == (8, 1024, False, 2.0)
    assert (model.experts is None) == (model.moe_layers == 0)
    assert (model.widest_dense_ffn == 0) == (model.dense_layers == 0)


@pytest.mark.parametrize("architecture", GROUPED)
def test_heads_must_be_a_multiple_of_kv_heads(refused: Refused, architecture: str) -> None:
    refused(lambda: read_small(architecture, num_key_value_heads=5), "num_key_value_heads", "a divisor of", "16", "5")


def test_a_missing_head_dim_is_the_width_over_the_heads_or_refused(refused: Refused) -> None:
    for architecture in ("LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM", "Qwen2ForCausalLM"):
        assert attention_of(architecture, head_dim=...).head_dim == 64
        assert attention_of(architecture, head_dim=None).head_dim == 64
    for architecture in ("Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Glm4MoeForCausalLM", "GptOssForCausalLM"):
        refused(lambda architecture=architecture: read_small(architecture, head_dim=...), "head_dim", "it is missing")
    refused(
        lambda: read_small("LlamaForCausalLM", head_dim=..., hidden_size=1000),
        "num_attention_heads",
        "hidden_size, 1000",
    )


def test_missing_kv_heads_are_as_many_as_heads_or_refused(refused: Refused) -> None:
    assert attention_of("LlamaForCausalLM", num_key_value_heads=...).kv_heads == 16
    assert attention_of("Qwen3ForCausalLM", num_key_value_heads=None).kv_heads == 16
    refused(lambda: read_small("MistralForCausalLM", num_key_value_heads=...), "num_key_value_heads", "it is missing")


@pytest.mark.parametrize(
    ("architecture", "changes", "windows"),
    [
        ("GptOssForCausalLM", {}, (128, 4)),
        ("GptOssForCausalLM", {"layer_types": ["full_attention"] * 8}, (0, 0)),
        ("MistralForCausalLM", {"sliding_window": 4096}, (4096, 8)),
        ("MistralForCausalLM", {"sliding_window": None}, (0, 0)),
        ("MixtralForCausalLM", {"sliding_window": 4096, "layer_types": WINDOWS}, (4096, 4)),
        ("Qwen2ForCausalLM", {"sliding_window": 4096, "use_sliding_window": False, "max_window_layers": 2}, (0, 0)),
        ("Qwen2ForCausalLM", {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 2}, (4096, 6)),
        ("Qwen3ForCausalLM", {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 8}, (0, 0)),
        ("Qwen3ForCausalLM", {"sliding_window": 64, "use_sliding_window": True, "layer_types": WINDOWS}, (64, 4)),
        ("Qwen3MoeForCausalLM", {"use_sliding_window": True, "sliding_window": None}, (0, 0)),
        ("LlamaForCausalLM", {"layer_types": ["full_attention"] * 8}, (0, 0)),
    ],
)
def test_windowed_layers_are_counted(architecture: str, changes: Config, windows: tuple[int, int]) -> None:
    model = read_small(architecture, **changes)
    assert (max(kind.window for kind in model.grouped), model.windowed) == windows


@pytest.mark.parametrize(
    ("architecture", "changes", "words"),
    [
        ("GptOssForCausalLM", {"layer_types": ...}, ("layer_types", "it is missing")),
        ("GptOssForCausalLM", {"layer_types": WINDOWS[:7]}, ("layer_types", "one entry a layer, 8")),
        ("GptOssForCausalLM", {"layer_types": ["linear_attention"] * 8}, ("layer_types", "linear_attention")),
        ("GptOssForCausalLM", {"sliding_window": None}, ("sliding_window", "whole number")),
        ("LlamaForCausalLM", {"layer_types": WINDOWS}, ("layer_types", "full_attention alone")),
        ("Qwen3ForCausalLM", {"layer_types": WINDOWS, "sliding_window": 64}, ("use_sliding_window", "true")),
        ("Qwen2ForCausalLM", {"use_sliding_window": True, "sliding_window": 64}, ("max_window_layers", "missing")),
        ("Qwen3MoeForCausalLM", {"mlp_only_layers": [8]}, ("mlp_only_layers", "at most 7")),
        ("MixtralForCausalLM", {"num_experts_per_tok": 17}, ("num_experts_per_tok", "at most 16")),
        ("LlamaForCausalLM", {"hidden_act": "gelu"}, ("hidden_act", "silu", "'gelu'")),
    ],
)
def test_odd_configs_are_refused(refused: Refused, architecture: str, changes: Config, words: tuple[str, ...]) -> None:
    refused(lambda: read_small(architecture, **changes), "config.json", *words)


def test_layers_with_experts_interleave_as_the_architecture_says(config: Config) -> None:
    def deepseek(**changes: int) -> int:
        changed = parse_json(json.dumps(config | changes), file="config.json")
        return model_from_config(changed, name="m").moe_layers

    assert deepseek() == len(range(3, 61))
    assert deepseek(moe_layer_freq=4, num_hidden_layers=13) == len((4, 8, 12))
    assert deepseek(moe_layer_freq=4, num_hidden_layers=13, first_k_dense_replace=0) == len((0, 4, 8, 12))
    assert read_small("Glm4MoeForCausalLM").moe_layers == len((1, 2, 3, 4, 5, 6, 7))
    assert read_small("Qwen3MoeForCausalLM", decoder_sparse_step=2).moe_layers == len((1, 3, 5, 7))
    assert read_small("Qwen3MoeForCausalLM", mlp_only_layers=[6, 0]).moe_layers == len((1, 2, 3, 4, 5, 7))
    assert read_small("Qwen3MoeForCausalLM", decoder_sparse_step=9).experts is None


def test_queries_without_compression_have_rank_0(config: Config) -> None:
    plain = model_from_config(parse_json(json.dumps(config | {"q_lora_rank": None}), file="config.json"), name="m")
    assert {kind.query_rank for kind, _ in plain.attentions if isinstance(kind, MlaAttention)} == {0}
    width = 128 * (128 + 64)
    assert plain.attention_parameters - load_model("deepseek-v3").attention_parameters == (
        61 * (7168 * width - 1536 * (7168 + width))
    )


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({}, 4),
        ({"n_group": 1, "topk_group": 1}, 0),
        ({"topk_group": 8}, 0),
        ({"topk_method": "greedy"}, 0),
        ({"n_group": None}, 0),
    ],
)
def test_the_groups_that_a_token_reaches(config: Config, changes: Config, limit: int) -> None:
    experts = model_from_config(parse_json(json.dumps(config | changes), file="config.json"), name="m").experts
    assert experts.node_limit == limit


def test_a_shared_expert_may_be_wider_than_the_others() -> None:
    model = read_small("Qwen2MoeForCausalLM")
    assert (model.experts.shared, model.experts.ffn_size, model.experts.shared_width) == (1, 512, 2048)
    assert model.shared_parameters == 4 * model.expert_parameters


def test_tied_embeddings_are_stored_once() -> None:
    untied, tied = read_small("LlamaForCausalLM"), read_small("LlamaForCausalLM", tie_word_embeddings=True)
    assert untied.parameters - tied.parameters == 32000 * 1024
    assert untied.active_parameters == tied.active_parameters
