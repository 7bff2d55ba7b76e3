"""Shapes of the architectures that the cost formulas cover, from Hugging Face's config.json.

Each reader follows the rules of its architecture's `configuration_*.py` and `modeling_*.py` in transformers: which
layers carry experts, which see a window only, what a missing key means there. Where classes differ in the default of
a key, the key must be given. Every one has gated FFNs (gate, up and down projection).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from planner.domain import Attention, DenseFfn, Experts, GroupedAttention, LayerGroup, MlaAttention
from planner.domain.model_layers import Ffn, Gate
from planner.errors import InputError
from planner.files.models.model_documents import ModelSection

_UNKNOWN = "Other architectures have other formulas; the planner does not guess them."
_FULL, _WINDOWED = "full_attention", "sliding_attention"
_CHUNKED = "chunked_attention"
# keys that turn a known architecture into another one: sparse or linear attention, other modalities
_FOREIGN_KEYS = ("index_topk", "linear_attn_config", "audio_config")
_NESTED_KEYS = ("text_config", "vision_config")


Layer = tuple[Attention | None, Ffn | None]
"""Attention and feed-forward block of one layer, which may lack either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleNames:
    """What the parts of a layer are called in its repository's checkpoints, one expert for all, and one `matrix` for
    all of a feed-forward block."""

    attention: str = "self_attn"
    dense: str = "mlp"
    experts: str = "mlp.experts.0"
    shared: str = "mlp.shared_experts"
    matrix: str = "down_proj"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Architecture:
    """How the layers of an architecture are read. `nested`: they stand under `text_config`, beside a tower that reads
    images; `activation`: of its feed-forward blocks, all of which are gated."""

    layers: Callable[[ModelSection], list[Layer]]
    nested: bool = False
    activation: str = "silu"
    names: ModuleNames = ModuleNames()


def text_section(config: ModelSection) -> ModelSection:
    """Where a config describes the language model: itself, or under `text_config`."""
    return config.inner("text_config") if not config.is_empty("text_config") else config


def module_names(config: ModelSection) -> ModuleNames:
    """What the parts of its layers are called in checkpoints."""
    return _architecture(config).names


def read_layers(config: ModelSection) -> list[Layer]:
    """The layers that the config describes; InputError for whatever the formulas do not cover."""
    architecture, text = _architecture(config), text_section(config)
    for section in (config, text):
        for key in (*_FOREIGN_KEYS, *(() if architecture.nested else _NESTED_KEYS)):
            if not section.is_empty(key):
                raise section.fault(key, "absent: it belongs to an architecture without formulas here", hint=_UNKNOWN)
    for key in ("hidden_act", "hidden_activation"):
        text.one_of(key, (architecture.activation,), default=architecture.activation)
    return architecture.layers(text)


def grouped_layers(layers: Iterable[Layer]) -> tuple[LayerGroup, ...]:
    """Equal layers together, in the order in which each kind first stands."""
    return tuple(LayerGroup(count=n, attention=kind[0], ffn=kind[1]) for kind, n in Counter(layers).items())


def _architecture(config: ModelSection) -> _Architecture:
    architectures = config.texts("architectures")
    if len(architectures) != 1 or architectures[0] not in _ARCHITECTURES:
        raise InputError(
            f"{config.file}: {config.key_path('architectures')} must be one that the cost model knows, "
            f"{', '.join(_ARCHITECTURES)}, got {', '.join(architectures) or 'none'}.",
            hint=_UNKNOWN,
        )
    return _ARCHITECTURES[architectures[0]]


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


def _qwen2_moe(config: ModelSection) -> list[Layer]:
    return _sparse_qwen(config, _qwen_attention(config, by_width=True), _qwen2_experts)


def _qwen3_moe(config: ModelSection) -> list[Layer]:
    return _sparse_qwen(config, _qwen_attention(config), _qwen_experts)


