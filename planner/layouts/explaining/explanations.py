"""Door: why a plan, or a pool or an island of it, is what it is."""

from planner.domain import Plan
from planner.domain.explanations import SECONDS, IslandExplanation, PlanExplanation, PoolExplanation
from planner.layouts.explaining.islands import explain_island
from planner.layouts.explaining.plans import explain_plan
from planner.layouts.explaining.pools import explain_pool


def explained(
    plan: Plan, island: str | None = None, seconds: float = SECONDS
) -> PlanExplanation | PoolExplanation | IslandExplanation:
    """The plan as a whole, or its pool or island of that name. Raises InputError where there is none."""
    if island is None:
        return explain_plan(plan)
    return explain_pool(plan, island, seconds) if plan.outlook.pools else explain_island(plan, island)
