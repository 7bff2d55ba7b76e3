"""The figures of a run at every percent of arrived GPU capacity, as the two published studies read them off.

Allocation, fragmentation (FGD study): a report line belongs to the percent that its arrived share rounds to, half to
even; a percent's figure is the mean of its lines' figures, which are rounded to two digits first.
Power, GRAR (PWR study): of lines with the same arrived share the first counts; between lines, the points of a grid of
half percents are filled in evenly by their position, not by their distance; the ends are level.
Source: facts on fragmentation and power, section 10.
"""

from collections.abc import Sequence

import numpy as np

from planner.placement.node_states import Reals
from planner.studies.policies.records import Decision, OnlineMetrics

GRID_STEP = 0.005


def metrics_of(decisions: Sequence[Decision], gpu_milli: int) -> tuple[OnlineMetrics, ...]:
    """Figures of every percent that a line is within 1 of; `gpu_milli` of the whole cluster, above 0."""
    arrived = np.array([line.arrived_gpu_milli for line in decisions], dtype=np.float64)
    used = np.array([line.used_gpu_milli for line in decisions], dtype=np.float64)
    fragments = np.array([line.fragmentation_milli for line in decisions])
    failed = np.cumsum([not line.node for line in decisions])
    percent = np.rint(arrived * 100 / gpu_milli).astype(np.int64)
    idle = gpu_milli - used
    ratio = np.round(100 * np.divide(fragments, idle, out=np.zeros_like(idle), where=idle > 0), 2)
    columns = np.stack([np.round(used * 100 / gpu_milli, 2), fragments * 100 / gpu_milli, ratio])
    drawn = [[line.cpu_power_w, line.gpu_power_w, line.arrived_gpu_milli, line.used_gpu_milli] for line in decisions]
    power = _on_grid(arrived / gpu_milli, np.array(drawn, dtype=np.float64))
    rows = []
    for at in range(int(percent.max()) + 1):
        lines = _lines_of(percent, at)
        if lines is None:
            continue
        means = columns[:, lines].mean(axis=1)
        rows.append(
            OnlineMetrics(
                arrived_percent=at,
                allocation_percent=round(float(means[0]), 2),
                fragmentation_percent=round(float(means[1]), 2),
                fragmentation_ratio_percent=float(means[2]),
                failures=int(failed[lines][-1]),
                **dict(zip(_DRAWN, map(float, power[2 * at]), strict=True)),
            )
        )
    return tuple(rows)


_DRAWN = ("cpu_power_w", "gpu_power_w", "arrived_gpu_milli", "used_gpu_milli")


def _lines_of(percent: np.ndarray, at: int) -> slice | None:
    """Lines of a percent, else those within 1 of it; lines come by percent ascending."""
    first, last = percent.searchsorted([at, at + 1])
    if first == last:
        first, last = percent.searchsorted([at - 1, at + 2])
    return slice(int(first), int(last)) if last > first else None


def _on_grid(shares: Reals, values: Reals) -> Reals:
    """Rows of `values` at every half percent, from the lines at `shares` of arrived capacity (ascending)."""
    distinct_shares, first = np.unique(shares, return_index=True)
    rows = values[first]
    grid = np.round(np.arange(round(max(1.0, distinct_shares[-1] + 0.01) / GRID_STEP) + 1) * GRID_STEP, 6)
    below = distinct_shares.searchsorted(grid, side="right") - 1
    hit = (below >= 0) & (distinct_shares[np.maximum(below, 0)] == grid)
    gap_rank = np.array([np.sum(below[: k + 1] == below[k]) - _hits(hit, below, k) for k in range(len(grid))])
    gap_size = np.array([np.sum((below == below[k]) & ~hit) for k in range(len(grid))])
    low, high = np.maximum(below, 0), np.clip(below + 1, 0, len(distinct_shares) - 1)
    step = np.where(hit, 0.0, gap_rank / (gap_size + 1))
    interpolated = rows[low] + (rows[high] - rows[low]) * step[:, None]
    return np.where((below < 0)[:, None], rows[0], interpolated)


def _hits(hit: np.ndarray, below: np.ndarray, k: int) -> int:
    return int(np.sum(hit[: k + 1] & (below[: k + 1] == below[k])))
