"""What a model's layers are made of: kinds of attention and of feed-forward blocks, as records.

A kind says its weights, what it caches, and over what tensor parallelism splits it; what it costs is for the cost
formulas. Elements are counted, not bytes: precision is the model's. Biases, norms and rotary tables, below 0.1 % of the
whole, are left out.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from planner.domain.keys import Bounds

LARGEST_SIZE = 10**7
"""Of a size, a head count, experts, a vocabulary: a hundred times the largest there is."""
MOST_LAYERS = 10_000

Size = Annotated[int, Bounds(low=1, high=LARGEST_SIZE)]
SizeOrNone = Annotated[int, Bounds(low=0, high=LARGEST_SIZE)]


class Gate(StrEnum):
    """What a layer's attention output is multiplied by before it is projected."""

    NONE = "none"
    ELEMENTS = "elements"  # one factor an element, projected beside the queries
    HEADS = "heads"  # one factor a head


@dataclass(frozen=True, slots=True, kw_only=True)
class MlaAttention:
    """Multi-head latent attention. `kv_rank` is the width of the compressed KV, `rope_dim` of its rotary part.

    `query_rank` is 0 where queries are projected without compression.
    """

    heads: Size
    query_rank: SizeOrNone
    kv_rank: Size
    nope_dim: Size
    rope_dim: Size
    value_dim: Size

    @property
    def query_parameters_per_hidden(self) -> int:
        """Width that a token's hidden state is first projected to, to become queries."""
        return self.query_rank or self.heads * (self.nope_dim + self.rope_dim)

    def matrices(self, hidden_size: int) -> dict[str, int]:
        """Weights of one layer (count) by the names that checkpoints have for them."""
        query = self.heads * (self.nope_dim + self.rope_dim)
        compressed = {"q_a_proj": hidden_size * self.query_rank, "q_b_proj": self.query_rank * query}
        return {
            **(compressed if self.query_rank else {"q_proj": hidden_size * query}),
            "kv_a_proj_with_mqa": hidden_size * (self.kv_rank + self.rope_dim),
            "kv_b_proj": self.kv_rank * self.heads * (self.nope_dim + self.value_dim),
            "o_proj": self.heads * self.value_dim * hidden_size,
        }

    def parameters(self, hidden_size: int) -> int:
        """Weights of one layer's attention (count), output projection included."""
        return sum(self.matrices(hidden_size).values())

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

    `window`: a token sees so many of the last tokens only (0: all); with `chunked`, those of its own chunk of so many.
    `value_dim`: width of a value head where it is not `head_dim` (0: it is). `keys_are_values`: one projection is both.
    """

    heads: Size
    kv_heads: Size
    head_dim: Size
    window: SizeOrNone = 0
    chunked: bool = False
    value_dim: SizeOrNone = 0
    keys_are_values: bool = False
    gate: Gate = Gate.NONE

    @property
    def value_width(self) -> int:
        """Width of a value head."""
        return self.value_dim or self.head_dim

    def matrices(self, hidden_size: int) -> dict[str, int]:
        """Weights of one layer (count) by the names that checkpoints have for them; a gate an element stands among the
        queries."""
        gate = self.heads * self.value_width if self.gate is Gate.ELEMENTS else 0
        widths = {
            "q_proj": self.heads * self.head_dim + gate,
            "k_proj": self.kv_heads * self.head_dim,
            "v_proj": 0 if self.keys_are_values else self.kv_heads * self.value_width,
            "g_proj": self.heads if self.gate is Gate.HEADS else 0,
            "o_proj": self.heads * self.value_width,
        }
        return {name: hidden_size * width for name, width in widths.items() if width}

    def parameters(self, hidden_size: int) -> int:
        """Weights of one layer's attention (count), output projection included."""
        return sum(self.matrices(hidden_size).values())

    @property
    def kv_projections(self) -> int:
        """Columns of the key and value projections."""
        return self.kv_heads * self.head_dim if self.keys_are_values else self.kv_width

    @property
    def kv_width(self) -> int:
        """Cached elements per token and layer, keys and values of all heads."""
        return self.kv_heads * (self.head_dim + self.value_width)

    @property
    def divisible_kv_heads(self) -> int:
        """Over how many GPUs of a tensor-parallel group the cache can be spread; beyond, heads are repeated."""
        return self.kv_heads


Attention = MlaAttention | GroupedAttention


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseFfn:
    """A feed-forward block that every token passes; `gated`: with a gate beside the up and down projections."""

    size: Size
    gated: bool = True

    def parameters(self, hidden_size: int) -> int:
        """Weights (count)."""
        return (3 if self.gated else 2) * hidden_size * self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture-of-experts block: `active` of `routed` experts see a token, `shared` see every token.

    `node_limit`: a token's experts lie in at most so many of the groups that the experts are parted into (0: anywhere).
    `shared_size`: width of a shared expert where it is not that of the others (0: it is). `latent`: width that tokens
    are projected to before they are sent to the routed experts, and back from (0: they are sent as they are).
    """

    routed: Size
    active: int
    shared: SizeOrNone
    ffn_size: Size
    node_limit: int = 0
    shared_size: SizeOrNone = 0
    gated: bool = True
    latent: SizeOrNone = 0

    @property
    def shared_width(self) -> int:
        """Columns of all shared experts together."""
        return self.shared * (self.shared_size or self.ffn_size)

    def expert_parameters(self, hidden_size: int) -> int:
        """Weights of one routed expert (count)."""
        return (3 if self.gated else 2) * (self.latent or hidden_size) * self.ffn_size

    def shared_parameters(self, hidden_size: int) -> int:
        """Weights of all shared experts (count)."""
        return (3 if self.gated else 2) * hidden_size * self.shared_width

    def router_parameters(self, hidden_size: int) -> int:
        """Weights of the router (count), projections to the latent width and back included."""
        return hidden_size * (self.routed + 2 * self.latent)


Ffn = DenseFfn | Experts


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    """Equal layers of a model, `count` of them, wherever they stand in it. A layer may have attention alone, or a
    feed-forward block alone."""

    count: Annotated[int, Bounds(low=1, high=MOST_LAYERS)]
    attention: Attention | None
    ffn: Ffn | None
