"""Which measured shape stands for one that is asked for: itself, else the nearest, with the work against its own.

Each function answers a row of its grid, the work of the shape against the row's, and whether the row stands in for
another shape; of experts also by how much more tokens an expert gets, of exchanges by how much more a token takes.
None where nothing comes near. Shapes are few and asked for again and again: each is looked for once.
"""

from functools import lru_cache

import numpy as np

from planner.cost.kernels.grid import Grid
from planner.cost.kernels.shapes import (
    ELSEWHERE,
    EXPERT_COLUMNS,
    EXPERT_NEARNESS,
    Words,
    distance_of,
    expert_shape,
    far,
    has_gate,
)

Shape = tuple[float, ...] | None
_each_once = lru_cache(maxsize=1 << 14)


@_each_once
def attention_shape(
    grid: Grid, work: str, kv_dtype: str, window: int, heads: int, kv_heads: int, head_dim: int
) -> Shape:
    """Grouped attention with a window that the grid has, whose time goes with the column `work`."""
    wished = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    row = grid.exact({**wished, "kv_dtype": kv_dtype, "window": window})
    if row is not None:
        return row, 1.0, False
    columns = grid.columns
    differ = ELSEWHERE * (columns["kv_dtype"] != grid.code("kv_dtype", kv_dtype))
    distance = differ + far(columns["heads"], heads) + 2 * far(columns["kv_heads"], kv_heads)
    row = grid.nearest({"window": window}, distance + 2 * far(columns["head_dim"], head_dim))
    if row is None:
        return None
    return row, wished[work] * head_dim / (columns[work][row] * columns["head_dim"][row]), True


@_each_once
def shape_by(grid: Grid, column: str, like: Words, must: Words, value: int) -> Shape:
    """By one column, which time goes with; each word of `like` that differs counts much."""
    codes = grid.columns[column]
    differ = sum((ELSEWHERE * (grid.columns[c] != grid.code(c, word)) for c, word in like), np.zeros(len(codes)))
    row = grid.nearest(dict(must), differ + far(codes, value))
    if row is None:
        return None
    return row, value / codes[row], bool(codes[row] != value or differ[row])


@_each_once
def experts_shape(grid: Grid, dtype: str, distribution: str, gated: bool, *values: int) -> Shape:
    """Routed experts, by what one GPU has of them; those with a gate and those without are far from each other."""
    shape = dict(zip(EXPERT_COLUMNS, values, strict=True))
    row = grid.exact({**shape, "dtype": dtype, "distribution": distribution})
    if row is not None and has_gate(shape) == gated:
        return row, 1.0, False, 1.0
    rows = np.flatnonzero(grid.columns["dtype"] == grid.code("dtype", dtype))
    measured = {name: grid.columns[name][rows] for name in EXPERT_COLUMNS}
    gates = has_gate(measured)
    nearest, ours = expert_shape(measured, gates), expert_shape(shape, gated)
    differ = ELSEWHERE * (grid.columns["distribution"][rows] != grid.code("distribution", distribution))
    differ = differ + ELSEWHERE * (gates != gated)
    place = int(np.argmin(differ + distance_of(nearest, ours, EXPERT_NEARNESS)))
    load, weights = (float(ours[name] / nearest[name][place]) for name in ("load", "weights"))
    return int(rows[place]), weights, True, load


@_each_once
def recurrent_shape(grid: Grid, kind: str, phase: str, heads: int, key_heads: int, head_dim: int) -> Shape:
    """Linear attention of a kind in a phase."""
    wished = {"heads": heads, "key_heads": key_heads, "head_dim": head_dim}
    distance = distance_of(grid.columns, wished, {"heads": 1.0, "key_heads": 0.25, "head_dim": 1.0})
    row = grid.nearest({"kind": kind, "phase": phase}, distance)
    if row is None:
        return None
    nearest = {name: int(grid.columns[name][row]) for name in wished}
    return row, heads * head_dim / (nearest["heads"] * nearest["head_dim"]), nearest != wished


@_each_once
def group_shape(grid: Grid, words: Words, gpus: int) -> Shape:
    """A collective among the fewest GPUs that are as many."""
    counts = grid.columns["gpus"]
    row = grid.nearest(dict(words), np.where(counts >= gpus, counts, np.inf))
    return None if row is None or counts[row] < gpus else (row, 1.0, bool(counts[row] != gpus))


@_each_once
def exchange_shape(grid: Grid, words: Words, hidden: int, topk: int, experts: int, ep: int) -> Shape:
    """Tokens sent to their experts among as many GPUs at least."""
    wished = {"hidden": hidden, "topk": topk, "experts": experts, "ep": ep}
    distance = distance_of(grid.columns, wished, {"ep": 4.0, "hidden": 1.0, "topk": 1.0, "experts": 0.25})
    row = grid.nearest(dict(words), np.where(grid.columns["ep"] >= ep, distance, np.inf))
    if row is None or grid.columns["ep"][row] < ep:
        return None
    nearest = {name: int(grid.columns[name][row]) for name in wished}
    return row, 1.0, nearest != wished, hidden * topk / (nearest["hidden"] * nearest["topk"])
