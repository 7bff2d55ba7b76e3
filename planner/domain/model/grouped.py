"""Attention whose heads share keys and values in groups."""

from dataclasses import dataclass, replace
from enum import StrEnum

from planner.domain.model.sizes import Size, SizeOrNone


class Gate(StrEnum):
    """What a layer's attention output is multiplied by before it is projected."""

    NONE = "none"
    ELEMENTS = "elements"  # one factor an element, projected beside the queries
    HEADS = "heads"  # one factor a head


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockIndexer:
    """Scores blocks of `block` tokens by `heads` small heads as wide as `dim`, and leaves the best `top` blocks."""

    heads: Size
    dim: Size
    block: Size
    top: Size

    @property
    def cached_bytes(self) -> int:
        """Index key of a token (bytes): 16 bits an element, whatever precision keys and values have."""
        return 2 * self.dim

    @property
    def tokens(self) -> int:
        """Tokens that are left to attention."""
        return self.block * self.top


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedAttention:
    """Grouped-query attention; plain multi-head attention has as many `kv_heads` as `heads`.

    `window`: a token sees so many of the last tokens only (0: all); with `chunked`, those of its own chunk of so many.
    `value_dim`: width of a value head where it is not `head_dim` (0: it is). `keys_are_values`: one projection is both.
    `indexer`: what chooses the blocks of tokens that are seen (None: all are).
    """

    heads: Size
    kv_heads: Size
    head_dim: Size
    window: SizeOrNone = 0
    chunked: bool = False
    value_dim: SizeOrNone = 0
    keys_are_values: bool = False
    gate: Gate = Gate.NONE
    indexer: BlockIndexer | None = None

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
        if self.indexer is not None:
            widths |= {"index_q_proj": self.indexer.heads * self.indexer.dim, "index_k_proj": self.indexer.dim}
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

    def cached_bytes_per_token(self, kv_bytes: float) -> float:
        """Cache of one more token and layer (bytes), while no window is full."""
        index = self.indexer.cached_bytes if self.indexer is not None else 0.0
        return self.kv_width * kv_bytes + index

    def cached_bytes(self, tokens: float, kv_bytes: float) -> float:
        """Cache of a sequence of `tokens` and layer (bytes): a window keeps its last ones, an indexer all."""
        cached_tokens = min(tokens, self.window) if self.window else tokens
        index = self.indexer.cached_bytes if self.indexer is not None else 0.0
        return cached_tokens * self.kv_width * kv_bytes + tokens * index

    @property
    def chooses(self) -> bool:
        """Whether an indexer of its own chooses what its queries see."""
        return self.indexer is not None

    @property
    def measured(self) -> bool:
        """Whether runs of models with such layers are among the measurements that rates are fitted to."""
        plain = GroupedAttention(heads=self.heads, kv_heads=self.kv_heads, head_dim=self.head_dim, window=self.window)
        return self in (plain, replace(plain, gate=Gate.ELEMENTS))

    @property
    def words(self) -> str:
        """`grouped, 64/8 heads of 128, window 128`."""
        values = f"/{self.value_dim}" if self.value_dim else ""
        seen = f", {'chunks of' if self.chunked else 'window'} {self.window:,}" if self.window else ""
        chosen = f", best {self.indexer.top} blocks of {self.indexer.block}" if self.indexer is not None else ""
        gate = "" if self.gate is Gate.NONE else f", gate of {self.gate}"
        same = ", keys are values" if self.keys_are_values else ""
        return f"grouped, {self.heads}/{self.kv_heads} heads of {self.head_dim}{values}{same}{gate}{seen}{chosen}"

    @property
    def held_bytes(self) -> float:
        """State of a sequence that does not grow (bytes): none."""
        return 0.0

    @property
    def divisible_kv_heads(self) -> int:
        """Over how many GPUs of a tensor-parallel group the cache can be spread; beyond, heads are repeated."""
        return self.kv_heads
