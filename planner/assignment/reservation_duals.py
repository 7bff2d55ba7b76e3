"""What a GPU is worth in each stretch of a schedule where some are reserved: the duals of the schedule's relaxation.

| symbol | meaning | unit |
|---|---|---|
| j, k, g | stretch of hours, plan, GPU type | |
| h_j, H | hours of a stretch, of all | h |
| n_kg, p_g, delta | GPUs of a plan, price, discount of reserved GPUs | 1, USD/hour, 1 |
| x_jk, R_g, o_gj | share of the stretch that the plan stands, GPUs reserved, beyond those | 1 |

    least sum_g (1 - delta) H p_g R_g + sum_j h_j sum_g p_g o_gj
    beyond_<g>_<j>   o_gj + R_g - sum_k n_kg x_jk >= 0        dual mu_gj: 0 where reserved GPUs idle, h_j p_g at most
    stands_<j>       sum_k x_jk = 1, k that carries j

A plan that is not there yet may make the schedule cheaper only where it costs least at prices mu_gj / h_j.
"""

from collections.abc import Sequence

import pulp

from planner.domain import AssignmentSettings
from planner.milp import solve


def reservation_prices(
    gpus: Sequence[Sequence[int]],
    carriers: Sequence[Sequence[int]],
    hours: Sequence[float],
    prices: Sequence[float],
    discount: float,
) -> tuple[tuple[float, ...], ...]:
    """What a GPU of each type is worth an hour (USD), by stretch.

    `gpus`: of each plan by type; `carriers`: plans that may stand in each stretch, `hours` long; `prices`: by type,
    USD/hour. Raises SolverError where the solver breaks down."""
    model, types, always = pulp.LpProblem("reservations", pulp.LpMinimize), range(len(prices)), (1 - discount)
    reserved = [pulp.LpVariable(f"reserved_{g}", lowBound=0) for g in types]
    cost = [(reserved[g], always * sum(hours) * prices[g]) for g in types]
    beyond = dict[tuple[int, int], pulp.LpConstraint]()
    for j, plans in enumerate(carriers):
        shares = {k: pulp.LpVariable(f"share_{j}_{k}", lowBound=0) for k in plans}
        for g in types:
            more = pulp.LpVariable(f"more_{g}_{j}", lowBound=0)
            cost.append((more, hours[j] * prices[g]))
            used = [(share, -gpus[k][g]) for k, share in shares.items()]
            beyond[g, j] = pulp.LpAffineExpression([(more, 1), (reserved[g], 1), *used]) >= 0
            model += beyond[g, j], f"beyond_{g}_{j}"
        model += pulp.lpSum(shares.values()) == 1, f"stands_{j}"
    model.setObjective(pulp.LpAffineExpression(cost))
    solve(model, AssignmentSettings())
    return tuple(tuple(max(0.0, beyond[g, j].pi) / hours[j] for g in types) for j in range(len(hours)))
