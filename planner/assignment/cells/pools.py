"""Every cell of lengths to one pool of islands: what a router can do that knows a grid and no shares.

| symbol | meaning | unit |
|---|---|---|
| w[i, c] | time of island i for the requests of cell c among one request of the mix | s |
| P, C(P) | a pool of islands, the cells that it takes | |
| T[i] = sum over c in C(P) of w[i, c] | time of island i, had it the pool's requests to itself | s |
| B[P] = 1 / sum over i in P of 1 / T[i] | busy time of a pool that spreads its requests by load, blind to length | s |
| d(i, j) | distance of two islands: largest difference of ln w over the cells, less its mean | 1 |

The rate is 1 / max B. Islands that differ by a factor lose nothing in one pool; those whose factor changes with the
length lose what they were told apart for, and gain that cells need not be shared out whole. So pools are merged in the
order of their distance. At each number of pools cells move, then swap, as long as that lowers sum B^k, and are shaken
up a few times; with few pools a mixed-integer programme looks for better ones. The most pools that
come near what no pools can beat win: they keep most of what the plan told apart; where none does, the best.

The programme of cells to pools, and the bound that no pools can beat:

| symbol | meaning | unit |
|---|---|---|
| a[p, c] | busy time of pool p with cell c alone | s |
| z[p, c] | whether pool p takes cell c (in the bound: a share, of islands instead of pools) | 1 |
| T | time of the busiest | s |

minimise T     take_<c>  sum_p z = 1     busy_<p>  sum_c a z <= T

Times are divided by the size of the answer that is looked for, so that the solver's tolerances mean what they say.
Times of a pool do not quite add up, so the answer is judged again. The search ends by its gap
or after so many nodes, never by the clock: the same times give the same cells.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np
import pulp
from numpy.typing import NDArray

from planner.domain import AssignmentSettings
from planner.errors import SolverError
from planner.milp import solve

GAP = 0.003  # well below the 1 % at which `cells.pools` compares numbers of pools
MOST_WORK = 2.0
SURE = 0.5  # above it a binary is 1, whatever the solver's tolerance


def least_busy(times: Sequence[Sequence[float]], scale: float) -> float:
    """T where every cell may be shared out among all islands (s): no pools and cells are better. `scale`: s."""
    model, _ = _programme(times, scale, integer=False)
    solve(model, AssignmentSettings())
    return float(pulp.value(model.objective)) * scale


def programmed_cells(alone: Sequence[Sequence[float]], scale: float) -> tuple[int, ...] | None:
    """The pool of each cell, near the least T (`scale`: s); None where none are found within `MOST_WORK`."""
    model, takes = _programme(alone, scale, integer=True)
    try:
        solve(model, AssignmentSettings(gap=GAP, work_limit=MOST_WORK))
    except SolverError:
        # None found within the work is no error: the local search has cells already.
        return None
    owners: dict[int, int] = {c: p for (p, c), v in takes.items() if (v.varValue or 0.0) > SURE}
    cells = range(len(alone[0]))
    return tuple(owners[c] for c in cells) if all(c in owners for c in cells) else None


def _programme(
    times: Sequence[Sequence[float]], scale: float, *, integer: bool
) -> tuple[pulp.LpProblem, dict[tuple[int, int], pulp.LpVariable]]:
    model = pulp.LpProblem("cells", pulp.LpMinimize)
    busiest = pulp.LpVariable("busiest", lowBound=0)
    kind = pulp.LpBinary if integer else pulp.LpContinuous
    takes = {
        (p, c): pulp.LpVariable(f"take_{p}_{c}", lowBound=0, upBound=1, cat=kind)
        for p, row in enumerate(times)
        for c, seconds in enumerate(row)
        if isfinite(seconds)
    }
    model.setObjective(1 * busiest)
    for c in range(len(times[0])):
        model += pulp.lpSum(v for (_, of), v in takes.items() if of == c) == 1, f"take_{c}"
    for p, row in enumerate(times):
        busy = pulp.LpAffineExpression([(v, row[c] / scale) for (of, c), v in takes.items() if of == p])
        model += busy - busiest <= 0, f"busy_{p}"
    return model, takes


SHARPNESS = 24
"""k: high enough that the busiest pool decides, low enough that the others still count."""
MOST_STEPS = 2_000
"""Only a guard: every step lowers the sum, so that the search ends by itself."""
BETTER = 1e-9
"""Relative gain, and distance of islands, that may be rounding."""
NEAR = 0.01
"""Time above the bound that more pools may cost."""
MOST_PROGRAMMED = 12
"""Pools up to which the programme is asked."""
MOST_PROGRAMMES = 4
"""Numbers of pools for which it is asked; one takes a second or two."""
SHAKES = 8
"""Local optima tried after the first."""
SHAKEN = 4
"""Cells that are put anywhere at once."""

Array = NDArray[np.float64]
Cells = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPools:
    """Pools of islands (by number), the pool of each cell, and the time of the busiest pool for one request (s)."""

    pools: tuple[tuple[int, ...], ...]
    cells: tuple[int, ...]
    busy_s: float


def pool_cells(times: Sequence[Sequence[float]]) -> CellPools | None:
    """Pools and cells for `times[i][c]` = w (s; inf: island i cannot take cell c); None where no pools take all cells.

    Every island is in a pool, and every pool has something to do. The same times, the same answer.
    """
    work = np.asarray(times, dtype=float)
    best, bound, programmes = None, 0.0, 0
    for pools in _mergers(work):
        first = _first_cells(work, pools)
        if first is None:
            continue
        # It knows islands and no pools, so it is the same for every merger.
        bound = bound or least_busy(work.tolist(), float(_busy(work, pools, first).max()))
        cells = _shaken(work, pools, _improved(work, pools, first))
        # With room left to the bound the programme may still gain; near it, its second is not worth it.
        far = _busy(work, pools, cells).max() > bound * (1 + NEAR)
        if far and 1 < len(pools) <= MOST_PROGRAMMED and programmes < MOST_PROGRAMMES:
            cells, programmes = _programmed(work, pools, cells, bound), programmes + 1
        candidate = _record(work, pools, cells)
        if candidate is not None and (best is None or candidate.busy_s < best.busy_s):
            best = candidate
        if best is not None and best.busy_s <= bound * (1 + NEAR):
            break
    return best


def _programmed(work: Array, pools: Sequence[Sequence[int]], cells: Cells, bound: float) -> Cells:
    """The programme's cells where they are better."""
    programmed = programmed_cells(_alone(work, pools).tolist(), bound)
    if programmed is None:
        return cells
    tried = np.asarray(programmed)
    return tried if _busy(work, pools, tried).max() < _busy(work, pools, cells).max() else cells


