"""The layout as a linear programme: what no layout can exceed.

| symbol | meaning | unit |
|---|---|---|
| t, j | GPU type, range | |
| s, b[t, s, phase, j] | size of an island, its rate on range j alone | 1, requests/s |
| e[t, phase, j] | best rate of one GPU: max over s of b / s | requests/s |
| g[t, phase, j] | GPUs' worth of time | GPUs |
| lambda | rate at which the whole mix is served | requests/s |

With sizes free to mix and fractions of islands, only the most efficient size counts for each (type, phase, range), so
the relaxation of the layout programme (facts on planning) shrinks to types x phases x ranges:

serve_<phase>_<j>   sum_t e g >= lambda p[j]      offered_<t>   sum_(phase, j) g <= N[t]
budget              sum price g <= budget          target        lambda >= target
"""

from dataclasses import dataclass

import pulp

from planner.assignment.layout_options import Offer, efficiency
from planner.domain import PHASES, AssignmentSettings, ObjectiveSettings, Phase
from planner.milp import solve

LEAST_RPS = 1e-5
"""A rate below this is the solver's tolerance."""


def aim(
    model: pulp.LpProblem, objective: ObjectiveSettings, rate: pulp.LpVariable, cost: pulp.LpAffineExpression
) -> None:
    """Most rate (within the budget), or least cost for the target; `cost` in USD/hour or W. Not for per_dollar."""
    if objective.minimises:
        model.setObjective(cost)
        model += rate >= objective.target_rps, "target"
        return
    model.setObjective(1 * rate)
    if objective.kind.row.budgeted:
        model += cost <= objective.budget_usd_per_hour, "budget"


def within_share(
    model: pulp.LpProblem,
    objective: ObjectiveSettings,
    value: float,
    share: float,
    rate: pulp.LpVariable,
    cost: pulp.LpAffineExpression,
) -> None:
    """Whatever else is asked for, the objective comes within a share of `value`, and its own constraint holds."""
    if objective.kind.row.per_charge:
        # Multiplied out: a linear programme has no quotients.
        model += rate - (1 - share) * value * cost >= 0, "value"
        # Multiplied out the ratio also holds where nothing is served at no cost.
        model += rate >= max(objective.target_rps, LEAST_RPS), "target"
    elif objective.minimises:
        model += cost <= value * (1 + share), "value"
        model += rate >= objective.target_rps, "target"
    else:
        model += rate >= value * (1 - share), "value"
        if objective.kind.row.budgeted:
            model += cost <= objective.budget_usd_per_hour, "budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """The relaxed optimum and its prices.

    `value`: the objective's bound; `rate`: lambda. `worth[phase, j]`: what one more request/s of capacity on a range is
    worth; `toll[t]`: what a GPU of a type is worth (both in units of the objective). `gpus[t, phase, j]`: g, by the
    type's place in the offer, where it is above 0.
    """

    value: float
    rate: float
    worth: dict[tuple[Phase, int], float]
    toll: dict[str, float]
    gpus: dict[tuple[int, Phase, int], float]


def relax(offer: Offer, objective: ObjectiveSettings, settings: AssignmentSettings) -> Relaxation:
    """Bound of the objective over all layouts of `offer`. Raises InfeasibleError where a target is out of reach."""
    sense = pulp.LpMinimize if objective.minimises else pulp.LpMaximize
    model = pulp.LpProblem("relaxation", sense)
    rate = pulp.LpVariable("rate", lowBound=0)
    best = efficiency(offer)
    time = {key: pulp.LpVariable(f"time_{key[0]}_{key[1]}_{key[2]}", lowBound=0) for key in best}
    scale = pulp.LpVariable("scale", lowBound=0) if objective.kind.row.per_charge else None
    used = {t: pulp.lpSum(v for (of, _, _), v in time.items() if of == t) for t in range(len(offer.gpus))}
    for phase in PHASES:
        for j, p in enumerate(offer.probabilities):
            served = pulp.LpAffineExpression([(v, best[key] / p) for key, v in time.items() if key[1:] == (phase, j)])
            model += served - rate >= 0, f"serve_{phase}_{j}"
    for t, count in enumerate(offer.counts):
        model += used[t] - (count * scale if scale is not None else count) <= 0, f"offered_{t}"
    cost = pulp.lpSum(price * used[t] for t, price in enumerate(offer.charges(objective)))
    _set_objective(model, objective, rate, cost, scale)
    solve(model, settings)
    return _read(model, offer, objective, rate, time)


def _set_objective(
    model: pulp.LpProblem,
    objective: ObjectiveSettings,
    rate: pulp.LpVariable,
    cost: pulp.LpAffineExpression,
    scale: pulp.LpVariable | None,
) -> None:
    if not objective.kind.row.per_charge:
        aim(model, objective, rate, cost)
        return
    assert scale is not None
    model.setObjective(1 * rate)
    model += cost <= 1, "budget"
    model += rate - objective.target_rps * scale >= 0, "target"


def _read(
    model: pulp.LpProblem,
    offer: Offer,
    objective: ObjectiveSettings,
    rate: pulp.LpVariable,
    time: dict[tuple[int, Phase, int], pulp.LpVariable],
) -> Relaxation:
    price: dict[str, float] = {name: abs(row.pi or 0.0) for name, row in model.constraints.items()}
    charges: tuple[float, ...] = offer.charges(objective)
    # A GPU is worth what it is short of and what it charges, both in the objective's unit.
    at_cost = 1.0 if objective.minimises else price.get("budget", 0.0)
    tolls = {gpu: price[f"offered_{t}"] + at_cost * float(charges[t]) for t, gpu in enumerate(offer.gpus)}
    return Relaxation(
        value=float(pulp.value(model.objective)),
        rate=float(rate.varValue or 0.0),
        worth={(ph, j): price[f"serve_{ph}_{j}"] / p for ph in PHASES for j, p in enumerate(offer.probabilities)},
        toll=tolls,
        gpus={key: float(v.varValue) for key, v in time.items() if (v.varValue or 0.0) > 0},
    )
