"""Plan the serving of large language models on mixed GPU fleets.

>>> import planner
>>> plan = planner.plan(inventory={"H200": 64, "H20": 128}, workload="azure-code-2023", model="deepseek-v3")
>>> plan.throughput_rps, plan.gap, plan.cost
>>> plan.figure("routing")
>>> plan.save("run"), plan.export("manifests", target="lws")

Questions      plan, plan_scenario, plan_fleet, cheapest, buy, max,
               frontier, sweep, batch, schedule, watch
Looking        load, compare, explain, replay, verify, export
What there is  workload, cluster, model, gpus, models, workloads, scenarios

Times are in ms, lengths in tokens, rates in requests/s, memory in GB, prices in USD/hour. Every error derives from
PlannerError and says what to do; InputError: something cannot be used, InfeasibleError: nothing serves the workload.
Names load on first use, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from planner.doors import door

if TYPE_CHECKING:
    from planner.api.clusters import ClusterAtHand, cluster
    from planner.api.comparisons import PlannedBatch, batch, compare, explain, sweep
    from planner.api.deployments import PlannedDeployment
    from planner.api.fleets import FleetWeek, PlannedFleet, plan_fleet
    from planner.api.frontiers import frontier
    from planner.api.models import ModelAtHand, model
    from planner.api.observations import advise as advise
    from planner.api.planning import load, plan, plan_scenario, verify
    from planner.api.planning import load_plan as load_plan  # those that `load` calls: typed, and not shown
    from planner.api.planning import replay as replay  # export is a package to us, as `from planner import export` is
    from planner.api.questions import AnsweredPlan, buy, cheapest
    from planner.api.questions import max as max  # as the command is called; shown by `dir`
    from planner.api.schedules import PlannedSchedule, schedule
    from planner.api.schedules import load_schedule as load_schedule
    from planner.api.shipped import gpus, models, scenarios, workloads
    from planner.api.watches import WatchAtHand, watch
    from planner.api.watches import load_watch as load_watch
    from planner.api.workloads import workload as workload
    from planner.api.workloads import workload_from_metrics as workload_from_metrics
    from planner.domain.arrivals import Failure
    from planner.errors import InfeasibleError, InputError, PlannerError

    __version__: str

__all__ = [
    "AnsweredPlan",
    "ClusterAtHand",
    "Failure",
    "FleetWeek",
    "InfeasibleError",
    "InputError",
    "ModelAtHand",
    "PlannedBatch",
    "PlannedDeployment",
    "PlannedFleet",
    "PlannedSchedule",
    "PlannerError",
    "WatchAtHand",
    "batch",
    "buy",
    "cheapest",
    "cluster",
    "compare",
    "explain",
    "frontier",
    "gpus",
    "load",
    "model",
    "models",
    "plan",
    "plan_fleet",
    "plan_scenario",
    "scenarios",
    "schedule",
    "sweep",
    "verify",
    "watch",
    "workloads",
]

_NOT_STARRED = ("max",)
"""Not for `from planner import *`, which would hide Python's own."""
_CALLED = ("export", "replay", "workload")
"""Packages that are functions as well: `planner.replay(plan)`."""
_PACKAGES = (
    "cost",
    "domain",
    "files",
    "placement",
    "report",
    "search",
    "assignment",
    "defragmentation",
    "pipeline",
    *_CALLED,
)
_HOMES = {
    "planner.api.clusters": "ClusterAtHand cluster",
    "planner.api.comparisons": "PlannedBatch batch compare explain sweep",
    "planner.api.deployments": "PlannedDeployment",
    "planner.api.fleets": "FleetWeek PlannedFleet plan_fleet",
    "planner.api.frontiers": "frontier",
    "planner.api.models": "ModelAtHand model",
    "planner.api.observations": "advise",
    "planner.api.planning": "load load_plan plan plan_scenario verify",
    "planner.api.questions": "AnsweredPlan buy cheapest max",
    "planner.api.schedules": "PlannedSchedule load_schedule schedule",
    "planner.api.shipped": "gpus models scenarios workloads",
    "planner.api.watches": "WatchAtHand load_watch watch",
    "planner.api.workloads": "workload_from_metrics",
    "planner.domain.arrivals": "Failure",
    "planner.errors": "InfeasibleError InputError PlannerError",
}

if not TYPE_CHECKING:
    _load, _ = door(__name__, _HOMES)

    def __getattr__(name: str) -> Any:
        if name in _PACKAGES:
            return import_module(f"planner.{name}")
        if name == "__version__":
            from planner.plans.provenance import planner_version  # noqa: PLC0415  (as all names here, when asked for)

            return planner_version()
        try:
            return _load(name)
        except AttributeError:
            from planner.guests import guest_functions, load  # noqa: PLC0415  (who they are takes a while to find)

            if name.startswith("_") or name not in guest_functions():
                raise
            return load(guest_functions()[name])


def __dir__() -> list[str]:
    """What users need, and what guests bring; packages are there for who knows their names."""
    from planner.guests import guest_functions  # noqa: PLC0415  (as above)

    return sorted({*__all__, *_NOT_STARRED, *_CALLED, *guest_functions(), "__version__", "__doc__"})
