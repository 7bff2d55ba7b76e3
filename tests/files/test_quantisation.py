"""Bytes per element follow what a config says of its quantisation; what is ambiguous is refused."""

from collections.abc import Callable

import pytest
from small_configs import DENSE, Config, read_small

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


@pytest.mark.parametrize(
    ("quantization", "words"),
    [
        ({"quant_method": "gptq"}, ("quant_method", "fp8", "'gptq'")),
        ({"quant_method": "mxfp4"}, ("modules_to_not_convert", "left at 16 bits")),
        ({"quant_method": "fp8", "ignored_layers": ["model.layers.0.mlp.gate_proj"]}, ("ignored_layers", "gate_proj")),
        ({"quant_method": "fp8", "ignored_layers": ["*.linear_attn*"]}, ("ignored_layers", "linear_attn")),
        ({"quant_method": "fp8", "quant_algo": "MIXED_PRECISION"}, ("quant_algo", "as quant_method says")),
        ({"quant_method": "modelopt", "quant_algo": "FP8", **NVFP4}, ("config_groups", "the format FP8")),
        ({"quant_method": "modelopt", "quant_algo": "W4A8"}, ("quant_algo", "FP8, NVFP4", "'W4A8'")),
        ({"quant_method": "compressed-tensors", **_group(8, "int")}, ("weights.type", "float", "'int'")),
        ({"quant_method": "compressed-tensors", **_group(4, group_size=32)}, ("num_bits", "NVFP4", "4 (int)")),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, ("config_groups", "one format")),
        ({"quant_method": "compressed-tensors"}, ("config_groups", "missing")),
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
    assert sizes({"weight_bytes": 1}, quantization_config={"quant_method": "awq"}) == (1.0, 1.0, 1.0)
