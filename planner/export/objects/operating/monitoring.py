"""The PodMonitor over a plan's engines and the PrometheusRule that sets promised beside measured.

Source: monitoring.coreos.com/v1 of the Prometheus operator (Documentation/api-reference/api.md): `podTargetLabels` puts
labels of the pod on every series of it; `port` is the name of a container's port, and pods without such a port are
passed over. So the workers of a group, which answer no HTTP, are left out, and so are ranks that a pod has not.
"""

from typing import Any

from planner.domain import EngineProfile, Plan
from planner.domain.serving.observed import PLAN, Quantity
from planner.export.engines.seam import HTTP
from planner.export.islands import ServingIsland, serving_islands
from planner.export.objects.documents import yaml_text
from planner.export.objects.names import ROUTING, label_value, plan_labels, plan_slug
from planner.export.objects.operating.promises import Rule, bucket_rules, island_rules
from planner.export.objects.operating.queries import (
    SCRAPE,
    EngineMetrics,
    complete_metrics,
    expressions,
    plain_queries,
    recorded_query,
    require_window,
)
from planner.export.objects.pods import ISLAND_LABEL, PART_OF_LABEL, PHASE_LABEL
from planner.export.seams import Deployment
from planner.export.templating import objects_of
from planner.files import catalog

FILE = "monitoring.yaml"
API_VERSION = "monitoring.coreos.com/v1"
POD_MONITOR, RULE = "PodMonitor", "PrometheusRule"
RULE_KIND = (API_VERSION, RULE)
TARGET_LABELS = (ISLAND_LABEL, PHASE_LABEL, PART_OF_LABEL)


def monitoring_files(deployment: Deployment) -> dict[str, str]:
    """`monitoring.yaml`, where the options ask for it."""
    if not deployment.options.monitoring:
        return {}
    profile = deployment.islands[0].profile(deployment.engine.name)
    metrics = complete_metrics(profile)
    objects = objects_of(
        "monitoring",
        metadata={"name": deployment.name, "labels": plan_labels(deployment.name)},
        labels=TARGET_LABELS,
        path=metrics.path,
        scrape=SCRAPE,
        ports=_ports(deployment.islands),
        groups=rule_groups(deployment.plan, deployment.name, deployment.islands, metrics),
    )
    return {FILE: yaml_text(_comments(profile, metrics), objects)}


def _ports(islands: tuple[ServingIsland, ...]) -> list[str]:
    """Of all pods: one, or one for each rank of the pods with most; each rank tells of itself alone."""
    count = max((island.local_ranks for island in islands if island.by_rank), default=1)
    return [HTTP if rank == 0 else f"{HTTP}-{rank}" for rank in range(count)]


def rule_groups(
    plan: Plan, name: str, islands: tuple[ServingIsland, ...], metrics: EngineMetrics
) -> list[dict[str, Any]]:
    """The groups of recording rules: what is measured by island, then promises beside it."""
    measured: list[Rule] = [
        {"record": quantity.value, "expr": expression, "labels": {PLAN: name}}
        for quantity, expression in expressions(metrics, name).items()
    ]
    promised = [
        *island_rules(plan, name, islands),
        *bucket_rules(plan, name, islands, ttft_at_decode=metrics.ttft_at_decode),
    ]
    return [
        {"name": f"{name}-measured", "interval": SCRAPE, "rules": measured},
        {"name": f"{name}-promised", "interval": SCRAPE, "rules": promised},
    ]


def observe_queries(plan: Plan, engine: str, name: str = "", window: str = "") -> dict[str, str]:
    """What to ask Prometheus for `planner observe`: by name. `recorded` asks for all that the rules have recorded; with
    a `window` (as 1h) there is a query for each quantity instead, which needs no rules. InputError for another window.
    """
    label = plan_label(plan, name)
    if not window:
        return {"recorded": recorded_query(label)}
    require_window(window)
    priced = plan.scenario.engine
    metrics = complete_metrics(priced if priced.name == engine else catalog.engine(engine))
    return {_file_name(quantity): text for quantity, text in plain_queries(metrics, label, window).items()}


def _file_name(quantity: Quantity) -> str:
    return quantity.name.lower()


def plan_label(plan: Plan, name: str = "") -> str:
    """The plan's name on its objects; `name` is that of the export's options."""
    return plan_slug(
        name or plan.scenario.deploy.name or plan.scenario.name, (*(island.id for island in plan.islands), ROUTING)
    )


def island_labels(plan: Plan) -> dict[str, str]:
    """Label of each serving island -> its id."""
    return {label_value(island.slug): island.id for island in serving_islands(plan, "plan")}


def _comments(profile: EngineProfile, metrics: EngineMetrics) -> tuple[str, ...]:
    where = (
        "Where phases are split, decode servers tell the user's TTFT, and prefill servers tell none."
        if metrics.ttft_at_decode
        else "Where phases are split, prefill servers tell TTFT without the cache's way and the first step of decode: "
        "the TTFT of decode servers comes on top."
    )
    return (
        f"Metrics of {profile}, for the Prometheus operator: without its CRDs kubectl apply refuses this file.",
        "Its Prometheus must choose these two objects: give them the labels of its podMonitorSelector and ruleSelector "
        "(kube-prometheus-stack: release).",
        where,
        "Promises are the plan's own, in seconds and requests/s; TPOT is told by "
        + ("request." if "request" in metrics.tpot else "token, which has longer tails than that of a request."),
        "What was recorded goes to `planner observe`; `planner observe RUN --queries` prints how to ask for it.",
    )
