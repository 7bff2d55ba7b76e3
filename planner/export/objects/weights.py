"""Who fetches the model's weights, and how an engine waits for them.

job    one Job fetches them into the claim of `model_volume`; engines mount it read-only and offline, and an init
       container waits until the Job has left its mark, so that objects may be applied in any order
node   an init container fetches them into a folder of the node, unless another pod of the node has or does
hub    every pod fetches for itself, into the claim where there is one
path   they are at a path: nobody fetches

A mark is a file that is made last, so that half of a repository is never taken for all of it. The token is a reference
to a Secret, in the containers that fetch alone.
Sources: huggingface_hub (HF_HOME, HF_HUB_OFFLINE, HF_TOKEN, snapshot_download); transformers (HF_MODULES_CACHE, where
it writes code of a repository). CPUs and memory of the containers that fetch are assumptions.

A volume for the model's weights, shared by all pods, sized from the model; and where containers see weights.

symbol   meaning                                  unit   source
weights  bytes of the model's weights             GB     ModelSpec.weights_gb
MARGIN   tokenizer, configuration, a second copy  -      20 %, an assumption: downloads keep partial files
         of the largest shard while it loads
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from planner.domain import ModelSpec
from planner.errors import InputError
from planner.export.islands import ServingIsland
from planner.export.objects.names import plan_labels
from planner.export.objects.security.exemptions import NODE_HOST_PATH, Exemption
from planner.export.objects.security.hardening import bounded, confined
from planner.export.options import TOKEN, ExportOptions, secret_of
from planner.export.seams import Deployment
from planner.export.templating import object_of

MOUNT_PATH = "/models"
VOLUME = "model"
MARKS = f"{MOUNT_PATH}/.planner-ready"
NODE_FOLDER = "/var/lib/planner-models"
OFFLINE, HOME = "HF_HUB_OFFLINE", "HF_HOME"
WAIT_COMMAND = ("sh", "-c", 'until [ -e "$1" ]; do echo "waiting for $1"; sleep 10; done', "wait")
_MODULES = "HF_MODULES_CACHE"
_LIMITS = {"cpu": 4, "memory": "16Gi"}
_WAIT_LIMITS = {"cpu": 1, "memory": "512Mi"}
_OTHER_FORMATS = ("original/*", "metal/*", "*.pth", "*.gguf", "*.onnx", "*.msgpack", "*.h5")
# sys.argv: the repository, the mark. The lock keeps pods of one node from fetching the same files at once.
FETCH_SCRIPT = f"""\
import fcntl, os, pathlib, sys
from huggingface_hub import snapshot_download
repository, mark = sys.argv[1], pathlib.Path(sys.argv[2])
mark.parent.mkdir(parents=True, exist_ok=True)
with open(mark.with_name(mark.name + ".lock"), "w") as lock:
    if "node" in sys.argv[3:]:
        fcntl.flock(lock, fcntl.LOCK_EX)
    if not mark.exists():
        snapshot_download(repository, ignore_patterns={list(_OTHER_FORMATS)})
        mark.touch()
