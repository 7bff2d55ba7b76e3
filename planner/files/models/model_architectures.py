"""Shapes of the architectures that the cost formulas cover, from Hugging Face's config.json.

Each reader follows the rules of its architecture's `configuration_*.py` and `modeling_*.py` in transformers: which
layers carry experts, which see a window only, what a missing key means there. Where classes differ in the default of
a key, the key must be given. Every one has gated FFNs (gate, up and down projection).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from planner.domain import Attention, DenseFfn, Experts, GroupedAttention, LayerGroup
from planner.domain.model_layers import BlockIndexer, CompressedAttention, Gate, Indexer, LinearAttention, Mamba2, Rule
from planner.domain.model_layers.compressed import OVERLAPPING
from planner.errors import InputError
from planner.files.models.model_documents import ModelSection
from planner.files.models.model_parts import (
    CHUNKED,
    FULL,
    FULL_INDEXER,
    UNKNOWN,
    Layer,
    deepseek_experts,
    dense_layers,
    expert_layers,
    grouped_attentions,
    head_dim,
    layer_count,
    layer_types,
    mixed_layers,
    mla_attention,
    qwen2_experts,
    qwen3_experts,
    qwen_windows,
    refuse_windows,
    typed_windows,
    windows_of_all,
)

# keys that turn a known architecture into another one: sparse or linear attention, other modalities
_FOREIGN_KEYS = ("linear_attn_config", "audio_config")
_CHOOSING = "index_topk"
_NESTED_KEYS = ("text_config", "vision_config")


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
        chooses = () if architecture.layers in (_deepseek_sparse, _deepseek_v4) else (_CHOOSING,)
        for key in (*_FOREIGN_KEYS, *chooses, *(() if architecture.nested else _NESTED_KEYS)):
            if not section.is_empty(key):
                raise section.fault(key, "absent: it belongs to an architecture without formulas here", hint=UNKNOWN)
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
            hint=UNKNOWN,
        )
    return _ARCHITECTURES[architectures[0]]


def _deepseek(config: ModelSection) -> list[Layer]:
    refuse_windows(config)
    layers = layer_count(config)
    first = config.integer("first_k_dense_replace", low=0, high=layers)
    step = config.whole("moe_layer_freq", 1, low=1)
    indices = tuple(layer for layer in range(first, layers) if layer % step == 0)
    return mixed_layers(config, [mla_attention(config)] * layers, indices, deepseek_experts)


def _deepseek_sparse(config: ModelSection) -> list[Layer]:
    """Every layer attends to what an indexer chooses; by `indexer_types` it may be an earlier layer's choice."""
    layers = layer_count(config)
    indexer = Indexer(
        heads=config.integer("index_n_heads", low=1),
        dim=config.integer("index_head_dim", low=1),
        top=config.integer("index_topk", low=1),
    )
    owning = [True] * layers
    if not config.is_empty("indexer_types"):
        owning = [kind == FULL_INDEXER for kind in layer_types(config, (FULL_INDEXER, "shared"), "indexer_types")]
    mla = mla_attention(config)
    attentions = [replace(mla, indexer=replace(indexer, own=own)) for own in owning]
    first = config.integer("first_k_dense_replace", low=0, high=layers)
    return mixed_layers(config, attentions, tuple(range(first, layers)), deepseek_experts)


def _deepseek_v4(config: ModelSection) -> list[Layer]:
    """`compress_ratios` says of every layer how many tokens become one entry; those of few are chosen by an indexer.
    The list may go on with layers that draft. Every layer has experts."""
    layers = layer_count(config)
    ratios = config.integers("compress_ratios", low=0, high=10_000)
    if len(ratios) < layers:
        raise config.fault("compress_ratios", f"an entry for each of {layers} layers")
    plain = CompressedAttention(
        heads=config.integer("num_attention_heads", low=1),
        head_dim=config.integer("head_dim", low=1),
        query_rank=config.integer("q_lora_rank", low=1),
        output_groups=config.integer("o_groups", low=1),
        output_rank=config.integer("o_lora_rank", low=1),
        window=config.integer("sliding_window", low=1),
    )
    indexed = {
        "index_heads": config.integer("index_n_heads", low=1),
        "index_dim": config.integer("index_head_dim", low=1),
        "index_top": config.integer("index_topk", low=1),
    }
    kinds = {ratio: replace(plain, ratio=ratio, **(indexed if ratio == OVERLAPPING else {})) for ratio in set(ratios)}
    experts = deepseek_experts(config)
    return [(kinds[ratio], experts) for ratio in ratios[:layers]]


def _glm4_moe(config: ModelSection) -> list[Layer]:
    refuse_windows(config)
    layers = layer_count(config)
    indices = tuple(range(config.integer("first_k_dense_replace", low=0, high=layers), layers))
    return mixed_layers(config, grouped_attentions(config), indices, deepseek_experts)


