"""Layers that an engine splits over GPUs: what does not divide ends the engine while it loads.

Engines split a layer's width evenly, and blocks of FP8 weights that share a scale may not be cut. Which layers are
split over which GPUs is the engine's own (`LayerRules`).

Sources: SGLang's python/sglang/srt/distributed/utils.py (divide), layers/quantization/fp8.py
(validate_block_quant_shapes), layers/vocab_parallel_embedding.py; vLLM's vllm/distributed/utils.py,
model_executor/layers/quantization/utils/fp8_utils.py (validate_fp8_block_shape).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.domain.engine.profile import LayerRules, Over, SharedExpert
from planner.domain.model import GroupedAttention, MlaAttention, ModelSpec

_VOCABULARY_PADDING = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """How a server lays a model out: stages of `stage` GPUs, in `groups` attention groups of `group`.

    `spread`: experts lie on `ranks` GPUs, each on one. `exchanged`: tokens go to them by an all-to-all backend.
    `balanced`: they are placed by load. `redundant` of them are there twice. `dense_whole`: dense layers are not split.
    `vendor`: of the GPUs.
    """

    group: int
    groups: int = 1
    stage: int
    spread: bool = False
    ranks: int = 1
    exchanged: bool = False
    balanced: bool = False
    redundant: int = 0
    dense_whole: bool = False
    vendor: str = "NVIDIA"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFault:
    """`degree` GPUs, as `over` says, must do as `rule` has it; `came` adds what comes out of it."""

    over: Over
    degree: int
    rule: str
    came: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """`width` of a layer (`parts` of it, in words) over `degree` GPUs; `blocks`: those of FP8 weights are not cut."""

    parts: str
    width: int
    degree: int
    over: Over
    blocks: bool = True

    def fault(self, block: int) -> LayerFault | None:
        """What is wrong with it, for weights with blocks of `block` (0: none)."""
        if self.degree < 1 or self.width % self.degree:
            return LayerFault(
                over=self.over, degree=self.degree, rule=f"share out the {self.width} {self.parts} evenly"
            )
        part = self.width // self.degree
        if self.blocks and block and part % block:
            rule = f"share out the {self.width} {self.parts} in whole blocks of {block} FP8 weights"
            return LayerFault(over=self.over, degree=self.degree, rule=rule, came=f"which gives {part} each")
        return None


def layer_faults(model: ModelSpec, loading: Loading, rules: LayerRules) -> Iterator[LayerFault]:
    """What of `model` an engine cannot load in this way."""
    if not rules.checked:
        return
    for split in _splits(model, loading, rules):
        if split.degree != 1 and (fault := split.fault(model.weight_block)):
            yield fault
    limited = rules.at_most_experts and model.experts and model.architecture not in rules.more_gpus
    if limited and loading.stage > model.routed_experts:
        rule = f"be at most the {model.routed_experts} experts of a layer"
        yield LayerFault(over=Over.STAGE, degree=loading.stage, rule=rule)
    if model.experts and (rules.experts_even or loading.balanced):
        experts = _experts(model, loading, rules)
        if experts.degree != 1 and (fault := experts.fault(0)):
            yield fault


def _splits(model: ModelSpec, loading: Loading, rules: LayerRules) -> Iterator[_Split]:
    blocks = rules.blocks_in_groups or loading.groups == 1
    yield from _attention_splits(model, loading.group, blocks=blocks)
    padded = -(-model.vocab_size // _VOCABULARY_PADDING) * _VOCABULARY_PADDING
    yield _group_split("rows of the padded vocabulary", padded, loading.group)
    whole = rules.dense_whole_in_groups and loading.dense_whole and model.experts
    if model.dense_ffn_size and not whole:
        yield _columns("dense feed-forward layers", model.dense_ffn_size, loading, rules.dense)
    if model.experts and model.experts.shared and not _keeps_shared(model, loading, rules):
        yield _columns("shared expert", model.experts.shared * model.experts.ffn_size, loading, rules.shared)
    if model.experts and rules.columns and not loading.spread:
        yield _Split(parts="columns of an expert", width=model.experts.ffn_size, degree=loading.group, over=Over.GROUP)


def _keeps_shared(model: ModelSpec, loading: Loading, rules: LayerRules) -> bool:
    """Whether every GPU has the shared expert whole."""
    if rules.shared_vendors and loading.vendor.upper() not in rules.shared_vendors:
        return True
    if not loading.spread:
        return not rules.split_unspread
    if model.architecture in rules.shared_split_always:
        return False
    whole = {SharedExpert.EXCHANGED: loading.exchanged, SharedExpert.SEVERAL_GROUPS: loading.groups > 1}
    return whole.get(rules.shared_whole, False)


def _experts(model: ModelSpec, loading: Loading, rules: LayerRules) -> _Split:
    redundant = 0 if model.architecture in rules.without_redundant else loading.redundant
    return _Split(
        parts=f"experts ({redundant} of them redundant)",
        width=model.routed_experts + redundant,
        degree=loading.ranks,
        over=Over.RANKS,
        blocks=False,
    )


def _attention_splits(model: ModelSpec, degree: int, *, blocks: bool) -> Iterator[_Split]:
    """Heads over the GPUs of an attention group. `blocks`: those of latent attention's projections are looked at, too;
    else of joined ones only."""
    attention = model.attention
    yield _group_split("attention heads", attention.heads, degree)
    if isinstance(attention, GroupedAttention):
        # heads are repeated where there are more GPUs than heads, and then all as often
        more, fewer = max(attention.kv_heads, degree), min(attention.kv_heads, degree)
        yield _group_split("copies of KV heads", more, fewer)
        width = attention.heads * attention.head_dim
        yield _Split(parts="columns of the query projection", width=width, degree=degree, over=Over.GROUP)
    elif blocks:
        yield from _latent_splits(attention, degree)


def _latent_splits(attention: MlaAttention, degree: int) -> Iterator[_Split]:
    widths = {
        "query projection": attention.heads * (attention.nope_dim + attention.rope_dim),
        "KV projection": attention.heads * (attention.nope_dim + attention.value_dim),
        "output projection": attention.heads * attention.value_dim,
    }
    for name, width in widths.items():
        yield _Split(parts=f"columns of the {name}", width=width, degree=degree, over=Over.GROUP)


def _group_split(parts: str, width: int, degree: int) -> _Split:
    return _Split(parts=parts, width=width, degree=degree, over=Over.GROUP, blocks=False)


def _columns(layer: str, width: int, loading: Loading, over: Over) -> _Split:
    degree = loading.group if over is Over.GROUP else loading.stage
    return _Split(parts=f"columns of the {layer}", width=width, degree=degree, over=over)
