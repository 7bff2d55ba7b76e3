"""Architectures with layers that keep a state: gated and Kimi delta attention, Mamba2, and full attention among them.

Each reader follows the rules of its architecture's `configuration_*.py` and `modeling_*.py` in transformers 5.23, that
of Kimi-K3 those of Kimi-Linear there and the size of its files.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from planner.domain import Attention, DenseFfn, Experts, GroupedAttention
from planner.domain.model import Gate, LinearAttention, Mamba2
from planner.files.models.model_documents import ModelSection
from planner.files.models.model_parts import (
    FULL,
    UNKNOWN,
    Layer,
    deepseek_experts,
    dense_layers,
    grouped_attentions,
    layer_count,
    layer_types,
    mixed_layers,
    mla_attention,
    node_limit,
    qwen2_experts,
)


def read_qwen35(config: ModelSection) -> list[Layer]:
    """Gated DeltaNet, and every few layers full attention with an output gate (dense)."""
    return dense_layers(config, _qwen35_attentions(config))


def read_qwen35_moe(config: ModelSection) -> list[Layer]:
    """As `read_qwen35`, with experts in every layer."""
    experts = qwen2_experts(config)
    return [(attention, experts) for attention in _qwen35_attentions(config)]


def _qwen35_attentions(config: ModelSection) -> list[Attention]:
    full = grouped_attentions(config)
    linear = LinearAttention(
        key_heads=config.integer("linear_num_key_heads", low=1),
        value_heads=config.integer("linear_num_value_heads", low=1),
        key_dim=config.integer("linear_key_head_dim", low=1),
        value_dim=config.integer("linear_value_head_dim", low=1),
        convolution=config.integer("linear_conv_kernel_dim", low=1),
        state_bytes=_state_bytes(config, "mamba_ssm_dtype"),
    )
    if config.is_empty("layer_types"):  # Qwen3-Next tells every how many layers one sees all
        every = config.integer("full_attention_interval", low=1)
        sees_all = [(layer + 1) % every == 0 for layer in range(len(full))]
    else:
        sees_all = [kind == FULL for kind in layer_types(config, (FULL, "linear_attention"))]
    return [
        replace(attention, gate=Gate.ELEMENTS) if everything else linear
        for attention, everything in zip(full, sees_all, strict=True)
    ]


def read_kimi_linear(config: ModelSection) -> list[Layer]:
    """Kimi delta attention, and in the layers that `full_attn_layers` names, from 1 on, latent attention. Kimi-K3 gates
    that, and sends tokens to its experts at a smaller width; its residuals of earlier blocks are left out, next to no
    weights."""
    layers, linear = layer_count(config), config.inner("linear_attn_config")
    heads, width = linear.integer("num_heads", low=1), linear.integer("head_dim", low=1)
    gate_rank = 0 if linear.flag("use_full_rank_gate", False) else width
    delta = replace(_kimi_delta(linear, heads, width), decay_rank=width, gate_rank=gate_rank)
    gate = Gate.ELEMENTS if config.flag("mla_use_output_gate", False) else Gate.NONE
    full = replace(mla_attention(config), gate=gate)
    listed = {key: linear.integers(key, low=1, high=layers) for key in ("full_attn_layers", "kda_layers")}
    if sorted(number for numbers in listed.values() for number in numbers) != list(range(1, layers + 1)):
        raise linear.fault("kda_layers", f"with full_attn_layers each of the layers 1 to {layers} once")
    kinds = [full if number in listed["full_attn_layers"] else delta for number in range(1, layers + 1)]
    first, step = config.integer("first_k_dense_replace", low=0, high=layers), config.whole("moe_layer_freq", 1, low=1)
    indices = tuple(layer for layer in range(first, layers) if layer % step == 0)
    return mixed_layers(config, kinds, indices, _kimi_experts)


def _kimi_delta(config: ModelSection, heads: int, width: int) -> LinearAttention:
    return LinearAttention(
        key_heads=heads,
        value_heads=heads,
        key_dim=width,
        value_dim=width,
        convolution=config.integer("short_conv_kernel_size", low=1),
        channels=True,
    )


def _kimi_experts(config: ModelSection) -> Experts:
    routed = config.integer("num_experts", low=1)
    return Experts(
        routed=routed,
        active=config.integer(_spelt(config, "num_experts_per_token", "num_experts_per_tok"), low=1, high=routed),
        shared=config.whole("num_shared_experts", 0),
        ffn_size=config.integer("moe_intermediate_size", low=1),
        node_limit=node_limit(config, routed, _spelt(config, "num_expert_group", "n_group")),
        shared_size=config.whole("moe_shared_expert_intermediate_size", 0),
        latent=config.whole("routed_expert_hidden_size", 0),
    )


def _spelt(config: ModelSection, key: str, other: str) -> str:
    """The key, or its other spelling where that is given."""
    return other if key not in config and other in config else key


def read_bailing_hybrid(config: ModelSection) -> list[Layer]:
    """Ling 3: Kimi delta attention, and every few layers latent attention, with a factor a head. Its own files spell
    some keys as transformers' class does not."""
    layers, heads = layer_count(config), config.integer("num_attention_heads", low=1)
    if not config.flag("no_kda_lora", True):
        raise config.fault("no_kda_lora", "true: decays and gates that are projected directly", hint=UNKNOWN)
    config.one_of("gated_attention_proj_granularity_type", ("head_wise",), default="head_wise")
    width = config.integer(_spelt(config, "linear_head_dim", "head_dim"), low=1)
    delta = _kimi_delta(config, heads, width)
    full, step = replace(mla_attention(config), gate=Gate.HEADS), config.integer("layer_group_size", low=1)
    kinds = [delta if (layer + 1) % step else full for layer in range(layers)]
    first = config.integer("first_k_dense_replace", low=0, high=layers)
    return mixed_layers(config, kinds, tuple(range(first, layers)), _kimi_experts)


