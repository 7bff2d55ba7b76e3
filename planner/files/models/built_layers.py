"""Layers of a model that transformers built without weights: what each is made of, by its matrices and modules.

Kinds are proposed by the names of matrices, and hold only where their formulas count as many weights as the layer has:
what is left over is named, and the model refused. What transformers caches of a layer, all tokens, a window or a state,
is its own word; a kind that it does not go with is refused by name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from planner.domain import Attention, DenseFfn, Experts, GroupedAttention, MlaAttention
from planner.domain.model import Ffn, Gate, Indexer, LinearAttention, Mamba2
from planner.errors import InputError
from planner.files.models.model_parts import CHUNKED, FULL, WINDOWED, Layer

TOLERANCE = 1e-3
_MIXERS = ("self_attn", "attn", "attention", "self_attention", "linear_attn", "mamba", "mixer")
_OUTPUTS = ("o_proj", "out_proj", "dense")
_FUSED = ("qkv_proj", "query_key_value", "Wqkv")
_ACTIVE = ("num_experts_per_tok", "moe_k", "top_k_experts", "moe_topk", "num_experts_per_token", "moe_top_k")
_CACHED: Mapping[type, tuple[str, ...]] = MappingProxyType(
    {
        GroupedAttention: (FULL, WINDOWED, CHUNKED, "hybrid", "hybrid_sliding"),
        MlaAttention: (FULL, "indexed_attention"),
        LinearAttention: ("linear_attention", "hybrid", "hybrid_sliding"),
        Mamba2: ("linear_attention", "hybrid", "hybrid_sliding"),
    }
)
"""What transformers calls the cache of a layer, by the kinds that cache so."""

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltLayer:
    """One layer: its module, the shapes of its matrices by their names from the layer on, what transformers caches of
    it (its word, and of how many tokens; 0: all)."""

    name: str
    cache: str
    window: int
    module: Any
    shapes: Shapes

    def of(self, part: str) -> dict[str, tuple[int, ...]]:
        """Matrices below a part of it, by their names from there on without `.weight`."""
        inner = {key: shape for key, shape in self.shapes.items() if key.startswith(f"{part}.")}
        return {key.removeprefix(f"{part}.").removesuffix(".weight"): shape for key, shape in inner.items()}

    @property
    def parts(self) -> tuple[str, ...]:
        """The modules that it has, each once."""
        return tuple(dict.fromkeys(key.partition(".")[0] for key in self.shapes))


def understood_layers(layers: Sequence[BuiltLayer], config: Any) -> list[Layer]:
    """What attends and feeds forward in each; where two attend side by side, the second is a layer of its own.

    InputError names the matrices that are not understood, or the cache.
    """
    return [part for layer in layers for part in _understood(layer, config)]


def _understood(layer: BuiltLayer, config: Any) -> Iterator[Layer]:
    hidden = int(config.hidden_size)
    mixers = [part for part in layer.parts if part in _MIXERS]
    attentions = [attention for part in mixers if (attention := _attention(layer, part, config)) is not None]
    others = [part for part in layer.parts if part not in mixers or (part == "mixer" and not attentions)]
    ffn = _ffn(layer, others, config) if others else None
    counted = sum(attention.parameters(hidden) for attention in attentions) + _weights(ffn, hidden)
    total = sum(map(prod, layer.shapes.values()))
    if abs(counted - total) > TOLERANCE * total or not (attentions or ffn):
        listed = ", ".join(f"{key} {list(shape)}" for key, shape in layer.shapes.items())
        raise InputError(
            f"{layer.name}: must be of layers that are known; {counted:,} of its {total:,} weights are understood. "
            f"It has {listed}.",
            hint="The planner has no formulas for such a layer, and does not guess caches.",
        )
    for attention in attentions:
        if layer.cache not in _CACHED[type(attention)]:
            raise InputError(
                f"{layer.name}: must cache as {attention.words} does, {' or '.join(_CACHED[type(attention)])}, got "
                f"{layer.cache}.",
                hint="The planner does not guess caches.",
            )
    yield (attentions[0] if attentions else None), ffn
    yield from ((attention, None) for attention in attentions[1:])


def _weights(ffn: Ffn | None, hidden: int) -> int:
    if ffn is None or isinstance(ffn, DenseFfn):
        return ffn.parameters(hidden) if ffn else 0
    return ffn.routed * ffn.expert_parameters(hidden) + ffn.shared_parameters(hidden) + ffn.router_parameters(hidden)


def _attention(layer: BuiltLayer, part: str, config: Any) -> Attention | None:
    """The kind whose matrices it has; None where it has those of none."""
    shapes, module = layer.of(part), getattr(layer.module, part)
    if {"kv_b_proj", "o_proj"} <= set(shapes):
        return _latent(shapes, config)
    if {"conv1d", "in_proj", "out_proj"} <= set(shapes) and hasattr(module, "n_groups"):
        return Mamba2(
            heads=int(module.num_heads),
            head_dim=int(module.head_dim),
            state=int(module.ssm_state_size),
            groups=int(module.n_groups),
            convolution=int(module.conv_kernel_size),
        )
    if "conv1d" in shapes and hasattr(module, "head_k_dim"):
        return LinearAttention(
            key_heads=int(module.num_k_heads),
            value_heads=int(module.num_v_heads),
            key_dim=int(module.head_k_dim),
            value_dim=int(module.head_v_dim),
            convolution=int(module.conv_kernel_size),
        )
    return _grouped(layer, shapes, module, config)


def _grouped(layer: BuiltLayer, shapes: Shapes, module: Any, config: Any) -> GroupedAttention | None:
    output = next((shapes[key] for key in _OUTPUTS if key in shapes), None)
    if output is None:
        return None
    width = int(getattr(module, "head_dim", None) or config.hidden_size // config.num_attention_heads)
    heads = output[1] // width
    if fused := next((shapes[key] for key in _FUSED if key in shapes), None):
        queries, keys, values = heads * width, (fused[0] // width - heads) // 2 * width, 0
        values = keys
    elif {"q_proj", "k_proj", "v_proj"} <= set(shapes):
        queries, keys, values = (shapes[f"{name}_proj"][0] for name in "qkv")
        heads = queries // width if queries != 2 * output[1] else heads
    else:
        return None
    gates = next((shapes[key][0] for key in ("gate_proj", "g_proj") if key in shapes), 0)
    gate = Gate.ELEMENTS if output[1] in (gates, queries - output[1]) else Gate.NONE
    return GroupedAttention(
        heads=heads,
        kv_heads=max(keys // width, 1),
        head_dim=width,
        value_dim=0 if keys == values else values // max(keys // width, 1),
        gate=Gate.HEADS if gates == heads else gate,
        window=layer.window,
        chunked=layer.cache == CHUNKED,
    )


def _latent(shapes: Shapes, config: Any) -> MlaAttention:
    indexer = None
    if top := getattr(config, "index_topk", None):  # without matrices it is an earlier layer's
        has_matrices = any(key.startswith("indexer.") for key in shapes)
        indexer = Indexer(heads=config.index_n_heads, dim=config.index_head_dim, top=top, own=has_matrices)
    return MlaAttention(
        heads=config.num_attention_heads,
        query_rank=getattr(config, "q_lora_rank", None) or 0,
        kv_rank=config.kv_lora_rank,
        nope_dim=config.qk_nope_head_dim,
        rope_dim=config.qk_rope_head_dim,
        value_dim=config.v_head_dim,
        indexer=indexer,
    )


def _ffn(layer: BuiltLayer, parts: Sequence[str], config: Any) -> Ffn | None:
    """Experts where there are any, dense blocks beside them being shared ones; else the dense block."""
    hidden = int(config.hidden_size)
    shapes = {f"{part}.{key}": shape for part in parts for key, shape in layer.of(part).items()}
    routed = {key: shape for key, shape in shapes.items() if "experts." in key and "shared" not in key}
    if not routed:
        sizes = [prod(shape) // hidden for shape in shapes.values()]
        wide = [shape for key, shape in shapes.items() if key.rpartition(".")[2] in _DOWN]
        size = prod(wide[0]) // hidden if len(wide) == 1 else 0
        return (
            DenseFfn(size=size, gated=sum(sizes) == 3 * size) if size and sum(sizes) in (2 * size, 3 * size) else None
        )
    stacked = [shape for key, shape in routed.items() if len(shape) == 3]
    count = stacked[0][0] if stacked else len({key.partition("experts.")[2].partition(".")[0] for key in routed})
    router = [key for key, shape in shapes.items() if shape == (count, hidden) and key.endswith(_ROUTERS)]
    shared = [prod(shape) for key, shape in shapes.items() if key not in routed and key not in router]
    weights = sum(map(prod, routed.values())) // count
    down = [prod(shape) for key, shape in routed.items() if key.rpartition(".")[2] in _DOWN]
    size = sum(down) // count // hidden if down else 0
    if not size or weights not in (2 * size * hidden, 3 * size * hidden):
        return None
    gated = weights == 3 * size * hidden
    width = round(sum(shared) / ((3 if gated else 2) * hidden))
    return Experts(
        routed=count,
        active=_active(layer, config),
        shared=width // size if width % size == 0 else 1,
        ffn_size=size,
        shared_size=0 if width % size == 0 else width,
        gated=gated,
        node_limit=_node_limit(config),
    )


_ROUTERS = ("gate", "router", "router.layer", "wg")
_DOWN = ("down_proj", "output_linear", "fc2", "w2", "dense_4h_to_h", "c_proj")


def _active(layer: BuiltLayer, config: Any) -> int:
    active = next((getattr(config, key) for key in _ACTIVE if getattr(config, key, None)), None)
    if not isinstance(active, int):
        raise InputError(
            f"{layer.name}: one of {', '.join(_ACTIVE)} must say how many experts see a token; none does.",
            hint="Add it to the configuration.",
        )
    return active


def _node_limit(config: Any) -> int:
    groups, limit = getattr(config, "n_group", None) or 1, getattr(config, "topk_group", None) or 1
    return limit if limit < groups else 0
