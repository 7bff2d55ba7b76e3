"""Measured kernels of one GPU type under one engine: times a call, of one layer on one GPU.

Sizes (batch, tokens, lengths, bytes) are numbers or arrays that broadcast; heads, experts and degrees likewise; words
are one a call. Heads are those of one GPU. What was never measured (a dtype, a kind of layer) is answered by NaN and
`Basis.FORMULA`; a word that no table of any GPU has is refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from planner.cost.kernels.distinct import found_once
from planner.cost.kernels.floors import no_faster_than_memory
from planner.cost.kernels.grid import Floats, Grid, KernelTime, Sizes, grid_of, no_answer
from planner.cost.kernels.nearest import (
    attention_shape,
    exchange_shape,
    experts_shape,
    group_shape,
    recurrent_shape,
    shape_by,
)
from planner.cost.kernels.shapes import Words, checked_words, pairs
from planner.files.kernels import KernelFile, kernels_there, read_kernels

_GROWTH: Mapping[str, Mapping[str, float]] = {
    "context_attention": {"isl": 2.0},
    "context_mla": {"isl": 2.0},
    "context_module": {"isl": 1.5},  # projections grow with the tokens, attention with their square
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTables:
    """See the module. `grids`: by operation, those there are."""

    gpu: str
    engine: str
    grids: Mapping[str, Grid]

    def gemm(self, dtype: str, m: Sizes, n: Sizes, k: Sizes) -> KernelTime:
        """(m, k) times (k, n), with what the engine does to quantise its input."""
        return self._exact("gemm", checked_words(dtype=dtype), (m, n, k))

    def quantize(self, m: Sizes, k: Sizes, work: str = "scale") -> KernelTime:
        """Quantising an (m, k) input to FP8: `work` scale (finding the scales, beyond a static one) or apply."""
        return self._exact("quantize", checked_words(work=work), (m, k))

    def _exact(self, name: str, words: Words, sizes: tuple[Sizes, ...]) -> KernelTime:
        grid = self.grids.get(name)
        row = None if grid is None else grid.exact(dict(words))
        return no_answer(*sizes) if grid is None or row is None else grid.at(row, sizes)

    def context_attention(
        self,
        batch: Sizes,
        isl: Sizes,
        heads: Sizes,
        kv_heads: Sizes,
        head_dim: Sizes,
        kv_dtype: str = "bfloat16",
        window: int = 0,
        past: Sizes = 0,
    ) -> KernelTime:
        """Attention over prompts of `isl` tokens after `past` cached ones, causal; `window` 0 is none. Pairs with
        cached tokens take as long each as those of the longest measured prompt: long rows of keys are read as
        efficiently. A window that was not measured takes the prompt of as many pairs."""
        shape = self._attention("context_attention", "heads", kv_dtype, window, heads, kv_heads, head_dim)
        if shape is None:
            return no_answer(batch, isl, heads, kv_heads, head_dim, past)
        grid, row, ratio, stands_in, its_window = shape
        start, tokens = np.asarray(past, dtype=np.float64), np.asarray(isl, dtype=np.float64)
        if its_window != window:
            isl = np.sqrt(2 * pairs(tokens, window))
        alone = grid.at(row, (batch, isl), work=ratio, scaled=stands_in | (start > 0) | (its_window != window))
        if not np.any(start):
            return alone
        longest = float(np.exp(grid.axes[1][-1]))
        more = pairs(start + tokens, window) - pairs(start, window) - pairs(tokens, window)
        cost = grid.at(row, (batch, longest), work=ratio).ms / pairs(np.float64(longest), its_window)
        return alone.becoming(alone.ms + more * cost)

    def generation_attention(
        self,
        batch: Sizes,
        context: Sizes,
        heads: Sizes,
        kv_heads: Sizes,
        head_dim: Sizes,
        kv_dtype: str = "bfloat16",
        window: int = 0,
    ) -> KernelTime:
        """Attention of one new token a sequence to `context` tokens, itself among them."""
        shape = self._attention("generation_attention", "kv_heads", kv_dtype, window, heads, kv_heads, head_dim)
        if shape is None:
            return no_answer(batch, context, heads, kv_heads, head_dim)
        grid, row, ratio, stands_in, its_window = shape
        if window != its_window:  # as many tokens without a window
            context = np.minimum(context, window)
        return grid.at(row, (batch, context), work=ratio, scaled=stands_in | (its_window != window))

    def _attention(
        self, name: str, work: str, kv_dtype: str, window: int, heads: Sizes, kv_heads: Sizes, head_dim: Sizes
    ) -> tuple[Grid, npt.NDArray[np.intp], Floats, npt.NDArray[np.bool_], int] | None:
        """The grid, and of each shape: its row, the work against the row's, whether it stands in for another; the
        window of them all. `work`: of the query heads, or of the bytes of the KV cache."""
        checked_words(kv_dtype=kv_dtype)
        grid = self.grids.get(name)
        if grid is None:
            return None
        its_window = next((w for w in (window, 0) if (grid.columns["window"] == w).any()), None)
        if its_window is None:
            return None
        shapes = found_once(partial(attention_shape, grid, work, kv_dtype, its_window), heads, kv_heads, head_dim)
        if shapes is None:
            return None
        stands_in = (shapes[2] > 0) | (its_window != window)
        return grid, shapes[0].astype(np.intp), shapes[1], stands_in, its_window

    def context_mla(self, batch: Sizes, isl: Sizes, heads: Sizes, kv_dtype: str = "bfloat16") -> KernelTime:
        """The attention kernel alone of a layer with a latent KV cache, over prompts of `isl` tokens."""
        return self._by("heads", heads, "context_mla", (batch, isl), checked_words(kv_dtype=kv_dtype))

    def generation_mla(self, batch: Sizes, context: Sizes, heads: Sizes, kv_dtype: str = "bfloat16") -> KernelTime:
        """Likewise of one new token a sequence. Heads share the cache, so that fewer of them are hardly faster."""
        return self._by("heads", heads, "generation_mla", (batch, context), checked_words(kv_dtype=kv_dtype))

    def mla_bmm(self, dtype: str, tokens: Sizes, heads: Sizes) -> KernelTime:
        """Both products between heads and the latent cache's space, before and after decode's attention."""
        return self._by("heads", heads, "mla_bmm", (tokens,), checked_words(dtype=dtype))

    def has_module(self, kind: str) -> bool:
        """Whether attention of a kind was measured with all its projections, in both phases."""
        grids = [self.grids.get(name) for name in ("context_module", "generation_module")]
        return all(grid is not None and grid.code("kind", kind) >= 0 for grid in grids)

    def context_module(
        self,
        kind: str,
        batch: Sizes,
        isl: Sizes,
        heads: Sizes,
        dtype: str = "bfloat16",
        kv_dtype: str = "bfloat16",
        model: str = "",
    ) -> KernelTime:
        """Attention with all its projections, over prompts of `isl` tokens. `kind`: mla, dsa, csa, hca or msa; `model`:
        whose layer, as tables name it, else the first that has the kind."""
        like = (*checked_words(dtype=dtype, kv_dtype=kv_dtype), *((("model", model),) if model else ()))
        return self._by("heads", heads, "context_module", (batch, isl), like, checked_words(kind=kind))

    def generation_module(
        self,
        kind: str,
        batch: Sizes,
        context: Sizes,
        heads: Sizes,
        dtype: str = "bfloat16",
        kv_dtype: str = "bfloat16",
        model: str = "",
    ) -> KernelTime:
        """Likewise of one new token a sequence."""
        like = (*checked_words(dtype=dtype, kv_dtype=kv_dtype), *((("model", model),) if model else ()))
        return self._by("heads", heads, "generation_module", (batch, context), like, checked_words(kind=kind))

    def hyper_connection(self, tokens: Sizes, hidden: Sizes) -> KernelTime:
        """Mixing the residual streams before and after a layer's two halves (DeepSeek-V4)."""
        return self._by("hidden", hidden, "hyper_connection", (tokens,), ())

    def _by(
        self,
        column: str,
        value: Sizes,
        name: str,
        sizes: tuple[Sizes, ...],
        like: Words,
        must: Words = (),
    ) -> KernelTime:
        """Of the nearest shape by a column."""
        grid = self.grids.get(name)
        if grid is None:
            return no_answer(*sizes, value)
        return _at(grid, sizes, found_once(partial(shape_by, grid, column, like, must), value), value)

    def moe(
        self,
        dtype: str,
        tokens: Sizes,
        hidden: Sizes,
        inter: Sizes,
        topk: Sizes,
        experts: Sizes,
        moe_tp: Sizes = 1,
        moe_ep: Sizes = 1,
        distribution: str = "power_law_1.2",
        *,
        gated: bool = True,
    ) -> KernelTime:
        """The routed experts of the GPU that has most to do. `tokens`: of the whole layer, from all ranks together;
        `inter`: of an expert, before it is cut by `moe_tp`. A shape that was not measured takes the nearest one at as
        many rows an expert, by the weights that the GPU holds: both reads and FLOPs go with them then."""
        checked_words(dtype=dtype, distribution=distribution)
        wished = (hidden, inter, topk, experts, moe_tp, moe_ep)
        grid = self.grids.get("moe")
        if grid is None or grid.code("dtype", dtype) not in grid.columns["dtype"]:
            return no_answer(tokens, *wished)
        shapes = found_once(partial(experts_shape, grid, dtype, distribution, gated), *wished)
        return _at(grid, (tokens,), shapes, *wished)

    def linear_attention(
        self, kind: str, phase: str, batch: Sizes, length: Sizes, heads: Sizes, key_heads: Sizes, head_dim: Sizes
    ) -> KernelTime:
        """The convolution and recurrence of a gated delta layer: `kind` gdn or kda, `phase` context (`length` tokens a
        sequence) or generation (1). `heads`: of values."""
        checked_words(kind=kind, phase=phase)
        grid = self.grids.get("linear_attention")
        if grid is None:
            return no_answer(batch, length, heads, key_heads, head_dim)
        shapes = found_once(partial(recurrent_shape, grid, kind, phase), heads, key_heads, head_dim)
        return _at(grid, (batch, length), shapes, heads, key_heads, head_dim)

    def all_reduce(self, message: Sizes, gpus: Sizes, mode: str = "graph") -> KernelTime:
        """The engine's own all-reduce of `message` bytes among GPUs of one node; `mode` graph or eager. Among more GPUs
        than measured there is no answer: they may lie in several nodes."""
        return self._among("all_reduce", message, gpus, checked_words(mode=mode))

    def collective(self, collective: str, message: Sizes, gpus: Sizes) -> KernelTime:
        """NCCL's all_reduce, all_gather, reduce_scatter or alltoall of `message` bytes (the whole result), likewise."""
        return self._among("collective", message, gpus, checked_words(collective=collective))

    def _among(self, name: str, message: Sizes, gpus: Sizes, words: Words) -> KernelTime:
        grid = self.grids.get(name)
        if grid is None:
            return no_answer(message, gpus)
        time = _at(grid, (message,), found_once(partial(group_shape, grid, words), gpus), gpus)
        return time.becoming(np.where(np.asarray(gpus) > 1, time.ms, 0.0))

    def expert_exchange(
        self,
        phase: str,
        tokens: Sizes,
        hidden: Sizes,
        topk: Sizes,
        experts: Sizes,
        ep: Sizes,
        mode: str = "low_latency",
    ) -> KernelTime:
        """Dispatch or combine (`phase`) among `ep` GPUs, of `tokens` tokens of one GPU; `mode` low_latency or normal.
        No answer beyond the GPUs that were measured."""
        words = checked_words(phase=phase, mode=mode)
        grid = self.grids.get("expert_exchange")
        if grid is None:
            return no_answer(tokens, hidden, topk, experts, ep)
        shapes = found_once(partial(exchange_shape, grid, words), hidden, topk, experts, ep)
        return _at(grid, (tokens,), shapes, hidden, topk, experts, ep)


