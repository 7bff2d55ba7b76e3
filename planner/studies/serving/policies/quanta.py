"""How long a model stays on a machine under Round Robin.

| symbol | meaning | unit |
|---|---|---|
| q | quantum, the same for all models | s |
| q_m | quantum of model m: `quantum_loads` of its load times, within shortest and longest, times f_m | s |
| f_m | feedback: at every unload times `longer` if m inferred for `busy_share` of its stay, else times `shorter` | 1 |

q_m is never below the model's load time.
"""

from planner.studies.serving.simulation.cluster import Cluster
from planner.studies.serving.simulation.machines import Machine, Place


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
