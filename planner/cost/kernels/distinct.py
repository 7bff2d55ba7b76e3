"""Many calls have few shapes: each is found once."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from planner.cost.kernels.grid import Floats, Places

Combination = tuple[float, ...]
_MOST_CODES = 1 << 20
_MOST_KEPT = 1 << 12
"""Numbers of arrays whose combinations are kept: degrees of servers, which are asked for again and again."""


def combinations(*values: npt.ArrayLike) -> tuple[tuple[Combination, ...], Places]:
    """The combinations that there are of numbers, and each one's place among them; arrays broadcast."""
    arrays = [np.asarray(value, dtype=np.float64) for value in values]
    if sum(array.size for array in arrays) > _MOST_KEPT:
        return _combinations(arrays)
    return _of_bytes(tuple((array.shape, array.tobytes()) for array in arrays))


@lru_cache(maxsize=256)
def _of_bytes(arrays: tuple[tuple[tuple[int, ...], bytes], ...]) -> tuple[tuple[Combination, ...], Places]:
    return _combinations([np.frombuffer(numbers).reshape(shape) for shape, numbers in arrays])


def _combinations(arrays: list[Floats]) -> tuple[tuple[Combination, ...], Places]:
    code: Places = np.zeros((), dtype=np.intp)
    count = 1
    for array in arrays:
        size, place = _places(array)
        code, count = code * size + place, count * size
        if count > _MOST_CODES:
            count, code = _places(code)
    count, place = _places(code)
    first = np.zeros(count, dtype=np.intp)
    first[place.reshape(-1)[::-1]] = np.arange(place.size)[::-1]
    spread = [np.broadcast_to(array, place.shape).reshape(-1)[first].tolist() for array in arrays]
    return tuple(zip(*spread, strict=True)), place


def found_once(find: Callable[..., tuple[float, ...] | None], *values: npt.ArrayLike) -> tuple[Floats, ...] | None:
    """What `find` says of whole numbers (a row, the work against the row's, more), called once for each combination
    there is; arrays broadcast to the values. Of those where it says None, the work is NaN: what is said of some does
    not depend on which others are asked for. None where it says None of all."""
    shapes, place = combinations(*values)
    answers = [find(*map(int, shape)) for shape in shapes]
    some = next((answer for answer in answers if answer is not None), None)
    if some is None:
        return None
    nowhere = (some[0], math.nan, *some[2:])
    told = (nowhere if answer is None else answer for answer in answers)
    return tuple(np.array(numbers, dtype=np.float64)[place] for numbers in zip(*told, strict=True))


def _places(numbers: npt.NDArray[np.float64] | Places) -> tuple[int, Places]:
    """How many values there are, and each number's place among them, ascending."""
    flat = numbers.reshape(-1)
    codes = flat.astype(np.intp)
    if flat.size and codes.min() >= 0 and codes.max() < _MOST_CODES and (codes == flat).all():
        occurs = np.bincount(codes) > 0
        return int(occurs.sum()), (np.cumsum(occurs) - 1)[codes].reshape(numbers.shape)
    values_there, place = np.unique(flat, return_inverse=True)
    return len(values_there), place.reshape(numbers.shape)