def _record(work: Array, pools: Sequence[Sequence[int]], cells: Cells) -> CellPools | None:
    """None where a pool would have nothing to do."""
    busy = _busy(work, pools, cells)
    if not busy.min() > 0:
        return None
    return CellPools(pools=tuple(map(tuple, pools)), cells=tuple(map(int, cells)), busy_s=float(busy.max()))


def busy_times(times: Sequence[Sequence[float]], pools: Sequence[Sequence[int]], cells: Sequence[int]) -> list[float]:
    """B of each pool (s)."""
    busy: list[float] = _busy(np.asarray(times, dtype=float), pools, np.asarray(cells)).tolist()
    return busy


def _mergers(work: Array) -> Iterator[list[list[int]]]:
    """Pools from the finest to one of all: islands alike begin together, then the nearest two pools become one."""
    pools: list[list[int]] = []
    distances = _distances(work)
    for island in range(len(work)):
        mate = next((pool for pool in pools if distances[pool[0], island] <= BETTER), None)
        if mate is None:
            pools.append([island])
        else:
            mate.append(island)
    yield [list(pool) for pool in pools]
    while len(pools) > 1:
        _, a, b = min(
            # By the farthest members: nearest ones would chain islands together that differ much.
            (max(distances[i, j] for i in pools[a] for j in pools[b]), a, b)
            for a in range(len(pools))
            for b in range(a + 1, len(pools))
        )
        pools[a] = sorted(pools[a] + pools.pop(b))
        yield [list(pool) for pool in pools]


def _distances(work: Array) -> Array:
    """d of every two islands; inf where one takes cells that the other cannot."""
    n = len(work)
    distances = np.zeros((n, n))
    served = np.isfinite(work) & (work > 0)
    logs = np.log(np.where(served, work, 1.0))
    for i in range(n):
        for j in range(i + 1, n):
            if (np.isinf(work[i]) != np.isinf(work[j])).any():
                distances[i, j] = distances[j, i] = inf
                continue
            gaps = (logs[i] - logs[j])[served[i] & served[j]]
            distances[i, j] = distances[j, i] = float(np.abs(gaps - gaps.mean()).max()) if gaps.size else 0.0
    return distances


def _alone(work: Array, pools: Sequence[Sequence[int]]) -> Array:
    """B of every pool with one cell alone, by pool and cell; inf where an island of the pool cannot take it."""
    return np.stack([_spread(work[list(pool)]) for pool in pools])


def _spread(times: Array) -> Array:
    """B over the islands of axis 0; inf where one of them cannot, 0 where there is nothing to do."""
    with np.errstate(divide="ignore"):
        busy = 1 / (1 / times).sum(axis=0)
    return np.where(np.isinf(times).any(axis=0), inf, busy)