def _sparse_qwen(
    config: ModelSection, attentions: Sequence[Attention], experts: Callable[[ModelSection], Experts]
) -> list[Layer]:
    layers = _count(config)
    step = config.whole("decoder_sparse_step", 1, low=1)
    dense = () if config.is_empty("mlp_only_layers") else config.integers("mlp_only_layers", low=0, high=layers - 1)
    indices = tuple(layer for layer in range(layers) if (layer + 1) % step == 0 and layer not in dense)
    return _mixed(config, attentions, indices, experts)


def _mixtral(config: ModelSection) -> list[Layer]:
    return _all_experts(config, _grouped(config, windows=_windows_of_all(config), by_width=True))


def _gpt_oss(config: ModelSection) -> list[Layer]:
    return _all_experts(config, _grouped(config, windows=_typed_windows(config)))


def _llama(config: ModelSection) -> list[Layer]:
    _refuse_windows(config)
    return _dense(config, _grouped(config, by_width=True, kv_heads_default=True))


def _mistral(config: ModelSection) -> list[Layer]:
    return _dense(config, _grouped(config, windows=_windows_of_all(config), by_width=True))


def _qwen2(config: ModelSection) -> list[Layer]:
    return _dense(config, _qwen_attention(config, by_width=True))


def _qwen3(config: ModelSection) -> list[Layer]:
    return _dense(config, _qwen_attention(config))


def _qwen_attention(config: ModelSection, *, by_width: bool = False) -> list[GroupedAttention]:
    # of the Qwens only Qwen3 states a head_dim of its own, 128, where the key is missing
    return _grouped(config, windows=_qwen_windows(config), by_width=by_width)


def _minimax_m2(config: ModelSection) -> list[Layer]:
    if config.whole("shared_intermediate_size", 0):
        raise config.fault("shared_intermediate_size", "0: no MiniMax-M2 with shared experts is known", hint=_UNKNOWN)
    return _all_experts(config, _grouped(config))


def _mimo_v2(config: ModelSection) -> list[Layer]:
    """Windows and experts by lists of 0 and 1; the layers with a window have heads of their own."""
    layers = _count(config)
    kinds = {
        0: _sized(config, ""),
        1: replace(_sized(config, "swa_"), window=config.integer("sliding_window", low=1)),
    }
    attentions = [kinds[windowed] for windowed in _marks(config, "hybrid_layer_pattern", layers)]
    with_experts = _marks(config, "moe_layer_freq", layers)
    indices = tuple(layer for layer, routed in enumerate(with_experts) if routed)
    return _mixed(config, attentions, indices, _deepseek_experts)


def _sized(config: ModelSection, prefix: str) -> GroupedAttention:
    heads, kv_heads = (config.integer(f"{prefix}num_{which}_heads", low=1) for which in ("attention", "key_value"))
    if heads % kv_heads:
        raise config.fault(f"{prefix}num_key_value_heads", f"a divisor of {prefix}num_attention_heads, {heads}")
    return GroupedAttention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=config.integer(f"{prefix}head_dim", low=1),
        value_dim=config.integer(f"{prefix}v_head_dim", low=1),
    )


def _marks(config: ModelSection, key: str, layers: int) -> tuple[int, ...]:
    marks = config.integers(key, low=0, high=1)
    if len(marks) != layers:
        raise config.fault(key, f"one entry a layer, {layers}")
    return marks


def _step3(config: ModelSection) -> list[Layer]:
    """A factor a head multiplies what attention gives."""
    layers = _count(config)
    attentions = [replace(attention, gate=Gate.HEADS) for attention in _grouped(config, windows=_typed_windows(config))]
    indices = tuple(range(config.integer("first_k_dense_replace", low=0, high=layers), layers))
    return _mixed(config, attentions, indices, _step3_experts)


def _step3_experts(config: ModelSection) -> Experts:
    routed = config.integer("num_experts", low=1)
    return Experts(
        routed=routed,
        active=config.integer("num_experts_per_tok", low=1, high=routed),
        shared=config.whole("n_shared_experts", 0),
        ffn_size=config.integer("moe_intermediate_size", low=1),
        shared_size=config.whole("share_expert_dim", 0),
    )


