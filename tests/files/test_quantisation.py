"""Bytes per element follow what a config says of its quantisation; what is ambiguous is refused."""

from collections.abc import Callable

import pytest
from small_configs import DENSE, Config, read_small

from planner.cost.memory import weights_gb

Refused = Callable[..., None]


def _group(bits: int, kind: str = "float", **more: object) -> Config:
    return {"config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": bits, "type": kind, **more}}}}


KEPT = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
NVFP4 = _group(4, group_size=16)


@pytest.mark.parametrize(
    ("architecture", "changes", "sizes"),
    [
        ("LlamaForCausalLM", {}, (2.0, 2.0, 2.0)),
        ("LlamaForCausalLM", {"torch_dtype": ..., "dtype": "float16"}, (2.0, 2.0, 2.0)),
        ("Qwen3MoeForCausalLM", {"quantization_config": {"quant_method": "fp8"}}, (1.0, 1.0, 1.0)),
        (
            "Glm4MoeForCausalLM",
            {
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "ignore": ["lm_head", "re:.*mlp.gate$", "model.layers.8.self_attn.q_proj"],
                    **_group(8),
                }
            },
            (1.0, 1.0, 1.0),
        ),
        (
            "Qwen3MoeForCausalLM",
            {
                "quantization_config": {
                    "quant_method": "modelopt",
                    "quant_algo": "NVFP4",
                    "ignore": ["model.layers.*.mlp.gate"],
                    **NVFP4,
                }
            },
            (0.5625, 0.5625, 1.0),
        ),
        # attention of one of eight equal layers
        (
            "Qwen3MoeForCausalLM",
            {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.self_attn"]}},
            (1.125, 1.0, 2.0),
        ),
        # one of three matrices of the FFN of one of eight layers: an eighth of 12.6 of 12.6 + 5.2 million weights each
        (
            "LlamaForCausalLM",
            {"quantization_config": {"quant_method": "fp8", "ignored_layers": ["model.layers.7.mlp.up_proj"]}},
            (1 + 4096 / 8 / (3 * 4096 + 5120), 1 + 4096 / 8 / (3 * 4096 + 5120), 2.0),
        ),
        (
            "GptOssForCausalLM",
            {"torch_dtype": ..., "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": KEPT}},
            (2.0, 0.53125, 2.0),
        ),
    ],
)
def test_bytes_per_element_follow_the_quantisation(
    architecture: str, changes: Config, sizes: tuple[float, float, float]
) -> None:
    model = read_small(architecture, **changes)
    assert (model.weight_bytes, model.expert_bytes, model.kv_bytes) == pytest.approx(sizes)


MIXED = {
    "quant_method": "modelopt",
    "quant_algo": "MIXED_PRECISION",
    "exclude_modules": ["*.mlp.gate", "lm_head"],
    "quantized_layers": {
        **{f"model.layers.{i}.self_attn.{which}_proj": {"quant_algo": "FP8"} for i in range(8) for which in "qkvo"},
        **{
            f"model.layers.{i}.mlp.experts.{e}.{which}_proj": {"quant_algo": "NVFP4", "group_size": 16}
            for i in range(8)
            for e in range(3)
            for which in ("gate", "up", "down")
        },
    },
}
INT4 = {
    "quant_method": "compressed-tensors",
    "ignore": ["re:.*self_attn.*", "lm_head"],
    **_group(4, "int", group_size=32),
}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": -1, "dynamic": {"-:.*mlp.gate$": {}}}
INT8 = {"quant_method": "compressed-tensors", **_group(8, "int")}
INT8["config_groups"]["group_0"]["input_activations"] = {"num_bits": 8, "type": "int"}
W4A8 = {"quant_method": "compressed-tensors", **_group(4, "int", group_size=64)}
W4A8["config_groups"]["group_0"]["input_activations"] = {"num_bits": 8, "type": "float"}
BY_TARGET = {
    "quant_method": "compressed-tensors",
    "config_groups": {
        "group_0": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float"}},
        "group_1": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 32}},
    },
}


@pytest.mark.parametrize(
    ("quantization", "sizes", "formats", "weight_only"),
    [
        (INT4, (2.0, 0.5625), "int4", True),
        (AWQ, (0.5 + 2.5 / 128,) * 2, "int4", True),
        (AWQ | {"modules_to_not_convert": ["self_attn"]}, (2.0, 0.5 + 2.5 / 128), "int4", True),
        (GPTQ, (0.5, 0.5), "int4", True),
        (GPTQ | {"bits": 8, "group_size": 64}, (1 + 3 / 64,) * 2, "int8", True),
        (INT8, (1.0, 1.0), "int8", False),
        (W4A8, (0.5 + 2 / 64,) * 2, "int4", True),
        (MIXED, (1.0, 0.5625), "fp8 nvfp4", False),
        (BY_TARGET, (1.0, 0.53125), "fp8 mxfp4", True),
        (BY_TARGET | {"ignore": ["re:.*layers.[0-3].self_attn.*"]}, (1.5, 0.53125), "fp8 mxfp4", True),
        ({"quant_method": "fbgemm_fp8"}, (1.0, 1.0), "fp8", False),
        ({"quant_algo": "FP8", "kv_cache_scheme": "FP8", "ignore": ["lm_head"]}, (1.0, 1.0), "fp8", False),
    ],
)
def test_formats_are_told_apart(
    quantization: Config, sizes: tuple[float, float], formats: str, weight_only: bool
) -> None:
    """INT4 takes the bytes of NVFP4, and is unpacked before it is multiplied."""
    model = read_small("Qwen3MoeForCausalLM", quantization_config=quantization)
    assert (model.weight_bytes, model.expert_bytes) == pytest.approx(sizes)
    assert (" ".join(model.weight_formats), model.weight_only, model.head_bytes) == (formats, weight_only, 2.0)
    assert model.kv_bytes == (2.0 if weight_only or sizes[0] > 1 else 1.0)  # FP8 where layers multiply no more


