"""Objective and own constraint that the layout programme and its relaxation share."""

import pulp

from planner.domain import ObjectiveSettings

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
