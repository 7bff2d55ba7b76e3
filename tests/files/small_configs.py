"""Small configs of every architecture that is read."""

import json
from typing import Any

from planner.domain import GroupedAttention, ModelSpec
from planner.files.disk.documents import parse_json
from planner.files.models.models import model_from_config

Config = dict[str, Any]
DENSE: Config = {
    "_planner": {"name": "m", "uri": "hf://a/b"},
    "hidden_size": 1024,
    "num_hidden_layers": 8,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}
QWEN_MOE = {"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 512}
LOCAL_EXPERTS = {"num_local_experts": 16, "num_experts_per_tok": 4}
WINDOWS = ["sliding_attention", "full_attention"] * 4
GROUPED = (
    "Glm4MoeForCausalLM",
    "GptOssForCausalLM",
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "MixtralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen2MoeForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
)


def small_config(architecture: str, **changes: object) -> Config:
    """A small config of the architecture; a change to `...` takes the key away."""
    extra: Config = {
        "Glm4MoeForCausalLM": {
            "first_k_dense_replace": 1,
            "n_routed_experts": 16,
            "n_shared_experts": 1,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 512,
        },
        "GptOssForCausalLM": {**LOCAL_EXPERTS, "layer_types": WINDOWS, "sliding_window": 128},
        "MixtralForCausalLM": LOCAL_EXPERTS,
        "Qwen2MoeForCausalLM": {**QWEN_MOE, "shared_expert_intermediate_size": 2048},
        "Qwen3MoeForCausalLM": QWEN_MOE,
    }.get(architecture, {})
    config = DENSE | {"architectures": [architecture]} | extra | changes
    return {key: value for key, value in config.items() if value is not ...}


def read_small(architecture: str, **changes: object) -> ModelSpec:
    return model_from_config(parse_json(json.dumps(small_config(architecture, **changes)), file="config.json"))


def attention_of(architecture: str, **changes: object) -> GroupedAttention:
    """Of the layers that see all tokens, where any do."""
    return min(read_small(architecture, **changes).grouped, key=lambda attention: attention.window)
