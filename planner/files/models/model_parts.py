"""Parts of layers as several architectures describe them in a config.json: attention, windows, experts."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.domain import Attention, DenseFfn, Experts, GroupedAttention, MlaAttention
from planner.domain.model import Ffn
from planner.errors import InputError
from planner.files.models.model_documents import ModelSection

UNKNOWN = "Other architectures have other formulas; the planner does not guess them."
FULL_INDEXER = "full"
FULL, WINDOWED, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"

Layer = tuple[Attention | None, Ffn | None]
"""Attention and feed-forward block of one layer, which may lack either."""


def layer_count(config: ModelSection) -> int:
    """Layers of the language model."""
    return config.integer("num_hidden_layers", low=1)


def dense_layers(config: ModelSection, attentions: Sequence[Attention]) -> list[Layer]:
    """Layers of these attentions, all with dense FFNs."""
    return [(attention, _dense_ffn(config)) for attention in attentions]


def _dense_ffn(config: ModelSection) -> DenseFfn:
    return DenseFfn(size=config.integer("intermediate_size", low=1))


def mixed_layers(
    config: ModelSection,
    attentions: Sequence[Attention],
    indices: tuple[int, ...],
    experts: Callable[[ModelSection], Experts],
) -> list[Layer]:
    """Experts in the layers of these `indices`, dense FFNs in the others."""
    dense = _dense_ffn(config) if len(indices) < len(attentions) else None
    routed = experts(config) if indices else None
    return [(attention, routed if layer in indices else dense) for layer, attention in enumerate(attentions)]


def expert_layers(config: ModelSection, attentions: Sequence[Attention]) -> list[Layer]:
    """Layers of these attentions, all with experts as Mixtral and its kin tell them."""
    routed = config.integer("num_local_experts", low=1)
    experts = Experts(
        routed=routed,
        active=config.integer("num_experts_per_tok", low=1, high=routed),
        shared=0,
        ffn_size=config.integer("intermediate_size", low=1),
    )
    return [(attention, experts) for attention in attentions]


def deepseek_experts(config: ModelSection) -> Experts:
    """Experts by the keys of DeepSeek, which many follow."""
    routed = config.integer("n_routed_experts", low=1)
    return Experts(
        routed=routed,
        active=config.integer("num_experts_per_tok", low=1, high=routed),
        shared=config.whole("n_shared_experts", 0),
        ffn_size=config.integer("moe_intermediate_size", low=1),
        node_limit=node_limit(config, routed),
    )


def node_limit(config: ModelSection, routed: int, key: str = "n_group") -> int:
    """Groups of experts that a token may reach; 0 where it may reach all."""
    groups = config.whole(key, 1, low=1, high=routed)
    if routed % groups:
        raise config.fault(key, f"a divisor of n_routed_experts, {routed}")
    if groups == 1 or (not config.is_empty("topk_method") and config.text("topk_method") == "greedy"):
        return 0
    limit = config.integer("topk_group", low=1, high=groups)
    return limit if limit < groups else 0


def qwen3_experts(config: ModelSection) -> Experts:
    """Experts by the keys of Qwen, none of them shared."""
    routed = config.integer("num_experts", low=1)
    size = config.integer("moe_intermediate_size", low=1)
    active = config.integer("num_experts_per_tok", low=1, high=routed)
    return Experts(routed=routed, active=active, shared=0, ffn_size=size)


def qwen2_experts(config: ModelSection) -> Experts:
    """One shared expert, of a width of its own."""
    size = config.integer("shared_expert_intermediate_size", low=0)
    return replace(qwen3_experts(config), shared=1 if size else 0, shared_size=size)


def mla_attention(config: ModelSection) -> MlaAttention:
    """Latent attention by the keys of DeepSeek."""
    if "q_lora_rank" not in config:
        raise config.fault("q_lora_rank", "given: null where queries are not compressed")
    return MlaAttention(
        heads=config.integer("num_attention_heads", low=1),
        query_rank=config.whole("q_lora_rank", 0, low=1),
        kv_rank=config.integer("kv_lora_rank", low=1),
        nope_dim=config.integer("qk_nope_head_dim", low=1),
        rope_dim=config.integer("qk_rope_head_dim", low=1),
        value_dim=config.integer("v_head_dim", low=1),
    )


def grouped_attentions(
    config: ModelSection, *, windows: Sequence[int] = (), by_width: bool = False, kv_heads_default: bool = False
) -> list[GroupedAttention]:
    """Of every layer; `windows` that they see (tokens; 0: all), where any has one.

    `by_width`: a missing head_dim is hidden_size over heads; `kv_heads_default`: so many KV heads as heads.
    """
    heads = config.integer("num_attention_heads", low=1)
    if "num_key_value_heads" in config or kv_heads_default:
        kv_heads = config.whole("num_key_value_heads", heads, low=1)
    else:
        raise config.fault("num_key_value_heads", "given: null where there are as many as num_attention_heads")
    if heads % kv_heads:
        raise config.fault("num_key_value_heads", f"a divisor of num_attention_heads, {heads}")
    width = head_dim(config, heads, by_width=by_width)
    return [
        GroupedAttention(heads=heads, kv_heads=kv_heads, head_dim=width, window=window)
        for window in windows or [0] * layer_count(config)
    ]


def head_dim(config: ModelSection, heads: int, *, by_width: bool) -> int:
    """Width of a head; `by_width`: that of the model over the heads where the config is silent."""
    if not config.is_empty("head_dim") or not by_width:
        return config.integer("head_dim", low=1)
    hidden = config.integer("hidden_size", low=1)
    if hidden % heads:
        raise config.fault("num_attention_heads", f"a divisor of hidden_size, {hidden}, as head_dim is missing")
    return hidden // heads


def refuse_windows(config: ModelSection) -> None:
    """InputError where a window is told of an architecture that has none."""
    if not config.is_empty("sliding_window"):
        raise config.fault("sliding_window", "null: this architecture has no windowed layers")
    if not config.is_empty("layer_types") and any(_windowed(config)):
        raise config.fault("layer_types", f"{FULL} alone: this architecture has no windowed layers")


def _windowed(config: ModelSection) -> list[bool]:
    """Of each of `layer_types`, whether it sees a window."""
    return [kind == WINDOWED for kind in layer_types(config, (FULL, WINDOWED))]


def layer_types(config: ModelSection, kinds: tuple[str, str], key: str = "layer_types") -> tuple[str, ...]:
    """A list of a word a layer, each of these `kinds`."""
    types, layers = config.texts(key), layer_count(config)
    if len(types) != layers:
        raise config.fault(key, f"one entry a layer, {layers}")
    foreign = sorted(set(types) - set(kinds))
    if foreign:
        raise InputError(
            f"{config.file}: {config.key_path(key)} must be {' or '.join(kinds)}, got {foreign[0]}.",
            hint=UNKNOWN,
        )
    return types


def typed_windows(config: ModelSection) -> list[int]:
    """The window of every layer (tokens; 0: it sees all) where `layer_types` says which has one."""
    windowed = _windowed(config)
    window = config.integer("sliding_window", low=1) if any(windowed) else 0
    return [window if sees_window else 0 for sees_window in windowed]


def windows_of_all(config: ModelSection) -> list[int]:
    """As above; without `layer_types` a sliding_window holds for every layer."""
    if not config.is_empty("layer_types"):
        return typed_windows(config)
    return [config.whole("sliding_window", 0, low=1)] * layer_count(config)


def qwen_windows(config: ModelSection) -> list[int]:
    """As above; sliding_window holds only with use_sliding_window, and from layer max_window_layers on."""
    in_use = config.flag("use_sliding_window", False)
    if not config.is_empty("layer_types"):
        windows = typed_windows(config)
        if any(windows) and not in_use:
            raise config.fault("use_sliding_window", "true, as layer_types has windowed layers")
        return windows
    layers = layer_count(config)
    if not in_use or config.is_empty("sliding_window"):
        return [0] * layers
    full = min(layers, config.integer("max_window_layers", low=0))
    window = config.integer("sliding_window", low=1) if full < layers else 0
    return [0] * full + [window] * (layers - full)
