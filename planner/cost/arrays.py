"""Array types of the cost formulas: every length, batch and degree may be a number or an array that broadcasts."""

from collections.abc import Sequence
from math import isqrt

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Numbers = float | int | Sequence[float] | Sequence[int] | NDArray[np.float64] | NDArray[np.int64]


def as_array(numbers: Numbers) -> Array:
    """The numbers as float64."""
    return np.asarray(numbers, dtype=np.float64)


def ceil_divide(a: Numbers, b: Numbers) -> Array:
    """Ceiling of a/b, element by element."""
    return np.asarray(np.ceil(as_array(a) / as_array(b)))


def divisors(number: int) -> list[int]:
    """Divisors, ascending."""
    small = [k for k in range(1, isqrt(number) + 1) if number % k == 0]
    return sorted({*small, *(number // k for k in small)})


def joined_rows(pieces: Sequence[tuple[Array, int]]) -> Array:
    """Rows of pieces one below the other, each as many times as it stands for; one row where all have the same one."""
    first = pieces[0][0]
    if all(len(rows) == 1 and np.array_equal(rows, first) for rows, _ in pieces):
        return first
    return np.concatenate([np.broadcast_to(rows, (count, rows.shape[1])) for rows, count in pieces])
