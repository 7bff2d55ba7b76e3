"""A deployed plan changed: planned anew with least change, its roll-out ordered and replayed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner import pipeline
from planner.domain import Plan, Scenario
from planner.domain.replanning.changes import ChangeLimits, ChangeSettings
from planner.replanning.interim_plans import QUICK, InterimPlans, replayed
from planner.replanning.rolling import LEAST_SHARE, roll_out
from planner.runs.replanning.publication import ChangedPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeQuestion:
    """What is asked of a change: the new plan's scenario, times, limits, GPUs that are `lost` (by type), the share of
    the rate that no step undercuts, and whether steps are replayed."""

    scenario: Scenario
    settings: ChangeSettings = field(default_factory=ChangeSettings)
    limits: ChangeLimits = field(default_factory=ChangeLimits)
    lost: Mapping[str, int] = field(default_factory=dict)
    least_share: float = LEAST_SHARE
    replays: bool = True


def change_plan(saved: Plan, question: ChangeQuestion) -> ChangedPlan:
    """The new plan, the change, the frontier, and the steps.

    Raises InputError where a plan has no buckets or the scenario does not suit it; InfeasibleError where nothing serves
    the workload within the limits, or no order of steps leaves the share of the rate.
    """
    answer = pipeline.replan(saved, question.scenario, question.settings, question.limits)
    plan, inventory = answer.plan, {item.gpu.name: item.count for item in answer.plan.scenario.inventory.items}
    steps = roll_out(answer.before, plan, answer.change, least_share=question.least_share, inventory=inventory)
    if question.replays:
        steps = replayed(steps, InterimPlans(answer.before, plan), QUICK)
    return ChangedPlan(before=answer.before, plan=plan, change=answer.change, roll_out=steps, frontier=answer.frontier)
