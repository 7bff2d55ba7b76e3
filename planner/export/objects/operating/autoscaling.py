"""An autoscaler for each island, in the form that llm-d's workload variant autoscaler (WVA) finds by its annotations.

WVA writes `wva_desired_replicas{variant_name=...}`; a HorizontalPodAutoscaler reads it as an external metric, KEDA asks
Prometheus for it. A copy is what the object's scale subresource counts: a Deployment's pod, a LeaderWorkerSet's group.
Source: samples of llm-d/llm-d-workload-variant-autoscaler (2026-07, without its former CRD); autoscaling/v2;
keda.sh/v1alpha1.

How many copies an autoscaler may run of an island.

| symbol | meaning | source |
|---|---|---|
| n | copies of the plan | PodGrouping.groups |
| d | demand: requests/s of the whole mix | the scenario's, else the plan's promise |
| c | what one copy serves of the whole mix | throughput x capacity_rps of a server / rate of the island |
| s, l | share of the rate that must remain; copies that are lost with nodes | SurvivalSettings, BucketPlan.losses |
| g | GPUs of the type that no island of the plan serves with | the inventory less the serving islands |

least = max(1, ceil(d / c), ceil(s d / c) + l), at most n; most = n + floor(g / GPUs of a copy), n where pods are pinned
to the plan's nodes. Islands of one type share g: not all can have their most at once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from planner.domain import Plan
from planner.domain.serving.deploy import AUTOSCALERS
from planner.export.islands import ServingIsland
from planner.export.objects.documents import yaml_text
from planner.export.objects.pods import labels
from planner.export.seams import Deployment
from planner.export.templating import object_of

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyBounds:
    """At least and at most so many copies; `planned` lies between."""

    least: int
    planned: int
    most: int


def copy_bounds(plan: Plan, island: ServingIsland, *, pinned: bool = False) -> CopyBounds:
    """The bounds of one island; `pinned`: its pods may only go to the nodes of the plan's placement."""
    planned = island.grouping.groups
    spare = 0 if pinned else spare_gpus(plan, island.gpu.name)
    return CopyBounds(
        least=min(planned, max(1, _fewest_copies(plan, island))),
        planned=planned,
        most=planned + spare // island.parallel.devices,
    )


def demand_rps(plan: Plan) -> float:
    """What is asked of the whole mix; the promise where nothing is said."""
    demanded = plan.scenario.objective.demand_rps or plan.scenario.workload.arrival_rps or 0.0
    promise = plan.outlook.promise_rps
    return demanded or promise


def spare_gpus(plan: Plan, gpu: str) -> int:
    """GPUs of a type that no island serves with; of a fleet whose size was chosen, those that may be rented yet."""
    count = plan.scenario.inventory.item(gpu).count
    return max(0, count - sum(island.size for island in plan.islands if island.gpu == gpu and island.phase is not None))


def _fewest_copies(plan: Plan, island: ServingIsland) -> int:
    if not island.rate_rps or not plan.throughput_rps:
        return 1
    plan_rps_a_copy = plan.throughput_rps * _of_one_copy(plan, island) / island.rate_rps
    demand, survive = demand_rps(plan), plan.scenario.survive
    needed = _copies(demand, plan_rps_a_copy)
    if not survive.share:
        return needed
    lost = max((loss.servers for loss in plan.outlook.losses if loss.island == island.id), default=0)
    return max(needed, _copies(survive.share * demand, plan_rps_a_copy) + lost)


def _copies(rate: float, of_one: float) -> int:
    return math.ceil(rate / of_one - _ROUNDING)


def _of_one_copy(plan: Plan, island: ServingIsland) -> float:
    """Requests/s of one copy: a server's within the levels, else what is planned of it."""
    pools = plan.outlook.pools
    capacity = next((pool.capacity_rps for pool in pools if pool.island == island.id), 0.0)
    return capacity or island.rate_rps / island.grouping.groups


FILE = "autoscaling.yaml"
NONE, HPA, KEDA = AUTOSCALERS
HPA_KIND = ("autoscaling/v2", "HorizontalPodAutoscaler")
KEDA_KIND = ("keda.sh/v1alpha1", "ScaledObject")
_TEMPLATES = MappingProxyType({HPA: "horizontalpodautoscaler", KEDA: "scaledobject"})
METRIC = "wva_desired_replicas"

_DOWN_S = 300  # Kubernetes' own default: a copy that goes takes its loaded weights along
_UP_S = 15


def autoscaling_files(deployment: Deployment) -> dict[str, str]:
    """`autoscaling.yaml`, where the options ask for it."""
    if deployment.options.autoscaling == NONE:
        return {}
    bounds = {
        island.id: copy_bounds(deployment.plan, island, pinned=deployment.options.pin_nodes)
        for island in deployment.islands
    }
    objects = [_autoscaler(island, deployment, bounds[island.id]) for island in deployment.islands]
    return {FILE: yaml_text(_comments(deployment, bounds), objects)}


def _autoscaler(island: ServingIsland, deployment: Deployment, bounds: CopyBounds) -> dict[str, Any]:
    assert deployment.target.scaled is not None, "options that a target does not heed are refused"
    version, kind = deployment.target.scaled
    return object_of(
        _TEMPLATES[deployment.options.autoscaling],
        metadata=_metadata(island, deployment),
        target={"apiVersion": version, "kind": kind, "name": island.name},
        bounds=bounds,
        behavior=_behavior(bounds),
        metric=METRIC,
        query=desired_query(island.name),
        prometheus=deployment.options.prometheus,
        up_s=_UP_S,
        down_s=_DOWN_S,
    )


def desired_query(name: str) -> str:
    """How many copies WVA wants of the object of that name."""
    return f'max({METRIC}{{variant_name="{name}"}})'


def _behavior(bounds: CopyBounds) -> dict[str, Any]:
    """Up at once, down by one copy at a time."""
    return {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "policies": [{"type": "Pods", "value": bounds.most, "periodSeconds": _UP_S}],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": _DOWN_S,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": _DOWN_S}],
        },
    }


def _metadata(island: ServingIsland, deployment: Deployment) -> dict[str, Any]:
    price = deployment.plan.scenario.inventory.item(island.gpu.name).price_usd_per_gpu_hour
    annotations = {"llm-d.ai/managed": "true", "llm-d.ai/model-id": island.weights}
    if price > 0:
        annotations["llm-d.ai/variant-cost"] = f"{price * island.parallel.devices:.6g}"
    return {"name": island.name, "labels": labels(island, deployment), "annotations": annotations}


def _comments(deployment: Deployment, bounds: Mapping[str, CopyBounds]) -> tuple[str, ...]:
    plan = deployment.plan
    lines = [
        f"Autoscalers: at least what {demand_rps(plan):.4g} requests/s of the whole mix need, at most what the "
        "inventory has.",
        "They follow wva_desired_replicas of llm-d's workload variant autoscaler, which must run; without it "
        "copies stay as they are. variant-cost is USD/hour of a copy.",
    ]
    for island in deployment.islands:
        b = bounds[island.id]
        lines.append(f"{island.name}: {b.least} to {b.most} copies, {b.planned} planned.")
    growing = [island.gpu.name for island in deployment.islands if bounds[island.id].most > bounds[island.id].planned]
    for gpu in [gpu for gpu in dict.fromkeys(growing) if growing.count(gpu) > 1]:
        lines.append(f"{spare_gpus(plan, gpu)} spare {gpu} are in the bounds of several islands: not all fit at once.")
    lines.append("kubectl apply of an island's own file sets its copies back to the plan's.")
    return tuple(lines)
