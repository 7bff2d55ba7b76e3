"""Many calls have few shapes: each is found once."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from planner.cost.kernels.grid import Floats, Places

_MOST_CODES = 1 << 20


def found_once(find: Callable[..., tuple[float, ...] | None], *values: npt.ArrayLike) -> tuple[Floats, ...] | None:
    """What `find` says of whole numbers (a row, the work against the row's, more), called once for each combination
    there is; arrays broadcast to the values. Of those where it says None, the work is NaN: what is said of some does
    not depend on which others are asked for. None where it says None of all."""
    arrays = [np.asarray(value) for value in values]
    if all(array.size == 1 for array in arrays):
        shape = find(*(int(array.reshape(-1)[0]) for array in arrays))
        return None if shape is None else tuple(np.asarray(number, dtype=np.float64) for number in shape)
    code: Places = np.zeros((), dtype=np.intp)
    count = 1
    for array in arrays:
        _, place = _places(array)
        size = int(place.max()) + 1 if place.size else 1
        code, count = code * size + place, count * size
        if count > _MOST_CODES:
            values_there, code = _places(code)
            count = len(values_there)
    values_there, place = _places(code)
    spread = [np.broadcast_to(array, place.shape).reshape(-1) for array in arrays]
    first = np.zeros(len(values_there), dtype=np.intp)
    first[place.reshape(-1)[::-1]] = np.arange(place.size)[::-1]
    answers = [find(*(int(array[at]) for array in spread)) for at in first]
    some = next((answer for answer in answers if answer is not None), None)
    if some is None:
        return None
    nowhere = (some[0], math.nan, *some[2:])
    told = (nowhere if answer is None else answer for answer in answers)
    return tuple(np.array(numbers, dtype=np.float64)[place] for numbers in zip(*told, strict=True))


def _places(numbers: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Places]:
    """The values there are, ascending, and each number's place among them."""
    flat = numbers.reshape(-1).astype(np.int64)
    if flat.size and flat.min() >= 0 and flat.max() < _MOST_CODES:
        occurs = np.bincount(flat) > 0
        return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[flat].reshape(numbers.shape)
    values_there, place = np.unique(flat, return_inverse=True)
    return values_there, place.reshape(numbers.shape)
