"""A new plan near the one that runs, and what more or less change would give."""

from dataclasses import dataclass

from planner.domain.plan import Plan
from planner.domain.replanning.changes import ChangePoint, PlanChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Replan:
    """`plan`: the new one; `before`: the one that runs, less what was lost; `change`: from it to the new one.

    `frontier`: the best of so many GPUs touched, least first. In the objective's unit: `scratch_value` and
    `scratch_rps` of a plan that nothing runs before, `scratch_bound` of all plans (None: not solved for, as servers
    only turn), `bound` of plans that touch no more than the new one. `current_rps`: what the servers that run would
    serve of the new workload without any change (None: not all of it).
    """

    plan: Plan
    before: Plan
    change: PlanChange
    frontier: tuple[ChangePoint, ...]
    current_rps: float | None
    scratch_rps: float | None
    scratch_value: float | None
    scratch_bound: float | None
    bound: float | None
