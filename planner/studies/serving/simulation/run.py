"""One policy's run over requests: what must hold of both, then from the pool and the requests to the log.

What happens to machines beside their work: the reserve is woken and put to sleep, machines crash and come back.

A machine in reserve goes SLEEPING -> STARTING -> READY -> TERMINATING -> SLEEPING; one that crashes is CRASHED until it
starts again, or TERMINATED where it never does.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from planner.errors import InputError
from planner.studies.serving.policies.named import POLICIES
from planner.studies.serving.records import (
    Action,
    MachineStatus,
    Outage,
    ScalingSettings,
    ServingPool,
    ServingRequest,
    ServingSettings,
)
from planner.studies.serving.simulation.cluster import Cluster, Machine, RequestBook
from planner.studies.serving.simulation.log import ActionLog, ServedRequests
from planner.studies.serving.simulation.loop import Simulation
from planner.studies.serving.simulation.times import Times


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


LONGEST_S = 1e9
SHORTEST_S = 1e-3
"""Quanta, periods and other times that must be above 0: shorter ones would only keep the simulation busy."""

MOST_MACHINES = 1000
FREE = frozenset(
    {
        *("dispatch_s", "late_start_s"),
        *("idle_s", "busy_share", "overdue_s", "most_residence_s", "residence_loads"),
    }
)
"""Settings that may be 0."""


def require_servable(pool: ServingPool, requests: Sequence[ServingRequest], settings: ServingSettings) -> None:
    """InputError where something cannot be simulated, or a request could never be served."""
    _require_settings(settings)
    _require_settings(pool.scaling)
    machines = sum(kind.machines + kind.reserve for kind in pool.types)
    if not 1 <= machines <= MOST_MACHINES:
        raise InputError(
            f"machines: must be 1 to {MOST_MACHINES:,} in all, got {machines:,}.", hint="Correct their counts."
        )
    _require_times(pool)
    _require_outages(pool, machines)
    _require_homes(pool, {request.model for request in requests})
    if not requests:
        raise InputError(
            "requests: must be at least one, got none.",
            hint="Give --requests, a column requests with the models, or a larger --scale.",
        )


def _require_settings(settings: ServingSettings | ScalingSettings) -> None:
    for field in fields(settings):
        value = getattr(settings, field.name)
        lowest = 0.0 if field.name in FREE else SHORTEST_S
        if isinstance(value, float) and not value >= lowest:
            raise InputError(f"{field.name}: must be {lowest:g} or more, got {value:g}.", hint="Correct the value.")
        if isinstance(value, float) and not value <= LONGEST_S:
            raise InputError(f"{field.name}: must be at most {LONGEST_S:g}, got {value:g}.", hint="Correct the value.")
    if isinstance(settings, ServingSettings) and settings.shortest_quantum_s > settings.longest_quantum_s:
        raise InputError(
            f"shortest_quantum_s: must be at most longest_quantum_s, {settings.longest_quantum_s:g}, got "
            f"{settings.shortest_quantum_s:g}.",
            hint="Correct one of the two.",
        )


def _require_times(pool: ServingPool) -> None:
    for model in pool.models:
        for machine, times in model.times.items():
            if not (
                model.size_mb > 0 and times.most_batch >= 1 and all(seconds > 0 for _, seconds in times.step.points)
            ):
                raise InputError(
                    f"model {model.name}: must have a size, seconds of a step and a batch above 0 on {machine}, got "
                    f"{model.size_mb:g} MB, {times.step.points}, {times.most_batch}.",
                    hint="Correct the value.",
                )


def _require_outages(pool: ServingPool, machines: int) -> None:
    ends: dict[int, float] = {}
    for outage in sorted(pool.outages, key=lambda outage: (outage.machine, outage.start_s)):
        end_s = math.inf if outage.end_s is None else outage.end_s
        if not 0 <= outage.machine < machines:
            raise _bad_outage(outage, f"must be of a machine from 0 to {machines - 1}")
        if not 0 <= outage.start_s < end_s:
            raise _bad_outage(outage, "must begin at 0 s or later, and before it ends")
        if outage.start_s <= ends.get(outage.machine, -1.0):
            raise _bad_outage(outage, "must begin after the machine's last one has ended")
        ends[outage.machine] = end_s


def _bad_outage(outage: Outage, rule: str) -> InputError:
    end = "for good" if outage.end_s is None else f"to {outage.end_s:g} s"
    return InputError(
        f"outage: {rule}, got machine {outage.machine}, from {outage.start_s:g} s {end}.", hint="Correct the outage."
    )


def _require_homes(pool: ServingPool, requested: set[int]) -> None:
    """Every model with requests has a machine that can hold it and is not lost for good."""
    times = Times(pool)
    kinds = [kind for kind, row in enumerate(pool.types) for _ in range(row.machines + row.reserve)]
    lost = {outage.machine for outage in pool.outages if outage.end_s is None}
    lasting = {kind for machine, kind in enumerate(kinds) if machine not in lost}
    for model in sorted(requested):
        if not any(times.runs(model, kind) for kind in lasting):
            name = pool.models[model].name
            raise InputError(
                f"model {name}: must have a machine with times for it, with memory for it, and not lost for good; it "
                f"has none of {', '.join(sorted(kind.name for kind in pool.types))}.",
                hint="Add such a machine, or drop the model's requests.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRun:
    """What happened."""

    requests: ServedRequests
    actions: ActionLog


def simulate_serving(
    pool: ServingPool,
    requests: Sequence[ServingRequest],
    policy: str,
    *,
    seed: int,
    settings: ServingSettings = ServingSettings(),
    progress: Callable[[float], None] = lambda _: None,
) -> ServingRun:
    """`requests`, in order of arrival, under the policy of that name. The seed draws SLAs alone.

    InputError: what cannot be simulated, and requests that no machine can ever serve.
    """
    require_servable(pool, requests, settings)
    row = POLICIES[policy]
    book = RequestBook(pool, requests, seed=seed, starved_share=settings.starved_share)
    cluster = Cluster(pool, book, settings, by_deadline=row.by_deadline)
    simulation = Simulation(cluster, row.make(cluster))
    Upkeep(simulation)
    simulation.run(progress)
    return ServingRun(requests=simulation.log.served(), actions=simulation.log.actions())
