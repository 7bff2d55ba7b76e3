"""Attention over compressed tokens, of DeepSeek-V4: a window of the last ones as they are, and of all before them one
entry for every few.

| symbol | meaning | unit |
|---|---|---|
| d, H, D | width of the model, heads, width of a head; keys are the values, and all heads share them | 1 |
| q, g, o | query rank, groups and rank of the output projection | 1 |
| rho | tokens that become one entry (0: none do, the window is all) | tokens |
"""

from dataclasses import dataclass
from math import ceil

from planner.domain.model.latent import INDEX_SCALE_BYTES
from planner.domain.model.sizes import Size, SizeOrNone

OVERLAPPING = 4
"""Entries of so many tokens look at twice as many, so that what compresses them is twice as wide."""
PAGE_TOKENS = 256
_ROTARY, _SCALES = 64, 8  # of an FP8 entry: elements that keep 16 bits; bytes of scales
_STATE_BYTES = 4
"""Pages and entries are as in vLLM 0.33 (vllm/models/deepseek_v4/): an FP8 entry of 512 elements takes 584 bytes."""


def page_bytes(rows: float, size: float, kv_bytes: float) -> int:
    """A page of so many rows (bytes): it ends at a multiple of what kernels want."""
    step = 576 if kv_bytes == 1 else 512
    return ceil(rows * size / step) * step


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedAttention:
    """One KV head. `window`: tokens that are seen as they are; `ratio`: tokens an entry. Of the entries an indexer of
    `index_heads` heads as wide as `index_dim` chooses `index_top` (0 heads: all are seen)."""

    heads: Size
    head_dim: Size
    query_rank: Size
    output_groups: Size
    output_rank: Size
    window: Size
    ratio: SizeOrNone = 0
    index_heads: SizeOrNone = 0
    index_dim: SizeOrNone = 0
    index_top: SizeOrNone = 0

    def matrices(self, hidden_size: int) -> dict[str, int]:
        """Weights of one layer (count) by the names that checkpoints have for them."""
        overlap = self._overlap
        matrices = {
            "q_a_proj": hidden_size * self.query_rank,
            "q_b_proj": self.query_rank * self.heads * self.head_dim,
            "kv_proj": hidden_size * self.head_dim,
            "o_a_proj": self.output_rank * self.heads * self.head_dim,
            "o_b_proj": self.output_groups * self.output_rank * hidden_size,
        }
        if self.ratio:
            matrices["compressor"] = 2 * overlap * self.head_dim * hidden_size  # entries, and their weights
        if self.index_heads:
            matrices["compressor.indexer"] = (
                2 * overlap * self.index_dim * hidden_size
                + self.query_rank * self.index_heads * self.index_dim
                + self.index_heads * hidden_size
            )
        return matrices

    def parameters(self, hidden_size: int) -> int:
        """Weights of one layer (count)."""
        return sum(self.matrices(hidden_size).values())

    @property
    def divisible_kv_heads(self) -> int:
        """Over how many GPUs of a tensor-parallel group the cache can be spread."""
        return 1

    @property
    def _overlap(self) -> int:
        return 2 if self.ratio == OVERLAPPING else 1

    @property
    def index_bytes(self) -> int:
        """Index key of an entry (bytes): FP8, and one scale."""
        return self.index_dim + INDEX_SCALE_BYTES if self.index_heads else 0

    def entry_bytes(self, kv_bytes: float) -> float:
        """An entry, or a token of the window (bytes)."""
        return self.head_dim + _ROTARY + _SCALES if kv_bytes == 1 else self.head_dim * kv_bytes

    def cached_bytes_per_token(self, kv_bytes: float) -> float:
        """Cache of one more token and layer (bytes), where the window is full: pages end at multiples of bytes."""
        if not self.ratio:
            return 0.0
        rows = PAGE_TOKENS / self.ratio
        pages = (page_bytes(rows, size, kv_bytes) for size in (self.entry_bytes(kv_bytes), self.index_bytes))
        return sum(pages) / PAGE_TOKENS

    def cached_bytes(self, tokens: float, kv_bytes: float) -> float:
        """Cache of a sequence of `tokens` and layer (bytes)."""
        window = min(tokens, self.window) * self.entry_bytes(kv_bytes)
        return window + tokens * self.cached_bytes_per_token(kv_bytes) + self.held_bytes

    @property
    def chooses(self) -> bool:
        """Whether an indexer of its own chooses what its queries see."""
        return self.index_heads > 0

    @property
    def measured(self) -> bool:
        """Whether runs of models with such layers are among the measurements that rates are fitted to."""
        return False

    @property
    def words(self) -> str:
        """`compressed 4 to 1, 64 heads of 512, window 128, best 512 entries`."""
        ratio = f"compressed {self.ratio} to 1" if self.ratio else "window alone"
        chosen = f", best {self.index_top:,} entries" if self.index_heads else ""
        return f"{ratio}, {self.heads} heads of {self.head_dim}, window {self.window:,}{chosen}"

    @property
    def held_bytes(self) -> float:
        """State of a sequence that does not grow (bytes): what the next entry, and its index key, will be made of."""
        widths = 2 * self._overlap * (self.head_dim + self.index_dim)
        return float(self.compressing * widths * _STATE_BYTES)

    @property
    def compressing(self) -> int:
        """Tokens that an entry is made of; 0 where none is."""
        return self._overlap * self.ratio
