"""An autoscaler for each island, after the rules of `planner.domain.scaling`: KEDA's ScaledObjects, or plain
HorizontalPodAutoscalers behind a recording rule.

A copy is what the object's scale subresource counts: a Deployment's pod, a LeaderWorkerSet's group. All islands of a
chain follow the requests that come to it; M are its islands, M1 those that take a request first:

| what | expression | told by |
|---|---|---|
| requests/s that come | rate of those that ended in M1, and how much more run and wait there each second | engines, |
| | or rate of the router's own counter (`deploy.load_source`) | llm-d's endpoint picker alone |
| requests that wait | those of M, over the cold start | engines |
| hours | copies that the floors of an hour ask for, begun a cold start early | KEDA's clock |

Dearer variants of a group follow what is above that which fits of their cheaper ones: neither KEDA nor a
HorizontalPodAutoscaler knows a preference. Of the endpoint picker only the counter of requests can be used: its gauges
of queue, saturation and cache are of its whole pool, prefill and decode pods of all lengths together. Metrics that are
not there count as a failure, after which no copy goes (`fallback`), not as no load.

The workload variant autoscaler (`wva_desired_replicas`), which these objects followed before, is deprecated by llm-d in
favour of KEDA with the endpoint picker's metrics (llm-d/llm-d pull request 2497, 2026-09), which have no preference
between variants.

Sources: keda.sh/v1alpha1 and pkg/scalers/{prometheus,cron}_scaler.go of kedacore/keda 2.20; autoscaling/v2 of
Kubernetes 1.34 (tolerance, sync period, behavior); pkg/epp/metrics/llm_d_router_metrics.go of llm-d/llm-d-router 0.10;
metrics of engines as of `queries`.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from planner.domain import Phase, Plan
from planner.domain.scaling import (
    ScalingRule,
    demand_rps,
    floors_of_hours,
    lead_s,
    scaled_pools,
    scaling_rules,
    settle_s,
    spare_gpus,
)
from planner.domain.serving.deploy import BY_ENGINE, HPA, KEDA, NONE
from planner.errors import ExportError
from planner.export.islands import ServingIsland
from planner.export.objects.documents import yaml_text
from planner.export.objects.names import label_value, plan_labels
from planner.export.objects.operating.monitoring import RULE_KIND
from planner.export.objects.operating.probes import load_seconds
from planner.export.objects.operating.queries import (
    ISLAND_ON_SERIES,
    PART_OF_ON_SERIES,
    SCRAPE,
    EngineMetrics,
    engine_metrics,
)
from planner.export.objects.pods import labels
from planner.export.seams import Deployment
from planner.export.templating import object_of

FILE = "autoscaling.yaml"
HPA_KIND = ("autoscaling/v2", "HorizontalPodAutoscaler")
KEDA_KIND = ("keda.sh/v1alpha1", "ScaledObject")
_TEMPLATES = MappingProxyType({HPA: "horizontalpodautoscaler", KEDA: "scaledobject"})
WANTED = "planner_wanted_copies"
"""What the recording rule calls copies that the load asks for; an adapter must offer it as an external metric."""
_WINDOW = "1m"
_SYNC_S = 15
_MINUTES = 60
_DAY_MINUTES = 24 * _MINUTES


def most_copies(plan: Plan, island: ServingIsland, *, pinned: bool = False) -> int:
    """Copies that an autoscaler may run of an island at most."""
    return next(pool.ceiling for pool in scaled_pools(plan, pinned=pinned) if pool.island == island.id)


def autoscaling_files(deployment: Deployment) -> dict[str, str]:
    """`autoscaling.yaml`, where the options ask for it.

    Raises ExportError where the load cannot be read from where the options say.
    """
    options = deployment.options
    if options.autoscaling == NONE:
        return {}
    rules = scaling_rules(
        deployment.plan,
        hours=options.hourly_rps,
        spare_rps=options.spare_rps,
        to_none=options.autoscaling == KEDA,
        pinned=options.pin_nodes,
    )
    of_island = {rule.pool.island: rule for rule in rules}
    _require_load(deployment, rules)
    rows = [(island, of_island[island.id]) for island in deployment.islands]
    objects = [_autoscaler(island, rule, deployment) for island, rule in rows]
    if options.autoscaling == HPA:
        objects.append(_recorded(deployment, of_island))
    return {FILE: yaml_text(_comments(deployment, of_island), objects)}


def _require_load(deployment: Deployment, rules: tuple[ScalingRule, ...]) -> None:
    if deployment.options.load_source == BY_ENGINE:
        return
    router = deployment.router
    if router is None or not router.requests_metric:
        raise ExportError(
            f"Router {router.name if router else 'none'}: must count the requests that come to it, by which copies "
            "follow deploy.load_source router, and exports no such metric.",
            hint="Leave deploy.load_source out, or take --router llm-d.",
        )
    if len({rule.pool.chain for rule in rules}) > 1:
        raise ExportError(
            f"Router {router.name}: counts requests of all lengths together, by which the islands of one range cannot "
            "follow deploy.load_source router; the plan has several ranges.",
            hint="Leave deploy.load_source out.",
        )


def _autoscaler(island: ServingIsland, rule: ScalingRule, deployment: Deployment) -> dict[str, Any]:
    assert deployment.target.scaled is not None, "options that a target does not heed are refused"
    version, kind = deployment.target.scaled
    start_s = load_seconds(island, deployment)
    return object_of(
        _TEMPLATES[deployment.options.autoscaling],
        metadata={"name": island.name, "labels": labels(island, deployment)},
        target={"apiVersion": version, "kind": kind, "name": island.name},
        rule=rule,
        behavior=_behavior(rule, start_s),
        metric=WANTED,
        island={ISLAND_ON_SERIES: label_value(island.slug), PART_OF_ON_SERIES: deployment.name},
        query=wanted_load(rule, deployment),
        threshold=f"{rule.per_copy:.6g}",
        crons=_crons(rule, start_s, deployment.options.time_zone),
        prometheus=deployment.options.prometheus,
        sync_s=_SYNC_S,
        settle_s=settle_s(start_s),
    )


def _behavior(rule: ScalingRule, start_s: float) -> dict[str, Any]:
    """Up at once; down once fewer copies were wanted for as long as one takes to come back."""
    return {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "policies": [{"type": "Pods", "value": rule.ceiling, "periodSeconds": _SYNC_S}],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": settle_s(start_s),
            "policies": [{"type": "Percent", "value": 100, "periodSeconds": _SYNC_S}],
        },
    }


def _crons(rule: ScalingRule, start_s: float, time_zone: str) -> list[dict[str, Any]]:
    """Stretches of the day with more copies than the least, each begun a cold start early."""
    lead = min(_MINUTES - 1, int(lead_s(start_s) / 60))
    rows = []
    for first, after, copies in floors_of_hours(rule.hours):
        if copies > rule.floor:
            begins = (first * _MINUTES - lead) % _DAY_MINUTES
            times = {
                "timezone": time_zone,
                "start": f"{begins % _MINUTES} {begins // _MINUTES} * * *",
                "end": f"0 {after} * * *",
                "desiredReplicas": str(copies),
            }
            rows.append({"name": f"from-{first}-to-{after}", "metadata": times})
    return rows


def wanted_load(rule: ScalingRule, deployment: Deployment) -> str:
    """PromQL: requests/s that the island's copies are wanted for, by `per_copy` of each."""
    shift = rule.spare - rule.before
    shifted = f" {'+' if shift > 0 else '-'} {abs(shift):.6g}" if shift else ""
    return f"clamp_min({_load(rule, deployment)}{shifted}, 0)"


