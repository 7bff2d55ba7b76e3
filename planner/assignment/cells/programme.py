"""Cells to pools as a mixed-integer programme, and the bound that no pools can beat.

| symbol | meaning | unit |
|---|---|---|
| a[p, c] | busy time of pool p with cell c alone | s |
| z[p, c] | whether pool p takes cell c (in the bound: a share, of islands instead of pools) | 1 |
| T | time of the busiest | s |

minimise T     take_<c>  sum_p z = 1     busy_<p>  sum_c a z <= T

Times are divided by the size of the answer that is looked for, so that the solver's tolerances mean what they say.
Times of a pool do not quite add up (see `cells.pools`), so the answer is judged there again. The search ends by its gap
or after so many nodes, never by the clock: the same times give the same cells.
"""

from collections.abc import Sequence
from math import isfinite

import pulp

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
