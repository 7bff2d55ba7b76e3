"""Model shapes: what the cost formulas need to know of a network, and nothing of how it is served."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import Annotated

from planner.domain.keys import Bounds
from planner.domain.model import (
    MOST_LAYERS,
    Attention,
    DenseFfn,
    Experts,
    GroupedAttention,
    LayerGroup,
    LinearAttention,
    Mamba2,
    Size,
    SizeOrNone,
    WeightFormat,
)

MOST_CONTEXT = 100_000_000

EMBEDDING_BYTES = 2
KEPT_STATES = 3
"""Of a sequence that is worked on: the last one, the one that is written, and one at the prompt's end for prompts that
begin alike. So vLLM 0.33 counts."""
_DISPATCH_AND_COMBINE_BYTES = 3
_RESIDENT_COPIES = 8  # hidden states at once: residual, norm, projections in and out

_Bytes = Annotated[float, Bounds(above=0, high=8)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model's shape: its layers, by groups of equal ones in the order in which each kind first stands, and what
    stands around them.

    Bytes per element (1 = FP8, 2 = BF16, 0.53125 = MXFP4 with its scales; a mean where matrices differ): `weight_bytes`
    of attention and dense FFNs, `expert_bytes` of the routed experts, `shared_bytes` of the shared ones (None: as the
    routed ones), `head_bytes` of the output head, `kv_bytes` of the cache; embeddings and router stay at 2,
    `tower_parameters` (what reads images or sound, and hands on prompt tokens) too; `tower_width`: of all its layers
    together, `tower_patches`: parts of an image that become one prompt token (0: nobody said). `formats` of the weights
    that are quantised, where their sizes do not tell; `weight_only`: these are unpacked to 16 bits before they are
    multiplied.
    `residual_streams`: hidden states that hyper-connections carry side by side through the layers.
    `kept_states`: room that the engine keeps for states of a sequence, where layers have one.
    `mtp_layers` predict further tokens (one transformer layer each, kept out of `parameters`).
    `uri` is where an engine loads the weights from; `own_code`: the repository there brings code of its own that an
    engine has to be allowed to run. What engines choose their layers by: `architecture` (the class that config.json
    names), `quantization` (its quant_method) and `weight_block`, the side of the blocks of FP8 weights that share a
    scale; empty or 0 where there is none or nobody said. `assumed`: a sentence for each thing that somebody told, or
    that was not understood.
    """

    name: str
    uri: str
    hidden_size: Size
    groups: tuple[LayerGroup, ...]
    vocab_size: Size
    max_context: Annotated[int, Bounds(low=1, high=MOST_CONTEXT)]
    weight_bytes: _Bytes = 1.0
    expert_bytes: _Bytes = 1.0
    shared_bytes: _Bytes | None = None
    head_bytes: _Bytes = EMBEDDING_BYTES
    formats: tuple[WeightFormat, ...] = ()
    weight_only: bool = False
    kv_bytes: _Bytes = 1.0
    kept_states: Annotated[int, Bounds(low=1, high=64)] = KEPT_STATES
    mtp_layers: Annotated[int, Bounds(low=0, high=MOST_LAYERS)] = 0
    tied_embeddings: bool = False
    tower_parameters: Annotated[int, Bounds(low=0)] = 0
    tower_width: SizeOrNone = 0
    tower_patches: SizeOrNone = 0
    residual_streams: Annotated[int, Bounds(low=1, high=64)] = 1
    own_code: bool = False
    architecture: str = ""
    quantization: str = ""
    weight_block: SizeOrNone = 0
    source: str = ""
    assumed: tuple[str, ...] = ()

    @property
    def layers(self) -> int:
        """All of them (count)."""
        return sum(group.count for group in self.groups)

    @property
    def moe_layers(self) -> int:
        """Layers with experts (count)."""
        return sum(group.count for group in self.groups if isinstance(group.ffn, Experts))

    @property
    def dense_layers(self) -> int:
        """Layers with a dense FFN (count)."""
        return sum(count for _, count in self.dense_ffns)

    @property
    def blocks(self) -> int:
        """Attention and feed-forward blocks of all layers (count): two a layer, but where layers lack one of them."""
        return sum(g.count * ((g.attention is not None) + (g.ffn is not None)) for g in self.groups)

    @property
    def attentions(self) -> Iterator[tuple[Attention, int]]:
        """Attention of every group that has any, and of how many layers."""
        return ((group.attention, group.count) for group in self.groups if group.attention is not None)

    @property
    def choosing_layers(self) -> int:
        """Layers whose own indexer chooses what their queries see (count)."""
        return sum(count for kind, count in self.attentions if kind.chooses)

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """What its layers are made of that no measured model has, in words."""
        parts = dict.fromkeys(
            part for group in self.groups for part in (group.attention, group.ffn) if part is not None
        )
        return tuple(part.words for part in parts if not part.measured)

    @property
    def grouped(self) -> tuple[GroupedAttention, ...]:
        """Its kinds of grouped attention; none in a model of latent attention."""
        return tuple(attention for attention, _ in self.attentions if isinstance(attention, GroupedAttention))

    @property
    def windowed(self) -> int:
        """Layers that see a window of the tokens only (count)."""
        windows = (isinstance(kind, GroupedAttention) and kind.window > 0 for kind, _ in self.attentions)
        return sum(count for (_, count), window in zip(self.attentions, windows, strict=True) if window)

    @property
    def stateful(self) -> bool:
        """Whether layers keep a state in place of keys and values."""
        return any(isinstance(kind, LinearAttention | Mamba2) for kind, _ in self.attentions)

    @property
    def dense_ffns(self) -> Iterator[tuple[DenseFfn, int]]:
        """Dense FFN of every group that has one, and of how many layers."""
        return ((group.ffn, group.count) for group in self.groups if isinstance(group.ffn, DenseFfn))

    @property
    def experts(self) -> Experts | None:
        """The experts of every layer that has any; None in a dense model."""
        return next((group.ffn for group in self.groups if isinstance(group.ffn, Experts)), None)

    @property
    def heads(self) -> int:
        """What a tensor-parallel group must divide: attention heads, of layers with different numbers what is common
        to all."""
        return gcd(*(attention.heads for attention, _ in self.attentions))

    @property
    def routed_experts(self) -> int:
        """Routed experts of a layer; 0 in a dense model."""
        return self.experts.routed if self.experts else 0

    @property
    def shared_experts(self) -> int:
        """Shared experts of a layer; 0 in a dense model."""
        return self.experts.shared if self.experts else 0

    @property
    def attention_parameters(self) -> int:
        """Weights of all layers' attention (count)."""
        return sum(count * attention.parameters(self.hidden_size) for attention, count in self.attentions)

    @property
    def expert_parameters(self) -> int:
        """Weights of one routed expert of one layer (count)."""
        return self.experts.expert_parameters(self.hidden_size) if self.experts else 0

    @property
    def shared_parameters(self) -> int:
        """Weights of one layer's shared experts (count)."""
        return self.experts.shared_parameters(self.hidden_size) if self.experts else 0

    @property
    def shared_weight_bytes(self) -> float:
        """Size of one layer's shared experts (bytes)."""
        return self.shared_parameters * (self.expert_bytes if self.shared_bytes is None else self.shared_bytes)

    @property
    def router_parameters(self) -> int:
        """Weights of one layer's router (count)."""
        return self.experts.router_parameters(self.hidden_size) if self.experts else 0

    @property
    def dense_ffn_parameters(self) -> int:
        """Weights of all layers' dense FFNs (count)."""
        return sum(count * ffn.parameters(self.hidden_size) for ffn, count in self.dense_ffns)

    @property
    def widest_dense_ffn(self) -> int:
        """Width of the widest dense FFN; 0 where every layer carries experts."""
        return max((ffn.size for ffn, _ in self.dense_ffns), default=0)

    @property
    def head_parameters(self) -> int:
        """The output head, as large as the input embedding (count)."""
        return self.vocab_size * self.hidden_size

    @property
    def embedding_parameters(self) -> int:
        """Input embedding and output head (count); one table where they are tied."""
        return self.head_parameters * (1 if self.tied_embeddings else 2)

    @property
    def table_bytes(self) -> float:
        """Size of input embedding and output head (bytes); of one table where they are tied."""
        return (
            self.head_parameters * self.head_bytes
            + (self.embedding_parameters - self.head_parameters) * EMBEDDING_BYTES
        )

    @property
    def weight_formats(self) -> tuple[WeightFormat, ...]:
        """Formats that an engine has to load, told or by their sizes."""
        return self.formats or WeightFormat.of((self.weight_bytes, self.expert_bytes))

    @property
    def connection_parameters(self) -> int:
        """Weights of hyper-connections (count): before each of a layer's parts, and before the head, the streams are
        mixed into one and back."""
        n = self.residual_streams
        if n == 1:
            return 0
        return (self.blocks * (n * n + 2 * n) + n) * n * self.hidden_size

    @property
    def parameters(self) -> int:
        """All weights (count) except norms and biases, below 0.1 % of the whole, and multi-token prediction."""
        moe = self.router_parameters + self.routed_experts * self.expert_parameters + self.shared_parameters
        body = self.attention_parameters + self.dense_ffn_parameters + self.moe_layers * moe
        return body + self.embedding_parameters + self.tower_parameters + self.connection_parameters

    @property
    def active_parameters(self) -> int:
        """Weights that one token meets (count), output head included, input embedding (a look-up) not."""
        active = self.experts.active if self.experts else 0
        moe = self.router_parameters + active * self.expert_parameters + self.shared_parameters
        return self.attention_parameters + self.dense_ffn_parameters + self.moe_layers * moe + self.head_parameters

    @property
    def weights_gb(self) -> float:
        """Size of the weights (GB, 10^9 bytes)."""
        experts = self.routed_experts * self.expert_parameters * self.expert_bytes
        moe = experts + self.shared_weight_bytes + self.router_parameters * EMBEDDING_BYTES
        split = (self.attention_parameters + self.dense_ffn_parameters) * self.weight_bytes
        around = self.table_bytes + (self.tower_parameters + self.connection_parameters) * EMBEDDING_BYTES
        return (split + self.moe_layers * moe + around) / 1e9

    def buffer_bytes_per_token(self, tp: int) -> float:
        """Buffers that a step holds at once for each of its tokens on a GPU of `tp` (bytes)."""
        return self.whole_buffer_bytes + self.split_buffer_bytes / tp

    @property
    def whole_buffer_bytes(self) -> int:
        """Of a token's buffers what every GPU of a group holds (bytes): hidden states."""
        return self.hidden_size * _RESIDENT_COPIES * EMBEDDING_BYTES

    @property
    def split_buffer_bytes(self) -> int:
        """Of a token's buffers what a group shares (bytes): dispatched and combined copies, the dense FFN's width."""
        copies = self.experts.active * _DISPATCH_AND_COMBINE_BYTES if self.experts else 0
        return self.hidden_size * copies + self.widest_dense_ffn * EMBEDDING_BYTES * 2

    @property
    def kv_bytes_per_token(self) -> float:
        """KV cache of one more token over all layers while no window is full (bytes)."""
        return sum(count * kind.cached_bytes_per_token(self.kv_bytes) for kind, count in self.attentions)

    def cached_bytes(self, tokens: float) -> float:
        """Cache of one sequence over all layers (bytes), windows and states respected."""
        return sum(count * kind.cached_bytes(tokens, self.kv_bytes) for kind, count in self.attentions)

    @property
    def state_bytes(self) -> float:
        """State of a sequence over all layers that does not grow with it (bytes)."""
        return sum(count * kind.held_bytes for kind, count in self.attentions)
