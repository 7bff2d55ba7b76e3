"""One operation's measured times as a function: holes filled by size, looked up in logarithms, with where from."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from planner.files.kernels import KernelGrid

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
Sizes = npt.ArrayLike


class Basis(IntEnum):
    """Where a time is from, the best first."""

    MEASURED = 0
    INTERPOLATED = 1
    SCALED = 2
    """From a neighbouring shape, or beyond what was measured, by the work."""
    FORMULA = 3
    """The tables have no answer: ask the formulas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTime:
    """`ms` a call, NaN where there is no answer. `basis_of` finds `basis`, which takes as long as the times
    themselves: only an explanation of a step asks."""

    ms: Floats
    basis_of: Callable[[], npt.NDArray[np.int8]]

    @classmethod
    def all_of(cls, basis: Basis, ms: npt.ArrayLike) -> "KernelTime":
        """Times that are all from one source."""
        return cls(ms=np.asarray(ms, dtype=np.float64), basis_of=lambda: np.asarray(basis, dtype=np.int8))

    @property
    def basis(self) -> npt.NDArray[np.int8]:
        """A `Basis` each, of the shape of `ms`."""
        return np.broadcast_to(self.basis_of(), np.shape(self.ms))

    def becoming(self, ms: npt.ArrayLike, *, at_best: Basis = Basis.MEASURED) -> "KernelTime":
        """Times made of these: each as sure as it was, and no better than `at_best`."""
        return KernelTime(
            ms=np.asarray(ms, dtype=np.float64), basis_of=lambda: np.maximum(self.basis_of(), np.int8(at_best))
        )


def no_answer(*sizes: Sizes) -> KernelTime:
    """For calls of these sizes."""
    return KernelTime.all_of(Basis.FORMULA, np.full(np.broadcast_shapes(*(np.shape(size) for size in sizes)), np.nan))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # one operation's, told from others by identity
