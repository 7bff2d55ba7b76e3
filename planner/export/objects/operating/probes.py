"""Probes of the pods that answer HTTP, all on the engine's own health path.

symbol   meaning                                         unit   source
T        load time                                       s      `load_time`
PERIOD   between two questions                           s      10, Kubernetes' default
F        failures until a start is given up              -      ceil(ROOM T / PERIOD)
ROOM     times that the estimate fits into the budget    -      2: an estimate can be off, and a start that is given up
                                                                begins anew
ALIVE    failures until a pod that served is restarted   -      6: a minute without an answer; a long step answers late

The startup probe keeps the others off until it has passed, so that nothing kills an engine that loads. A pod that is
not ready gets no requests; one whose liveness fails is started anew. Workers of a group answer no HTTP and have none:
the set starts a group anew when one of its pods ends. Where ranks are endpoints, workers answer as leaders do; a pod of
several ranks has one port that answers for all of them, first once all serve, and its engine ends where one is lost.

How long a pod takes from its start until its engine answers.

symbol   meaning                                       unit   source
W        the model's weights, read whole by a pod      GB     ModelSpec.weights_gb: all ranks of a pod open every file,
                                                              and the page cache keeps what one of them has read
b        what a pod reads at                           GB/s   deploy.load_gb_per_s
r        times that a pod moves the weights            -      2 where it fetches and then reads them (hub), else 1: what
                                                              an init container waits for is before the probe begins
START_S  graphs, kernels and warm-up of the engine     s      300, an assumption: half of the 10 minutes that KServe's
                                                              presets give the whole start (kserve pull request 5063)
T        load time = r W / b + START_S                 s
"""

import math
from typing import Any

from planner.export.engines.seam import Launch
from planner.export.islands import ServingIsland
from planner.export.objects.weights import Source, weights_source
from planner.export.seams import Deployment

START_S = 300
_ANNOTATION = "planner/load-seconds"


def load_seconds(island: ServingIsland, deployment: Deployment) -> float:
    """Estimated seconds from the start of a pod's engine until it serves."""
    moves = 2 if weights_source(island.weights, deployment.options) is Source.HUB else 1
    return moves * island.model.weights_gb / deployment.options.load_gb_per_s + START_S


def load_time_annotation(island: ServingIsland, deployment: Deployment) -> dict[str, str]:
    """The estimate on the object that runs the island (s, whole), for checks that know neither storage nor options."""
    return {_ANNOTATION: str(math.ceil(load_seconds(island, deployment)))}


ROOM = 2
_PERIOD_S, _READY, _ALIVE, _TIMEOUT_S = 10, 3, 6, 5


def startup_failures(island: ServingIsland, deployment: Deployment) -> int:
    """How often the startup probe may fail."""
    return math.ceil(ROOM * load_seconds(island, deployment) / _PERIOD_S)


def probes(island: ServingIsland, deployment: Deployment, launch: Launch) -> dict[str, Any]:
    """The three probes of a container, at the port whose answer stands for all of it."""
    return {
        "readinessProbe": _probe(launch, _READY),
        "startupProbe": _probe(launch, startup_failures(island, deployment)),
        "livenessProbe": _probe(launch, _ALIVE),
    }


def startup_budget(island: ServingIsland, deployment: Deployment) -> dict[str, int]:
    """The startup probe's patience alone, where a preset has the rest of it."""
    return {"periodSeconds": _PERIOD_S, "failureThreshold": startup_failures(island, deployment)}


def probe_note(island: ServingIsland, deployment: Deployment) -> str:
    """The budget in words."""
    load, failures = load_seconds(island, deployment), startup_failures(island, deployment)
    return (
        f"Start: about {load:.0f} s ({island.model.weights_gb:.0f} GB at {deployment.options.load_gb_per_s:g} GB/s and "
        f"the engine's own start); the startup probe waits {failures * _PERIOD_S} s, {ROOM} times that."
    )


def _probe(launch: Launch, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": launch.health_path, "port": launch.probed},
        "periodSeconds": _PERIOD_S,
        "timeoutSeconds": _TIMEOUT_S,
        "failureThreshold": failures,
    }
