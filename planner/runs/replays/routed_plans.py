"""A plan as the routers of a target can route it: on a uniform grid of lengths where they know no other."""

from planner import export
from planner.domain import Phase, Plan, RouterGrid
from planner.plans.router_grid import CELLS, grid_of, on_grid


def routed_plan(plan: Plan, *, target: str, cells: int = CELLS) -> tuple[Plan, RouterGrid | None]:
    """The plan as `target` can route it, and the grid that it was brought onto (None: none).

    Finished manifests of such a target are held against this plan.
    """
    chosen = export.TARGETS.get(target)
    if chosen is None or not chosen.by_grid or any(island.phase is Phase.MIXED for island in plan.islands):
        return plan, None  # where islands do both phases, no router's grid chooses between them
    grid = grid_of(plan, cells)
    return on_grid(plan, grid), grid
