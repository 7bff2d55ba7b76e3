"""Clockwork's scheduling with the thesis' unloading (section 4.2.4; Gujarati et al., OSDI 2020).

| symbol | meaning | unit |
|---|---|---|
| demand_m | work in the queue of model m | s |
| n_m | copies of m | 1 |
| load_g | sum over the models m on machine g of demand_m / n_m | s |
| H | capacity of a machine (`horizon_s`) | s |
| priority_m | demand_m - sum over the machines g with m of demand_m / n_m * min(1, H / load_g) | s |

The model of highest positive priority is loaded on an idle machine. Unloaded is the one whose priority without that
copy would be lowest, and only if it is below the priority of the model to be loaded. An overdue model goes first, and
unloads whatever has the lowest priority.
"""

from collections.abc import Sequence
from math import inf

from planner.studies.serving.policies.seam import Load, at_once
from planner.studies.serving.simulation.cluster import Cluster, Machine, Place


class Clockwork:
    """One run's scheduler. Loads are planned every `period_s` while requests wait beside an idle machine."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.wake_s = inf
        self._next_s = 0.0

    def load(self, now: float) -> Load | None:
        """The load of highest priority that displaces nothing more urgent."""
        cluster = self.cluster
        self.wake_s = inf
        if not cluster.waiting or not (machines := cluster.idle_machines()):
            return None
        overdue = cluster.overdue(now)
        if now < self._next_s and not overdue:
            self.wake_s = self._next_s
            return None
        board = Priorities(cluster)
        ranked = sorted((-board.priority(model), model) for model, queue in enumerate(cluster.queues) if queue)
        for priority, model in [(-inf, model) for model in overdue] + [row for row in ranked if row[0] < 0]:
            load = self._place(model, -priority, machines, board)
            if load is not None:
                self._next_s = now + cluster.settings.period_s
                return load
        self.wake_s = self._next_s = now + cluster.settings.period_s
        return None

    def _place(self, model: int, priority: float, machines: Sequence[Machine], board: "Priorities") -> Load | None:
        """On a machine with room, else where the least is displaced."""
        lowest = priority
        used_s = inf
        chosen: Load | None = None
        for machine in self.cluster.fastest_first(machines, model):
            rows = sorted(
                (board.without(place, machine), place.used_s, number, place)
                for number, place in enumerate(machine.places)
                if not self.cluster.protected(place)
            )
            victims = self.cluster.victims(machine, model, [row[-1] for row in rows])
            if victims is None:
                continue
            load = Load(machine=machine, model=model, replaces=tuple(victims))
            if not victims:
                return load
            last = rows[len(victims) - 1]
            if (last[0], last[1]) < (lowest, used_s) and last[0] < priority:
                lowest, used_s, chosen = last[0], last[1], load
        return chosen

    def due(self, machine: Machine, now: float) -> bool:  # noqa: ARG002  # the seam's
        """It has no quanta."""
        return False

    def pick(self, machine: Machine, now: float) -> tuple[Place, int] | None:
        """The strategy (model and batch) that must begin first to keep its deadline.

        The batch is the largest that still keeps the first request's deadline, or all that may go together where none
        keeps it.
        """
        waiting = [place for place in machine.places if place.ready and self.cluster.queues[place.model]]
        best: tuple[float, Place, int] | None = None
        for place in waiting:
            deadline_s = self.cluster.book.deadline_s[self.cluster.queues[place.model][0][1]]
            size, batch_s = self._batch(machine, place, deadline_s - now)
            if best is None or deadline_s - batch_s < best[0]:
                best = (deadline_s - batch_s, place, size)
        return None if best is None else best[1:]

    def _batch(self, machine: Machine, place: Place, left_s: float) -> tuple[int, float]:
        """Requests of a strategy and their time (s)."""
        cluster = self.cluster
        queue = cluster.queues[place.model]
        largest = min(len(queue), at_once(cluster, machine, place))
        if largest == 1:
            return 1, cluster.times.batch_s(place.model, machine.kind, (cluster.book.requests[queue[0][1]],))
        rows = [cluster.book.requests[request] for _, request in sorted(queue)[:largest]]
        sizes = [largest] if cluster.pool.models[place.model].kind.joins else [*range(largest, 0, -1)]
        times_s = {size: cluster.times.batch_s(place.model, machine.kind, rows[:size]) for size in sizes}
        size = next((size for size in sizes if times_s[size] <= left_s), largest)
        return size, times_s[size]

    def loaded(self, machine: Machine, place: Place, now: float) -> None:
        """Nothing to remember."""

    def inferred(self, machine: Machine, place: Place, now: float) -> None:
        """Nothing to remember."""

    def unloaded(self, machine: Machine, place: Place, now: float) -> None:
        """Nothing to remember."""


class Priorities:
    """Demand of the models and load of the machines at one moment."""

    def __init__(self, cluster: Cluster) -> None:
        self.demand_s = cluster.queued_s
        self.copies = cluster.copies
        self.horizon_s = cluster.settings.horizon_s
        self.hosts: list[list[Machine]] = [[] for _ in cluster.queues]
        self.load_s = [0.0] * len(cluster.machines)
        for machine in cluster.machines:
            for place in machine.places:
                demand_s = self.demand_s[place.model]
                if demand_s:
                    self.load_s[machine.number] += demand_s / self.copies[place.model]
                    self.hosts[place.model].append(machine)

    def priority(self, model: int) -> float:
        """The model's, as things are (s)."""
        return self._unserved_s(model, self.hosts[model])

    def without(self, place: Place, machine: Machine) -> float:
        """The model's if its copy on `machine` went (s)."""
        return self._unserved_s(place.model, [host for host in self.hosts[place.model] if host is not machine])

    def _unserved_s(self, model: int, hosts: Sequence[Machine]) -> float:
        """Demand that these machines cannot serve within their capacity. Loads of machines stay as they are."""
        demand_s = self.demand_s[model]
        if not hosts or not demand_s:
            return demand_s
        share_s = demand_s / len(hosts)
        capacities = (min(1.0, self.horizon_s / self.load_s[host.number]) for host in hosts)  # its own demand is in it
        return demand_s - share_s * sum(capacities)
