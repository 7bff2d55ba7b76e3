"""Measured kernels of one GPU type under one engine: times a call, of one layer on one GPU.

Sizes (batch, tokens, lengths, bytes) are numbers or arrays that broadcast; heads, experts and degrees likewise; words
are one a call. Heads are those of one GPU. What was never measured (a dtype, a kind of layer) is answered by NaN and
`Basis.FORMULA`; a word that no table of any GPU has is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from planner.cost.kernels.distinct import found_once
from planner.cost.kernels.floors import no_faster_than_memory
from planner.cost.kernels.grid import Basis, Floats, Grid, KernelTime, Sizes, grid_of, no_answer
from planner.cost.kernels.shapes import (
    ELSEWHERE,
    EXPERT_COLUMNS,
    EXPERT_NEARNESS,
    expert_shape,
    far,
    known,
    pairs,
)
from planner.files.kernels import KernelFile, kernels_there, read_kernels

_GROWTH: Mapping[str, Mapping[str, float]] = {
    "context_attention": {"isl": 2.0},
    "context_mla": {"isl": 2.0},
    "context_module": {"isl": 1.5},  # projections grow with the tokens, attention with their square
}
_Found = tuple[float, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTables:
    """See the module. `grids`: by operation, those there are."""

    gpu: str
    engine: str
    grids: Mapping[str, Grid]

    def gemm(self, dtype: str, m: Sizes, n: Sizes, k: Sizes) -> KernelTime:
        """(m, k) times (k, n), with what the engine does to quantise its input."""
        return self._exact("gemm", known(dtype=dtype), (m, n, k))

    def quantize(self, m: Sizes, k: Sizes, work: str = "scale") -> KernelTime:
        """Quantising an (m, k) input to FP8: `work` scale (finding the scales, beyond a static one) or apply."""
        return self._exact("quantize", known(work=work), (m, k))

    def _exact(self, name: str, words: Mapping[str, str], sizes: tuple[Sizes, ...]) -> KernelTime:
        grid = self.grids.get(name)
        row = None if grid is None else grid.exact(words)
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
        """Attention over prompts of `isl` tokens after `past` cached ones, causal; `window` 0 is none."""
        shape = self._attention("context_attention", "heads", kv_dtype, window, heads, kv_heads, head_dim)
        if shape is None:
            return no_answer(batch, isl, heads, kv_heads, head_dim, past)
        grid, row, ln_scale, stands_in, its_window = shape
        past, isl = np.asarray(past), np.asarray(isl)
        whole = grid.at(row, (batch, isl + past), ln_scale=ln_scale, scaled=stands_in)
        share = (pairs(past + isl, window) - pairs(past, window)) / pairs(past + isl, its_window)
        if np.all(np.abs(share - 1) < _NOTHING):
            return whole
        # a chunk after a cache takes no less than the chunk alone
        alone = np.where(past > 0, grid.at(row, (batch, isl), ln_scale=ln_scale).ms, 0.0)
        basis = np.where(np.abs(share - 1) < _NOTHING, whole.basis, np.maximum(whole.basis, np.int8(Basis.SCALED)))
        return KernelTime(ms=np.maximum(whole.ms * share, alone), basis=basis)

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
        grid, row, ln_scale, stands_in, its_window = shape
        if window and not np.any(its_window):  # as many tokens without a window
            context = np.minimum(context, window)
        return grid.at(row, (batch, context), ln_scale=ln_scale, scaled=stands_in)

    def _attention(
        self, name: str, work: str, kv_dtype: str, window: int, heads: Sizes, kv_heads: Sizes, head_dim: Sizes
    ) -> tuple[Grid, npt.NDArray[np.intp], Floats, npt.NDArray[np.bool_], Floats] | None:
        """The grid, and of each shape: its row, ln of the work against the row's, whether it stands in for another, its
        window. `work`: of the query heads, or of the bytes of the KV cache."""
        words = known(kv_dtype=kv_dtype)
        grid = self.grids.get(name)
        if grid is None:
            return None
        columns = grid.columns
        windows = [w for w in (window, 0) if (columns["window"] == w).any()]

        def find(heads: int, kv_heads: int, head_dim: int) -> _Found:
            asked = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
            row = grid.exact({**asked, **words, "window": window})
            if row is not None:
                return row, 0.0, False, window
            differ = ELSEWHERE * (columns["kv_dtype"] != grid.code("kv_dtype", kv_dtype))
            distance = differ + far(columns["heads"], heads) + 2 * far(columns["kv_heads"], kv_heads)
            row = grid.nearest({"window": windows[0]}, distance + 2 * far(columns["head_dim"], head_dim))
            there = columns[work][row] * columns["head_dim"][row]
            return row, float(np.log(asked[work] * head_dim / there)), True, windows[0]

        found = found_once(find, heads, kv_heads, head_dim) if windows else None
        return None if found is None else (grid, found[0].astype(np.intp), found[1], found[2] > 0, found[3])

    def context_mla(self, batch: Sizes, isl: Sizes, heads: Sizes, kv_dtype: str = "bfloat16") -> KernelTime:
        """The attention kernel alone of a layer with a latent KV cache, over prompts of `isl` tokens."""
        return self._by("heads", heads, "context_mla", (batch, isl), known(kv_dtype=kv_dtype))

    def generation_mla(self, batch: Sizes, context: Sizes, heads: Sizes, kv_dtype: str = "bfloat16") -> KernelTime:
        """Likewise of one new token a sequence. Heads share the cache, so that fewer of them are hardly faster."""
        return self._by("heads", heads, "generation_mla", (batch, context), known(kv_dtype=kv_dtype))

    def mla_bmm(self, dtype: str, tokens: Sizes, heads: Sizes) -> KernelTime:
        """Both products between heads and the latent cache's space, before and after decode's attention."""
        return self._by("heads", heads, "mla_bmm", (tokens,), known(dtype=dtype))

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
        like = {**known(dtype=dtype, kv_dtype=kv_dtype), **({"model": model} if model else {})}
        return self._by("heads", heads, "context_module", (batch, isl), like, known(kind=kind))

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
        like = {**known(dtype=dtype, kv_dtype=kv_dtype), **({"model": model} if model else {})}
        return self._by("heads", heads, "generation_module", (batch, context), like, known(kind=kind))

    def hyper_connection(self, tokens: Sizes, hidden: Sizes) -> KernelTime:
        """Mixing the residual streams before and after a layer's two halves (DeepSeek-V4)."""
        return self._by("hidden", hidden, "hyper_connection", (tokens,), {})

    def _by(
        self,
        column: str,
        value: Sizes,
        name: str,
        sizes: tuple[Sizes, ...],
        like: Mapping[str, str],
        must: Mapping[str, str] | None = None,
    ) -> KernelTime:
        """Of the nearest shape by a column, which time goes with; each word of `like` that differs counts much."""
        grid = self.grids.get(name)
        if grid is None:
            return no_answer(*sizes, value)
        codes = grid.columns[column]
        differ = sum(
            (ELSEWHERE * (grid.columns[c] != grid.code(c, word)) for c, word in like.items()), np.zeros(len(codes))
        )

        def find(value: int) -> _Found:
            row = grid.nearest(must or {}, differ + far(codes, value))
            if row is None:
                return None
            return row, float(np.log(value / codes[row])), bool(codes[row] != value or differ[row])

        return _at(grid, sizes, found_once(find, value), value)

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
    ) -> KernelTime:
        """The routed experts of the GPU that has most to do. `tokens`: of the whole layer, from all ranks together;
        `inter`: of an expert, before it is cut by `moe_tp`. A shape that was not measured takes the nearest one at as
        many rows an expert, by the weights that the GPU holds: both reads and FLOPs go with them then."""
        words = known(dtype=dtype, distribution=distribution)
        asked = (hidden, inter, topk, experts, moe_tp, moe_ep)
        grid = self.grids.get("moe")
        rows = np.zeros(0) if grid is None else np.flatnonzero(grid.columns["dtype"] == grid.code("dtype", dtype))
        if grid is None or not len(rows):
            return no_answer(tokens, *asked)

        def find(*values: int) -> _Found:
            shape = dict(zip(EXPERT_COLUMNS, values, strict=True))
            row = grid.exact({**shape, **words})
            if row is not None:
                return row, 0.0, False, 1.0
            there = expert_shape(**{name: grid.columns[name][rows] for name in EXPERT_COLUMNS})
            ours = expert_shape(**{name: np.float64(value) for name, value in shape.items()})
            differ = ELSEWHERE * (grid.columns["distribution"][rows] != grid.code("distribution", distribution))
            place = int(np.argmin(differ + sum(w * far(there[c], ours[c]) for c, w in EXPERT_NEARNESS.items())))
            ln_weights = float(np.log(ours["weights"] / there["weights"][place]))
            return int(rows[place]), ln_weights, True, float(ours["load"] / there["load"][place])

        found = found_once(find, *asked)
        return _at(grid, (tokens,), found, *asked)

    def linear_attention(
        self, kind: str, phase: str, batch: Sizes, length: Sizes, heads: Sizes, key_heads: Sizes, head_dim: Sizes
    ) -> KernelTime:
        """The convolution and recurrence of a gated delta layer: `kind` gdn or kda, `phase` context (`length` tokens a
        sequence) or generation (1). `heads`: of values."""
        must = known(kind=kind, phase=phase)
        grid = self.grids.get("linear_attention")
        if grid is None:
            return no_answer(batch, length, heads, key_heads, head_dim)

        def find(heads: int, key_heads: int, head_dim: int) -> _Found:
            asked = {"heads": heads, "key_heads": key_heads, "head_dim": head_dim}
            weights = {"heads": 1.0, "key_heads": 0.25, "head_dim": 1.0}
            row = grid.nearest(must, sum(w * far(grid.columns[c], asked[c]) for c, w in weights.items()))
            if row is None:
                return None
            there = {name: int(grid.columns[name][row]) for name in asked}
            scale = heads * head_dim / (there["heads"] * there["head_dim"])
            return row, float(np.log(scale)), there != asked

        return _at(grid, (batch, length), found_once(find, heads, key_heads, head_dim), heads, key_heads, head_dim)

    def all_reduce(self, message: Sizes, gpus: Sizes, mode: str = "graph") -> KernelTime:
        """The engine's own all-reduce of `message` bytes among GPUs of one node; `mode` graph or eager. Among more GPUs
        than measured there is no answer: they may lie in several nodes."""
        return self._among("all_reduce", message, gpus, known(mode=mode))

    def collective(self, collective: str, message: Sizes, gpus: Sizes) -> KernelTime:
        """NCCL's all_reduce, all_gather, reduce_scatter or alltoall of `message` bytes (the whole result), likewise."""
        return self._among("collective", message, gpus, known(collective=collective))

    def _among(self, name: str, message: Sizes, gpus: Sizes, words: Mapping[str, str]) -> KernelTime:
        grid = self.grids.get(name)
        if grid is None:
            return no_answer(message, gpus)
        counts = grid.columns["gpus"]

        def find(gpus: int) -> _Found:
            row = grid.nearest(words, np.where(counts >= gpus, counts, np.inf))
            return None if row is None or counts[row] < gpus else (row, 0.0, bool(counts[row] != gpus))

        time = _at(grid, (message,), found_once(find, gpus), gpus)
        return KernelTime(ms=np.where(np.asarray(gpus) > 1, time.ms, 0.0), basis=time.basis)

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
        words = known(phase=phase, mode=mode)
        grid = self.grids.get("expert_exchange")
        if grid is None:
            return no_answer(tokens, hidden, topk, experts, ep)
        weights = {"ep": 4.0, "hidden": 1.0, "topk": 1.0, "experts": 0.25}

        def find(*values: int) -> _Found:
            asked = dict(zip(("hidden", "topk", "experts", "ep"), values, strict=True))
            distance = sum(w * far(grid.columns[c], asked[c]) for c, w in weights.items())
            row = grid.nearest(words, np.where(grid.columns["ep"] >= asked["ep"], distance, np.inf))
            if row is None or grid.columns["ep"][row] < asked["ep"]:
                return None
            there = {name: int(grid.columns[name][row]) for name in asked}
            bytes_there = there["hidden"] * there["topk"]  # of a token
            return row, 0.0, there != asked, asked["hidden"] * asked["topk"] / bytes_there

        return _at(grid, (tokens,), found_once(find, hidden, topk, experts, ep), hidden, topk, experts, ep)