def _load(rule: ScalingRule, deployment: Deployment) -> str:
    metrics = engine_metrics(deployment.islands[0].profile(deployment.engine.name))
    chain = [island for island in deployment.islands if island.id in rule.pool.chain]
    first = [island for island in chain if island.phase is not Phase.DECODE]
    start_s = math.ceil(max(load_seconds(island, deployment) for island in chain))
    waiting = f"sum({metrics.waiting}{_matchers(chain, deployment)}) / {start_s}"
    return f"{_arrivals(metrics, _matchers(first, deployment), deployment)} + {waiting}"


def _arrivals(metrics: EngineMetrics, first: str, deployment: Deployment) -> str:
    if deployment.options.load_source != BY_ENGINE and deployment.router is not None:
        names = "|".join(deployment.islands[0].served_names or (deployment.islands[0].weights,))
        return f'sum(rate({deployment.router.requests_metric}{{model_name=~"{names}"}}[{_WINDOW}]))'
    ended = f"sum(rate({metrics.requests}{first}[{_WINDOW}]))"
    more = [f"sum(deriv({name}{first}[{_WINDOW}]))" for name in (metrics.running, metrics.waiting)]
    return " + ".join([ended, *more])


def _matchers(islands: list[ServingIsland], deployment: Deployment) -> str:
    names = "|".join(label_value(island.slug) for island in islands)
    return f'{{{PART_OF_ON_SERIES}="{deployment.name}",{ISLAND_ON_SERIES}=~"{names}"}}'


def _recorded(deployment: Deployment, rules: Mapping[str, ScalingRule]) -> dict[str, Any]:
    rows = [
        {
            "record": WANTED,
            "expr": f"{wanted_load(rules[island.id], deployment)} / {rules[island.id].per_copy:.6g}",
            "labels": {ISLAND_ON_SERIES: label_value(island.slug), PART_OF_ON_SERIES: deployment.name},
        }
        for island in deployment.islands
    ]
    version, kind = RULE_KIND
    name = f"{deployment.name}-wanted"
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "labels": plan_labels(deployment.name)},
        "spec": {"groups": [{"name": name, "interval": SCRAPE, "rules": rows}]},
    }


def _comments(deployment: Deployment, rules: Mapping[str, ScalingRule]) -> tuple[str, ...]:
    plan, options = deployment.plan, deployment.options
    floor_rps = min(options.hourly_rps, default=demand_rps(plan))
    lines = [
        f"Autoscalers: at least what {floor_rps:.4g} requests/s of the whole mix need, at most what the inventory has.",
        "They follow the requests that come, by metrics of the engines that the PodMonitor has scraped"
        + ("." if options.autoscaling == KEDA else f"; an adapter must offer {WANTED} as an external metric."),
    ]
    if options.spare_rps:
        lines.append(f"Copies for {options.spare_rps:.4g} requests/s more are kept ready, for rises within a start.")
    for island in deployment.islands:
        rule = rules[island.id]
        after = f", from {rule.before:.4g} requests/s on" if rule.before else ""
        lines.append(
            f"{island.name}: {rule.floor} to {rule.ceiling} copies, {rule.pool.planned} planned; a copy for "
            f"{rule.per_copy:.4g} requests/s{after}."
        )
    growing = [rule.pool.gpu for rule in rules.values() if rule.ceiling > rule.pool.planned]
    for gpu in [gpu for gpu in dict.fromkeys(growing) if growing.count(gpu) > 1]:
        lines.append(f"{spare_gpus(plan, gpu)} spare {gpu} are in the bounds of several islands: not all fit at once.")
    lines.append("kubectl apply of an island's own file sets its copies back to the plan's.")
    return tuple(lines)
