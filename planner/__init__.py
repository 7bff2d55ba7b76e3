"""Plan the serving of large language models on mixed GPU fleets.

>>> import planner
>>> plan = planner.plan(inventory={"H200": 64, "H20": 128}, workload="azure-code-2023", model="deepseek-v3", seed=0)

Names load on first use, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.api.comparisons import compare, explain, sweep
    from planner.api.deployments import PlannedDeployment
    from planner.api.planning import load_plan, plan, plan_scenario
    from planner.api.questions import AnsweredPlan, buy, cheapest, max_rate
    from planner.errors import InfeasibleError, InputError, PlannerError

_HOMES = {
    "compare": "planner.api.comparisons",
    "explain": "planner.api.comparisons",
    "sweep": "planner.api.comparisons",
    "PlannedDeployment": "planner.api.deployments",
    "AnsweredPlan": "planner.api.questions",
    "buy": "planner.api.questions",
    "cheapest": "planner.api.questions",
    "max_rate": "planner.api.questions",
    "load_plan": "planner.api.planning",
    "plan": "planner.api.planning",
    "plan_scenario": "planner.api.planning",
    "InfeasibleError": "planner.errors",
    "InputError": "planner.errors",
    "PlannerError": "planner.errors",
}
_PACKAGES = ("cost", "domain", "export", "files", "report", "search", "workload", "assignment")

__all__ = [
    "AnsweredPlan",
    "InfeasibleError",
    "InputError",
    "PlannedDeployment",
    "PlannerError",
    "buy",
    "cheapest",
    "compare",
    "explain",
    "load_plan",
    "max_rate",
    "plan",
    "plan_scenario",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"planner.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'planner' has no attribute {name!r}")
