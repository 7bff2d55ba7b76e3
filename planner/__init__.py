"""Plan the serving of large language models on mixed GPU fleets.

>>> import planner
>>> plan = planner.plan(inventory={"H200": 64, "H20": 128}, workload="azure-code-2023", model="deepseek-v3")
>>> plan.throughput_rps, plan.gap, plan.cost
>>> plan.figure("routing")
>>> plan.save("run"), plan.export("manifests", target="lws")

Questions      plan, plan_scenario, cheapest, buy, max_rate, frontier, sweep
Looking        load_plan, compare, explain, replay, export
What there is  workload, cluster, gpus, models, workloads, scenarios
Studies        study

Times are in ms, lengths in tokens, rates in requests/s, memory in GB, prices in USD/hour. Every error derives from
PlannerError and says what to do; InputError: something cannot be used, InfeasibleError: nothing serves the workload.
Names load on first use, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.api.clusters import ClusterAtHand, cluster
    from planner.api.comparisons import compare, explain, sweep
    from planner.api.deployments import PlannedDeployment
    from planner.api.frontiers import frontier
    from planner.api.planning import load_plan, plan, plan_scenario
    from planner.api.shipped import gpus, models, scenarios, workloads
    from planner.api.studies.named import study
    from planner.domain.replay.settings import Failure
    from planner.errors import InfeasibleError, InputError, PlannerError

_HOMES = {
    "AnsweredPlan": "planner.api.questions",
    "ClusterAtHand": "planner.api.clusters",
    "Failure": "planner.domain.replay.settings",
    "InfeasibleError": "planner.errors",
    "InputError": "planner.errors",
    "PlannedDeployment": "planner.api.deployments",
    "PlannerError": "planner.errors",
    "buy": "planner.api.questions",
    "cheapest": "planner.api.questions",
    "cluster": "planner.api.clusters",
    "compare": "planner.api.comparisons",
    "explain": "planner.api.comparisons",
    "frontier": "planner.api.frontiers",
    "gpus": "planner.api.shipped",
    "load_plan": "planner.api.planning",
    "max_rate": "planner.api.questions",
    "models": "planner.api.shipped",
    "plan": "planner.api.planning",
    "plan_scenario": "planner.api.planning",
    "scenarios": "planner.api.shipped",
    "study": "planner.api.studies.named",
    "sweep": "planner.api.comparisons",
    "workloads": "planner.api.shipped",
}
_PACKAGES = ("cost", "domain", "export", "files", "placement", "replay", "report", "search", "workload", "assignment")

__all__ = [
    "AnsweredPlan",
    "ClusterAtHand",
    "Failure",
    "InfeasibleError",
    "InputError",
    "PlannedDeployment",
    "PlannerError",
    "buy",
    "cheapest",
    "cluster",
    "compare",
    "explain",
    "frontier",
    "gpus",
    "load_plan",
    "max_rate",
    "models",
    "plan",
    "plan_scenario",
    "scenarios",
    "study",
    "sweep",
    "workloads",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"planner.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "__version__":
        from planner.plans.provenance import planner_version  # noqa: PLC0415  (as all names here, when asked for)

        return planner_version()
    raise AttributeError(f"module 'planner' has no attribute {name!r}")


_CALLED = ("export", "replay", "workload")
"""Packages that are functions as well: `planner.replay(plan)`."""


def __dir__() -> list[str]:
    """What users need; packages are there for who knows their names."""
    return sorted({*__all__, *_CALLED, "__version__", "__doc__"})
