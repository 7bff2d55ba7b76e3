"""Shapes of the architectures that the cost formulas cover, from Hugging Face's config.json.

Each reader follows the rules of its architecture's `configuration_*.py` and `modeling_*.py` in transformers: which
layers carry experts, which see a window only, what a missing key means there. Where classes differ in the default of
a key, the key must be given. Every one has gated FFNs (gate, up and down projection).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from planner.domain import Attention, DenseFfn, Experts, GroupedAttention, LayerGroup, MlaAttention
from planner.domain.model_layers import Ffn
from planner.errors import InputError
from planner.files.models.model_documents import ModelSection

_UNKNOWN = "Other architectures have other formulas; the planner does not guess them."
_FULL, _WINDOWED = "full_attention", "sliding_attention"
# keys that turn a known architecture into another one: sparse or linear attention, other modalities
_FOREIGN_KEYS = ("index_topk", "linear_attn_config", "text_config", "vision_config", "audio_config")


Layer = tuple[Attention | None, Ffn | None]


def read_layers(config: ModelSection) -> tuple[LayerGroup, ...]:
    """The layers that the config describes, equal ones together; InputError for whatever the formulas do not cover."""
    reader = _reader(config)
    for key in _FOREIGN_KEYS:
        if not config.is_empty(key):
            raise config.fault(key, "absent: it belongs to an architecture without formulas here", hint=_UNKNOWN)
    config.one_of("hidden_act", ("silu",), default="silu")
    return grouped_layers(reader(config))


def grouped_layers(layers: Iterable[Layer]) -> tuple[LayerGroup, ...]:
    """Equal layers together, in the order in which each kind first stands."""
    return tuple(LayerGroup(count=n, attention=kind[0], ffn=kind[1]) for kind, n in Counter(layers).items())


def _reader(config: ModelSection) -> Callable[[ModelSection], list[Layer]]:
    architectures = config.texts("architectures")
    if len(architectures) != 1 or architectures[0] not in _READERS:
        raise InputError(
            f"{config.file}: {config.key_path('architectures')} must be one that the cost model knows, "
            f"{', '.join(_READERS)}, got {', '.join(architectures) or 'none'}.",
            hint=_UNKNOWN,
        )
    return _READERS[architectures[0]]


def _count(config: ModelSection) -> int:
    return config.integer("num_hidden_layers", low=1)


def _deepseek(config: ModelSection) -> list[Layer]:
    _refuse_windows(config)
    layers = _count(config)
    first = config.integer("first_k_dense_replace", low=0, high=layers)
    step = config.whole("moe_layer_freq", 1, low=1)
    indices = tuple(layer for layer in range(first, layers) if layer % step == 0)
    return _mixed(config, [_mla(config)] * layers, indices, _deepseek_experts)


def _glm4_moe(config: ModelSection) -> list[Layer]:
    _refuse_windows(config)
    layers = _count(config)
    indices = tuple(range(config.integer("first_k_dense_replace", low=0, high=layers), layers))
    return _mixed(config, _grouped(config), indices, _deepseek_experts)


def _qwen_moe(config: ModelSection) -> list[Layer]:
    layers = _count(config)
    step = config.whole("decoder_sparse_step", 1, low=1)
    dense = () if config.is_empty("mlp_only_layers") else config.integers("mlp_only_layers", low=0, high=layers - 1)
    indices = tuple(layer for layer in range(layers) if (layer + 1) % step == 0 and layer not in dense)
    return _mixed(config, _qwen_attention(config), indices, _qwen_experts)


def _mixtral(config: ModelSection) -> list[Layer]:
    return _all_experts(config, _grouped(config, windows=_windows_of_all(config), by_width=True))


def _gpt_oss(config: ModelSection) -> list[Layer]:
    return _all_experts(config, _grouped(config, windows=_typed_windows(config)))


def _llama(config: ModelSection) -> list[Layer]:
    _refuse_windows(config)
    return _dense(config, _grouped(config, by_width=True, kv_heads_default=True))


def _mistral(config: ModelSection) -> list[Layer]:
    return _dense(config, _grouped(config, windows=_windows_of_all(config), by_width=True))


def _qwen(config: ModelSection) -> list[Layer]:
    return _dense(config, _qwen_attention(config))


def _qwen_attention(config: ModelSection) -> list[Attention]:
    # of the Qwens only Qwen3 states a head_dim of its own, 128, where the key is missing
    return _grouped(config, windows=_qwen_windows(config), by_width="Qwen2" in config.texts("architectures")[0])


def _dense(config: ModelSection, attentions: Sequence[Attention]) -> list[Layer]:
    return [(attention, _dense_ffn(config)) for attention in attentions]


def _dense_ffn(config: ModelSection) -> DenseFfn:
    return DenseFfn(size=config.integer("intermediate_size", low=1))


def _mixed(
    config: ModelSection,
    attentions: Sequence[Attention],
    indices: tuple[int, ...],
    experts: Callable[[ModelSection], Experts],
) -> list[Layer]:
    """Experts in the layers of these `indices`, dense FFNs in the others."""
    dense = _dense_ffn(config) if len(indices) < len(attentions) else None
    routed = experts(config) if indices else None
    return [(attention, routed if layer in indices else dense) for layer, attention in enumerate(attentions)]


def _all_experts(config: ModelSection, attentions: Sequence[Attention]) -> list[Layer]:
    routed = config.integer("num_local_experts", low=1)
    experts = Experts(
        routed=routed,
        active=config.integer("num_experts_per_tok", low=1, high=routed),
        shared=0,
        ffn_size=config.integer("intermediate_size", low=1),
    )
    return [(attention, experts) for attention in attentions]


def _deepseek_experts(config: ModelSection) -> Experts:
    routed = config.integer("n_routed_experts", low=1)
    return Experts(
        routed=routed,
        active=config.integer("num_experts_per_tok", low=1, high=routed),
        shared=config.whole("n_shared_experts", 0),
        ffn_size=config.integer("moe_intermediate_size", low=1),
        node_limit=_node_limit(config, routed),
    )


def _node_limit(config: ModelSection, routed: int) -> int:
    """Groups of experts that a token may reach; 0 where it may reach all."""
    groups = config.whole("n_group", 1, low=1, high=routed)
    if routed % groups:
        raise config.fault("n_group", f"a divisor of n_routed_experts, {routed}")
    if groups == 1 or (not config.is_empty("topk_method") and config.text("topk_method") == "greedy"):
        return 0
    limit = config.integer("topk_group", low=1, high=groups)
    return limit if limit < groups else 0


def _qwen_experts(config: ModelSection) -> Experts:
    routed = config.integer("num_experts", low=1)
    size = config.integer("moe_intermediate_size", low=1)
    shared_size = 0
    if config.texts("architectures") == ("Qwen2MoeForCausalLM",):
        shared_size = config.integer("shared_expert_intermediate_size", low=0)
    active = config.integer("num_experts_per_tok", low=1, high=routed)
    shared = 1 if shared_size else 0
    return Experts(routed=routed, active=active, shared=shared, ffn_size=size, shared_size=shared_size)


def _mla(config: ModelSection) -> MlaAttention:
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


def _grouped(
    config: ModelSection, *, windows: Sequence[int] = (), by_width: bool = False, kv_heads_default: bool = False
) -> list[Attention]:
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
    head_dim = _head_dim(config, heads, by_width=by_width)
    return [
        GroupedAttention(heads=heads, kv_heads=kv_heads, head_dim=head_dim, window=window)
        for window in windows or [0] * _count(config)
    ]


def _head_dim(config: ModelSection, heads: int, *, by_width: bool) -> int:
    if not config.is_empty("head_dim") or not by_width:
        return config.integer("head_dim", low=1)
    hidden = config.integer("hidden_size", low=1)
    if hidden % heads:
        raise config.fault("num_attention_heads", f"a divisor of hidden_size, {hidden}, as head_dim is missing")
    return hidden // heads


def _refuse_windows(config: ModelSection) -> None:
    if not config.is_empty("sliding_window"):
        raise config.fault("sliding_window", "null: this architecture has no windowed layers")
    if not config.is_empty("layer_types") and any(_windowed(config)):
        raise config.fault("layer_types", f"{_FULL} alone: this architecture has no windowed layers")


def _windowed(config: ModelSection) -> list[bool]:
    """Of each of `layer_types`, whether it sees a window."""
    types, layers = config.texts("layer_types"), _count(config)
    if len(types) != layers:
        raise config.fault("layer_types", f"one entry a layer, {layers}")
    foreign = sorted(set(types) - {_FULL, _WINDOWED})
    if foreign:
        raise InputError(
            f"{config.file}: {config.key_path('layer_types')} must be {_FULL} or {_WINDOWED}, got {foreign[0]}.",
            hint=_UNKNOWN,
        )
    return [kind == _WINDOWED for kind in types]


def _typed_windows(config: ModelSection) -> list[int]:
    """The window of every layer (tokens; 0: it sees all) where `layer_types` says which has one."""
    windowed = _windowed(config)
    window = config.integer("sliding_window", low=1) if any(windowed) else 0
    return [window if sees_window else 0 for sees_window in windowed]


def _windows_of_all(config: ModelSection) -> list[int]:
    """As above; without `layer_types` a sliding_window holds for every layer."""
    if not config.is_empty("layer_types"):
        return _typed_windows(config)
    return [config.whole("sliding_window", 0, low=1)] * _count(config)


def _qwen_windows(config: ModelSection) -> list[int]:
    """As above; sliding_window holds only with use_sliding_window, and from layer max_window_layers on."""
    in_use = config.flag("use_sliding_window", False)
    if not config.is_empty("layer_types"):
        windows = _typed_windows(config)
        if any(windows) and not in_use:
            raise config.fault("use_sliding_window", "true, as layer_types has windowed layers")
        return windows
    layers = _count(config)
    if not in_use or config.is_empty("sliding_window"):
        return [0] * layers
    full = min(layers, config.integer("max_window_layers", low=0))
    window = config.integer("sliding_window", low=1) if full < layers else 0
    return [0] * full + [window] * (layers - full)


_READERS: dict[str, Callable[[ModelSection], list[Layer]]] = {
    "DeepseekV2ForCausalLM": _deepseek,
    "DeepseekV3ForCausalLM": _deepseek,
    "Glm4MoeForCausalLM": _glm4_moe,
    "GptOssForCausalLM": _gpt_oss,
    "LlamaForCausalLM": _llama,
    "MistralForCausalLM": _mistral,
    "MixtralForCausalLM": _mixtral,
    "Qwen2ForCausalLM": _qwen,
    "Qwen2MoeForCausalLM": _qwen_moe,
    "Qwen3ForCausalLM": _qwen,
    "Qwen3MoeForCausalLM": _qwen_moe,
}
