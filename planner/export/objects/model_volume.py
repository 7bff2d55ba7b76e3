"""A volume for the model's weights, shared by all pods, sized from the model.

symbol   meaning                                  unit   source
weights  bytes of the model's weights             GB     ModelSpec.weights_gb
MARGIN   tokenizer, configuration, a second copy  -      20 %, an assumption: downloads keep partial files
         of the largest shard while it loads
"""

import math
from typing import Any

from planner.domain import ModelSpec
from planner.export.islands import ServingIsland
from planner.export.seams import Deployment

MOUNT_PATH = "/models"
_MARGIN = 1.2
_VOLUME = "model"


def model_volume_gib(model: ModelSpec) -> int:
    """Size of a volume that holds the model (GiB, rounded up)."""
    return math.ceil(_MARGIN * model.weights_gb * 1e9 / 2**30)


def model_claim(deployment: Deployment) -> dict[str, Any]:
    """The claim that every pod mounts; many nodes read it, and the first pods fill it."""
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
    """Volumes of a pod that mounts the claim; none where no claim is asked for."""
    claim = deployment.options.model_volume
    return [{"name": _VOLUME, "persistentVolumeClaim": {"claimName": claim}}] if claim else []


def model_mounts(island: ServingIsland, deployment: Deployment) -> list[dict[str, Any]]:
    """Where a container sees the claim: at the model's own path, or as the hub's cache."""
    path = island.weights if island.weights.startswith("/") else MOUNT_PATH
    return [{"name": _VOLUME, "mountPath": path}] if deployment.options.model_volume else []


def model_environment(island: ServingIsland, deployment: Deployment) -> list[dict[str, Any]]:
    """Where the engine keeps what it downloads."""
    if not deployment.options.model_volume or island.weights.startswith("/"):
        return []
    return [{"name": "HF_HOME", "value": MOUNT_PATH}]