_ROPE_INTERVAL = 4  # every so many layers one sees all tokens, the others their chunk: Llama4TextConfig's default


def _llama4(config: ModelSection) -> list[Layer]:
    layers = _count(config)
    if config.is_empty("layer_types"):
        interval = config.whole("no_rope_layer_interval", _ROPE_INTERVAL, low=1)
        chunked = [(layer + 1) % interval != 0 for layer in range(layers)]
    else:
        chunked = [kind == _CHUNKED for kind in _types(config, (_FULL, _CHUNKED))]
    chunk = config.integer("attention_chunk_size", low=1)
    attentions = [
        replace(attention, window=chunk, chunked=True) if in_chunks else attention
        for attention, in_chunks in zip(_grouped(config), chunked, strict=True)
    ]
    step = config.integer("interleave_moe_layer_step", low=1)
    routed = Experts(
        routed=config.integer("num_local_experts", low=1),
        active=config.integer("num_experts_per_tok", low=1),
        shared=1,
        ffn_size=config.integer("intermediate_size", low=1),
    )
    dense = DenseFfn(size=config.integer("intermediate_size_mlp", low=1)) if step > 1 else None
    return [(attention, routed if (layer + 1) % step == 0 else dense) for layer, attention in enumerate(attentions)]


def _gemma4(config: ModelSection) -> list[Layer]:
    """Layers that see all tokens have wider heads, fewer of them for keys, which may be the values, too."""
    for key in ("hidden_size_per_layer_input", "num_kv_shared_layers"):
        if config.whole(key, 0):
            raise config.fault(key, "0: what it stands for has no formulas here", hint=_UNKNOWN)
    near = _grouped(config, windows=_typed_windows(config))
    far = GroupedAttention(
        heads=config.integer("num_attention_heads", low=1),
        kv_heads=config.whole("num_global_key_value_heads", config.integer("num_key_value_heads", low=1), low=1),
        head_dim=config.integer("global_head_dim", low=1),
        keys_are_values=config.flag("attention_k_eq_v", False),
    )
    attentions = [attention if attention.window else far for attention in near]
    if not config.flag("enable_moe_block", False):
        return _dense(config, attentions)
    routed = config.integer("num_experts", low=1)
    experts = Experts(
        routed=routed,
        active=config.integer("top_k_experts", low=1, high=routed),
        shared=1,  # the dense block beside the experts
        ffn_size=config.integer("moe_intermediate_size", low=1),
        shared_size=config.integer("intermediate_size", low=1),
    )
    return [(attention, experts) for attention in attentions]


_WIDTH_STEP = 256  # widths of DeciLM's feed-forward blocks are rounded up to multiples


def _deci(config: ModelSection) -> list[Layer]:
    """Each layer is told by itself, and may lack attention or feed-forward block (modeling_decilm.py)."""
    blocks, layers = config.sections("block_configs"), _count(config)
    if len(blocks) != layers:
        raise config.fault("block_configs", f"one entry a layer, {layers}")
    return [(_deci_attention(config, block), _deci_ffn(config, block)) for block in map(ModelSection.of, blocks)]


def _deci_attention(config: ModelSection, block: ModelSection) -> GroupedAttention | None:
    attention = block.inner("attention")
    _refuse_replaced(attention)
    if attention.flag("no_op", False):
        return None
    heads = config.integer("num_attention_heads", low=1)
    group = attention.integer("n_heads_in_group", low=1, high=heads)
    if heads % group:
        raise attention.fault("n_heads_in_group", f"a divisor of num_attention_heads, {heads}")
    return GroupedAttention(
        heads=heads,
        kv_heads=heads // group,
        head_dim=_head_dim(config, heads, by_width=True),
        window=attention.whole("window_length", 0, low=1),
    )


