"""Round Robin with its quanta: models take turns on places, for so long.

| symbol | meaning | unit |
|---|---|---|
| q | quantum, the same for all models | s |
| q_m | quantum of model m: `quantum_loads` of its load times, within shortest and longest, times f_m | s |
| f_m | feedback: at every unload times `longer` if m inferred for `busy_share` of its stay, else times `shorter` | 1 |

q_m is never below the model's load time.

Models take turns at being loaded: on an idle machine with a free place, else in the place of the idle machine whose
quantum ended first. A model whose own place has expired there has its quantum renewed instead.
1 `quantum`: an inference renews the quantum. 2 `starvation`: not in a circle, but first those with most starved
requests, then with fewest copies, and only those with requests or without a copy. 3 `model-quantum`: quanta by size
and use. 4 `deadline`: requests by deadline (the cluster sorts its queues so). An overdue model may take the place of
one that has outstayed its time, whatever its quantum (ours: quanta that inferences renew would never end).
"""

from collections.abc import Iterator, Sequence
from math import inf

from planner.studies.serving.policies.seam import Load, next_in_line
from planner.studies.serving.simulation.cluster import Cluster, Machine, Place


class Quanta:
    """Quanta of one run. `per_model`: by size and use; `renewed`: after every inference, too."""

    def __init__(self, cluster: Cluster, *, per_model: bool, renewed: bool) -> None:
        self._cluster, self._per_model, self._renewed = cluster, per_model, renewed
        self._factor = [1.0] * len(cluster.pool.models)

    def of(self, model: int, kind: int) -> float:
        """The model's quantum on a machine type (s)."""
        settings = self._cluster.settings
        if not self._per_model:
            return settings.quantum_s
        load_s = self._cluster.times.load_s[model][kind]
        quantum_s = self._clamped(settings.quantum_loads * load_s * self._factor[model])
        return max(quantum_s, load_s)

    def _clamped(self, seconds: float) -> float:
        settings = self._cluster.settings
        return min(max(seconds, settings.shortest_quantum_s), settings.longest_quantum_s)

    def begin(self, machine: Machine, place: Place, now: float) -> None:
        """A new quantum, whatever came before."""
        place.expires_s = now + self.of(place.model, machine.kind)

    def inferred(self, machine: Machine, place: Place, now: float) -> None:
        """A quantum that an inference renews."""
        if self._renewed:
            self.begin(machine, place, now)

    def unloaded(self, place: Place, now: float) -> None:
        """What a model's use says about its next quantum."""
        if not self._per_model or not place.ready:
            return
        settings = self._cluster.settings
        busy = place.busy_s >= settings.busy_share * (now - place.loaded_s)
        factor = self._factor[place.model] * (settings.longer if busy else settings.shorter)
        self._factor[place.model] = min(max(factor, _LEAST_FACTOR), 1 / _LEAST_FACTOR)


_LEAST_FACTOR = 0.01
"""Feedback stays within so much either way: a model's quantum can always come back."""


class RoundRobin:
    """One run's scheduler with so many of the `improvements`."""

    def __init__(self, cluster: Cluster, improvements: int = 0) -> None:
        self.cluster = cluster
        self.quanta = Quanta(cluster, per_model=improvements >= 3, renewed=improvements >= 1)
        self._renewed = improvements >= 1
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

    def due(self, machine: Machine, now: float) -> bool:
        """Whether a quantum that no inference renews has ended there."""
        return not self._renewed and any(place.expires_s <= now for place in machine.places)

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
