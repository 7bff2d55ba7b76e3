"""What one change would open for a request: counted again under the change, never guessed.

| symbol | meaning | unit |
|---|---|---|
| F | requests that fit now | 1 |
| F' | requests that fit under the change | 1 |
| g * (F' - F) | what the change opens | GPUs |
| K_n | requests that fit on node n without the pods that could move away | 1 |

Moving pods to other nodes of their type keeps the sums of idle GPUs, CPUs and memory, so F' is at most
min(floor(sum i / g), floor(sum u / c), floor(sum m / b), sum K_n): a bound (`at_most`), as pods do not divide. Pods
without GPUs may also go to nodes of other kinds, as far as those have CPUs and memory for them.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, floor

from planner.domain import Qos
from planner.domain.diagnosis import ChangeKind, GpuRequest, UnlockingChange
from planner.placement.diagnosis.rooms import (
    ROUNDING,
    Counted,
    Ground,
    Room,
    pooled,
    requests_by_gpus,
    requests_that_fit,
    total_fit,
)

NAMED_NODES = 10
Spare = tuple[float, float]
"""Idle CPUs and GB of nodes of other kinds."""


def changes_for(
    grounds: Sequence[Ground], request: GpuRequest, qos: Qos, spare: Sequence[Spare]
) -> tuple[UnlockingChange, ...]:
    """Changes that open anything, most first. `spare`: beside each ground, what other nodes could take."""
    rooms = pooled(grounds)
    fit = total_fit(rooms, request, qos)
    listed = [
        *_more(ChangeKind.CPUS, rooms, request, qos, fit),
        *_more(ChangeKind.MEMORY, rooms, request, qos, fit),
        _alignment(rooms, request, qos, fit),
        _faults(rooms, request, qos),
        _without(ChangeKind.PREEMPTION, grounds, request, qos),
        _without(ChangeKind.PARTS, grounds, request, qos),
        *_consolidation(grounds, request, qos, spare),
    ]
    return in_order(listed)


def in_order(changes: Sequence[UnlockingChange]) -> tuple[UnlockingChange, ...]:
    """Those that open anything: those that need no eviction first, then by GPUs, counts before bounds."""
    opening = [change for change in changes if change.gpus > 0]
    return tuple(sorted(opening, key=lambda c: (c.kind.evicts, -c.gpus, c.at_most, c.amount)))


def smallest_enough(amounts: Sequence[float], gain: Callable[[float], int]) -> list[tuple[float, int]]:
    """The smallest of ascending `amounts` that brings half of what the last one brings, and the one that brings all."""
    if not amounts or not gain(amounts[-1]):
        return []
    full_gain = gain(amounts[-1])
    # More of a resource never serves less, so the first amount that is enough is found by bisection.
    picked = [amounts[bisect_left(amounts, goal, key=gain)] for goal in (ceil(full_gain / 2), full_gain)]
    return [(amount, gain(amount)) for amount in dict.fromkeys(picked)]


def _more(kind: ChangeKind, rooms: Counted, request: GpuRequest, qos: Qos, fit: int) -> list[UnlockingChange]:
    """So much more of a resource on every node."""
    size = float(request.cpus if kind is ChangeKind.CPUS else request.memory_gb)
    if not size:
        return []

    def roomier(room: Room, amount: float) -> Room:
        return room.roomier(cpus=amount) if kind is ChangeKind.CPUS else room.roomier(memory_gb=amount)

    def gain(amount: float) -> int:
        return total_fit(tuple((roomier(room, amount), n) for room, n in rooms), request, qos) - fit

    # Only at amounts that let one more request onto some node can the count change.
    missing: set[float] = set()
    for room, _ in rooms:
        had = room.cpus if kind is ChangeKind.CPUS else room.memory_gb
        by_gpus = 0 if room.barred else requests_by_gpus(room, request)
        short = (ceil(size * count - had - ROUNDING) for count in range(1, by_gpus + 1))
        missing.update(float(amount) for amount in short if amount > 0)
    return [
        UnlockingChange(kind=kind, amount=amount, gpus=more * request.gpus)
        for amount, more in smallest_enough(sorted(missing), gain)
    ]


def _alignment(rooms: Counted, request: GpuRequest, qos: Qos, fit: int) -> UnlockingChange:
    more = total_fit(rooms, request, Qos.NONE) - fit if qos.binds else 0
    return UnlockingChange(kind=ChangeKind.ALIGNMENT, amount=0, gpus=more * request.gpus)


def mended(room: Room) -> Room:
    """The node without its fault."""
    return replace(room, barred=False)


def _faults(rooms: Counted, request: GpuRequest, qos: Qos) -> UnlockingChange:
    # Sound nodes serve as before: only those with a fault can add.
    better = [(mended(room), nodes) for room, nodes in rooms if room.barred]
    more = total_fit(tuple(better), request, qos)
    return UnlockingChange(kind=ChangeKind.FAULTS, amount=sum(n for _, n in better), gpus=more * request.gpus)


def _without(kind: ChangeKind, grounds: Sequence[Ground], request: GpuRequest, qos: Qos) -> UnlockingChange:
    """Some pods gone: the preemptible, or those with parts of GPUs."""
    more = pods = 0
    for ground in grounds:
        rooms = ground.counted_unpreempted if kind is ChangeKind.PREEMPTION else ground.counted_without_parts
        if rooms is not None:
            pods += ground.preemptible_pods if kind is ChangeKind.PREEMPTION else ground.parts_pods
            more += total_fit(rooms, request, qos) - total_fit(ground.counted, request, qos)
    return UnlockingChange(kind=kind, amount=pods, gpus=more * request.gpus)


def _consolidation(
    grounds: Sequence[Ground], request: GpuRequest, qos: Qos, spare: Sequence[Spare]
) -> list[UnlockingChange]:
    """Bounds on what moving pods together brings: those that may move, and what the locked ones stand in the way of."""
    unlocked = moved = pods = 0
    locking: list[str] = []
    for ground, elsewhere in zip(grounds, spare, strict=True):
        now = total_fit(ground.counted, request, qos)
        pooled_fit = _most_pooled(ground, request, elsewhere)
        loose = total_fit(ground.counted_unmoved, request, qos)
        # Both are bounds from above, and to move nobody is a way, too.
        with_locks = max(now, min(pooled_fit, loose))
        moved += with_locks - now
        # Locked pods are only in the way where there would be enough without them.
        if pooled_fit > with_locks and (free := total_fit(ground.counted_empty, request, qos)) > loose:
            unlocked += min(pooled_fit, free) - with_locks
            locking += _locking(ground, request, qos)
        pods += ground.movable_pods
    return [
        UnlockingChange(kind=ChangeKind.CONSOLIDATION, amount=pods, gpus=moved * request.gpus, at_most=True),
        UnlockingChange(
            kind=ChangeKind.LOCKED_PODS,
            amount=len(locking),
            gpus=unlocked * request.gpus,
            at_most=True,
            nodes=tuple(locking[:NAMED_NODES]),
        ),
    ]


def _locking(ground: Ground, request: GpuRequest, qos: Qos) -> list[str]:
    """Nodes whose locked pods stand in the way of a request."""
    pairs = zip(ground.nodes, ground.unmoved, ground.empty, strict=True)
    return [
        node.name
        for node, locked, empty in pairs
        if requests_that_fit(empty, request, qos) > requests_that_fit(locked, request, qos)
    ]


def _most_pooled(ground: Ground, request: GpuRequest, elsewhere: Spare) -> int:
    """Requests that what is idle on all nodes of a type would hold if it lay together."""
    rooms = [(room, nodes) for room, nodes in ground.counted if not room.barred]
    # Pods without GPUs may also go to nodes of other kinds, as far as those have room for them.
    cpus, memory = (min(gone, room) for gone, room in zip(ground.without_gpus, elsewhere, strict=True))
    cpus += sum(nodes * room.cpus for room, nodes in rooms)
    memory += sum(nodes * room.memory_gb for room, nodes in rooms)
    limits = [floor((sum(nodes * room.idle for room, nodes in rooms) + ROUNDING) / request.gpus)]
    limits += [floor((cpus + ROUNDING) / request.cpus)] if request.cpus else []
    limits += [floor((memory + ROUNDING) / request.memory_gb)] if request.memory_gb else []
    return min(limits)
