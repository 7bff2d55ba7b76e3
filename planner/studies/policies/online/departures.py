"""The event loop in time: pods come, wait where they fit nowhere, and leave again.

Events by time; at the same time pods leave first, then those that have waited too long give up, then pods come, in the
order of the trace. A pod stays for deletion minus creation seconds from its start on, so that waiting delays its end;
without a deletion time it stays for ever. After departures everyone who waits is tried again: what does not fit stays
as it is until something leaves, as arrivals only take.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import inf

import numpy as np

from planner.domain import (
    PowerFormula,
    PowerTable,
    Semantics,
    TraceNode,
    TracePod,
    TypicalPod,
)
from planner.errors import InputError
from planner.placement.power_model import OPENB_POWER
from planner.studies.policies.online.policies import PolicyMix
from planner.studies.policies.online.score_board import NOWHERE
from planner.studies.policies.online.simulation import Simulation, prepare
from planner.studies.policies.records import (
    ClusterMoment,
    DepartureRun,
    Outcome,
    QueueSettings,
    Stay,
    WaitFigures,
)

J_PER_KWH = 3.6e6
LONGEST_FACTOR = 1_000_000


def simulate_departures(
    nodes: Sequence[TraceNode],
    pods: Sequence[TracePod],
    policy: PolicyMix,
    workload: Sequence[TypicalPod],
    *,
    queue: QueueSettings = QueueSettings(),
    semantics: Semantics = Semantics.REFERENCE,
    tie_order: Sequence[str] | None = None,
    seed: int = 0,
    power: PowerTable = OPENB_POWER,
    formula: PowerFormula | None = None,
    progress: Callable[[int], None] | None = None,
) -> DepartureRun:
    """What becomes of the pods of a trace at their own times; the other arguments as those of `online.simulate`.

    `progress` is told how many pods have come. InputError: as `online.simulate`, and pods without a creation time.
    """
    _require_times(pods, queue)
    simulation = prepare(
        nodes, pods, policy, workload, semantics=semantics, tie_order=tie_order, seed=seed, power=power, formula=formula
    )
    loop = _Loop(simulation, queue)
    coming = sorted(pods, key=_created)
    for number, (time_s, alike) in enumerate(groupby(coming, key=_created)):
        loop.until(time_s)
        loop.arrive(time_s, alike)
        if progress is not None and number % 256 == 0:
            progress(loop.arrived)
    loop.until(inf)
    if progress is not None:
        progress(loop.arrived)
    return loop.finished(policy.name, semantics)


def lengthened(pods: Iterable[TracePod], factor: float) -> tuple[TracePod, ...]:
    """The pods with stays of so many times their length: openb at its own times fills a hundredth of its cluster."""
    if not 0 < factor <= LONGEST_FACTOR:
        raise InputError(
            f"stays: the factor (--stretch) must be a number above 0, at most {LONGEST_FACTOR:,}, got {factor:g}.",
            hint="Give 1 for no change.",
        )
    return tuple(
        replace(pod, deletion_s=pod.creation_s + factor * (pod.deletion_s - pod.creation_s))
        if pod.creation_s is not None and pod.deletion_s is not None
        else pod
        for pod in pods
    )


def _created(pod: TracePod) -> float:
    assert pod.creation_s is not None, "_require_times has looked"
    return pod.creation_s


@dataclass(slots=True)
class _Guest:
    """A pod that has come, and what it has met with so far."""

    number: int
    pod: TracePod
    kind: int
    created_s: float
    tries: int = 0
    place: int = NOWHERE
    gpus: tuple[int, ...] = ()
    started_s: float | None = None
    left_s: float | None = None
    gave_up_s: float | None = None

    @property
    def waits(self) -> bool:
        return self.started_s is None and self.gave_up_s is None


@dataclass(slots=True)
class _Loop:
    """Everything that changes. `leaving`: (time, number of the guest); `deadlines` are in the queue's order."""

    simulation: Simulation
    settings: QueueSettings
    now_s: float = -inf
    guests: list[_Guest] = field(default_factory=list)
    waiting: list[_Guest] = field(default_factory=list)
    leaving: list[tuple[float, int]] = field(default_factory=list)
    running: int = 0
    moments: list[ClusterMoment] = field(default_factory=list)

    @property
    def arrived(self) -> int:
        """Pods that have come."""
        return len(self.guests)

    def until(self, time_s: float) -> None:
        """Everything that happens before pods come at `time_s`: departures up to then, and waits that end."""
        while True:
            next_s = min(self.leaving[0][0] if self.leaving else inf, self._deadline_s())
            if next_s > time_s or next_s == inf:
                return
            self.now_s = next_s
            departed = self._depart()
            gone = self._give_up()
            # who gives up leaves the cluster as it is, but may have stood in front of somebody that fits
            if departed or (gone and not self.settings.backfill):
                self._retry()
            self._note()

    def arrive(self, time_s: float, pods: Iterable[TracePod]) -> None:
        """Pods come; where somebody waits already and must not be passed, they join the queue untried."""
        self.now_s = time_s
        for pod in pods:
            guest = _Guest(len(self.guests), pod, self.simulation.board.class_of(pod), time_s)
            self.guests.append(guest)
            behind = self.waiting and not self.settings.backfill and self.settings.most_wait_s != 0
            if behind or not self._try(guest):  # where none waits, nobody stands in front of anybody
                self.waiting.append(guest)
        # a pod that came and went at once, or may not wait, is dealt with before the moment is noted
        if self._deadline_s() <= time_s:
            self._give_up()
        self._note()

    def _deadline_s(self) -> float:
        """When the first of the queue gives up: all wait equally long."""
        if self.settings.most_wait_s is None or not self.waiting:
            return inf
        return self.waiting[0].created_s + self.settings.most_wait_s

    def _depart(self) -> bool:
        """Whoever leaves now; whether anybody did."""
        some = False
        while self.leaving and self.leaving[0][0] <= self.now_s:
            guest = self.guests[heapq.heappop(self.leaving)[1]]
            self.simulation.remove(guest.place, guest.pod, guest.gpus)
            guest.left_s = self.now_s
            self.running -= 1
            some = True
        return some

    def _give_up(self) -> bool:
        patience = self.settings.most_wait_s
        if patience is None:
            return False
        before = len(self.waiting)
        while self.waiting and self._deadline_s() <= self.now_s:
            self.waiting.pop(0).gave_up_s = self.now_s
        return len(self.waiting) < before

    def _retry(self) -> None:
        """The queue from its head on; a class that did not fit a moment ago does not fit now."""
        full: set[int] = set()
        for guest in self.waiting:
            if guest.kind in full:
                continue
            if not self._try(guest):
                full.add(guest.kind)
                if not self.settings.backfill:
                    break
        self.waiting = [guest for guest in self.waiting if guest.waits]

    def _try(self, guest: _Guest) -> bool:
        guest.tries += 1
        guest.place, guest.gpus = self.simulation.place(guest.kind)
        if guest.place == NOWHERE:
            return False
        guest.started_s = self.now_s
        self.running += 1
        if guest.pod.deletion_s is not None:
            heapq.heappush(self.leaving, (self.now_s + guest.pod.deletion_s - guest.created_s, guest.number))
        return True

    def _note(self) -> None:
        """The state from now on; of several at one time the last counts."""
        meter = self.simulation.meter
        if self.moments and self.moments[-1].time_s == self.now_s:
            self.moments.pop()
        self.moments.append(
            ClusterMoment(
                time_s=self.now_s,
                used_gpu_milli=self.simulation.used_gpu_milli,
                running=self.running,
                waiting=len(self.waiting),
                waiting_gpu_milli=sum(guest.pod.total_gpu_milli for guest in self.waiting),
                fragmentation_milli=meter.fragmentation_milli,
                cpu_power_w=meter.cpu_w,
                gpu_power_w=meter.gpu_w,
            )
        )

    def finished(self, policy: str, semantics: Semantics) -> DepartureRun:
        """The record of the run."""
        stays = tuple(self._stay(guest) for guest in self.guests)
        total = self.simulation.gpu_milli
        allocated, fragments, watts = _means(self.moments)
        lasted = self.moments[-1].time_s - self.moments[0].time_s
        return DepartureRun(
            policy=policy,
            semantics=semantics,
            gpu_milli=total,
            stays=stays,
            moments=tuple(self.moments),
            queue=_figures(stays),
            allocation_percent=100 * allocated / total,
            fragmentation_percent=100 * fragments / total,
            power_w=watts,
            energy_kwh=watts * lasted / J_PER_KWH,
        )

    def _stay(self, guest: _Guest) -> Stay:
        outcome = Outcome.RAN
        if guest.started_s is None:
            outcome = Outcome.WAITING if guest.gave_up_s is None else Outcome.FAILED
        until_s = next((at for at in (guest.started_s, guest.gave_up_s) if at is not None), self.now_s)
        ran = outcome is Outcome.RAN
        return Stay(
            pod=guest.pod.name,
            node=self.simulation.board.states[guest.place].node.name if ran else "",
            gpus=guest.gpus,
            outcome=outcome,
            created_s=guest.created_s,
            started_s=guest.started_s,
            left_s=guest.left_s,
            waited_s=until_s - guest.created_s,
            tries=guest.tries,
        )


