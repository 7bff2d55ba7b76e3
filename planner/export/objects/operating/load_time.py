"""How long a pod takes from its start until its engine answers.

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

from planner.export.islands import ServingIsland
from planner.export.objects.operating.weights import Source, weights_source
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
