"""Several products over the same rows as one curve: found once for their widths, asked for many rows.

| symbol | meaning | unit |
|---|---|---|
| m | rows of all of them (tokens) | 1 |
| n, k | columns, and what is summed over, of each | 1 |

Between two measured numbers of rows the time of all together is linear in logarithms, as that of each is; beyond the
largest it goes with the rows. A step multiplies the same rows with the weights of one layer after another: where they
lie among the measured ones is found once (`Rows`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from planner.cost.kernels.distinct import Combination, combinations
from planner.cost.kernels.grid import Basis, Floats, KernelTime, Places, no_answer
from planner.cost.kernels.tables import KernelTables, kernel_tables

Forms = tuple[tuple[str, float], ...]
"""Formats that multiply alike, each with a factor: the fastest counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """So many rows in each of `loads` passes over the weights: the next fewer of `measured` numbers of rows, the share
    of the next more, ln of the ratio to the most of them."""

    each: Floats
    loads: npt.ArrayLike
    low: Places
    share: Floats
    beyond: Floats | float

    @classmethod
    def of(cls, tables: KernelTables, rows: npt.ArrayLike, loads: npt.ArrayLike = 1.0) -> "Rows":
        """`rows` in all passes, among those that were measured of products."""
        each = np.asarray(rows / np.asarray(loads), dtype=np.float64)
        ln_each = np.log(np.maximum(each, 1.0))
        grid = tables.grids.get("gemm")
        measured = np.zeros(2) if grid is None else grid.axes[0]
        at = np.interp(ln_each, measured, np.arange(len(measured), dtype=np.float64))
        low = np.minimum(at.astype(np.intp), len(measured) - 2)
        beyond = np.maximum(ln_each - measured[-1], 0.0)
        return cls(each=each, loads=loads, low=low, share=at - low, beyond=beyond if beyond.any() else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Curves:
    """ln of the time (ms) of some products at the measured numbers of rows, a line each combination of widths, and what
    it grows by to the next; how near to what was measured all of it is at best."""

    ln_ms: Floats
    growth: Floats
    basis: npt.NDArray[np.int8]


def products_time(
    tables: KernelTables,
    forms: Forms,
    rows: Rows,
    widths: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]],
    *,
    beside: tuple[str, ...] = (),
) -> KernelTime:
    """One after another, (rows, k) times (k, n) each, in all passes; arrays broadcast. `beside`: engines whose kernels
    count where they are faster."""
    shapes, place = combinations(*(width for pair in widths for width in pair))
    curves = _curves(tables.gpu, (tables.engine, *beside), forms, shapes)
    if curves is None:
        return no_answer(rows.each, place, rows.loads)
    if len(shapes) == 1:
        ln_ms = curves.ln_ms[0].take(rows.low) + rows.share * curves.growth[0].take(rows.low)
    else:
        cell = place * curves.ln_ms.shape[1] + rows.low
        ln_ms = curves.ln_ms.take(cell) + rows.share * curves.growth.take(cell)
    shape = np.broadcast_shapes(np.shape(ln_ms), place.shape)

    def basis() -> npt.NDArray[np.int8]:
        between = np.abs(rows.share - np.rint(rows.share)) > _ALIKE
        return np.maximum(curves.basis[place], np.where(between, np.int8(Basis.INTERPOLATED), np.int8(0)))

    ms = np.broadcast_to(np.exp(ln_ms + rows.beyond), shape)
    return KernelTime(ms=np.asarray(ms * np.asarray(rows.loads), dtype=np.float64), basis_of=basis)


_ALIKE = 1e-6


@lru_cache(maxsize=4096)
def _curves(gpu: str, engines: tuple[str, ...], forms: Forms, shapes: tuple[Combination, ...]) -> _Curves | None:
    """None where the first engine's tables have none of the formats."""
    listed = [tables for engine in engines if (tables := kernel_tables(gpu, engine)) and "gemm" in tables.grids]
    if not listed or listed[0].engine != engines[0]:
        return None
    rows = np.exp(listed[0].grids["gemm"].axes[0])
    lines = [_line(listed, forms, rows, shape) for shape in shapes]
    ln_ms = np.log([ms for ms, _ in lines])
    if np.isnan(ln_ms).all():
        return None
    growth = np.diff(ln_ms, axis=1, append=ln_ms[:, -1:])
    return _Curves(ln_ms=ln_ms, growth=growth, basis=np.array([basis for _, basis in lines], dtype=np.int8))


def _line(listed: Sequence[KernelTables], forms: Forms, rows: Floats, shape: Combination) -> tuple[Floats, int]:
    times, basis = np.zeros(len(rows)), 0
    for n, k in zip(shape[::2], shape[1::2], strict=True):
        answers = [(tables.gemm(form, rows, n, k), factor) for tables in listed for form, factor in forms]
        times = times + np.fmin.reduce([answer.ms * factor for answer, factor in answers])
        basis = max(basis, min(int(answer.basis.min()) for answer, _ in answers))
    return times, basis
