"""Objective and own constraint that the layout programme and its relaxation share."""

import pulp

from planner.domain import ObjectiveSettings


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
