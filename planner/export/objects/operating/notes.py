"""The comments that tell an operator what to expect of an island's pods."""

from planner.export.islands import ServingIsland
from planner.export.objects.operating.draining import drain_note
from planner.export.objects.operating.network import network_notes
from planner.export.objects.operating.probes import probe_note
from planner.export.objects.operating.weights import weights_note
from planner.export.seams import Deployment


def operating_notes(island: ServingIsland, deployment: Deployment) -> tuple[str, ...]:
    """How the pods of `island` start and end, who fetches their weights, what their namespace has to allow."""
    return (
        probe_note(island, deployment),
        *_worker_notes(island),
        drain_note(island, deployment),
        weights_note(island.weights, deployment.options),
        *network_notes(island, deployment),
    )


def _worker_notes(island: ServingIsland) -> tuple[str, ...]:
    if island.grouping.pods == 1:
        return ()
    return ("Workers of a group answer no HTTP and have no probes; they stay until the leader's requests are done.",)
