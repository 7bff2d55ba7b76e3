"""Policies by name; a row is all that a new one needs here.

Baseline, modified (sections 4.2.1 and 4.2.2 of the thesis): a model is loaded when it is asked for and nowhere.

It never makes a second copy of a model, unless `absence` takes "nowhere" for on no idle machine. A machine may be
reloaded once it has inferred since its last load, or has been idle for `idle_s`. Of idle machines the first that may be
reloaded is taken, faster types before slower ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from types import MappingProxyType

from planner.errors import InputError
from planner.studies.serving.policies.clockwork import Clockwork
from planner.studies.serving.policies.round_robin import RoundRobin
from planner.studies.serving.policies.seam import Load, Scheduler, next_in_line
from planner.studies.serving.records import Absence, VictimOrder
from planner.studies.serving.simulation.cluster import Cluster, Machine, Place


class Baseline:
    """One run's scheduler."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.wake_s = inf

    def load(self, now: float) -> Load | None:
        """For the model on no machine whose first request came first."""
        self.wake_s = inf
        cluster = self.cluster
        absent = cluster.absent if cluster.settings.absence is Absence.NOWHERE else cluster.without_idle_copy()
        if not absent:
            return None
        machines = cluster.idle_machines()
        for model in sorted(absent, key=lambda model: cluster.queues[model][0]):
            for machine in cluster.fastest_first(machines, model):
                free_s = self._free_s(machine)
                if free_s > now:
                    self.wake_s = min(self.wake_s, free_s)
                    continue
                order = sorted(
                    (place for place in machine.places if not cluster.protected(place)), key=self._order(machine)
                )
                victims = cluster.victims(machine, model, order)
                if victims is not None:
                    return Load(machine=machine, model=model, replaces=tuple(victims))
        return None

    def _free_s(self, machine: Machine) -> float:
        """From when on a machine may be reloaded."""
        if machine.inferred or not machine.places:
            return 0.0
        return machine.idle_s + self.cluster.settings.idle_s

    def _order(self, machine: Machine) -> Callable[[Place], float]:
        orders: dict[VictimOrder, Callable[[Place], float]] = {
            VictimOrder.LRU: lambda place: place.used_s,
            VictimOrder.OLDEST: lambda place: place.loaded_s,
            VictimOrder.LARGEST: lambda place: -self.cluster.times.memory_mb(place.model, machine.kind),
        }
        return orders[self.cluster.settings.victims]

    def due(self, machine: Machine, now: float) -> bool:  # noqa: ARG002  # the seam's
        """It has no quanta."""
        return False

    def pick(self, machine: Machine, now: float) -> tuple[Place, int] | None:
        """Starved requests first, then by arrival."""
        return next_in_line(self.cluster, machine, now)

    def loaded(self, machine: Machine, place: Place, now: float) -> None:  # noqa: ARG002  # the seam's
        """One load at a time: the model's next one may begin."""
        if self.cluster.settings.absence is Absence.NO_IDLE:
            self.wake_s = now

    def inferred(self, machine: Machine, place: Place, now: float) -> None:
        """Nothing to remember."""

    def unloaded(self, machine: Machine, place: Place, now: float) -> None:
        """Nothing to remember."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """`title` in figures; `by_deadline`: queues are sorted by deadline, not by arrival."""

    name: str
    title: str
    make: Callable[[Cluster], Scheduler]
    by_deadline: bool = False


_ROWS = (
    PolicyRow(name="baseline", title="Baseline", make=Baseline),
    PolicyRow(name="clockwork", title="Clockwork", make=Clockwork),
    PolicyRow(name="rr", title="Round Robin", make=RoundRobin),
    PolicyRow(name="rr-quantum", title="RR, quantum logic", make=partial(RoundRobin, improvements=1)),
    PolicyRow(name="rr-starvation", title="RR, starvation tracking", make=partial(RoundRobin, improvements=2)),
    PolicyRow(name="rr-model-quantum", title="RR, quantum per model", make=partial(RoundRobin, improvements=3)),
    PolicyRow(name="rr-deadline", title="RR, deadlines", make=partial(RoundRobin, improvements=4), by_deadline=True),
)
POLICIES = MappingProxyType({row.name: row for row in _ROWS})


def parse_serving_policy(text: str) -> PolicyRow:
    """The policy of that name. InputError: another name."""
    row = POLICIES.get(text.strip().lower())
    if row is None:
        raise InputError(
            f"policy: must be one of {', '.join(POLICIES)}, got {text!r:.80}.", hint="Choose one of these names."
        )
    return row
