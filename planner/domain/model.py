"""Model shapes: what the cost formulas need to know of a network, and nothing of how it is served."""

from dataclasses import dataclass
from typing import Annotated

from planner.domain.keys import Bounds

LARGEST_SIZE = 10**7
"""Of a size, a head count, experts, a vocabulary: a hundred times the largest there is."""
MOST_LAYERS = 10_000
MOST_CONTEXT = 100_000_000

EMBEDDING_BYTES = 2
_DISPATCH_AND_COMBINE_BYTES = 3
_RESIDENT_COPIES = 8  # hidden states at once: residual, norm, projections in and out

_Size = Annotated[int, Bounds(low=1, high=LARGEST_SIZE)]
_SizeOrNone = Annotated[int, Bounds(low=0, high=LARGEST_SIZE)]
_Bytes = Annotated[float, Bounds(above=0, high=8)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MlaAttention:
    """Multi-head latent attention. `kv_rank` is the width of the compressed KV, `rope_dim` of its rotary part.

    `query_rank` is 0 where queries are projected without compression.
    """

    heads: _Size
    query_rank: _SizeOrNone
    kv_rank: _Size
    nope_dim: _Size
    rope_dim: _Size
    value_dim: _Size

    @property
    def query_parameters_per_hidden(self) -> int:
        """Width that a token's hidden state is first projected to, to become queries."""
        return self.query_rank or self.heads * (self.nope_dim + self.rope_dim)

    def parameters(self, hidden_size: int) -> int:
        """Weights of one layer's attention (count), output projection included."""
        query = hidden_size * self.query_parameters_per_hidden
        query += self.query_rank * self.heads * (self.nope_dim + self.rope_dim)
        kv = hidden_size * (self.kv_rank + self.rope_dim) + self.kv_rank * self.heads * (self.nope_dim + self.value_dim)
        return query + kv + self.heads * self.value_dim * hidden_size

    @property
    def kv_width(self) -> int:
        """Cached elements per token and layer; all heads share them, so tensor parallelism does not divide them."""
        return self.kv_rank + self.rope_dim

    @property
    def divisible_kv_heads(self) -> int:
        """Over how many GPUs of a tensor-parallel group the cache can be spread."""
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedAttention:
    """Grouped-query attention; plain multi-head attention has as many `kv_heads` as `heads`.

    `windowed_layers` of the model's layers see the last `window` tokens only; the others see all.
    """

    heads: _Size
    kv_heads: _Size
    head_dim: _Size
    window: int = 0
    windowed_layers: int = 0

    def parameters(self, hidden_size: int) -> int:
        """Weights of one layer's attention (count), output projection included."""
        return hidden_size * self.head_dim * 2 * (self.heads + self.kv_heads)

    @property
    def kv_width(self) -> int:
        """Cached elements per token and layer, keys and values of all heads."""
        return 2 * self.kv_heads * self.head_dim

    @property
    def divisible_kv_heads(self) -> int:
        """Over how many GPUs of a tensor-parallel group the cache can be spread; beyond, heads are repeated."""
        return self.kv_heads


Attention = MlaAttention | GroupedAttention


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The mixture-of-experts block of a layer: `active` of `routed` experts see a token, `shared` see every token.

    `node_limit`: a token's experts lie in at most so many of the groups that the experts are parted into (0: anywhere).
    """

    routed: _Size
    active: int
    shared: _SizeOrNone
    ffn_size: _Size
    node_limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model's shape. `moe_layer_indices` of its `layers` carry experts, the others a dense FFN.

    `dense_ffn_size` is 0 where every layer carries experts, `experts` None where none does.

    Bytes per element (1 = FP8, 2 = BF16, 0.53125 = MXFP4 with its scales): `weight_bytes` of attention and dense FFNs,
    `expert_bytes` of the experts, `kv_bytes` of the cache; embeddings, head and router stay at 2.
    `mtp_layers` predict further tokens (one transformer layer each, kept out of `parameters`).
    `uri` is where an engine loads the weights from; `own_code`: the repository there brings code of its own that an
    engine has to be allowed to run. What engines choose their layers by: `architecture` (the class that config.json
    names), `quantization` (its quant_method) and `weight_block`, the side of the blocks of FP8 weights that share a
    scale; empty or 0 where there is none or nobody said.
    """

    name: str
    uri: str
    hidden_size: _Size
    layers: Annotated[int, Bounds(low=1, high=MOST_LAYERS)]
    moe_layer_indices: tuple[int, ...]
    dense_ffn_size: int
    attention: Attention
    experts: Experts | None
    vocab_size: _Size
    max_context: Annotated[int, Bounds(low=1, high=MOST_CONTEXT)]
    weight_bytes: _Bytes = 1.0
    expert_bytes: _Bytes = 1.0
    kv_bytes: _Bytes = 1.0
    mtp_layers: Annotated[int, Bounds(low=0, high=MOST_LAYERS)] = 0
    tied_embeddings: bool = False
    own_code: bool = False
    architecture: str = ""
    quantization: str = ""
    weight_block: _SizeOrNone = 0
    source: str = ""

    @property
    def moe_layers(self) -> int:
        """Layers with experts (count)."""
        return len(self.moe_layer_indices)

    @property
    def dense_layers(self) -> int:
        """Layers with a dense FFN (count)."""
        return self.layers - self.moe_layers

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
        """Weights of one layer's attention (count)."""
        return self.attention.parameters(self.hidden_size)

    @property
    def expert_parameters(self) -> int:
        """Weights of one expert (count): gate, up and down projection."""
        return 3 * self.hidden_size * self.experts.ffn_size if self.experts else 0

    @property
    def router_parameters(self) -> int:
        """Weights of one layer's router (count)."""
        return self.hidden_size * self.routed_experts

    @property
    def dense_ffn_parameters(self) -> int:
        """Weights of one dense FFN (count)."""
        return 3 * self.hidden_size * self.dense_ffn_size

    @property
    def head_parameters(self) -> int:
        """The output head, as large as the input embedding (count)."""
        return self.vocab_size * self.hidden_size

    @property
    def embedding_parameters(self) -> int:
        """Input embedding and output head (count); one table where they are tied."""
        return self.head_parameters * (1 if self.tied_embeddings else 2)

    @property
    def parameters(self) -> int:
        """All weights (count) except norms and biases, below 0.1 % of the whole, and multi-token prediction."""
        moe = self.router_parameters + (self.routed_experts + self.shared_experts) * self.expert_parameters
        body = self.layers * self.attention_parameters + self.dense_layers * self.dense_ffn_parameters
        return body + self.moe_layers * moe + self.embedding_parameters

    @property
    def active_parameters(self) -> int:
        """Weights that one token meets (count), output head included, input embedding (a look-up) not."""
        active = self.experts.active + self.experts.shared if self.experts else 0
        moe = self.router_parameters + active * self.expert_parameters
        body = self.layers * self.attention_parameters + self.dense_layers * self.dense_ffn_parameters
        return body + self.moe_layers * moe + self.head_parameters

    @property
    def weights_gb(self) -> float:
        """Size of the weights (GB, 10^9 bytes)."""
        experts = (self.routed_experts + self.shared_experts) * self.expert_parameters * self.expert_bytes
        moe = experts + self.router_parameters * EMBEDDING_BYTES
        split = self.layers * self.attention_parameters + self.dense_layers * self.dense_ffn_parameters
        total_bytes = split * self.weight_bytes + self.moe_layers * moe + self.embedding_parameters * EMBEDDING_BYTES
        return total_bytes / 1e9

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
        return self.hidden_size * copies + max(self.dense_ffn_size, 0) * EMBEDDING_BYTES * 2

    @property
    def kv_bytes_per_token(self) -> float:
        """KV cache of one more token over all layers while no window is full (bytes)."""
        return self.layers * self.attention.kv_width * self.kv_bytes