def test_a_head_is_quantised_where_that_is_said() -> None:
    layers = MIXED["quantized_layers"] | {"lm_head": {"quant_algo": "W4A16_NVFP4"}}
    mixed = MIXED | {"quantized_layers": layers, "exclude_modules": []}
    model = read_small("Qwen3MoeForCausalLM", quantization_config=mixed)
    assert (model.head_bytes, model.weight_only) == (0.5625, True)
    before = read_small("Qwen3MoeForCausalLM", quantization_config=MIXED)
    assert before.weights_gb - model.weights_gb == pytest.approx(model.head_parameters * (2 - 0.5625) / 1e9)
    assert [weights_gb(m, tp=1, experts_on_device=m.routed_experts) for m in (before, model)] == pytest.approx(
        [before.weights_gb, model.weights_gb]
    )


@pytest.mark.parametrize(
    ("quantization", "words"),
    [
        ({"quant_method": "bitsandbytes"}, ("quant_method", "fp8", "'bitsandbytes'")),
        ({"quant_method": "mxfp4"}, ("modules_to_not_convert", "left at 16 bits")),
        ({"quant_method": "fp8", "ignored_layers": ["model.layers.0.mlp.gate_proj"]}, ("ignored_layers", "gate_proj")),
        ({"quant_method": "fp8", "ignored_layers": ["*.linear_attn*"]}, ("ignored_layers", "linear_attn")),
        ({"quant_method": "fp8", "ignored_layers": ["mtp.layers.0.self_attn", "attn"]}, ("ignored_layers", "'attn'")),
        ({"quant_method": "fp8", "quant_algo": "MIXED_PRECISION"}, ("quantized_layers", "missing")),
        ({"quant_method": "fp8", "quant_algo": "NVFP4"}, ("quant_algo", "as quant_method says")),
        ({"quant_method": "modelopt", "quant_algo": "FP8", **NVFP4}, ("config_groups", "the format FP8")),
        ({"quant_method": "modelopt", "quant_algo": "W4A8"}, ("quant_algo", "FP8, MXFP8, NVFP4", "'W4A8'")),
        (MIXED | {"quantized_layers": {"lm_head": {"quant_algo": "W2"}}}, ("lm_head.quant_algo", "NVFP4", "'W2'")),
        (MIXED | {"quantized_layers": {"model.layers.0.mixer": {"quant_algo": "FP8"}}}, ("quantized_layers", "mixer")),
        (
            MIXED
            | {
                "quantized_layers": {
                    f"model.layers.0.mlp.experts.{e}": {"quant_algo": algorithm}
                    for e, algorithm in enumerate(("FP8", "NVFP4"))
                }
            },
            ("quantized_layers", "one format for all experts", "experts.1"),
        ),
        ({"quant_method": "compressed-tensors", **_group(3, "int")}, ("weights.num_bits", "type int", "3 (int)")),
        ({"quant_method": "compressed-tensors", **_group(4, "uint")}, ("weights.type", "float, int", "'uint'")),
        ({"quant_method": "compressed-tensors", **_group(4, group_size=64)}, ("num_bits", "NVFP4", "4 (int)")),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, ("config_groups", "one format")),
        ({"quant_method": "compressed-tensors"}, ("config_groups", "missing")),
        (AWQ | {"bits": 3}, ("bits", "4 or 8", "3 (int)")),
        (GPTQ | {"lm_head": True}, ("lm_head", "matrices of the layers", "True")),
        (GPTQ | {"dynamic": {"+:.*down.*": {"bits": 8}}}, ("dynamic", "-:")),
    ],
)
def test_ambiguous_quantisation_is_refused(refused: Refused, quantization: Config, words: tuple[str, ...]) -> None:
    refused(lambda: read_small("Qwen3MoeForCausalLM", quantization_config=quantization), "config.json", *words)


def test_bytes_of_our_own_go_first() -> None:
    def sizes(own: Config, **changes: object) -> tuple[float, float, float]:
        model = read_small("GptOssForCausalLM", _planner=DENSE["_planner"] | own, **changes)
        return model.weight_bytes, model.expert_bytes, model.kv_bytes

    mxfp4 = {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": KEPT}}
    assert sizes({"weight_bytes": 1}) == (1.0, 1.0, 1.0)
    assert sizes({"weight_bytes": 1}, **mxfp4) == (1.0, 0.53125, 1.0)
    assert sizes({"expert_bytes": 0.5625, "kv_bytes": 1}) == (2.0, 0.5625, 1.0)
    assert not read_small("GptOssForCausalLM", **mxfp4).formats  # as their sizes tell
    assert sizes({"weight_bytes": 1}, quantization_config={"quant_method": "exl3"}) == (1.0, 1.0, 1.0)
