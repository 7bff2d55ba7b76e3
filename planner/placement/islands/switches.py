"""How much of each access switch (ASW) one job takes, so that it lies under as few of them as possible.

| symbol | meaning | unit |
|---|---|---|
| G | what the job asks for (GPUs, groups or whole nodes: whatever the capacities count) | 1 |
| c[s] | what switch s has idle | 1 |
| g[s] | what the job takes of switch s, p[s] = g[s] / G | 1 |
| H = -sum_s p[s] ln p[s] | entropy of the job over its switches | nats |

Source: ASI paper, section 4.1, equation 1 and algorithm 2. As printed, the algorithm's entropy of a partial plan is a
complete tie at first and favours crumbs afterwards. Taken here is the reading that is optimal: the largest take first.
Its vector (c1, ..., ck, rest) has the largest prefix sums of all, so it majorises every other, and H is Schur-concave.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from math import log


def entropy(parts: Sequence[int]) -> float:
    """H of a job that takes `parts` of its switches, in nats; zeros do not count, an empty job has 0."""
    total = sum(parts)
    # 0, not -0, of a single switch.
    return max(0.0, -sum(part / total * log(part / total) for part in parts if part > 0))


def allocate(
    job: int,
    capacities: Sequence[int],
    preference: Sequence[float] = (),
    *,
    preference_first: bool = False,
) -> tuple[int, ...] | None:
    """What `job` takes of each switch at the least entropy; None where all together hold less, and nothing is taken.

    The largest switch is emptied first, until one holds the whole remainder: of those that do, the smallest (best fit).
    Among switches of one capacity the higher `preference` (one number a switch) goes first, then the lowest index.
    `preference_first`: it stands above best fit, too, where the remainder goes, as all switches that hold it give the
    same entropy.
    """
    liking = preference or (0.0,) * len(capacities)
    open_switches = (s for s, capacity in enumerate(capacities) if capacity > 0)
    order = sorted(open_switches, key=lambda s: (-capacities[s], -liking[s], s))
    amounts = [0] * len(capacities)
    remainder = job
    for at, largest in enumerate(order):
        if remainder <= 0:
            break
        if capacities[largest] >= remainder:
            holders = [s for s in order[at:] if capacities[s] >= remainder]
            if preference_first:
                amounts[min(holders, key=lambda s: (-liking[s], capacities[s], s))] = remainder
            else:
                amounts[min(holders, key=lambda s: (capacities[s], -liking[s], s))] = remainder
            return tuple(amounts)
        amounts[largest] = max(0, capacities[largest])
        remainder -= amounts[largest]
    return tuple(amounts) if remainder <= 0 else None


def allocate_nested(
    job: int,
    capacities: Sequence[int],
    switch_of: Sequence[int],
    preference: Sequence[float] = (),
    *,
    preference_first: bool = False,
) -> tuple[int, ...] | None:
    """As `allocate`, of places that lie under switches (`switch_of` each of them).

    What no place holds alone is shared out over as few switches as can be, and under each over as few places.
    """
    # Every place its own switch, or one place enough: nothing is nested.
    if len(set(switch_of)) == len(switch_of) or max(capacities, default=0) >= job:
        return allocate(job, capacities, preference, preference_first=preference_first)
    under: list[list[int]] = [[] for _ in range(max(switch_of) + 1)]
    for place, switch in enumerate(switch_of):
        under[switch].append(place)
    sums = [sum(max(0, capacities[place]) for place in places) for places in under]
    liking = [max((preference[place] for place in places), default=0.0) for places in under] if preference else ()
    amounts = [0] * len(capacities)
    for places, share in zip(under, allocate(job, sums, liking, preference_first=preference_first) or (), strict=False):
        near = [preference[place] for place in places] if preference else ()
        for place, amount in zip(
            places, allocate(share, [capacities[place] for place in places], near) or (), strict=False
        ):
            amounts[place] = amount
    return tuple(amounts) if sum(amounts) >= job else None


class SwitchPool:
    """Idle capacity under each switch, kept in order: many jobs one after the other in O(log n) a take."""

    __slots__ = ("_order", "_total")

    def __init__(self, capacities: Sequence[int]) -> None:
        self._order = sorted((capacity, s) for s, capacity in enumerate(capacities) if capacity > 0)
        self._total = sum(capacity for capacity, _ in self._order)

    def take(self, job: int) -> dict[int, int] | None:
        """Switch -> what `job` takes of it, as `allocate` does without a preference; None: too little is idle."""
        if job > self._total:
            return None
        self._total -= max(0, job)
        amounts: dict[int, int] = {}
        remainder = job
        while remainder > 0:
            # -1 is before every switch: the first of the smallest capacity that is enough.
            at = bisect_left(self._order, (remainder, -1))
            if at == len(self._order):
                # None is enough alone: the largest is emptied, of equal ones the first.
                at = bisect_left(self._order, (self._order[-1][0], -1))
            capacity, switch = self._order.pop(at)
            amounts[switch] = min(capacity, remainder)
            if capacity > remainder:
                insort(self._order, (capacity - remainder, switch))
            remainder -= amounts[switch]
        return amounts
