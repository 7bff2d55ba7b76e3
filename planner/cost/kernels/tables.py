"""Measured kernels of one GPU type under one engine: times a call, of one layer on one GPU.

Sizes (batch, tokens, lengths, bytes) are numbers or arrays that broadcast; heads, experts and degrees likewise; words
are one a call. Heads are those of one GPU. What was never measured (a dtype, a kind of layer) is answered by NaN and
`Basis.FORMULA`; a word that no table of any GPU has is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from planner.cost.kernels.distinct import found_once
from planner.cost.kernels.grid import Basis, Floats, Grid, KernelTime, Sizes, grid_of, no_answer
from planner.errors import InputError
from planner.files.kernels import KernelFile, read_kernels, shipped_kernels

DTYPES = ("bfloat16", "fp8", "fp8_block", "nvfp4", "int4_wo", "int8_wo", "sq", "w4a16_mxfp4", "w4a8_mxfp4_mxfp8", "w4afp8")
KV_DTYPES = ("bfloat16", "fp8")
DISTRIBUTIONS = ("balanced", "power_law_1.01", "power_law_1.2")
"""Of tokens over experts."""
KINDS = ("mla", "dsa", "csa", "hca", "msa")
"""Of layers that are measured with their projections: latent, sparse, compressed (two sorts), MiniMax's sparse."""