"""


class Source(StrEnum):
    """Where a pod has the weights from."""

    JOB = "job"
    NODE = "node"
    HUB = "hub"
    PATH = "path"


def weights_source(weights: str, options: ExportOptions) -> Source:
    """Who fetches `weights`, a repository or a path.

    Raises:
        InputError: the options have somebody fetch what is at a path.
    """
    if weights.startswith("/"):
        if options.weights in (Source.JOB.value, Source.NODE.value) or options.hf_secret:
            raise InputError(
                f"deploy.weights: must be left out, and hf_secret, for a model at a path, got {weights!r}.",
                hint="Nobody fetches it: fill the path yourself, or give the model as hf://organisation/name.",
            )
        return Source.PATH
    if options.weights:
        return Source(options.weights)
    return Source.JOB if options.model_volume else Source.HUB


def mark_of(weights: str) -> str:
    """The file that says that all of a repository is there."""
    return f"{MARKS}/{weights.replace('/', '--')}"


def token_environment(options: ExportOptions) -> list[dict[str, Any]]:
    """The token by reference; empty where no Secret is named."""
    secret = secret_of(options)
    return [secret_variable(TOKEN, secret)] if secret else []


def secret_variable(variable: str, secret: tuple[str, str]) -> dict[str, Any]:
    """A variable with what a Secret (name, key) holds."""
    name, key = secret
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}


def reading_environment(source: Source, options: ExportOptions) -> list[dict[str, Any]]:
    """Where an engine looks for the weights."""
    home = [{"name": HOME, "value": MOUNT_PATH}]
    if source in (Source.JOB, Source.NODE):
        return [
            *home,
            {"name": OFFLINE, "value": "1"},
            {"name": _MODULES, "value": "/tmp/hf-modules"},  # noqa: S108  # in the container; the mount is read-only
        ]
    if source is Source.HUB:
        return [*(home if options.model_volume else []), *token_environment(options)]
    return []


def waiting(
    weights: str, options: ExportOptions, image: str, exemptions: Sequence[Exemption] = ()
) -> list[dict[str, Any]]:
    """Init containers that end once the weights are there; none where the engine sees to them. `exemptions`: of the
    image."""
    source = weights_source(weights, options)
    if source is Source.JOB:
        container = {
            "name": "wait-for-weights",
            "image": image,
            "command": [*WAIT_COMMAND, mark_of(weights)],
            "resources": bounded(_WAIT_LIMITS),
            "securityContext": confined(),  # a shell runs as anybody
            "volumeMounts": [{"name": VOLUME, "mountPath": MOUNT_PATH, "readOnly": True}],
        }
        return [container]
    return [fetching(weights, options, image, exemptions)] if source is Source.NODE else []


def fetching(weights: str, options: ExportOptions, image: str, exemptions: Sequence[Exemption] = ()) -> dict[str, Any]:
    """A container that fetches the weights once; `exemptions`: of the image."""
    by_node = weights_source(weights, options) is Source.NODE
    return {
        "name": "fetch-weights",
        "image": image,
        "command": ["python3", "-c", FETCH_SCRIPT, weights, mark_of(weights), *(["node"] if by_node else [])],
        "env": [
            {"name": HOME, "value": MOUNT_PATH},
            {"name": "TMPDIR", "value": MOUNT_PATH},
            *token_environment(options),
        ],
        "resources": bounded(_LIMITS),
        "securityContext": confined((*exemptions, NODE_HOST_PATH) if by_node else exemptions),
        "volumeMounts": [{"name": VOLUME, "mountPath": MOUNT_PATH}],
    }


def node_volume() -> dict[str, Any]:
    """The folder of the node that keeps the weights."""
    return {"name": VOLUME, "hostPath": {"path": NODE_FOLDER, "type": "DirectoryOrCreate"}}


def weights_note(weights: str, options: ExportOptions) -> str:
    """Who fetches, in words."""
    source = weights_source(weights, options)
    secret = secret_of(options)
    token = f" with the token of Secret {secret[0]}" if secret else ""
    return {
        Source.JOB: f"Weights: weights-job.yaml fetches them once into claim {options.model_volume}{token}; pods wait.",
        Source.NODE: f"Weights: the first pod of a node fetches them into {NODE_FOLDER}{token}; the others wait.",
        Source.HUB: f"Weights: every pod fetches them from the hub{token}.",
        Source.PATH: f"Weights: at {weights}, which nobody here fills.",
    }[source]


_MARGIN = 1.2


def model_volume_gib(model: ModelSpec) -> int:
    """Size of a volume that holds the model (GiB, rounded up)."""
    return math.ceil(_MARGIN * model.weights_gb * 1e9 / 2**30)


def model_claim(deployment: Deployment) -> dict[str, Any]:
    """The claim that every pod mounts; many nodes read it."""
    size = f"{model_volume_gib(deployment.plan.scenario.model)}Gi"
    name = deployment.options.model_volume
    return object_of("model-volume", name=name, labels=plan_labels(deployment.name), size=size)


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


def downloaded(deployment: Deployment) -> ModelSpec | None:
    """The model that each pod keeps for itself; None where a volume or a folder has it."""
    return None if model_volumes(deployment) or _source(deployment) is Source.PATH else deployment.plan.scenario.model


def _source(deployment: Deployment) -> Source:
    return weights_source(deployment.islands[0].weights, deployment.options)