def _deci_ffn(config: ModelSection, block: ModelSection) -> DenseFfn | None:
    ffn = block.inner("ffn")
    _refuse_replaced(ffn)
    if ffn.flag("no_op", False):
        return None
    width = int(2 * ffn.number("ffn_mult", above=0) * config.integer("hidden_size", low=1) / 3)
    return DenseFfn(size=-(-width // _WIDTH_STEP) * _WIDTH_STEP)


def _refuse_replaced(part: ModelSection) -> None:
    if part.flag("replace_with_linear", False) or not part.is_empty("sparsify"):
        raise part.fault("replace_with_linear", "false, and sparsify null: they have no formulas here", hint=_UNKNOWN)


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
    active = config.integer("num_experts_per_tok", low=1, high=routed)
    return Experts(routed=routed, active=active, shared=0, ffn_size=size)


def _qwen2_experts(config: ModelSection) -> Experts:
    """One shared expert, of a width of its own."""
    size = config.integer("shared_expert_intermediate_size", low=0)
    return replace(_qwen_experts(config), shared=1 if size else 0, shared_size=size)


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
    return [kind == _WINDOWED for kind in _types(config, (_FULL, _WINDOWED))]


def _types(config: ModelSection, kinds: tuple[str, str]) -> tuple[str, ...]:
    """`layer_types`, each of these `kinds`."""
    types, layers = config.texts("layer_types"), _count(config)
    if len(types) != layers:
        raise config.fault("layer_types", f"one entry a layer, {layers}")
    foreign = sorted(set(types) - set(kinds))
    if foreign:
        raise InputError(
            f"{config.file}: {config.key_path('layer_types')} must be {' or '.join(kinds)}, got {foreign[0]}.",
            hint=_UNKNOWN,
        )
    return types


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


_ARCHITECTURES: Mapping[str, _Architecture] = MappingProxyType(
    {
        "DeciLMForCausalLM": _Architecture(layers=_deci),
        "DeepseekV2ForCausalLM": _Architecture(layers=_deepseek),
        "DeepseekV3ForCausalLM": _Architecture(layers=_deepseek),
        "Gemma4ForConditionalGeneration": _Architecture(
            layers=_gemma4,
            nested=True,
            activation="gelu_pytorch_tanh",
            names=ModuleNames(experts="experts.0", shared="mlp"),
        ),
        "Glm4MoeForCausalLM": _Architecture(layers=_glm4_moe),
        "GptOssForCausalLM": _Architecture(layers=_gpt_oss),
        "KimiK25ForConditionalGeneration": _Architecture(layers=_deepseek, nested=True),
        "Llama4ForConditionalGeneration": _Architecture(layers=_llama4, nested=True),
        "LlamaForCausalLM": _Architecture(layers=_llama),
        "MiMoForCausalLM": _Architecture(layers=_qwen3),
        "MiMoV2FlashForCausalLM": _Architecture(layers=_mimo_v2),
        "MiniMaxM2ForCausalLM": _Architecture(
            layers=_minimax_m2, names=ModuleNames(experts="block_sparse_moe.experts.0", matrix="w2")
        ),
        "MistralForCausalLM": _Architecture(layers=_mistral),
        "MixtralForCausalLM": _Architecture(layers=_mixtral),
        "Qwen2ForCausalLM": _Architecture(layers=_qwen2),
        "Qwen2MoeForCausalLM": _Architecture(layers=_qwen2_moe, names=ModuleNames(shared="mlp.shared_expert")),
        "Qwen3ForCausalLM": _Architecture(layers=_qwen3),
        "Qwen3MoeForCausalLM": _Architecture(layers=_qwen3_moe),
        "Qwen3VLForConditionalGeneration": _Architecture(layers=_qwen3, nested=True),
        "Qwen3VLMoeForConditionalGeneration": _Architecture(layers=_qwen3_moe, nested=True),
        "Step3p7FlashForCausalLM": _Architecture(layers=_step3),
    }
)
