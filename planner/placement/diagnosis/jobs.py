"""Jobs of many nodes: how many find room under one access switch, in one NVLink domain, or anywhere.

| symbol | meaning | unit |
|---|---|---|
| s_n | slots of node n: min(whole idle GPUs, floor(idle CPUs / p)); 0 on a node with a fault | GPUs |
| N, p | GPUs of a job, CPUs of each of them | GPUs, CPUs |
| F | jobs across the cluster: floor(sum of s_n / N) | 1 |
| F_x | jobs within x: sum over switches (or domains) of floor(sum of s_n in it / N) | 1 |

Of the idle GPUs N * F_x serve; those without CPUs, parts, and those on nodes with faults are lost on their nodes,
sum s_n - N * F is too little for one more job anywhere, and N * (F - F_x) is lost to the topology: these are all.
A node whose switch (domain) nobody named lies under none. Source: ASI paper, figure 14.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor

from planner.domain import ClusterNode
from planner.domain.diagnosis import ChangeKind, JobDiagnosis, JobScope, StrandingCause, UnlockingChange
from planner.placement.diagnosis.changes import in_order, mended, smallest_enough
from planner.placement.diagnosis.rooms import ROUNDING, Ground, Room, released_slots

Placed = Sequence[tuple[int, str]]
"""Slots of each node, and the switch or domain that it lies under."""

_LOST = {JobScope.ASW: StrandingCause.TOPOLOGY, JobScope.NVLINK_DOMAIN: StrandingCause.NVLINK_DOMAIN}


def slots_of(room: Room, cpus_per_gpu: int) -> int:
    """s_n."""
    if room.barred:
        return 0
    return min(room.whole_gpus, floor((room.cpus + ROUNDING) / cpus_per_gpu)) if cpus_per_gpu else room.whole_gpus


def jobs_that_fit(placed: Placed, gpus: int, scope: JobScope) -> int:
    """F, or F_x."""
    if scope is JobScope.CLUSTER:
        return sum(slots for slots, _ in placed) // gpus
    under: dict[str, int] = defaultdict(int)
    for slots, where in placed:
        if where:
            under[where] += slots
    return sum(slots // gpus for slots in under.values())


def diagnose_job(gpu: str, grounds: Sequence[Ground], gpus: int, cpus_per_gpu: int, scope: JobScope) -> JobDiagnosis:
    """Jobs of `gpus` GPUs within `scope` on the nodes of these grounds, types mixed where there are several."""
    places = [_place(node, scope) for ground in grounds for node in ground.nodes]
    rooms = [room for ground in grounds for room in ground.rooms]
    placed = _placed(rooms, places, cpus_per_gpu)
    slots, fit = sum(count for count, _ in placed), jobs_that_fit(placed, gpus, scope)
    across = slots // gpus
    idle = round(sum(room.idle for room in rooms), 6)
    usable = [room for room in rooms if not room.barred]
    whole_gpus = sum(room.whole_gpus for room in usable)
    causes = {
        StrandingCause.BARRED: sum(room.idle for room in rooms if room.barred),
        StrandingCause.FRACTIONAL: max(sum(room.idle for room in usable) - whole_gpus, 0.0),
        StrandingCause.CPU: whole_gpus - slots,
        StrandingCause.REMAINDER: slots - gpus * across,
        _LOST.get(scope, StrandingCause.TOPOLOGY): gpus * (across - fit),
    }
    return JobDiagnosis(
        gpu=gpu,
        gpus=gpus,
        cpus_per_gpu=cpus_per_gpu,
        scope=scope,
        idle_gpus=idle,
        slots=slots,
        fit=fit,
        released_fit=jobs_that_fit(_placed(rooms, places, cpus_per_gpu, released_slots), gpus, scope),
        causes=tuple((cause, round(lost, 6)) for cause, lost in causes.items() if lost > ROUNDING),
        changes=_changes(grounds, places, gpus, cpus_per_gpu, scope),
    )


def _place(node: ClusterNode, scope: JobScope) -> str:
    return node.nvlink_domain if scope is JobScope.NVLINK_DOMAIN else node.asw


def _placed(
    rooms: Iterable[Room], places: Sequence[str], cpus_per_gpu: int, count: Callable[[Room, int], int] = slots_of
) -> Placed:
    return [(count(room, cpus_per_gpu), place) for room, place in zip(rooms, places, strict=True)]


def _changes(
    grounds: Sequence[Ground], places: Sequence[str], gpus: int, cpus_per_gpu: int, scope: JobScope
) -> tuple[UnlockingChange, ...]:
    rooms = [room for ground in grounds for room in ground.rooms]
    # None: nobody there may be preempted, so that the rooms stay as they are.
    unpreempted = [room for ground in grounds for room in ground.unpreempted or ground.rooms]

    def fit(changed: Iterable[Room], within: JobScope = scope) -> int:
        return jobs_that_fit(_placed(changed, places, cpus_per_gpu), gpus, within)

    now = fit(rooms)

    def more_cpus(amount: float) -> int:
        return fit(room.roomier(cpus=amount) for room in rooms) - now

    # Only amounts at which some node gains a slot can change the count.
    short = {ceil(cpus_per_gpu * count - room.cpus) for room in set(rooms) for count in range(1, room.whole_gpus + 1)}
    listed = [
        UnlockingChange(kind=ChangeKind.CPUS, amount=amount, gpus=more * gpus)
        for amount, more in smallest_enough(sorted(float(amount) for amount in short if amount > 0), more_cpus)
    ]
    for kind, amount, more in (
        (ChangeKind.SCOPE, 0, fit(rooms, JobScope.CLUSTER) - now),
        (ChangeKind.FAULTS, sum(room.barred for room in rooms), fit(mended(room) for room in rooms) - now),
        (ChangeKind.PREEMPTION, sum(ground.preemptible_pods for ground in grounds), fit(unpreempted) - now),
    ):
        listed.append(UnlockingChange(kind=kind, amount=amount, gpus=more * gpus))
    return in_order(listed)
