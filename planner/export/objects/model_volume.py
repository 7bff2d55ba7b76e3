"""A volume for the model's weights, shared by all pods, sized from the model; and where containers see weights.

symbol   meaning                                  unit   source
weights  bytes of the model's weights             GB     ModelSpec.weights_gb
MARGIN   tokenizer, configuration, a second copy  -      20 %, an assumption: downloads keep partial files
         of the largest shard while it loads
"""

import math
from typing import Any

from planner.domain import ModelSpec
from planner.export.islands import ServingIsland
from planner.export.objects.operating.weights import (
    MOUNT_PATH,
    VOLUME,
    Source,
    node_volume,
    reading_environment,
    weights_source,
)
from planner.export.seams import Deployment

_MARGIN = 1.2


def model_volume_gib(model: ModelSpec) -> int:
    """Size of a volume that holds the model (GiB, rounded up)."""
    return math.ceil(_MARGIN * model.weights_gb * 1e9 / 2**30)


def model_claim(deployment: Deployment) -> dict[str, Any]:
    """The claim that every pod mounts; many nodes read it."""
    size = f"{model_volume_gib(deployment.plan.scenario.model)}Gi"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": deployment.options.model_volume,
            "labels": {"app.kubernetes.io/part-of": deployment.name, "app.kubernetes.io/managed-by": "planner"},
        },
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": size}}},
    }


def model_volumes(deployment: Deployment) -> list[dict[str, Any]]:
    """Volumes of a pod that reads weights: the claim, or the node's folder; none where neither is asked for."""
    claim = deployment.options.model_volume
    if claim:
        return [{"name": VOLUME, "persistentVolumeClaim": {"claimName": claim}}]
    return [node_volume()] if _source(deployment) is Source.NODE else []


def model_mounts(island: ServingIsland, deployment: Deployment) -> list[dict[str, Any]]:
    """Where a container sees the volume: at the model's own path, or as the hub's cache."""
    if not model_volumes(deployment):
        return []
    path = island.weights if island.weights.startswith("/") else MOUNT_PATH
    read_only = _source(deployment) in (Source.JOB, Source.NODE)
    return [{"name": VOLUME, "mountPath": path} | ({"readOnly": True} if read_only else {})]


def model_environment(island: ServingIsland, deployment: Deployment) -> list[dict[str, Any]]:
    """Where the engine looks for weights, or keeps what it fetches."""
    return reading_environment(weights_source(island.weights, deployment.options), deployment.options)


def _source(deployment: Deployment) -> Source:
    return weights_source(deployment.islands[0].weights, deployment.options)