def _qwen2_moe(config: ModelSection) -> list[Layer]:
    return _sparse_qwen(config, _qwen_attention(config, by_width=True), qwen2_experts)


def _qwen3_moe(config: ModelSection) -> list[Layer]:
    return _sparse_qwen(config, _qwen_attention(config), qwen3_experts)


def _sparse_qwen(
    config: ModelSection, attentions: Sequence[Attention], experts: Callable[[ModelSection], Experts]
) -> list[Layer]:
    layers = layer_count(config)
    step = config.whole("decoder_sparse_step", 1, low=1)
    dense = () if config.is_empty("mlp_only_layers") else config.integers("mlp_only_layers", low=0, high=layers - 1)
    indices = tuple(layer for layer in range(layers) if (layer + 1) % step == 0 and layer not in dense)
    return mixed_layers(config, attentions, indices, experts)


def _mixtral(config: ModelSection) -> list[Layer]:
    return expert_layers(config, grouped_attentions(config, windows=windows_of_all(config), by_width=True))


def _gpt_oss(config: ModelSection) -> list[Layer]:
    return expert_layers(config, grouped_attentions(config, windows=typed_windows(config)))


def _llama(config: ModelSection) -> list[Layer]:
    refuse_windows(config)
    return dense_layers(config, grouped_attentions(config, by_width=True, kv_heads_default=True))


def _mistral(config: ModelSection) -> list[Layer]:
    return dense_layers(config, grouped_attentions(config, windows=windows_of_all(config), by_width=True))


def _qwen2(config: ModelSection) -> list[Layer]:
    return dense_layers(config, _qwen_attention(config, by_width=True))


def _qwen3(config: ModelSection) -> list[Layer]:
    return dense_layers(config, _qwen_attention(config))


def _qwen_attention(config: ModelSection, *, by_width: bool = False) -> list[GroupedAttention]:
    # of the Qwens only Qwen3 states a head_dim of its own, 128, where the key is missing
    return grouped_attentions(config, windows=qwen_windows(config), by_width=by_width)


def _minimax_m2(config: ModelSection) -> list[Layer]:
    if config.whole("shared_intermediate_size", 0):
        raise config.fault("shared_intermediate_size", "0: no MiniMax-M2 with shared experts is known", hint=UNKNOWN)
    return expert_layers(config, grouped_attentions(config))


def _minimax_m3(config: ModelSection) -> list[Layer]:
    """Of layers with marks for it, an indexer chooses blocks of tokens; others have experts by a list of marks."""
    layers, sparse = layer_count(config), config.inner("sparse_attention_config")
    indexer = BlockIndexer(
        heads=sparse.integer("sparse_num_index_heads", low=1),
        dim=sparse.integer("sparse_index_dim", low=1),
        block=sparse.integer("sparse_block_size", low=1),
        top=sparse.integer("sparse_topk_blocks", low=1),
    )
    chosen = _marks(sparse, "sparse_attention_freq", layers)
    attentions = [
        replace(attention, indexer=indexer) if chooses else attention
        for attention, chooses in zip(grouped_attentions(config), chosen, strict=True)
    ]
    routed = config.integer("num_local_experts", low=1)
    experts = Experts(
        routed=routed,
        active=config.integer("num_experts_per_tok", low=1, high=routed),
        shared=config.whole("n_shared_experts", 0),
        ffn_size=config.integer("intermediate_size", low=1),
        shared_size=config.whole("shared_intermediate_size", 0),
    )
    dense = DenseFfn(size=config.integer("dense_intermediate_size", low=1))
    with_experts = _marks(config, "moe_layer_freq", layers)
    return [
        (attention, experts if marked else dense) for attention, marked in zip(attentions, with_experts, strict=True)
    ]