def _first_cells(work: Array, pools: Sequence[Sequence[int]]) -> Cells | None:
    """Cells that few pools can take first, then the largest, each to the pool that is then least busy."""
    alone = _alone(work, pools)
    able = np.isfinite(alone)
    if not able.any(axis=0).all():
        return None
    weight = np.where(able, alone, 0.0).max(axis=0)
    # Who has little choice chooses first; large cells before small ones, which then even the pools out.
    order = sorted(range(work.shape[1]), key=lambda c: (int(able[:, c].sum()), -weight[c], c))
    load, cells = np.zeros(len(pools)), np.zeros(work.shape[1], dtype=np.int64)
    for c in order:
        cells[c] = int(np.argmin(load + alone[:, c]))
        load[cells[c]] += alone[cells[c], c]
    return cells


def _busy(work: Array, pools: Sequence[Sequence[int]], cells: Cells) -> Array:
    return np.array([float(_spread(work[list(pool)][:, cells == p].sum(axis=1))) for p, pool in enumerate(pools)])


def _improved(work: Array, pools: Sequence[Sequence[int]], cells: Cells) -> Cells:
    """The best move, or where none helps the best swap, until neither does."""
    for _ in range(MOST_STEPS):
        step = _best_move(work, pools, cells) or _best_swap(work, pools, cells)
        if step is None:
            break
        for cell, pool in step:
            cells[cell] = pool
    return cells


def _shaken(work: Array, pools: Sequence[Sequence[int]], cells: Cells) -> Cells:
    """The best of some local optima, each from the best so far with a few cells put anywhere."""
    able = np.isfinite(_alone(work, pools))
    chance = random.Random(0)  # noqa: S311  # the same times, the same answer
    best, least_busy_s = cells, float(_busy(work, pools, cells).max())
    for _ in range(SHAKES if len(pools) > 1 else 0):
        tried = best.copy()
        for c in chance.sample(range(len(cells)), min(SHAKEN, len(cells))):
            tried[c] = chance.choice(np.flatnonzero(able[:, c]).tolist())
        tried = _improved(work, pools, tried)
        busy = float(_busy(work, pools, tried).max())
        if busy < least_busy_s * (1 - BETTER):
            best, least_busy_s = tried, busy
    return best


Step = list[tuple[int, int]]


def _best_move(work: Array, pools: Sequence[Sequence[int]], cells: Cells) -> Step | None:
    busy, sums = _busy(work, pools, cells), _sums(work, pools, cells)
    top = busy.max()
    # Over the busiest, as a power of seconds would overflow.
    powers = (busy / top) ** SHARPNESS
    # A gain within rounding could be undone by the next step, without end.
    best, step = -BETTER * powers.sum(), None
    without = np.empty(len(cells))
    for p, pool in enumerate(pools):
        members = np.flatnonzero(cells == p)
        # A pool left with one cell's time less itself may round below 0.
        without_cell = np.clip(sums[p][:, None] - work[list(pool)][:, members], 0, None)
        without[members] = (_spread(without_cell) / top) ** SHARPNESS - powers[p]
    for q, pool in enumerate(pools):
        others = np.flatnonzero(cells != q)
        if not others.size:
            continue
        added = (_spread(sums[q][:, None] + work[list(pool)][:, others]) / top) ** SHARPNESS - powers[q]
        gain = added + without[others]
        k = int(np.argmin(gain))
        if gain[k] < best:
            best, step = float(gain[k]), [(int(others[k]), q)]
    return step


def _best_swap(work: Array, pools: Sequence[Sequence[int]], cells: Cells) -> Step | None:
    busy, sums = _busy(work, pools, cells), _sums(work, pools, cells)
    top = busy.max()
    powers = (busy / top) ** SHARPNESS
    best, step = -BETTER * powers.sum(), None
    members = [np.flatnonzero(cells == p) for p in range(len(pools))]
    for p in range(len(pools)):
        for q in range(p + 1, len(pools)):
            if not (members[p].size and members[q].size):
                continue
            gain = _swapped(work, pools[p], sums[p], members[p], members[q], top) - powers[p]
            gain = gain + _swapped(work, pools[q], sums[q], members[q], members[p], top).T - powers[q]
            k = int(np.argmin(gain))
            if gain.flat[k] < best:
                a, b = divmod(k, gain.shape[1])
                best, step = float(gain.flat[k]), [(int(members[p][a]), q), (int(members[q][b]), p)]
    return step


def _swapped(work: Array, pool: Sequence[int], sums: Array, out: Cells, into: Cells, top: float) -> Array:
    """(B / top)^k of a pool that gives a cell of `out` for one of `into`; shape (out, into)."""
    times = work[list(pool)]
    swapped = np.clip(sums[:, None] - times[:, out], 0, None)[:, :, None] + times[:, into][:, None, :]
    return (_spread(swapped) / top) ** SHARPNESS


def _sums(work: Array, pools: Sequence[Sequence[int]], cells: Cells) -> list[Array]:
    return [work[list(pool)][:, cells == p].sum(axis=1) for p, pool in enumerate(pools)]