_GROWTH: Mapping[str, Mapping[str, float]] = {
    "context_attention": {"isl": 2.0},
    "context_mla": {"isl": 2.0},
    "context_module": {"isl": 1.5},  # projections grow with the tokens, attention with their square
}
_ELSEWHERE = 4.0  # a factor of so much in a size counts as far as another word in a column


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTables:
    """See the module. `grids`: by operation, those there are."""

    gpu: str
    engine: str
    grids: Mapping[str, Grid]

    def gemm(self, dtype: str, m: Sizes, n: Sizes, k: Sizes) -> KernelTime:
        """(m, k) times (k, n), with what the engine does to quantise its input."""
        _known("dtype", dtype, DTYPES)
        grid = self.grids.get("gemm")
        row = None if grid is None else grid.exact({"dtype": dtype})
        return no_answer(m, n, k) if grid is None or row is None else grid.at(row, (m, n, k))

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
        grid, shape = self._attention("context_attention", kv_dtype, window, heads, kv_heads, head_dim, by_heads=True)
        if grid is None or shape is None:
            return no_answer(batch, isl, heads, kv_heads, head_dim, past)
        row, ln_scale, scaled, measured_window = shape
        past, isl = np.asarray(past), np.asarray(isl)
        whole = grid.at(row, (batch, isl + past), ln_scale=ln_scale)
        share = (_pairs(past + isl, window) - _pairs(past, window)) / _pairs(past + isl, measured_window)
        part = np.abs(share - 1) > _NONE
        if not part.any():
            return _marked(whole, scaled)
        alone = grid.at(row, (batch, isl), ln_scale=ln_scale).ms * np.where(past > 0, 1.0, 0.0)
        return _marked(KernelTime(ms=np.maximum(whole.ms * share, alone), basis=whole.basis), scaled + part)

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
        grid, shape = self._attention("generation_attention", kv_dtype, window, heads, kv_heads, head_dim)
        if grid is None or shape is None:
            return no_answer(batch, context, heads, kv_heads, head_dim)
        row, ln_scale, scaled, measured_window = shape
        cut = bool(window) and not np.any(measured_window)  # as many tokens without a window
        seen = np.minimum(context, window) if cut else context
        return _marked(grid.at(row, (batch, seen), ln_scale=ln_scale), scaled + np.float64(cut))

    def _attention(
        self,
        name: str,
        kv_dtype: str,
        window: int,
        heads: Sizes,
        kv_heads: Sizes,
        head_dim: Sizes,
        *,
        by_heads: bool = False,
    ) -> tuple[Grid | None, tuple[npt.NDArray[np.intp], Floats, Floats, Floats] | None]:
        """The grid, and of each shape: its row, ln of the work against the row's, whether they differ, its window.
        Work: of the query heads, or of the bytes of the KV cache."""
        _known("kv_dtype", kv_dtype, KV_DTYPES)
        grid = self.grids.get(name)
        if grid is None:
            return None, None
        columns = grid.columns
        work = columns["heads"] if by_heads else columns["kv_heads"]

        def find(heads: int, kv_heads: int, head_dim: int) -> tuple[float, ...] | None:
            asked = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
            row = grid.exact({**asked, "kv_dtype": kv_dtype, "window": window})
            if row is not None:
                return row, 0.0, 0.0, window
            kv = grid.code("kv_dtype", kv_dtype)
            elsewhere = _ELSEWHERE * ((columns["kv_dtype"] != kv) + 0.0)
            distance = elsewhere + _far(columns["heads"], heads) + 2 * _far(columns["kv_heads"], kv_heads)
            distance = distance + 2 * _far(columns["head_dim"], head_dim)
            there = [w for w in (window, 0) if (columns["window"] == w).any()]
            row = grid.nearest({"window": there[0]}, distance) if there else None
            if row is None:
                return None
            mine = (heads if by_heads else kv_heads) * head_dim
            return row, float(np.log(mine / (work[row] * columns["head_dim"][row]))), 1.0, there[0]

        found = found_once(find, heads, kv_heads, head_dim)
        return grid, None if found is None else (found[0].astype(np.intp), *found[1:])

    def context_mla(self, batch: Sizes, isl: Sizes, heads: Sizes, kv_dtype: str = "bfloat16") -> KernelTime:
        """The attention kernel alone of a layer with a latent KV cache, over prompts of `isl` tokens."""
        return self._by_heads("context_mla", (batch, isl), heads, {"kv_dtype": _known("kv_dtype", kv_dtype, KV_DTYPES)})

    def generation_mla(self, batch: Sizes, context: Sizes, heads: Sizes, kv_dtype: str = "bfloat16") -> KernelTime:
        """Likewise of one new token a sequence. Heads share the cache, so that fewer of them are hardly faster."""
        words = {"kv_dtype": _known("kv_dtype", kv_dtype, KV_DTYPES)}
        return self._by_heads("generation_mla", (batch, context), heads, words)

    def mla_bmm(self, dtype: str, tokens: Sizes, heads: Sizes) -> KernelTime:
        """Both products between heads and the latent cache's space, before and after decode's attention."""
        return self._by_heads("mla_bmm", (tokens,), heads, {"dtype": _known("dtype", dtype, DTYPES)})

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
        """Attention with all its projections, over prompts of `isl` tokens. `kind`: see `KINDS`; `model`: whose layer,
        as tables name it, else the first that has the kind."""
        return self._module("context_module", kind, (batch, isl), heads, dtype, kv_dtype, model)

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
        return self._module("generation_module", kind, (batch, context), heads, dtype, kv_dtype, model)

    def _module(
        self, name: str, kind: str, sizes: tuple[Sizes, ...], heads: Sizes, dtype: str, kv_dtype: str, model: str
    ) -> KernelTime:
        words = {"dtype": _known("dtype", dtype, DTYPES), "kv_dtype": _known("kv_dtype", kv_dtype, KV_DTYPES)}
        must = {"kind": _known("kind", kind, KINDS)}
        return self._by_heads(name, sizes, heads, {**words, **({"model": model} if model else {})}, must)

    def _by_heads(
        self,
        name: str,
        sizes: tuple[Sizes, ...],
        heads: Sizes,
        words: Mapping[str, str],
        must: Mapping[str, str] | None = None,
    ) -> KernelTime:
        """The nearest shape: each word that differs counts as a factor of heads; time goes with the heads."""
        grid = self.grids.get(name)
        if grid is None:
            return no_answer(*sizes, heads)
        differ = sum((grid.columns[c] != grid.code(c, word)) * _ELSEWHERE for c, word in words.items())

        def find(heads: int) -> tuple[float, ...] | None:
            row = grid.nearest(must or {}, differ + _far(grid.columns["heads"], heads))
            if row is None:
                return None
            measured = int(grid.columns["heads"][row])
            other = measured != heads or differ[row] > 0
            return row, float(np.log(heads / measured)), float(other)

        found = found_once(find, heads)
        if found is None:
            return no_answer(*sizes, heads)
        return grid.at(found[0].astype(np.intp), sizes, ln_scale=found[1], scaled=found[2] > 0)

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
        _known("dtype", dtype, DTYPES)
        _known("distribution", distribution, DISTRIBUTIONS)
        grid = self.grids.get("moe")
        if grid is None or grid.code("dtype", dtype) < 0:
            return no_answer(tokens, hidden, inter, topk, experts, moe_tp, moe_ep)
        mine = grid.columns["dtype"] == grid.code("dtype", dtype)
        local = _expert_shape(**{name: grid.columns[name] for name in _EXPERT_COLUMNS})
        elsewhere = _ELSEWHERE * (grid.columns["distribution"] != grid.code("distribution", distribution))
        rows = np.flatnonzero(mine)
        base = elsewhere[rows]

        def find(*asked: int) -> tuple[float, ...] | None:
            shape = dict(zip(_EXPERT_COLUMNS, asked, strict=True))
            row = grid.exact({**shape, "dtype": dtype, "distribution": distribution})
            if row is not None:
                return row, 0.0, 1.0, 0.0
            ours = _expert_shape(**{name: np.float64(value) for name, value in shape.items()})
            far = base + sum(weight * _far(local[name][rows], ours[name]) for name, weight in _EXPERT_WEIGHTS.items())
            row = int(rows[np.argmin(far)])
            weights = ours["weights"] / local["weights"][row]
            return row, float(np.log(weights)), float(ours["load"] / local["load"][row]), 1.0

        found = found_once(find, hidden, inter, topk, experts, moe_tp, moe_ep)
        if found is None:
            return no_answer(tokens)
        row, ln_scale, more, scaled = found
        return grid.at(row.astype(np.intp), (tokens * more,), ln_scale=ln_scale, scaled=scaled > 0)

    def linear_attention(
        self, kind: str, phase: str, batch: Sizes, length: Sizes, heads: Sizes, key_heads: Sizes, head_dim: Sizes
    ) -> KernelTime:
        """The convolution and recurrence of a gated delta layer: `kind` gdn or kda, `phase` context (`length` tokens a
        sequence) or generation (1). `heads`: of values."""
        must = {"kind": _known("kind", kind, ("gdn", "kda")), "phase": _known("phase", phase, ("context", "generation"))}
        grid = self.grids.get("linear_attention")
        if grid is None:
            return no_answer(batch, length, heads, key_heads, head_dim)

        def find(heads: int, key_heads: int, head_dim: int) -> tuple[float, ...] | None:
            far = _far(grid.columns["heads"], heads) + _far(grid.columns["key_heads"], key_heads) / 4
            row = grid.nearest(must, far + _far(grid.columns["head_dim"], head_dim))
            if row is None:
                return None
            there = {name: int(grid.columns[name][row]) for name in ("heads", "key_heads", "head_dim")}
            scale = heads * head_dim / (there["heads"] * there["head_dim"])
            same = there == {"heads": heads, "key_heads": key_heads, "head_dim": head_dim}
            return row, float(np.log(scale)), float(not same)

        found = found_once(find, heads, key_heads, head_dim)
        if found is None:
            return no_answer(batch, length, heads, key_heads, head_dim)
        return grid.at(found[0].astype(np.intp), (batch, length), ln_scale=found[1], scaled=found[2] > 0)

    def hyper_connection(self, tokens: Sizes, hidden: Sizes) -> KernelTime:
        """Mixing the residual streams before and after a layer's two halves (DeepSeek-V4)."""
        return self._scaled_by("hyper_connection", (tokens,), "hidden", hidden, {})

    def quantize(self, m: Sizes, k: Sizes, work: str = "scale") -> KernelTime:
        """Quantising an (m, k) input to FP8: `work` scale (finding the scales, beyond a static one) or apply."""
        grid = self.grids.get("quantize")
        row = None if grid is None else grid.exact({"work": _known("work", work, ("scale", "apply"))})
        return no_answer(m, k) if grid is None or row is None else grid.at(row, (m, k))

    def all_reduce(self, message: Sizes, gpus: Sizes, mode: str = "graph") -> KernelTime:
        """The engine's own all-reduce of `message` bytes among GPUs of one node; `mode` graph or eager. Among more GPUs
        than measured there is no answer: they may lie in several nodes."""
        return self._among("all_reduce", message, gpus, {"mode": _known("mode", mode, ("graph", "eager"))})

    def collective(self, name: str, message: Sizes, gpus: Sizes) -> KernelTime:
        """NCCL's all_reduce, all_gather, reduce_scatter or alltoall of `message` bytes (of the whole result), likewise."""
        names = ("all_gather", "all_reduce", "alltoall", "reduce_scatter")
        return self._among("collective", message, gpus, {"collective": _known("collective", name, names)})

    def _among(self, name: str, message: Sizes, gpus: Sizes, words: Mapping[str, str]) -> KernelTime:
        grid = self.grids.get(name)
        if grid is None:
            return no_answer(message, gpus)
        counts = grid.columns["gpus"]
        same = np.all([grid.columns[c] == grid.code(c, word) for c, word in words.items()], axis=0)

        def find(gpus: int) -> tuple[float, ...] | None:
            enough = np.flatnonzero(same & (counts >= gpus))
            if not len(enough):
                return None
            row = int(enough[np.argmin(counts[enough])])
            return row, float(counts[row] != gpus), float(gpus > 1)

        found = found_once(find, gpus)
        if found is None:
            return no_answer(message, gpus)
        time = grid.at(found[0].astype(np.intp), (message,), scaled=found[1] > 0)
        return KernelTime(ms=time.ms * found[2], basis=time.basis)  # one GPU has nobody to talk to

    def expert_exchange(
        self, phase: str, tokens: Sizes, hidden: Sizes, topk: Sizes, experts: Sizes, ep: Sizes, mode: str = "low_latency"
    ) -> KernelTime:
        """Dispatch or combine (`phase`) among `ep` GPUs, of `tokens` tokens of one GPU; `mode` low_latency or normal.
        No answer beyond the GPUs that were measured."""
        grid = self.grids.get("expert_exchange")
        words = {"phase": _known("phase", phase, ("dispatch", "combine"))}
        words["mode"] = _known("mode", mode, ("low_latency", "normal"))
        if grid is None:
            return no_answer(tokens, hidden, topk, experts, ep)
        columns = grid.columns
        same = np.all([columns[c] == grid.code(c, word) for c, word in words.items()], axis=0)

        def find(hidden: int, topk: int, experts: int, ep: int) -> tuple[float, ...] | None:
            enough = same & (columns["ep"] >= ep)
            if not enough.any():
                return None
            far = 4 * _far(columns["ep"], ep) + _far(columns["hidden"], hidden) + _far(columns["topk"], topk)
            row = int(np.argmin(np.where(enough, far + _far(columns["experts"], experts) / 4, np.inf)))
            more = hidden * topk / (columns["hidden"][row] * columns["topk"][row])
            asked = {"hidden": hidden, "topk": topk, "experts": experts, "ep": ep}
            return row, float(more), float(any(columns[name][row] != value for name, value in asked.items()))

        found = found_once(find, hidden, topk, experts, ep)
        if found is None:
            return no_answer(tokens, hidden, topk, experts, ep)
        row, more, scaled = found
        return grid.at(row.astype(np.intp), (tokens * more,), scaled=scaled > 0)

    def _scaled_by(
        self, name: str, sizes: tuple[Sizes, ...], column: str, value: Sizes, must: Mapping[str, str]
    ) -> KernelTime:
        grid = self.grids.get(name)
        if grid is None:
            return no_answer(*sizes, value)

        def find(asked: int) -> tuple[float, ...] | None:
            row = grid.nearest(must, _far(grid.columns[column], asked))
            if row is None:
                return None
            measured = int(grid.columns[column][row])
            return row, float(np.log(asked / measured)), float(asked != measured)

        found = found_once(find, value)
        if found is None:
            return no_answer(*sizes, value)
        return grid.at(found[0].astype(np.intp), sizes, ln_scale=found[1], scaled=found[2] > 0)