def _mimo_v2(config: ModelSection) -> list[Layer]:
    """Windows and experts by lists of 0 and 1; the layers with a window have heads of their own."""
    layers = layer_count(config)
    kinds = {
        0: _sized(config, ""),
        1: replace(_sized(config, "swa_"), window=config.integer("sliding_window", low=1)),
    }
    attentions = [kinds[windowed] for windowed in _marks(config, "hybrid_layer_pattern", layers)]
    with_experts = _marks(config, "moe_layer_freq", layers)
    indices = tuple(layer for layer, routed in enumerate(with_experts) if routed)
    return mixed_layers(config, attentions, indices, deepseek_experts)


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
    layers = layer_count(config)
    attentions = [
        replace(attention, gate=Gate.HEADS) for attention in grouped_attentions(config, windows=typed_windows(config))
    ]
    indices = tuple(range(config.integer("first_k_dense_replace", low=0, high=layers), layers))
    return mixed_layers(config, attentions, indices, _step3_experts)


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
    layers = layer_count(config)
    if config.is_empty("layer_types"):
        interval = config.whole("no_rope_layer_interval", _ROPE_INTERVAL, low=1)
        chunked = [(layer + 1) % interval != 0 for layer in range(layers)]
    else:
        chunked = [kind == CHUNKED for kind in layer_types(config, (FULL, CHUNKED))]
    chunk = config.integer("attention_chunk_size", low=1)
    attentions = [
        replace(attention, window=chunk, chunked=True) if in_chunks else attention
        for attention, in_chunks in zip(grouped_attentions(config), chunked, strict=True)
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
            raise config.fault(key, "0: what it stands for has no formulas here", hint=UNKNOWN)
    near = grouped_attentions(config, windows=typed_windows(config))
    far = GroupedAttention(
        heads=config.integer("num_attention_heads", low=1),
        kv_heads=config.whole("num_global_key_value_heads", config.integer("num_key_value_heads", low=1), low=1),
        head_dim=config.integer("global_head_dim", low=1),
        keys_are_values=config.flag("attention_k_eq_v", False),
    )
    attentions = [attention if attention.window else far for attention in near]
    if not config.flag("enable_moe_block", False):
        return dense_layers(config, attentions)
    routed = config.integer("num_experts", low=1)
    experts = Experts(
        routed=routed,
        active=config.integer("top_k_experts", low=1, high=routed),
        shared=1,  # the dense block beside the experts
        ffn_size=config.integer("moe_intermediate_size", low=1),
        shared_size=config.integer("intermediate_size", low=1),
    )
    return [(attention, experts) for attention in attentions]


def _qwen35(config: ModelSection) -> list[Layer]:
    """Gated DeltaNet, and every few layers full attention with an output gate (dense)."""
    return dense_layers(config, _qwen35_attentions(config))


def _qwen35_moe(config: ModelSection) -> list[Layer]:
    experts = qwen2_experts(config)
    return [(attention, experts) for attention in _qwen35_attentions(config)]


def _qwen35_attentions(config: ModelSection) -> list[Attention]:
    full = grouped_attentions(config)
    linear = LinearAttention(
        rule=Rule.DELTA,
        key_heads=config.integer("linear_num_key_heads", low=1),
        value_heads=config.integer("linear_num_value_heads", low=1),
        key_dim=config.integer("linear_key_head_dim", low=1),
        value_dim=config.integer("linear_value_head_dim", low=1),
        convolution=config.integer("linear_conv_kernel_dim", low=1),
        state_bytes=_state_bytes(config, "mamba_ssm_dtype"),
    )
    kinds = layer_types(config, (FULL, "linear_attention"))
    return [
        replace(attention, gate=Gate.ELEMENTS) if kind == FULL else linear
        for attention, kind in zip(full, kinds, strict=True)
    ]


def _state_bytes(config: ModelSection, key: str) -> float:
    """Bytes of an element of a state: single precision where the config is silent, as engines keep it."""
    return {"float32": 4.0, "bfloat16": 2.0}[config.one_of(key, ("float32", "bfloat16"), default="float32")]


def _nemotron_h(config: ModelSection) -> list[Layer]:
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
_WIDTH_STEP = 256  # widths of DeciLM's feed-forward blocks are rounded up to multiples


def _deci(config: ModelSection) -> list[Layer]:
    """Each layer is told by itself, and may lack attention or feed-forward block (modeling_decilm.py)."""
    blocks, layers = config.sections("block_configs"), layer_count(config)
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
        head_dim=head_dim(config, heads, by_width=True),
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
        raise part.fault("replace_with_linear", "false, and sparsify null: they have no formulas here", hint=UNKNOWN)


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
        "DeepseekV4ForCausalLM": _Architecture(
            layers=_deepseek_v4,
            names=ModuleNames(attention="attn", experts="ffn.experts.0", shared="ffn.shared_experts", matrix="w2"),
        ),
        "DeepseekV32ForCausalLM": _Architecture(layers=_deepseek_sparse),
        "GlmMoeDsaForCausalLM": _Architecture(layers=_deepseek_sparse),
        "NemotronHForCausalLM": _Architecture(layers=_nemotron_h),
        "Qwen3_5ForConditionalGeneration": _Architecture(layers=_qwen35, nested=True),
        "Qwen3_5MoeForConditionalGeneration": _Architecture(layers=_qwen35_moe, nested=True),
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
        "MiniMaxM3ForCausalLM": _Architecture(layers=_minimax_m3, activation="swigluoai"),
        "MiniMaxM3SparseForConditionalGeneration": _Architecture(
            layers=_minimax_m3, nested=True, activation="swigluoai"
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
