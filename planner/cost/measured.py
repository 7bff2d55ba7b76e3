"""What measured kernels say of a step: the walk of the formulas, each operation asked of the tables.

| symbol | meaning | unit |
|---|---|---|
| m, n, k | rows of a product (tokens), its columns, what is summed over | 1 |
| mu | passes that load the weights: m / mu rows in each | 1 |
| c, s | tokens of a prompt that are taken in, of all of it | tokens |
| B, v | sequences, tokens of each that are verified | 1 |

Engines hand a pass over as one graph: between kernels lies nothing but what the tables do not have, norms, activations
and copies of a few microseconds each (`GLUE_US` apiece, and their bytes at `GLUE_BANDWIDTH` of the data sheet).
Prompts of which the cache holds a part cost as much of a whole one as they have pairs of query and key.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
from numpy.typing import NDArray

from planner.cost.arrays import Array, as_array
from planner.cost.kernels import Basis, KernelTables, KernelTime, Rows, kernel_tables, products_time
from planner.domain import CostMode, CostSettings, Experts, GpuSpec, ModelSpec

Products = tuple[tuple[Array, Array], ...]
"""(n, k) of each."""
GLUE_US = 3.0
GLUE_BANDWIDTH = 0.8
BLOCK_SCALES = 1.5
BALANCED, SKEWED = "balanced", "power_law_1.2"
_FP8, _BLOCKS, _FP4 = "fp8", "fp8_block", "nvfp4"
_SAME_PRODUCTS = {_FP8: _BLOCKS, _BLOCKS: _FP8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """The tables of a GPU type and engine, with the formats that a model's products have in them."""

    tables: KernelTables
    latent: KernelTables
    weights: str
    experts: str
    shared: str
    cache: str
    distribution: str


def kernels_of(gpu: GpuSpec, model: ModelSpec, settings: CostSettings) -> Kernels | None:
    """What was measured for the engine of the settings; None where they name none, or nothing was."""
    if not settings.engine or settings.mode is CostMode.REFERENCE:
        return None
    return _kernels(gpu, model, settings.engine, settings.balanced_experts)


@lru_cache(maxsize=256)
def _kernels(gpu: GpuSpec, model: ModelSpec, engine: str, balanced: bool) -> Kernels | None:
    tables = kernel_tables(gpu.name, _TABLES.get(engine, engine))
    if tables is None:
        return None
    shared = model.expert_bytes if model.shared_bytes is None else model.shared_bytes
    return Kernels(
        tables=tables,
        latent=kernel_tables(gpu.name, _LATENT) or tables,
        weights=_format(gpu, model, model.weight_bytes),
        experts=_expert_format(gpu, model),
        shared=_format(gpu, model, shared),
        cache=_FP8 if model.kv_bytes == 1 else "bfloat16",
        distribution=BALANCED if balanced else SKEWED,
    )


def _format(gpu: GpuSpec, model: ModelSpec, size: float) -> str:
    """Of a product over weights of so many bytes an element; weights that are unpacked have none of their own."""
    if size > 1 or model.weight_only:
        return "bfloat16"
    if size == 1:
        return (_BLOCKS if model.weight_block else _FP8) if gpu.fp8_tflops else "bfloat16"
    return _FP4 if gpu.fp4_tflops else "bfloat16"


_TABLES = {"trt": "trtllm"}  # engines by the names that tables have for them
_LATENT = "trtllm"  # whose kernels of latent attention alone are counted: others' were measured before they were tuned
# whose products count where they are faster: those of few rows were measured with what a graph leaves out, 15 us each
_SAME_LIBRARIES = {"trtllm": ("sglang", "vllm")}
MXFP4_BYTES = 0.53125


def _expert_format(gpu: GpuSpec, model: ModelSpec) -> str:
    if model.expert_bytes >= 1:
        return _format(gpu, model, model.expert_bytes)
    if model.expert_bytes == MXFP4_BYTES:
        return "w4a8_mxfp4_mxfp8" if gpu.fp4_tflops else "w4a16_mxfp4"
    return _FP4 if gpu.fp4_tflops and not model.weight_only else "int4_wo"