_NOTHING = 1e-9


def _at(grid: Grid, sizes: tuple[Sizes, ...], found: tuple[Floats, ...] | None, *asked: Sizes) -> KernelTime:
    """The times of what was found: rows, ln of the work against theirs, whether they stand in for others, and by how
    much the first size is more than theirs."""
    if found is None:
        return no_answer(*sizes, *asked)
    row, ln_scale, stands_in, *more = found
    first = np.multiply(sizes[0], more[0]) if more else sizes[0]
    return grid.at(row.astype(np.intp), (first, *sizes[1:]), ln_scale=ln_scale, scaled=stands_in > 0)


def tables_of(kernels: KernelFile) -> KernelTables:
    """A file's tables, ready for lookups."""
    grids = {}
    for name, stored in kernels.grids.items():
        window = "window" if "window" in stored.columns else ""
        sparse = name in ("context_module", "generation_module")
        grid = grid_of(stored, _GROWTH.get(name, {}), window, sparse=sparse)
        grids[name] = no_faster_than_memory(name, grid, kernels.gpu)
    return KernelTables(gpu=kernels.gpu, engine=kernels.engine, grids=grids)


@lru_cache(maxsize=64)
def kernel_tables(gpu: str, engine: str, folder: Path | None = None) -> KernelTables | None:
    """The tables of a GPU type under an engine, of a folder that `planner cost kernels import` wrote or the shipped
    ones; None where nobody measured them."""
    path = kernels_there(folder).get((gpu, engine))
    return None if path is None else tables_of(read_kernels(path))
