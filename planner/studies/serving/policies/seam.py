"""What a policy of serving is, and the inferences that all of them begin alike.

Starved requests come first, then all, within each by arrival (or deadline, as the queues are sorted). Requests that may
join a running batch do so when they come (the second phase of three), and when one leaves it.
"""

from dataclasses import dataclass
from typing import Protocol

from planner.studies.serving.simulation.cluster import Cluster, Machine, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Load `model` on an idle machine; the models of `replaces` are unloaded for it."""

    machine: Machine
    model: int
    replaces: tuple[Place, ...] = ()


class Scheduler(Protocol):
    """A policy of one run. `wake_s`: when it wants to be asked for loads though nothing happens by then."""

    @property
    def wake_s(self) -> float:
        """Seconds; infinite: never."""

    def load(self, now: float) -> Load | None:
        """The next load to begin now; asked until there is none."""

    def due(self, machine: Machine, now: float) -> bool:
        """Whether a load may come before the machine's waiting requests, where `quanta_first`."""

    def pick(self, machine: Machine, now: float) -> tuple[Place, int] | None:
        """Which of an idle machine's models serves next, and at most how many requests at once."""

    def loaded(self, machine: Machine, place: Place, now: float) -> None:
        """A load has ended."""

    def inferred(self, machine: Machine, place: Place, now: float) -> None:
        """An inference has ended."""

    def unloaded(self, machine: Machine, place: Place, now: float) -> None:
        """A model goes from a machine."""


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
