"""Which request an idle machine serves next, as Baseline and Round Robin have it (section 4.2.1 of the thesis).

Starved requests come first, then all, within each by arrival (or deadline, as the queues are sorted). Requests that may
join a running batch do so when they come (the second phase of three), and when one leaves it.
"""

from planner.studies.serving.simulation.cluster import Cluster
from planner.studies.serving.simulation.machines import Machine, Place


def next_in_line(cluster: Cluster, machine: Machine, now: float) -> tuple[Place, int] | None:
    """The model whose first request comes first, and how many of its requests at once; None where none waits."""
    queues = cluster.queues
    waiting = [place for place in machine.places if place.ready and queues[place.model]]
    if not waiting:
        return None
    if len(waiting) == 1:
        return waiting[0], at_once(cluster, machine, waiting[0])
    place = min(waiting, key=lambda place: (not cluster.head_starved(place.model, now), queues[place.model][0]))
    return place, at_once(cluster, machine, place)


def at_once(cluster: Cluster, machine: Machine, place: Place) -> int:
    """Requests that the machine may serve together."""
    times = cluster.times.of[place.model][machine.kind]
    return times.most_batch if times is not None and cluster.pool.models[place.model].kind.in_batches else 1
