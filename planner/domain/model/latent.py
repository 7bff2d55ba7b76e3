"""Attention over one compressed head that all heads share, of all tokens or of those that an indexer chooses."""

from dataclasses import dataclass

from planner.domain.model.grouped import Gate
from planner.domain.model.sizes import Size, SizeOrNone

INDEX_SCALE_BYTES = 4
"""Of a cached index key: its elements are FP8, with one scale for all of them."""
_SCALED_ELEMENTS = 128  # of a sparse layer's FP8 cache that share a scale of 4 bytes; the rotary part keeps 16 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """Scores every token by `heads` small heads, and leaves the best `top` to attention. Not `own`: the layer takes
    over what an earlier one chose, and has neither weights nor cached keys for it."""

    heads: Size
    dim: Size
    top: Size
    own: bool = True

    def matrices(self, hidden_size: int, query_rank: int) -> dict[str, int]:
        """Weights (count) by the names that checkpoints have for them."""
        if not self.own:
            return {}
        return {
            "indexer.wq_b": query_rank * self.heads * self.dim,
            "indexer.wk": hidden_size * self.dim,
            "indexer.weights_proj": hidden_size * self.heads,
        }

    @property
    def cached_bytes(self) -> int:
        """Index key of a token (bytes)."""
        return self.dim + INDEX_SCALE_BYTES if self.own else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MlaAttention:
    """Multi-head latent attention. `kv_rank` is the width of the compressed KV, `rope_dim` of its rotary part.

    `query_rank` is 0 where queries are projected without compression. `indexer`: what chooses the tokens that are seen
    (None: all are). `gate`: what its output is multiplied by.
    """

    heads: Size
    query_rank: SizeOrNone
    kv_rank: Size
    nope_dim: Size
    rope_dim: Size
    value_dim: Size
    indexer: "Indexer | None" = None
    gate: Gate = Gate.NONE

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
            **({"g_proj": self.gate_width * hidden_size} if self.gate_width else {}),
            **({} if self.indexer is None else self.indexer.matrices(hidden_size, self.query_rank)),
        }

    @property
    def gate_width(self) -> int:
        """Factors that its output is multiplied by."""
        return {Gate.NONE: 0, Gate.HEADS: self.heads, Gate.ELEMENTS: self.heads * self.value_dim}[self.gate]

    def parameters(self, hidden_size: int) -> int:
        """Weights of one layer's attention (count), output projection included."""
        return sum(self.matrices(hidden_size).values())

    @property
    def kv_width(self) -> int:
        """Cached elements per token and layer; all heads share them, so tensor parallelism does not divide them."""
        return self.kv_rank + self.rope_dim

    def entry_bytes(self, kv_bytes: float) -> float:
        """Latent cache of a token and layer (bytes). Kernels that read chosen tokens want their FP8 entries packed with
        scales, 656 bytes (vLLM's and SGLang's `fp8_ds_mla`)."""
        if self.indexer is None or kv_bytes != 1:
            return self.kv_width * kv_bytes
        return self.kv_rank + self.kv_rank // _SCALED_ELEMENTS * INDEX_SCALE_BYTES + 2 * self.rope_dim

    def cached_bytes_per_token(self, kv_bytes: float) -> float:
        """Cache of one more token and layer (bytes), while no window is full."""
        return self.entry_bytes(kv_bytes) + (0 if self.indexer is None else self.indexer.cached_bytes)

    def cached_bytes(self, tokens: float, kv_bytes: float) -> float:
        """Cache of a sequence of `tokens` and layer (bytes)."""
        return tokens * self.cached_bytes_per_token(kv_bytes)

    @property
    def chooses(self) -> bool:
        """Whether an indexer of its own chooses what its queries see."""
        return self.indexer is not None and self.indexer.own

    @property
    def measured(self) -> bool:
        """Whether runs of models with such layers are among the measurements that rates are fitted to."""
        return (self.indexer is None or self.indexer.own) and self.gate is Gate.NONE

    @property
    def words(self) -> str:
        """`MLA, 128 heads, best 2,048 tokens by an indexer`."""
        index = self.indexer
        chosen = "" if index is None else f", best {index.top:,} tokens by {'an' if index.own else 'a shared'} indexer"
        return f"MLA, {self.heads} heads{chosen}"

    @property
    def held_bytes(self) -> float:
        """State of a sequence that does not grow (bytes): none."""
        return 0.0

    @property
    def divisible_kv_heads(self) -> int:
        """Over how many GPUs of a tensor-parallel group the cache can be spread."""
        return 1