class Grid:
    """`columns`: name -> what each shape has, words as places in `words`. `ln_ms`: (shapes, *axes), without holes;
    `basis`: likewise, of each point: measured, scaled (a hole that was filled), or formula (too far from any, as
    `far_holes` says some are). `growth`: of ln(ms) by ln(size) beyond each axis, a number a shape. `launch_ms`: what
    the least call takes."""

    columns: Mapping[str, npt.NDArray[np.int64]]
    words: Mapping[str, tuple[str, ...]]
    rows: Mapping[tuple[int, ...], int]
    axes: tuple[Floats, ...]
    ln_ms: npt.NDArray[np.float32]
    basis: npt.NDArray[np.int8]
    far_holes: bool
    launch_ms: float
    growth: tuple[npt.NDArray[np.float32], ...]

    def code(self, column: str, value: str | int) -> int:
        """What `columns` holds for the value; -1 for an unknown word."""
        if not isinstance(value, str):
            return value
        words = self.words[column]
        return words.index(value) if value in words else -1

    def exact(self, values: Mapping[str, str | int]) -> int | None:
        """The row of the shape that has these values in all columns."""
        return self.rows.get(tuple(self.code(column, values[column]) for column in self.columns))

    def nearest(self, must: Mapping[str, str | int], distance: Floats) -> int | None:
        """The nearest row among those with these values, the first of several alike; None where there is none."""
        fits = np.ones(len(self.ln_ms), dtype=np.bool_)
        for column, value in must.items():
            fits &= self.columns[column] == self.code(column, value)
        return int(np.argmin(np.where(fits, distance, np.inf))) if fits.any() else None

    def at(
        self, row: int | Places, sizes: Sequence[Sizes], *, work: Floats | float = 1.0, scaled: npt.ArrayLike = False
    ) -> KernelTime:
        """The times of shapes at sizes, all broadcast. `scaled`: where a shape stands in for another that has `work`
        times its own (NaN: no shape can); all but the launch goes with it."""
        places = [_place(axis, np.asarray(size, dtype=np.float64)) for axis, size in zip(self.axes, sizes, strict=True)]
        rows = np.asarray(row)
        ln_ms = _mixed(self.ln_ms, rows, places)
        for place, growth in zip(places, self.growth, strict=True):
            if place.beyond is not None:
                ln_ms = ln_ms + place.beyond * growth[rows]
        ms = np.asarray(np.exp(ln_ms), dtype=np.float64)
        if np.any(work != 1.0):
            ms = self.launch_ms + (ms - self.launch_ms) * work
        if self.far_holes and (far := _worst(self.basis, rows, places) == Basis.FORMULA).any():
            ms = np.where(far, np.nan, ms)
        return KernelTime(ms=ms, basis_of=lambda: self._basis(rows, places, scaled, work))

    def _basis(
        self, rows: Places, places: Sequence["_Place"], scaled: npt.ArrayLike, work: Floats | float
    ) -> npt.NDArray[np.int8]:
        """Of `at`, to be broadcast."""
        basis = np.asarray(_worst(self.basis, rows, places))
        for place in places:
            basis = np.maximum(basis, np.where(place.between, np.int8(Basis.INTERPOLATED), np.int8(0)))
            if place.beyond is not None:
                basis = np.maximum(basis, np.where(place.beyond > 0, np.int8(Basis.SCALED), np.int8(0)))
        basis = np.maximum(basis, np.where(scaled, np.int8(Basis.SCALED), np.int8(0)))
        return np.where(np.isnan(work), np.int8(Basis.FORMULA), basis)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where sizes lie on an axis: the cell's lower end, the share of the upper end; ln of the ratio to the largest
    size, if any lies beyond."""

    low: Places
    share: npt.NDArray[np.float32]
    beyond: npt.NDArray[np.float32] | None

    @property
    def between(self) -> npt.NDArray[np.bool_]:
        """Whether between two."""
        return np.asarray((self.share > 0) & (self.share < 1))


_ALIKE = 1e-6  # of a cell: logarithms of whole sizes differ from those of the axis by rounding alone


def _place(axis: Floats, sizes: Floats) -> _Place:
    if sizes.ndim == 0:
        return _one_place(axis, float(sizes))
    ln_sizes = np.log(np.maximum(sizes, 1e-9))
    at = np.interp(ln_sizes, axis, np.arange(len(axis), dtype=np.float64))
    nearest = np.rint(at)
    at = np.where(np.abs(at - nearest) > _ALIKE, at, nearest)
    low = np.minimum(at.astype(np.intp), len(axis) - 2)
    past = ln_sizes - axis[-1]
    beyond = np.maximum(past, 0).astype(np.float32) if past.size and past.max() > _ALIKE else None
    share = (at - low).astype(np.float32)
    return _Place(low=low, share=share, beyond=beyond)


def _one_place(axis: Floats, size: float) -> _Place:
    """Likewise of one size, several times as fast: most calls have one n, one k, one context."""
    ln_size, count = math.log(max(size, 1e-9)), len(axis)
    low = min(max(int(axis.searchsorted(ln_size + _ALIKE)) - 1, 0), count - 2)
    share = min(max((ln_size - axis[low]) / (axis[low + 1] - axis[low]), 0.0), 1.0)
    near = round(share)
    past = ln_size - axis[-1]
    return _Place(
        low=np.asarray(low),
        share=np.asarray(share if abs(share - near) > _ALIKE else near, dtype=np.float32),
        beyond=np.asarray(past, dtype=np.float32) if past > _ALIKE else None,
    )


def _mixed(table: npt.NDArray[np.float32], rows: Places, places: Sequence[_Place]) -> npt.NDArray[np.float32]:
    """The table between its points, linear along each axis. An axis with one place is folded away first: most calls
    have many batches and few shapes."""
    single = rows.size == 1
    table = table[rows.reshape(-1)[0]] if single else table
    open_places: list[_Place] = []
    for axis in reversed(range(len(places))):
        place, at = places[axis], axis if single else axis + 1
        if place.low.size == 1:
            low, share = int(place.low.reshape(-1)[0]), place.share.reshape(-1)[0]
            table = table.take(low, axis=at) * (1 - share) + table.take(low + 1, axis=at) * share
        else:
            open_places.insert(0, place)
    shape = np.broadcast_shapes(rows.shape, *(place.low.shape for place in places))
    table = np.asarray(table, order="C")
    strides = [stride // table.itemsize for stride in table.strides]
    base: Places | int = 0 if single else rows * strides.pop(0)
    for place, stride in zip(open_places, strides, strict=True):
        base = base + place.low * stride
    mixed = _corners(table.reshape(-1), base, list(zip(open_places, strides, strict=True)))
    return np.broadcast_to(mixed, shape)


def _corners(
    flat: npt.NDArray[np.float32], base: Places | int, ways: Sequence[tuple[_Place, int]]
) -> npt.NDArray[np.float32]:
    """The values at the base and one step along each way, mixed by the shares."""
    if not ways:
        return np.asarray(flat.take(base), dtype=np.float32)
    (place, stride), *others = ways
    low = _corners(flat, base, others)
    return low + place.share * (_corners(flat, base + stride, others) - low)


def _worst(table: npt.NDArray[np.int8], rows: Places, places: Sequence[_Place]) -> npt.NDArray[np.int8]:
    """The worse basis of the lowest and the highest point used: holes lie where all sizes are large, or small."""
    low: npt.NDArray[np.int8] = table[(rows, *(place.low + (place.share == 1) for place in places))]
    high: npt.NDArray[np.int8] = table[(rows, *(place.low + (place.share > 0) for place in places))]
    return np.maximum(low, high)


def grid_of(stored: KernelGrid, growth: Mapping[str, float], flat_if: str = "", *, sparse: bool = False) -> Grid:
    """A stored grid, ready for lookups. `growth`: of time by size along an axis, as a power; one less for shapes whose
    column `flat_if` is above 0 (attention with a window). `sparse`: time goes on as it grew last, as that of sparse
    attention with its projections does. Any other goes on by the work: where a start still counts, the last growth
    would bring large sizes below what the data sheet leaves them."""
    columns = dict(zip(stored.columns, stored.shapes.T, strict=True))
    less: npt.NDArray[np.float32] = (
        (columns[flat_if] > 0).astype(np.float32) if flat_if else np.zeros(len(stored.shapes), np.float32)
    )
    last = [*stored.axes][-1]
    powers = tuple(np.float32(growth.get(axis, 1.0)) - less * np.float32(axis == last) for axis in stored.axes)
    axes = tuple(np.log(sizes) for sizes in stored.axes.values())
    ln_ms: npt.NDArray[np.float32] = stored.ln_ms
    measured = ~np.isnan(stored.ln_ms)
    for number, power in enumerate(powers):
        if len(axes[number]) == 1:  # a second point by growth, so that there is a cell
            axes = (*axes[:number], np.append(axes[number], axes[number] + 1), *axes[number + 1 :])
            more = (ln_ms + power.reshape(-1, *(1,) * len(axes))).astype(np.float32)
            ln_ms = np.concatenate([ln_ms, more], axis=number + 1)
            measured = np.concatenate([measured, np.zeros_like(measured)], axis=number + 1)
    basis = np.where(measured, np.int8(Basis.MEASURED), np.int8(Basis.SCALED))
    has_holes = not measured.all()
    for number, power in enumerate(powers if has_holes else (), start=1):
        ln_ms, far = _filled(ln_ms, axes[number - 1], power, number, as_last=sparse)
        basis = np.where(far, np.int8(Basis.FORMULA), basis)
    monotone = [number for number, axis in enumerate(stored.axes, start=1) if axis in stored.monotone]
    # What fills a hole takes no longer than what was measured of a larger size.
    for number in monotone if has_holes else ():
        bound = np.flip(np.minimum.accumulate(np.flip(ln_ms, number), axis=number), number)
        ln_ms = np.where(measured, ln_ms, bound)
    for number in monotone:
        ln_ms = np.maximum.accumulate(ln_ms, axis=number)
    return Grid(
        columns=columns,
        words=stored.words,
        rows={tuple(shape): row for row, shape in enumerate(stored.shapes.tolist())},
        axes=axes,
        ln_ms=np.ascontiguousarray(ln_ms),
        basis=basis,
        far_holes=bool((basis == Basis.FORMULA).any()),
        launch_ms=_LAUNCH * math.exp(np.nanmin(stored.ln_ms)),
        growth=powers,
    )


_LAUNCH = 0.9
"""Of the fastest call of all: even that does something. Shapes left out are met best by it."""

_FAR = np.log(256)
"""Of sizes: a hole further than this from what was measured has no answer."""


def _filled(
    ln_ms: npt.NDArray[np.float32], axis: Floats, power: npt.NDArray[np.float32], along: int, *, as_last: bool
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Holes between two points filled linearly, those above by growth (at most; `as_last`: the last one), those
    below by the smallest size's time; and which of them are far from what they were filled by."""
    table = np.moveaxis(ln_ms, along, -1)
    count = len(axis)
    measured = ~np.isnan(table)
    below = np.maximum.accumulate(np.where(measured, np.arange(count), -1), axis=-1)
    above = np.flip(np.minimum.accumulate(np.flip(np.where(measured, np.arange(count), count), -1), axis=-1), -1)
    low = np.take_along_axis(table, np.maximum(below, 0), axis=-1)
    high = np.take_along_axis(table, np.minimum(above, count - 1), axis=-1)
    lower, upper = axis[np.maximum(below, 0)], axis[np.minimum(above, count - 1)]
    share = (axis - lower) / np.where(upper > lower, upper - lower, 1)
    most = power.reshape(-1, *(1,) * (table.ndim - 1))
    before = np.take_along_axis(table, np.maximum(below - 1, 0), axis=-1)
    step = axis[np.maximum(below, 0)] - axis[np.maximum(below - 1, 0)]
    last = np.where(step > 0, (low - before) / np.where(step > 0, step, 1), np.nan)
    slope = np.where(as_last & np.isfinite(last), np.clip(last, 0, most), most)
    inside = np.where(below < 0, high, low + share * (high - low))
    filled = np.where(measured, table, np.where(above == count, low + slope * (axis - lower), inside))
    far = ~measured & ~np.isnan(filled) & (np.where(below < 0, upper - axis, axis - lower) > _FAR)
    return np.moveaxis(filled, -1, along).astype(np.float32), np.moveaxis(far, -1, along)
