"""Several products over the same rows as one curve: found once for their widths, asked for many rows.

| symbol | meaning | unit |
|---|---|---|
| m | rows of all of them (tokens) | 1 |
| n, k | columns, and what is summed over, of each | 1 |

Between two measured numbers of rows the time of all together is linear in logarithms, as that of each is; beyond the
largest it goes with the rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from planner.cost.kernels.grid import Basis, Floats, KernelTime, no_answer
from planner.cost.kernels.tables import kernel_tables

Widths = tuple[tuple[float, float], ...]
"""(n, k) of each product."""
Forms = tuple[tuple[str, float], ...]
"""Formats that multiply alike, each with a factor: the fastest counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Curve:
    """ln of rows, ln of the time (ms) there; how near to what was measured all of it is at best."""

    ln_rows: Floats
    ln_ms: Floats
    basis: int


def products_time(
    gpu: str,
    engines: tuple[str, ...],
    forms: Forms,
    rows: npt.ArrayLike,
    widths: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]],
) -> KernelTime:
    """One after another, over `rows` of (rows, k) times (k, n) each; arrays broadcast. Of several `engines` the fastest
    counts of each; the first has to have tables of it."""
    flat = [np.asarray(width, dtype=np.float64) for pair in widths for width in pair]
    m = np.asarray(rows, dtype=np.float64)
    if all(width.size == 1 for width in flat):
        combinations, place = np.array([[float(width.reshape(-1)[0]) for width in flat]]), np.zeros((), np.intp)
        shape = np.broadcast_shapes(m.shape, *(width.shape for width in flat))
    else:
        spread = np.broadcast_arrays(*flat)
        stacked = np.stack([width.reshape(-1) for width in spread], axis=1)
        combinations, inverse = np.unique(stacked, axis=0, return_inverse=True)
        place = inverse.reshape(spread[0].shape)
        shape = np.broadcast_shapes(m.shape, place.shape)
    curves = [_curve(gpu, engines, forms, tuple(zip(row[::2], row[1::2], strict=True))) for row in combinations.tolist()]
    if any(curve is None for curve in curves):
        return no_answer(m, *flat)
    there = [curve for curve in curves if curve is not None]
    ln_rows = there[0].ln_rows
    ln_m = np.log(np.maximum(m, 1.0))
    at = np.interp(ln_m, ln_rows, np.arange(len(ln_rows), dtype=np.float64))
    low = np.minimum(at.astype(np.intp), len(ln_rows) - 2)
    table = np.stack([curve.ln_ms for curve in there])
    below, above = table[place, low], table[place, low + 1]
    ln_ms = below + (at - low) * (above - below) + np.maximum(ln_m - ln_rows[-1], 0.0)
    between = np.where(np.abs(at - np.rint(at)) > _ALIKE, np.int8(Basis.INTERPOLATED), np.int8(Basis.MEASURED))
    basis = np.maximum(np.array([curve.basis for curve in there], np.int8)[place], between)
    return KernelTime(ms=np.broadcast_to(np.exp(ln_ms), shape), basis=np.broadcast_to(basis, shape))


_ALIKE = 1e-6


@lru_cache(maxsize=65536)
def _curve(gpu: str, engines: tuple[str, ...], forms: Forms, widths: Widths) -> _Curve | None:
    """None where the tables have none of the formats."""
    all_tables = [tables for engine in engines if (tables := kernel_tables(gpu, engine)) and "gemm" in tables.grids]
    if not all_tables or all_tables[0].engine != engines[0]:
        return None
    grid = all_tables[0].grids["gemm"]
    rows = np.exp(grid.axes[0])
    times, basis = np.zeros(len(rows)), 0
    for n, k in widths:
        answers = [(tables.gemm(form, rows, n, k), factor) for tables in all_tables for form, factor in forms]
        times = times + np.fmin.reduce([answer.ms * factor for answer, factor in answers])
        basis = max(basis, min(int(answer.basis.min()) for answer, _ in answers))
    return None if np.isnan(times).any() else _Curve(ln_rows=grid.axes[0], ln_ms=np.log(times), basis=basis)