def added(times: Iterable[KernelTime]) -> KernelTime:
    """One after another: the sum, as sure as the least sure of them."""
    listed = list(times)
    if len(listed) == 1:
        return listed[0]
    ms = sum((time.ms for time in listed[1:]), start=listed[0].ms)
    return KernelTime(ms=ms, basis_of=lambda: reduce(np.maximum, (time.basis for time in listed)))


def times_of(time: KernelTime, count: float | Array) -> KernelTime:
    """So many of it."""
    return time.becoming(time.ms * count)


def nothing(like: Array) -> KernelTime:
    """No time at all."""
    return KernelTime.all_of(Basis.MEASURED, np.zeros(np.shape(like)))


def rows_of(kernels: Kernels | None, rows: Array, loads: Array | float = 1.0) -> Rows | None:
    """`rows` of products in all passes that load the weights; None where no tables are asked."""
    return None if kernels is None else Rows.of(kernels.tables, rows, loads)


def products_ms(kernels: Kernels, form: str, products: Products, rows: Rows) -> KernelTime:
    """Products of one layer over all rows. FP8 with scales by block or by matrix multiply alike: an engine whose kernel
    for one of them was slow on the day has another one since."""
    forms = ((form, 1.0), (_SAME_PRODUCTS[form], BLOCK_SCALES)) if form in _SAME_PRODUCTS else ((form, 1.0),)
    beside = _SAME_LIBRARIES.get(kernels.tables.engine, ())
    return products_time(kernels.tables, forms, rows, products, beside=beside)


def experts_ms(kernels: Kernels, experts: Experts, hidden: int, tokens: Array, *, tp: Array, ep: Array) -> KernelTime:
    """Routed experts of one layer, `hidden` wide and cut among `tp` by `ep` GPUs, with so many tokens from all ranks.
    Formats of the same products: as `products_ms`."""
    shape = (hidden, experts.ffn_size, experts.active, experts.routed, tp, ep, kernels.distribution)
    first = kernels.tables.moe(kernels.experts, tokens, *shape, gated=experts.gated)
    if kernels.experts not in _SAME_PRODUCTS:
        return first
    other = kernels.tables.moe(_SAME_PRODUCTS[kernels.experts], tokens, *shape, gated=experts.gated)
    return KernelTime(
        ms=np.fmin(first.ms, BLOCK_SCALES * other.ms),
        basis_of=lambda: np.where(np.isnan(first.ms), other.basis, first.basis),
    )


def glue_ms(gpu: GpuSpec, *, kernels: float | Array, moved: Array, loads: Array | float) -> Array:
    """So many small kernels in each pass, which move so many bytes in all."""
    return np.asarray(kernels * loads * GLUE_US / 1000 + moved / (gpu.memory_gb_s * 1e6 * GLUE_BANDWIDTH))


def measured(ms: Array) -> KernelTime:
    """A time that is as sure as what lies between measured kernels can be."""
    return KernelTime.all_of(Basis.SCALED, ms)


def at_least(time: KernelTime, ms: Array) -> KernelTime:
    """The time, where tables go on beyond what was measured not below what the data sheet leaves it (NaN stays)."""
    return time.becoming(np.where(time.ms < ms, ms, time.ms))


def beyond(time: KernelTime, where: NDArray[np.bool_]) -> KernelTime:
    """The time without an answer where the tables do not hold."""
    return KernelTime(
        ms=np.where(where, np.nan, time.ms), basis_of=lambda: np.where(where, np.int8(Basis.FORMULA), time.basis)
    )


def of_prompts(prompt: KernelTime, prompts: Array) -> KernelTime:
    """Of `prompts` at once (a part of one counts as a part); `prompt`: the time of at least one."""
    return times_of(prompt, prompts / np.maximum(prompts, 1.0))


def as_ones(numbers: Array) -> Array:
    """At least one."""
    return np.maximum(as_array(numbers), 1.0)
