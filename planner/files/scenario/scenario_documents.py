"""A scenario as a mapping with every key and its value, for a plan's record."""

from planner.domain import DeploySettings, Goal, LengthProfile, ModelSpec, PlacementSettings, Scenario
from planner.domain.changes import ChangePolicy
from planner.files.cluster.cluster_documents import cluster_document
from planner.files.disk.shipped import shipped_models, shipped_workloads
from planner.files.engine_profiles.profiles import engine_document
from planner.files.models.model_documents import model_document
from planner.files.models.models import read_model
from planner.files.records import record_document
from planner.files.scenario.cost_sections import cost_document
from planner.files.scenario.objective_sections import objective_document
from planner.files.scenario.placement_sections import placement_settings_document
from planner.files.scenario.search_sections import search_document
from planner.files.tables.workloads import read_workload, workload_document


def scenario_document(scenario: Scenario, cluster: dict[str, object] | None = None) -> dict[str, object]:
    """The mapping that `scenario_from_document` reads back as the same scenario (its `inputs` aside).

    A shipped model or workload stands by its name, any other and a cluster in full, so the record needs no other file;
    `cluster`: what stands for the scenario's cluster instead.
    """
    items = scenario.inventory.items
    return {
        "name": scenario.name,
        "model": _model(scenario.model),
        "workload": _workload(scenario.workload),
        "inventory": {item.gpu.name: item.count for item in items},
        "prices_usd_per_gpu_hour": {i.gpu.name: i.price_usd_per_gpu_hour if i.price_known else None for i in items},
        "node_selectors": {item.gpu.name: dict(item.gpu.node_selector) for item in items},
        "ranges": record_document(scenario.ranges),
        "cost": cost_document(scenario.cost),
        "slo": record_document(scenario.slo),
        "objective": objective_document(scenario.objective),
        "assignment": record_document(scenario.assignment),
        "search": search_document(scenario.search),
        **({} if scenario.network is None else {"network": record_document(scenario.network)}),
        **_placement(scenario, cluster),
        "engine": engine_document(scenario.engine),
        "routing": record_document(scenario.routing, form=scenario.routing_form.value),
        "simplicity": scenario.simplicity,
        "serving": scenario.serving_form.value,
        "survive": record_document(scenario.survive),
        **({"deploy": record_document(scenario.deploy)} if scenario.deploy != DeploySettings() else {}),
        **_changes(scenario),
    }


def _changes(scenario: Scenario) -> dict[str, object]:
    """What changes take, where somebody said so, or the search counts it."""
    counts = Goal.CHANGE_COST in scenario.objective.goals
    return {"changes": record_document(scenario.changes)} if counts or scenario.changes != ChangePolicy() else {}


def _placement(scenario: Scenario, cluster: dict[str, object] | None) -> dict[str, object]:
    """The cluster, and how it is used; neither where islands stay off nodes."""
    if scenario.cluster is None and scenario.placement == PlacementSettings():
        return {}
    nodes = {} if scenario.cluster is None else {"cluster": cluster or cluster_document(scenario.cluster)}
    return {**nodes, "placement": placement_settings_document(scenario.placement)}


def _model(model: ModelSpec) -> str | dict[str, object]:
    path = shipped_models().get(model.name)
    return model.name if path is not None and read_model(path) == model else model_document(model)


def _workload(profile: LengthProfile) -> str | dict[str, object]:
    path = shipped_workloads().get(profile.name)
    return profile.name if path is not None and read_workload(path)[0] == profile else workload_document(profile)
