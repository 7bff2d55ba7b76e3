"""Array types of the cost formulas: every length, batch and degree may be a number or an array that broadcasts."""

from collections.abc import Sequence

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
