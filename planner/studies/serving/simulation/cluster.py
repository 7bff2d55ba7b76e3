"""Machines, the requests that wait, and what a policy may do with both.

A queue gives its requests by arrival, or by deadline. `copies` count loads that are under way; `absent` are models
with requests and no copy.
"""

import heapq
from collections.abc import Sequence
from math import inf

import numpy as np

from planner.studies.serving.records import Absence, Action, MachineStatus, ServingPool, ServingRequest, ServingSettings
from planner.studies.serving.simulation.times import Stream, Times

READY = MachineStatus.READY


class Place:
    """A model on a machine. `loaded_s`: when its load ended; `expires_s`: end of its quantum, where policies have one.

    `passes` since then, `busy_s` in them. Not `ready` while it loads.
    """

    __slots__ = ("busy_s", "expires_s", "loaded_s", "model", "passes", "ready", "used_s")

    def __init__(self, model: int, now: float) -> None:
        self.model = model
        self.ready = False
        self.loaded_s = self.used_s = now
        self.expires_s = float("inf")
        self.passes = 0
        self.busy_s = 0.0


class Machine:
    """One machine. At most one action at a time: `action` on `place` with `requests` since `since_s`.

    `serial` numbers its actions, so that an event of one that was broken off is known. `inferred` since its last load.
    `reserve`: it sleeps when it is not needed.
    """

    __slots__ = (
        *("action", "idle_s", "inferred", "kind", "number", "place", "places", "requests", "reserve", "serial"),
        *("since_s", "status", "stream"),
    )

    def __init__(self, number: int, kind: int, status: MachineStatus) -> None:
        self.number, self.kind, self.status = number, kind, status
        self.reserve = status is MachineStatus.SLEEPING
        self.places: list[Place] = []
        self.action: Action | None = None
        self.place: Place | None = None
        self.requests: list[int] = []
        self.stream: Stream | None = None
        self.since_s = self.idle_s = 0.0
        self.inferred = False
        self.serial = 0

    @property
    def idle(self) -> bool:
        """Ready, and nothing to do."""
        return self.action is None and self.status is READY

    def holds(self, model: int) -> bool:
        """Whether the model is here, or is being loaded."""
        return any(place.model == model for place in self.places)


SLA_DRAW_S = (0.5, 1.0)
"""SLA = a draw from here, one a model, + 2 * inference time (the simulator's source)."""

SLA_INFERENCES = 2.0


class RequestBook:
    """Requests in order of arrival, as columns. `deadlines`: before their own, what a policy sorts by is not here."""

    def __init__(self, pool: ServingPool, requests: Sequence[ServingRequest], *, seed: int, starved_share: float):
        times = Times(pool)
        draws = draw_sla(len(pool.models), seed)
        self.requests = requests
        self.models = [request.model for request in requests]
        self.arrival_s = [request.arrival_s for request in requests]
        alone = _alone(pool, times, requests)
        self.work_s = alone
        stated_sla_s = [model.sla_s for model in pool.models]
        self.sla_s = [
            sla if (sla := stated_sla_s[model]) is not None else draws[model] + SLA_INFERENCES * seconds
            for model, seconds in zip(self.models, alone, strict=True)
        ]
        self.deadline_s = [arrival_s + sla for arrival_s, sla in zip(self.arrival_s, self.sla_s, strict=True)]
        self.starved_s = [
            arrival_s + starved_share * sla for arrival_s, sla in zip(self.arrival_s, self.sla_s, strict=True)
        ]


def draw_sla(models: int, seed: int) -> list[float]:
    """The drawn part of each model's SLA (s)."""
    return [float(value) for value in np.random.default_rng([seed, 1]).uniform(*SLA_DRAW_S, size=models)]


