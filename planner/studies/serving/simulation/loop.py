"""The event loop: requests come, actions end, schedulers are asked.

At one time requests come first, then actions end, then schedulers that asked to be woken are. A request starts at once
where it may join a running batch or a machine that has its model is idle; else it queues. Loads are planned only when a
machine becomes idle, when a request had to queue beside an idle machine, and when the scheduler is woken.
"""

import heapq
from collections.abc import Callable
from math import inf

from planner.errors import InconsistentPlanError, SolverError
from planner.studies.serving.policies.seam import Load, Scheduler
from planner.studies.serving.records import Action, MachineStatus
from planner.studies.serving.simulation.cluster import Cluster, Machine, Place
from planner.studies.serving.simulation.log import Log
from planner.studies.serving.simulation.times import Stream, prompt_s

Timer = Callable[[float], None]
REPORTS = 100


class Simulation:
    """A run in virtual time. `at` sets what happens to machines beside their actions (scaling, outages)."""

    def __init__(self, cluster: Cluster, scheduler: Scheduler) -> None:
        self.cluster, self.scheduler = cluster, scheduler
        self.log = Log(cluster.book)
        self.served = 0
        self._events: list[tuple[float, int, int]] = []
        self._timers: list[tuple[float, int, Timer]] = []
        self._set = 0
        self._joins = [model.kind.joins for model in cluster.pool.models]

    def at(self, time_s: float, timer: Timer) -> None:
        """Have `timer` called with the time when it has come."""
        heapq.heappush(self._timers, (time_s, self._set, timer))
        self._set += 1

    def run(self, progress: Callable[[float], None] = lambda _: None) -> None:
        """Until every request is answered. `progress` hears the share of them now and then."""
        arrival_s = self.cluster.book.arrival_s
        total, position = len(arrival_s), 0
        report = max(1, total // REPORTS)
        events, timers, scheduler = self._events, self._timers, self.scheduler
        late_start_s = self.cluster.settings.late_start_s
        now = 0.0
        self.plan(now)
        while self.served < total:
            came_s = max(late_start_s, arrival_s[position]) if position < total else inf
            end_s = events[0][0] if events else inf
            timer_s = timers[0][0] if timers else inf
            wake_s = max(now, scheduler.wake_s)
            now = min(came_s, end_s, timer_s, wake_s)
            if now == inf:
                raise _stalled(self.cluster.waiting)
            if came_s == now:
                self._arrive(position, now)
                position += 1
                if position % report == 0:
                    progress(self.served / total)
            elif end_s == now:
                self._end(*heapq.heappop(events))
            elif timer_s == now:
                heapq.heappop(timers)[2](now)
            else:
                self.plan(now)
        self._close(now)

    def _arrive(self, request: int, now: float) -> None:
        cluster = self.cluster
        model = cluster.book.models[request]
        cluster.push(request)
        if len(cluster.queues[model]) == 1:
            if self._joins[model] and (running := cluster.joinable(model, now)):
                self._join(running, model, now)
                return
            holder = cluster.idle_holder(model)
            if holder is not None and self.infer(holder, now):
                return
        if cluster.idle_machines():
            self.plan(now)

    def _end(self, now: float, number: int, serial: int) -> None:
        machine = self.cluster.machines[number]
        if machine.serial != serial:
            return  # broken off, or a batch that was joined since
        place = machine.place
        if place is None:
            raise InconsistentPlanError("serving: an action ended on no model.", hint="Report it.")
        if machine.action is Action.LOAD:
            self._loaded(machine, place, now)
        elif machine.stream is not None:
            self._leave(machine, place, machine.stream, now)
        else:
            self._answered(machine, place, now)

    def _loaded(self, machine: Machine, place: Place, now: float) -> None:
        self.log.act(machine, Action.LOAD, machine.since_s, now)
        place.ready, place.loaded_s, place.used_s = True, now, now
        machine.inferred = False
        self.cluster.holders[place.model].append(machine)
        self.scheduler.loaded(machine, place, now)
        self.go_on(machine, now)

    def _answered(self, machine: Machine, place: Place, now: float) -> None:
        self.log.act(machine, Action.INFER, machine.since_s, now)
        for request in machine.requests:
            self.log.finish_s[request] = now
        self.served += len(machine.requests)
        self._passed(machine, place, now)

    def _passed(self, machine: Machine, place: Place, now: float) -> None:
        place.passes += 1
        place.busy_s += now - machine.since_s
        place.used_s = now
        machine.inferred = True
        self.scheduler.inferred(machine, place, now)
        self.go_on(machine, now)

    def _leave(self, machine: Machine, place: Place, stream: Stream, now: float) -> None:
        """A request leaves a running batch, and others take its place."""
        self.log.finish_s[stream.leave(now)] = now
        self.served += 1
        machine.serial += 1
        if self.cluster.queues[place.model] and self.cluster.admits(machine, place.model, now):
            self._join(machine, place.model, now)
        elif stream.size:
            heapq.heappush(self._events, (stream.next_s, machine.number, machine.serial))
        else:
            self.log.act(machine, Action.INFER, machine.since_s, now)
            self._passed(machine, place, now)

    def _join(self, machine: Machine, model: int, now: float) -> None:
        """Requests of the model's queue join the machine's batch, or begin one, as far as there is room."""
        times = self.cluster.times.where_run(model, machine.kind)
        stream = machine.stream = machine.stream or Stream(times, now)
        queue = self.cluster.queues[model]
        while queue and stream.has_room:
            request = self.cluster.pop(model)
            row = self.cluster.book.requests[request]
            stream.join(request, prompt_s(times, row), row.output_tokens, now)
            machine.requests.append(request)
            self._begin(request, machine, now)
        machine.serial += 1
        heapq.heappush(self._events, (stream.next_s, machine.number, machine.serial))

    def _begin(self, request: int, machine: Machine, now: float) -> None:
        self.log.start_s[request] = now
        self.log.machine[request] = machine.number

    def go_on(self, machine: Machine, now: float) -> None:
        """A machine has nothing to do any more. It goes on with requests; loads come first where a model is overdue."""
        machine.action = machine.place = machine.stream = None
        machine.requests = []
        machine.idle_s = now
        if self.cluster.overdue(now) or (self.cluster.settings.quanta_first and self.scheduler.due(machine, now)):
            self.plan(now)
        if machine.idle and not self.infer(machine, now):
            self.plan(now)

    def infer(self, machine: Machine, now: float) -> bool:
        """Whether an idle machine went on with requests of one of its models."""
        pick = self.scheduler.pick(machine, now)
        if pick is None:
            return False
        place, most_requests = pick
        machine.action, machine.place, machine.since_s = Action.INFER, place, now
        if self._joins[place.model]:
            self._join(machine, place.model, now)
            return True
        queue = self.cluster.queues[place.model]
        machine.requests = [self.cluster.pop(place.model) for _ in range(min(most_requests, len(queue)))]
        rows = [self.cluster.book.requests[request] for request in machine.requests]
        for request in machine.requests:
            self._begin(request, machine, now)
        machine.serial += 1
        inference_s = self.cluster.times.batch_s(place.model, machine.kind, rows)
        end_s = now + self.cluster.settings.dispatch_s + inference_s
        heapq.heappush(self._events, (end_s, machine.number, machine.serial))
        return True

    def plan(self, now: float) -> None:
        """Begin the loads that the scheduler wants now."""
        while (load := self.scheduler.load(now)) is not None:
            self._load(load, now)

    def _load(self, load: Load, now: float) -> None:
        machine = load.machine
        for place in load.replaces:
            self.unload(machine, place, now)
        place = Place(load.model, now)
        self.cluster.add(machine, place)
        machine.action, machine.place, machine.since_s = Action.LOAD, place, now
        machine.serial += 1
        end_s = now + self.cluster.times.load_s[load.model][machine.kind]
        heapq.heappush(self._events, (end_s, machine.number, machine.serial))

    def unload(self, machine: Machine, place: Place, now: float) -> None:
        """A model goes from a machine; it takes no time."""
        self.scheduler.unloaded(machine, place, now)
        self.cluster.drop(machine, place)
        self.log.unload(machine, place.model, now)

    def crash(self, machine: Machine, now: float) -> None:
        """A machine is lost with what it holds; what it ran queues again."""
        running = machine.stream.requests() if machine.stream is not None else machine.requests
        if machine.action is not None:
            self.log.act(machine, machine.action, machine.since_s, now, done=False)
        machine.serial += 1
        machine.status = MachineStatus.CRASHED
        for request in running:
            self.log.start_s[request], self.log.machine[request] = -1.0, -1
            self.cluster.push(request)
        for place in list(machine.places):
            self.cluster.drop(machine, place)
            self.log.unload(machine, place.model, now)
        machine.action = machine.place = machine.stream = None
        machine.requests = []
        self.plan(now)

    def _close(self, now: float) -> None:
        """What still runs when the last request is answered: loads."""
        for machine in self.cluster.machines:
            if machine.action is not None:
                self.log.act(machine, machine.action, machine.since_s, now, done=False)


def _stalled(waiting: int) -> SolverError:
    return SolverError(
        f"serving: {waiting} requests wait, and the policy does nothing any more.",
        hint="Add a machine that can hold their models, or one that does not crash for good.",
    )
