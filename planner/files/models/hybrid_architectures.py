"""Architectures whose layers differ: sparse and compressed attention, windows and experts by lists, lists of blocks.

Each reader follows the rules of its architecture's `configuration_*.py` and `modeling_*.py` in transformers 5.23, that
of DeciLM those of its repository.
"""

from dataclasses import replace

from planner.domain import DenseFfn, Experts, GroupedAttention
from planner.domain.model import MOST_LAYERS, BlockIndexer, CompressedAttention, Gate, Indexer
from planner.domain.model.compressed import OVERLAPPING
from planner.files.models.model_documents import ModelSection
from planner.files.models.model_parts import (
    CHUNKED,
    FULL,
    FULL_INDEXER,
    UNKNOWN,
    Layer,
    deepseek_experts,
    dense_layers,
    grouped_attentions,
    head_dim,
    layer_count,
    layer_types,
    mixed_layers,
    mla_attention,
    typed_windows,
)


def read_deepseek_sparse(config: ModelSection) -> list[Layer]:
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


def read_deepseek_v4(config: ModelSection) -> list[Layer]:
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


def read_minimax_m3(config: ModelSection) -> list[Layer]:
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


def read_mimo_v2(config: ModelSection) -> list[Layer]:
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


def read_step3(config: ModelSection) -> list[Layer]:
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


def read_llama4(config: ModelSection) -> list[Layer]:
    """Layers see a chunk of the tokens, every few layers one sees all; experts in every layer or every other."""
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


_GEMMA3_PATTERN = 6  # of so many layers the last one sees all: Gemma3TextConfig's default


def read_gemma3(config: ModelSection) -> list[Layer]:
    """Of every few layers the last one sees all tokens, the others a window."""
    config.flag("tie_word_embeddings")  # its class ties where others do not: it has to be said
    if not config.is_empty("layer_types"):
        return dense_layers(config, grouped_attentions(config, windows=typed_windows(config)))
    pattern = config.whole("sliding_window_pattern", _GEMMA3_PATTERN, low=1)
    window = config.integer("sliding_window", low=1)
    windows = [0 if (layer + 1) % pattern == 0 else window for layer in range(layer_count(config))]
    return dense_layers(config, grouped_attentions(config, windows=windows))


def read_gemma4(config: ModelSection) -> list[Layer]:
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


def read_longcat(config: ModelSection) -> list[Layer]:
    """What it counts as a layer is two with dense blocks, and experts beside the second; of those that its router
    chooses some do nothing."""
    routed, zero = config.integer("n_routed_experts", low=1), config.whole("zero_expert_num", 0)
    chosen = config.integer("moe_topk", low=1, high=routed + zero)
    experts = Experts(
        routed=routed,
        active=max(1, round(chosen * routed / (routed + zero))),
        shared=0,
        ffn_size=config.integer("expert_ffn_hidden_size", low=1),
        zero=zero,
    )
    plain = (mla_attention(config), DenseFfn(size=config.integer("ffn_hidden_size", low=1)))
    return [plain, plain, (None, experts)] * config.integer("num_layers", low=1, high=MOST_LAYERS // 3)


_WIDTH_STEP = 256  # widths of DeciLM's feed-forward blocks are rounded up to multiples


def read_deci(config: ModelSection) -> list[Layer]:
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