def _alone(pool: ServingPool, times: Times, requests: Sequence[ServingRequest]) -> list[float]:
    """Seconds of each request by itself; the same for all of a model that does not answer token by token."""
    fixed = [
        None if model.kind.by_token else times.alone_s(ServingRequest(arrival_s=0, model=place))
        for place, model in enumerate(pool.models)
    ]
    return [
        seconds if (seconds := fixed[request.model]) is not None else times.alone_s(request) for request in requests
    ]


GONE, WAITING, STARVED = 0, 1, 2


class Cluster:
    """Queues and machines of one run."""

    def __init__(
        self, pool: ServingPool, book: RequestBook, settings: ServingSettings, *, by_deadline: bool = False
    ) -> None:
        self.pool, self.book, self.settings = pool, book, settings
        self.times = Times(pool)
        models = len(pool.models)
        self.keys: Sequence[float] = book.deadline_s if by_deadline else book.arrival_s
        self.queues: list[list[tuple[float, int]]] = [[] for _ in range(models)]
        self.queued_s = [0.0] * models
        self.copies = [0] * models
        self.holders: list[list[Machine]] = [[] for _ in range(models)]
        self.absent: set[int] = set()
        self.waiting = 0
        self._turn = [0] * models
        self._young: list[list[tuple[float, int]]] = [[] for _ in range(models)]
        self._starved = [0] * models
        self._state = bytearray(len(book.models))
        self.machines = [
            Machine(number, kind, status) for number, (kind, status) in enumerate(_machines(pool, self.times))
        ]

    def push(self, request: int) -> None:
        """A request waits."""
        model = self.book.models[request]
        heapq.heappush(self.queues[model], (self.keys[request], request))
        heapq.heappush(self._young[model], (self.book.starved_s[request], request))
        self._state[request] = WAITING
        self.queued_s[model] += self.book.work_s[request]
        self.waiting += 1
        if not self.copies[model]:
            self.absent.add(model)

    def pop(self, model: int) -> int:
        """The next request of a model's queue."""
        queue = self.queues[model]
        _, request = heapq.heappop(queue)
        self._starved[model] -= self._state[request] == STARVED
        self._state[request] = GONE
        self.waiting -= 1
        if queue:
            self.queued_s[model] -= self.book.work_s[request]
        else:
            self.queued_s[model] = 0.0
            self._young[model].clear()
        return request

    def starved(self, model: int, now: float) -> int:
        """Requests of a queue whose age is above the share of their SLA. `_young` may hold some that have gone."""
        young, state = self._young[model], self._state
        while young and young[0][0] <= now:
            _, request = heapq.heappop(young)
            if state[request] == WAITING:
                state[request] = STARVED
                self._starved[model] += 1
        return self._starved[model]

    def head_starved(self, model: int, now: float) -> bool:
        """Whether the first of a queue is starved."""
        return self.book.starved_s[self.queues[model][0][1]] <= now

    def overdue(self, now: float) -> list[int]:
        """Models on no machine whose first request waits for longer than others may stay because of it."""
        if not self.absent:
            return []
        limit, arrival_s = now - self.settings.overdue_s, self.book.arrival_s
        return sorted(model for model in self.absent if arrival_s[self.queues[model][0][1]] <= limit)

    def without_idle_copy(self) -> set[int]:
        """Models that wait and are on no idle machine, with no load under way, or fewer than requests (`each`)."""
        each = self.settings.absence is Absence.EACH
        return {
            model
            for model, queue in enumerate(self.queues)
            if (len(queue) if each else min(1, len(queue))) > self.copies[model] - len(self.holders[model])
            and not any(machine.idle for machine in self.holders[model])
        }

    def most_residence_s(self, model: int, kind: int) -> float:
        """How long a model may stay on such a machine while another waits for a place."""
        loads_s = self.settings.residence_loads * self.times.load_s[model][kind]
        return max(self.settings.most_residence_s, loads_s)

    def idle_machines(self) -> list[Machine]:
        """Those that a load may start on, by number."""
        return [machine for machine in self.machines if machine.action is None and machine.status is READY]

    def fastest_first(self, machines: Sequence[Machine], model: int) -> Sequence[Machine]:
        """Machines by the model's pace on their type, then as they come (the thesis has one type alone)."""
        if len(self.pool.types) == 1:
            return machines
        return sorted(machines, key=lambda machine: self.times.pace_s(model, machine.kind))

    def idle_holder(self, model: int) -> Machine | None:
        """An idle machine that has the model, of the type that is fastest at it; machines alike take turns."""
        holders, turn = self.holders[model], self._turn[model]
        alike = len(self.pool.types) == 1
        best, best_s = None, inf
        for step in range(turn, turn + len(holders)):
            machine = holders[step % len(holders)]
            if machine.idle and (alike or self.times.pace_s(model, machine.kind) < best_s):
                best, best_s = machine, self.times.pace_s(model, machine.kind)
                self._turn[model] = (step + 1) % len(holders)
                if alike:
                    break
        return best

    def joinable(self, model: int, now: float) -> Machine | None:
        """Of the machines whose running batch takes another request of the model, the one with the shortest step."""
        machines = [machine for machine in self.holders[model] if self.admits(machine, model, now)]
        return min(machines, key=lambda machine: machine.stream.step_s if machine.stream else inf, default=None)

    def admits(self, machine: Machine, model: int, now: float) -> bool:
        """Whether a running batch takes another request of the model.

        Not while a request of the machine's other models is starved, nor beyond the model's longest stay while a model
        that is on no machine is overdue: a batch that is always joined would never end.
        """
        place, stream = machine.place, machine.stream
        if stream is None or place is None or place.model != model or not stream.has_room:
            return False
        others = (other.model for other in machine.places if other is not place)
        if any(self.queues[other] and self.head_starved(other, now) for other in others):
            return False
        return not (self.overdue(now) and now - place.loaded_s >= self.most_residence_s(model, machine.kind))

    def protected(self, place: Place) -> bool:
        """A model that was loaded for requests and has not served any of them yet stays."""
        return not place.ready or (place.passes == 0 and bool(self.queues[place.model]))

    def victims(self, machine: Machine, model: int, order: Sequence[Place]) -> list[Place] | None:
        """The first of `order` that must go for `model` to fit on an idle machine; None where it cannot."""
        kind = self.pool.types[machine.kind]
        slots = kind.slots - len(machine.places)
        if slots + len(order) < 1 or machine.holds(model) or not self.times.runs(model, machine.kind):
            return None
        room_mb = needed_mb = 0.0
        if kind.memory_mb is not None:
            needed_mb = self.times.memory_mb(model, machine.kind)
            room_mb = kind.memory_mb - sum(self.times.memory_mb(place.model, machine.kind) for place in machine.places)
        chosen: list[Place] = []
        for place in order:
            if slots >= 1 and room_mb >= needed_mb:
                break
            chosen.append(place)
            slots += 1
            room_mb += self.times.memory_mb(place.model, machine.kind)
        return chosen if slots >= 1 and room_mb >= needed_mb else None

    def add(self, machine: Machine, place: Place) -> None:
        """A load begins."""
        machine.places.append(place)
        self.copies[place.model] += 1
        self.absent.discard(place.model)

    def drop(self, machine: Machine, place: Place) -> None:
        """A model goes from a machine, or its load is broken off."""
        machine.places.remove(place)
        if place.ready:
            self.holders[place.model].remove(machine)
        self.copies[place.model] -= 1
        if not self.copies[place.model] and self.queues[place.model]:
            self.absent.add(place.model)


def _machines(pool: ServingPool, times: Times) -> list[tuple[int, MachineStatus]]:
    listed = []
    for kind, row in enumerate(pool.types):
        usable = any(times.runs(model, kind) for model in range(len(pool.models)))
        ready = MachineStatus.READY if usable else MachineStatus.INVALID
        listed += [(kind, ready)] * row.machines + [(kind, MachineStatus.SLEEPING if usable else ready)] * row.reserve
    return listed
