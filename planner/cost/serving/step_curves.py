"""Times of prefill steps over the tokens that a rank takes in."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.cost.arrays import Array

STEP_TOKENS = (64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
"""Tokens of a rank and step at which step times are known; in between they are interpolated."""
_GRID = np.array(STEP_TOKENS, dtype=float)
_WIDTHS = np.diff(_GRID)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCurves:
    """Step times (ms) over `STEP_TOKENS` of servers on buckets, laid end to end: `before` each cell of the grid, what
    it `rises` by in it, and where the curve of a server and bucket begins (`origin`, shape (o, b))."""

    before: Array
    rises: Array
    origin: NDArray[np.intp]

    @classmethod
    def of(cls, times: Array, shape: tuple[int, ...]) -> "StepCurves":
        """`times`: shape (o, b, tokens), or what spreads to it of `shape` (o, b)."""
        curves = np.broadcast_to(times, (*shape, len(_GRID)))
        cells = len(_WIDTHS)
        origin = np.arange(int(np.prod(shape)), dtype=np.intp).reshape(shape) * cells
        return cls(before=curves[..., :-1].reshape(-1), rises=np.diff(curves).reshape(-1), origin=origin)

    def at(self, tokens: Array) -> Array:
        """Step times at `tokens` (shape (..., o, b)); straight lines beyond the grid."""
        cell = np.minimum(np.maximum(_GRID.searchsorted(tokens) - 1, 0), len(_WIDTHS) - 1)
        place = self.origin + cell
        part = (tokens - _GRID[cell]) / _WIDTHS[cell]
        return np.asarray(self.before.take(place) + part * self.rises.take(place))
