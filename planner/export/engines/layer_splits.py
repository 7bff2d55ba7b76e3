"""Layers that an engine splits over GPUs: what does not divide ends the engine while it loads.

Both engines split a layer's width evenly, and blocks of FP8 weights that share a scale may not be cut. Which layers are
split over which GPUs is the engines' own (`check_model` of each).

Sources: SGLang's python/sglang/srt/distributed/utils.py (divide), layers/quantization/fp8.py
(validate_block_quant_shapes), layers/vocab_parallel_embedding.py; vLLM's vllm/distributed/utils.py,
model_executor/layers/quantization/utils/fp8_utils.py (validate_fp8_block_shape).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from planner.domain import GroupedAttention, MlaAttention, ModelSpec
from planner.errors import ExportError
from planner.export.islands import ServingIsland

_VOCABULARY_PADDING = 64

Breach = tuple[str, str]
"""What must hold, the flag first, and what came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSplit:
    """`width` of a layer (`parts` of it, in words) split over `degree` GPUs, as `flag` says; `blocks`: those of FP8
    weights may not be cut."""

    parts: str
    width: int
    degree: int
    flag: str
    blocks: bool = True

    def fault(self, block: int) -> Breach | None:
        """What is wrong with it, for weights with blocks of `block` (0: none)."""
        if self.degree < 1 or self.width % self.degree:
            return f"--{self.flag} must share out the {self.width} {self.parts} evenly", str(self.degree)
        part = self.width // self.degree
        if self.blocks and block and part % block:
            rule = f"must share out the {self.width} {self.parts} in whole blocks of {block} FP8 weights"
            return f"--{self.flag} {rule}", f"{self.degree}, which gives {part} each"
        return None


def split_faults(splits: Iterable[LayerSplit], model: ModelSpec) -> Iterator[Breach]:
    """What `model` cannot be split into."""
    for split in splits:
        if split.degree != 1 and (breach := split.fault(model.weight_block)):
            yield breach


def attention_splits(model: ModelSpec, degree: int, flag: str, *, alone: bool) -> Iterator[LayerSplit]:
    """Heads over the GPUs of an attention group. `alone`: the group is all that the engine splits over, so that it
    looks at the blocks of every projection; else at joined ones only."""
    attention = model.attention
    yield LayerSplit(parts="attention heads", width=attention.heads, degree=degree, flag=flag, blocks=False)
    if isinstance(attention, GroupedAttention):
        # heads are repeated where there are more GPUs than heads, and then all as often
        more, fewer = max(attention.kv_heads, degree), min(attention.kv_heads, degree)
        yield LayerSplit(parts="copies of KV heads", width=more, degree=fewer, flag=flag, blocks=False)
        yield _columns("query projection", attention.heads * attention.head_dim, degree, flag)
    elif alone:
        yield from _latent_splits(attention, degree, flag)


def _latent_splits(attention: MlaAttention, degree: int, flag: str) -> Iterator[LayerSplit]:
    yield _columns("query projection", attention.heads * (attention.nope_dim + attention.rope_dim), degree, flag)
    yield _columns("KV projection", attention.heads * (attention.nope_dim + attention.value_dim), degree, flag)
    yield _columns("output projection", attention.heads * attention.value_dim, degree, flag)


def _columns(layer: str, width: int, degree: int, flag: str) -> LayerSplit:
    return LayerSplit(parts=f"columns of the {layer}", width=width, degree=degree, flag=flag)


def vocabulary_split(model: ModelSpec, degree: int, flag: str) -> LayerSplit:
    """Embedding and output head, which both engines pad alike."""
    padded = -(-model.vocab_size // _VOCABULARY_PADDING) * _VOCABULARY_PADDING
    return LayerSplit(parts="rows of the padded vocabulary", width=padded, degree=degree, flag=flag, blocks=False)


def dense_split(model: ModelSpec, degree: int, flag: str) -> Iterator[LayerSplit]:
    """Feed-forward layers without experts."""
    if model.dense_ffn_size:
        yield _columns("dense feed-forward layers", model.dense_ffn_size, degree, flag)


def shared_split(model: ModelSpec, degree: int, flag: str) -> Iterator[LayerSplit]:
    """Shared experts, which lie side by side in one layer."""
    if model.experts and model.experts.shared:
        yield _columns("shared expert", model.experts.shared * model.experts.ffn_size, degree, flag)


def require_loadable(island: ServingIsland, engine: str, faults: Iterable[Breach], remedy: str) -> None:
    """Raises ExportError for the first of `faults`, as an engine that cannot load the model is no deployment."""
    breach = next(iter(faults), None)
    if breach is not None:
        expected, came = breach
        raise ExportError(
            f"Island {island.id}: {engine} cannot load {island.model.name} on its {island.parallel.devices} GPUs: "
            f"{expected}, got {came}.",
            hint=remedy,
        )