def _at(grid: Grid, sizes: tuple[Sizes, ...], shapes: tuple[Floats, ...] | None, *wished: Sizes) -> KernelTime:
    """The times of what was found: rows, the work against theirs, whether they stand in for others, and by how
    much the first size is more than theirs."""
    if shapes is None:
        return no_answer(*sizes, *wished)
    row, ratio, stands_in, *more = shapes
    first = np.multiply(sizes[0], more[0]) if more else sizes[0]
    return grid.at(row.astype(np.intp), (first, *sizes[1:]), work=ratio, scaled=stands_in > 0)


class _Grids(Mapping[str, Grid]):
    """The grids of a file, each made when it is asked for first: a model asks for a third of them."""

    def __init__(self, kernels: KernelFile) -> None:
        self._kernels = kernels
        self._made: dict[str, Grid] = {}

    def __getitem__(self, name: str) -> Grid:
        if name not in self._made:
            stored = self._kernels.grids[name]
            window = "window" if "window" in stored.columns else ""
            sparse = name in ("context_module", "generation_module")
            grid = grid_of(stored, _GROWTH.get(name, {}), window, sparse=sparse)
            self._made[name] = no_faster_than_memory(name, grid, self._kernels.gpu)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels.grids)

    def __len__(self) -> int:
        return len(self._kernels.grids)


def tables_of(kernels: KernelFile) -> KernelTables:
    """A file's tables, ready for lookups."""
    return KernelTables(gpu=kernels.gpu, engine=kernels.engine, grids=_Grids(kernels))


@lru_cache(maxsize=64)
def kernel_tables(gpu: str, engine: str, folder: Path | None = None) -> KernelTables | None:
    """The tables of a GPU type under an engine, of a folder that `planner cost kernels import` wrote or the shipped
    ones; None where nobody measured them."""
    path = kernels_there(folder).get((gpu, engine))
    return None if path is None else tables_of(read_kernels(path))
