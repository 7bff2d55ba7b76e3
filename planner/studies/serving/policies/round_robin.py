"""Round Robin and its four cumulative improvements (section 4.2.3 of the thesis).

Models take turns at being loaded: on an idle machine with a free place, else in the place of the idle machine whose
quantum ended first. A model whose own place has expired there has its quantum renewed instead.
1 `quantum`: an inference renews the quantum. 2 `starvation`: not in a circle, but first those with most starved
requests, then with fewest copies, and only those with requests or without a copy. 3 `model-quantum`: quanta by size
and use. 4 `deadline`: requests by deadline (the cluster sorts its queues so). An overdue model may take the place of
one that has outstayed its time, whatever its quantum (ours: quanta that inferences renew would never end).
"""

from collections.abc import Iterator, Sequence
from math import inf

from planner.studies.serving.policies.inference import next_in_line
from planner.studies.serving.policies.quanta import Quanta
from planner.studies.serving.policies.seam import Load
from planner.studies.serving.simulation.cluster import Cluster
from planner.studies.serving.simulation.machines import Machine, Place


class RoundRobin:
    """One run's scheduler with so many of the `improvements`."""

    def __init__(self, cluster: Cluster, improvements: int = 0) -> None:
        self.cluster = cluster
        self.quanta = Quanta(cluster, per_model=improvements >= 3, renewed=improvements >= 1)
        self._by_starvation = improvements >= 2
        self._pointer = 0
        self.wake_s = 0.0

    def load(self, now: float) -> Load | None:
        """For the model whose turn it is."""
        machines = self.cluster.idle_machines()
        types = self.cluster.pool.types
        roomy = [machine for machine in machines if len(machine.places) < types[machine.kind].slots]
        for model in self.cluster.overdue(now):
            load = self._place(model, roomy, self._outstayed(machines, now), now)
            if load is not None:
                return load
        expired = self._expired(machines, now)
        if roomy or expired:
            for model in self._turns(now):
                load = self._place(model, roomy, expired, now)
                if load is not None:
                    return load
        self.wake_s = min(
            (place.expires_s for machine in machines for place in machine.places if place.expires_s > now), default=inf
        )
        return None

    def _expired(self, machines: Sequence[Machine], now: float) -> list[tuple[float, Machine, Place]]:
        """Places whose quantum has ended, the first to end first."""
        rows = [
            (place.expires_s, machine, place)
            for machine in machines
            for place in machine.places
            if place.expires_s <= now and not self.cluster.protected(place)
        ]
        return sorted(rows, key=lambda row: row[0])

    def _outstayed(self, machines: Sequence[Machine], now: float) -> list[tuple[float, Machine, Place]]:
        """Places that have been held for as long as one may while another model waits for any, the longest first."""
        longest_s = self.cluster.most_residence_s
        rows = [
            (place.loaded_s, machine, place)
            for machine in machines
            for place in machine.places
            if now - place.loaded_s >= longest_s(place.model, machine.kind) and not self.cluster.protected(place)
        ]
        return sorted(rows, key=lambda row: row[0])

    def _turns(self, now: float) -> Iterator[int]:
        """Models in the order of their turns; whoever goes through them stops at the one that is loaded."""
        if self._by_starvation:
            yield from self._starving(now)
            return
        for _ in range(len(self.cluster.pool.models)):
            yield self._pointer

    def _starving(self, now: float) -> list[int]:
        cluster = self.cluster
        models = [model for model, queue in enumerate(cluster.queues) if queue or not cluster.copies[model]]
        keys = {model: (-cluster.starved(model, now), cluster.copies[model], model) for model in models}
        return sorted(models, key=keys.__getitem__)

    def _place(
        self, model: int, roomy: Sequence[Machine], expired: Sequence[tuple[float, Machine, Place]], now: float
    ) -> Load | None:
        """A load of the model, or its quantum renewed, which passes the turn on."""
        for machine in self.cluster.fastest_first(roomy, model):
            victims = self.cluster.victims(machine, model, ())
            if victims is not None:
                return self._turned(Load(machine=machine, model=model))
        for _, machine, place in expired:
            if place.model == model:
                self.quanta.begin(machine, place, now)
                self._pass_on()
                return None
            order = [place, *(other for _, host, other in expired if host is machine and other is not place)]
            victims = self.cluster.victims(machine, model, order)
            if victims is not None:
                return self._turned(Load(machine=machine, model=model, replaces=tuple(victims)))
        return None

    def _turned(self, load: Load) -> Load:
        self._pass_on()
        return load

    def _pass_on(self) -> None:
        self._pointer = (self._pointer + 1) % len(self.cluster.pool.models)

    def pick(self, machine: Machine, now: float) -> tuple[Place, int] | None:
        """Starved requests first, then by arrival, or by deadline."""
        return next_in_line(self.cluster, machine, now)

    def loaded(self, machine: Machine, place: Place, now: float) -> None:
        """A quantum begins."""
        self.quanta.begin(machine, place, now)

    def inferred(self, machine: Machine, place: Place, now: float) -> None:
        """It may be renewed."""
        self.quanta.inferred(machine, place, now)

    def unloaded(self, machine: Machine, place: Place, now: float) -> None:  # noqa: ARG002  # the seam's
        """Its length may change."""
        self.quanta.unloaded(place, now)
