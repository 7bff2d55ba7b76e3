"""What happens to machines beside their work: the reserve is woken and put to sleep, machines crash and come back.

A machine in reserve goes SLEEPING -> STARTING -> READY -> TERMINATING -> SLEEPING; one that crashes is CRASHED until it
starts again, or TERMINATED where it never does.
"""

from planner.studies.serving.records import Action, MachineStatus, Outage
from planner.studies.serving.simulation.cluster import Machine
from planner.studies.serving.simulation.loop import Simulation


class Upkeep:
    """Timers of one run."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._cluster = simulation.cluster
        self._settings = simulation.cluster.pool.scaling
        if any(kind.reserve for kind in self._cluster.pool.types):
            simulation.at(self._settings.period_s, self._tick)
        for outage in self._cluster.pool.outages:
            self._schedule(outage, self._cluster.machines[outage.machine])

    def _schedule(self, outage: Outage, machine: Machine) -> None:
        end_s = outage.end_s
        self._simulation.at(outage.start_s, lambda now: self._crash(machine, now, for_good=end_s is None))
        if end_s is not None:
            self._simulation.at(end_s, lambda now: self._repair(machine, now))

    def _crash(self, machine: Machine, now: float, *, for_good: bool) -> None:
        awake = machine.reserve and machine.status in (MachineStatus.READY, MachineStatus.TERMINATING)
        self._simulation.crash(machine, now)
        if awake:  # its hours end here, not at the end of the run
            self._simulation.log.act(machine, Action.SCALE_DOWN, now, now, done=False)
        if for_good:
            machine.status = MachineStatus.TERMINATED

    def _repair(self, machine: Machine, now: float) -> None:
        if machine.reserve:
            machine.status = MachineStatus.SLEEPING
        else:
            self._start(machine, now)

    def _tick(self, now: float) -> None:
        """Wake one machine of each type for starved requests, or put to sleep what has long been idle."""
        for kind in range(len(self._cluster.pool.types)):
            reserve = [machine for machine in self._cluster.machines if machine.reserve and machine.kind == kind]
            if self._needed(kind, now):
                sleeping = [machine for machine in reserve if machine.status is MachineStatus.SLEEPING]
                for machine in sleeping[:1]:
                    self._start(machine, now)
            else:
                for machine in reserve:
                    if machine.idle and now - machine.idle_s >= self._settings.idle_s:
                        self._stop(machine, now)
        self._simulation.at(now + self._settings.period_s, self._tick)

    def _needed(self, kind: int, now: float) -> bool:
        """Whether a starved request waits for a model that such machines can run."""
        cluster = self._cluster
        return any(
            queue and cluster.times.runs(model, kind) and cluster.starved(model, now)
            for model, queue in enumerate(cluster.queues)
        )

    def _start(self, machine: Machine, now: float) -> None:
        machine.status = MachineStatus.STARTING
        machine.serial += 1
        serial = machine.serial

        def ready(time_s: float) -> None:
            if machine.serial == serial and machine.status is MachineStatus.STARTING:
                machine.status = MachineStatus.READY
                self._simulation.log.act(machine, Action.SCALE_UP, now, time_s)
                self._simulation.go_on(machine, time_s)

        self._simulation.at(now + self._settings.start_s, ready)

    def _stop(self, machine: Machine, now: float) -> None:
        machine.status = MachineStatus.TERMINATING
        machine.serial += 1
        serial = machine.serial
        for place in list(machine.places):
            self._simulation.unload(machine, place, now)

        def asleep(time_s: float) -> None:
            if machine.serial == serial and machine.status is MachineStatus.TERMINATING:
                machine.status = MachineStatus.SLEEPING
                self._simulation.log.act(machine, Action.SCALE_DOWN, now, time_s)

        self._simulation.at(now + self._settings.stop_s, asleep)
