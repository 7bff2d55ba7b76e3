"""No measured kernel is faster than the memory that it reads from.

Some were measured call after call with all that they read in a cache, of 96 and 128 MB on L40S and RTX PRO 6000; layers
of a model find each other's there. What the data sheet leaves a kernel is the time to read its weights, or its keys and
values, once. Of experts at least topk/experts are visited, and as many as half of the tokens visit by chance: popular
ones draw the others (`planner.cost.limits`).
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from planner.cost.kernels.grid import Basis, Floats, Grid
from planner.files import catalog

_BYTES: Mapping[str, float] = {
    "bfloat16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0,
    "int4_wo": 0.5,
    "nvfp4": 0.5625,
    "w4a16_mxfp4": 0.53125,
    "w4a8_mxfp4_mxfp8": 0.53125,
}
_MATRICES = 2  # of an expert: up and down; tables do not say which have a gate
_BYTE_PER_MS = 1e6  # of a GB/s
_RAISED = 0.1
"""Share by which a time must grow for it to count as no longer measured."""


def no_faster_than_memory(name: str, grid: Grid, gpu: str) -> Grid:
    """The grid of an operation on a GPU type, with times that are too short raised; their basis is scaled."""
    read = _READ.get(name)
    if read is None:
        return grid
    floor = np.log(read(grid) / (catalog.gpu(gpu).memory_gb_s * _BYTE_PER_MS)).astype(np.float32)
    raised = floor > grid.ln_ms + np.log1p(_RAISED)
    basis = np.where(raised, np.maximum(grid.basis, np.int8(Basis.SCALED)), grid.basis)
    return replace(grid, ln_ms=np.fmax(grid.ln_ms, np.where(np.isnan(grid.ln_ms), np.nan, floor)), basis=basis)


def _element(grid: Grid, column: str) -> Floats:
    """Bytes of an element of each shape; next to none of a format that is not known here."""
    return np.array([_BYTES.get(grid.words[column][place], 1e-9) for place in grid.columns[column]])


def _products(grid: Grid) -> Floats:
    _, columns, depth = (np.exp(axis) for axis in grid.axes)
    weights = columns[:, None] * depth
    return np.asarray(_element(grid, "dtype")[:, None, None, None] * weights[None, None])


def _caches(grid: Grid) -> Floats:
    batch, cached = (np.exp(axis) for axis in grid.axes)
    window = grid.columns["window"][:, None, None]
    attended = np.where(window > 0, np.minimum(cached, window), cached)
    token = 2 * grid.columns["kv_heads"] * grid.columns["head_dim"] * _element(grid, "kv_dtype")
    return np.asarray(batch[:, None] * attended * token[:, None, None])


def _experts(grid: Grid) -> Floats:
    (tokens,) = (np.exp(axis) for axis in grid.axes)
    share = (grid.columns["topk"] / grid.columns["experts"])[:, None]
    visited = np.maximum(1 - (1 - share) ** (tokens / 2), share)
    held_weights = grid.columns["experts"] / grid.columns["moe_ep"] * grid.columns["hidden"] * grid.columns["inter"]
    return np.asarray(visited * (_MATRICES * held_weights / grid.columns["moe_tp"] * _element(grid, "dtype"))[:, None])


_READ = {"gemm": _products, "generation_attention": _caches, "moe": _experts}