def _means(moments: Sequence[ClusterMoment]) -> tuple[float, float, float]:
    """Used milli-GPU, fragmentation and watts, weighed by how long they held; of one moment as they are."""
    rows = np.array(
        [
            (moment.used_gpu_milli, moment.fragmentation_milli, moment.cpu_power_w + moment.gpu_power_w)
            for moment in moments
        ]
    )
    spans = np.diff([moment.time_s for moment in moments])
    means = spans @ rows[:-1] / spans.sum() if spans.sum() else rows[-1]
    return float(means[0]), float(means[1]), float(means[2])


def _figures(stays: Sequence[Stay]) -> WaitFigures:
    waits = [stay.waited_s for stay in stays if stay.outcome is Outcome.RAN]
    return WaitFigures(
        ran=len(waits),
        failed=sum(stay.outcome is Outcome.FAILED for stay in stays),
        waiting=sum(stay.outcome is Outcome.WAITING for stay in stays),
        waited=sum(wait > 0 for wait in waits),
        retries=sum(max(0, stay.tries - 1) for stay in stays),
        wait_mean_s=float(np.mean(waits)) if waits else 0.0,
        wait_p95_s=float(np.percentile(waits, 95)) if waits else 0.0,
        wait_max_s=max(waits, default=0.0),
    )


def _require_times(pods: Sequence[TracePod], queue: QueueSettings) -> None:
    """InputError: no creation time, an end before the beginning, a wait that is no time."""
    if queue.most_wait_s is not None and not 0 <= queue.most_wait_s < inf:
        raise InputError(
            f"queue: the longest wait must be 0 seconds or more, got {queue.most_wait_s:g}.",
            hint="Give seconds, 0 for no queue, or leave it out to wait for ever.",
        )
    for pod in pods:
        if pod.creation_s is None:
            raise InputError(
                f"pod {pod.name}: must have a creation time, as pods come and go by their times; it has none.",
                hint="Add the column creation_time, or simulate arrivals without departures.",
            )
        if pod.deletion_s is not None and pod.deletion_s < pod.creation_s:
            raise InputError(
                f"pod {pod.name}: deletion time must not be before its creation at {pod.creation_s:g} s, got "
                f"{pod.deletion_s:g} s.",
                hint="Mend the trace.",
            )