def _state_bytes(config: ModelSection, key: str) -> float:
    """Bytes of an element of a state: single precision where the config is silent, as engines keep it."""
    return {"float32": 4.0, "bfloat16": 2.0}[config.one_of(key, ("float32", "bfloat16"), default="float32")]


def read_nemotron_h(config: ModelSection) -> list[Layer]:
    """A letter or a word a layer: Mamba2, attention, a dense block or experts; no layer has two of them, and no block a
    gate (squared ReLU)."""
    key = "layers_block_type" if config.is_empty("hybrid_override_pattern") else "hybrid_override_pattern"
    blocks = config.texts(key) if key == "layers_block_type" else tuple(config.text(key))
    foreign = sorted(set(blocks) - set(_NEMOTRON_PARTS))
    if foreign or not blocks or len(blocks) != config.whole("num_hidden_layers", len(blocks)):
        raise config.fault(key, f"of {', '.join(_NEMOTRON_PARTS)}, one a layer", hint=UNKNOWN)
    config.one_of("mlp_hidden_act", ("relu2",))
    parts = {block: _NEMOTRON_PARTS[block](config) for block in set(blocks)}
    return [parts[block] for block in blocks]


def _nemotron_mamba(config: ModelSection) -> Layer:
    return Mamba2(
        heads=config.integer("mamba_num_heads", low=1),
        head_dim=config.integer("mamba_head_dim", low=1),
        state=config.integer("ssm_state_size", low=1),
        groups=config.integer("n_groups", low=1),
        convolution=config.integer("conv_kernel", low=1),
        state_bytes=_state_bytes(config, "mamba_ssm_cache_dtype"),
    ), None


def _nemotron_attention(config: ModelSection) -> Layer:
    heads = config.integer("num_attention_heads", low=1)
    key = "head_dim" if config.is_empty("attention_head_dim") else "attention_head_dim"
    return GroupedAttention(
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", low=1, high=heads),
        head_dim=config.integer(key, low=1),
    ), None


def _nemotron_dense(config: ModelSection) -> Layer:
    return None, DenseFfn(size=config.integer("intermediate_size", low=1), gated=False)


def _nemotron_experts(config: ModelSection) -> Layer:
    size = config.whole("moe_shared_expert_intermediate_size", 0)
    latent = config.whole("moe_latent_size", 0)
    return None, replace(deepseek_experts(config), gated=False, shared_size=size, latent=latent)


_NEMOTRON_PARTS: Mapping[str, Callable[[ModelSection], Layer]] = MappingProxyType(
    {
        **dict.fromkeys(("M", "mamba"), _nemotron_mamba),
        **dict.fromkeys(("*", "attention"), _nemotron_attention),
        **dict.fromkeys(("-", "mlp"), _nemotron_dense),
        **dict.fromkeys(("E", "moe"), _nemotron_experts),
    }
)
