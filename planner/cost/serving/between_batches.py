"""Times that are known at the batches that are tried, between them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.cost.arrays import Array
from planner.cost.serving.decode_servers import BATCHES

GRID = np.array(BATCHES, dtype=float)


def cells(used: Array) -> tuple[NDArray[np.intp], Array]:
    """Places of batches in use among `BATCHES`: the one below, and how far to the next; ends beyond the ends."""
    inside = np.clip(used, GRID[0], GRID[-1])
    cell = np.clip(np.searchsorted(GRID, inside, side="right") - 1, 0, len(GRID) - 2)
    return cell, (inside - GRID[cell]) / (GRID[cell + 1] - GRID[cell])


def places_around(used: Sequence[float]) -> list[int]:
    """Where the batches around those in use stand."""
    cell, _ = cells(np.array(used, dtype=float))
    return sorted({*cell.tolist(), *(cell + 1).tolist()})


def at(times: Array, used: Array) -> Array:
    """`times` (o, B, batches) at `used` sequences, shape (o, B); that of one sequence below one."""
    cell, part = cells(used)
    before = np.take_along_axis(times, cell[..., None], axis=-1)[..., 0]
    after = np.take_along_axis(times, cell[..., None] + 1, axis=-1)[..., 0]
    return np.asarray(before + part * (after - before))


def ranges_at(times: Array, used: Array) -> Array:
    """`times` (o, j, batches) at `used` sequences (o, B), shape (o, B, j)."""
    cell, part = cells(used)
    rows = np.arange(len(times))[:, None]
    by_batch = np.moveaxis(times, -1, 1)  # (o, batches, j)
    before, after = by_batch[rows, cell], by_batch[rows, cell + 1]
    return np.asarray(before + part[..., None] * (after - before))