_NONE = 1e-9
_EXPERT_COLUMNS = ("hidden", "inter", "topk", "experts", "moe_tp", "moe_ep")
_EXPERT_WEIGHTS = {"hidden": 1.0, "inter": 1.0, "experts": 0.5, "load": 0.5, "moe_ep": 0.25}


def _expert_shape(
    hidden: Floats, inter: Floats, topk: Floats, experts: Floats, moe_tp: Floats, moe_ep: Floats
) -> dict[str, Floats]:
    """What a GPU has of the experts, and how many tokens an expert gets of one: what makes shapes near."""
    mine = {"hidden": hidden, "inter": inter / moe_tp, "experts": experts / moe_ep, "moe_ep": moe_ep}
    return {**mine, "load": topk / experts, "weights": hidden * mine["inter"] * mine["experts"]}


def _pairs(tokens: npt.NDArray[np.float64], window: Sizes) -> Floats:
    """Pairs of tokens, an earlier and a later one, within a window (0: none)."""
    seen = np.where(np.asarray(window) > 0, np.minimum(tokens, window), tokens)
    return np.asarray(seen * seen / 2 + (tokens - seen) * seen, dtype=np.float64)


def _far(measured: npt.NDArray[np.generic], asked: float) -> Floats:
    """How many times one is the other, as a logarithm."""
    return np.abs(np.log(measured) - np.log(asked))


def _marked(time: KernelTime, scaled: npt.ArrayLike) -> KernelTime:
    if not np.any(scaled):
        return time
    basis = np.broadcast_to(np.where(np.asarray(scaled) > 0, np.int8(Basis.SCALED), time.basis), time.ms.shape)
    return KernelTime(ms=time.ms, basis=basis)


def _known(name: str, word: str, words: tuple[str, ...]) -> str:
    if word not in words:
        raise InputError(f"Measured kernels: {name} must be one of {', '.join(words)}, got {word!r}.")
    return word


def tables_of(kernels: KernelFile) -> KernelTables:
    """A file's tables, ready for lookups."""
    grids = {
        name: grid_of(stored, _GROWTH.get(name, {}), "window" if "window" in stored.columns else "")
        for name, stored in kernels.grids.items()
    }
    return KernelTables(gpu=kernels.gpu, engine=kernels.engine, grids=grids)


@lru_cache(maxsize=64)
def kernel_tables(gpu: str, engine: str) -> KernelTables | None:
    """The shipped tables of a GPU type under an engine; None where nobody measured them."""
    path = shipped_kernels().get((gpu, engine))
    return None if path is None else tables_of(read_kernels(path))
