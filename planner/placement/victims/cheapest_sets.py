"""What it costs to evict a pod, and the cheapest victims of one node for so many groups of a plan's islands.

A curve lists, for 0, 1, 2, ... groups, the least price of the evictions that make room for them, and who goes. Every
set of pods is looked at that may be the cheapest (of pods that hold alike, the cheapest go first), where these are few;
else pods are let back in, the dearest first.

Prices add up and compare from left to right:

| symbol | meaning | unit | source |
|---|---|---|---|
| p, N | priority of a pod, of the islands | 1 | scenario, cluster |
| p_0 | lowest priority of all pods that may go, at least counted as one below N | 1 | |
| L | work since the last checkpoint: GPUs x seconds, in whole milliseconds | GPU-ms | SpotGPU's C (ASI paper, 4.2) |
| R, n | rank of p among the priorities of pods that may go, and the number of these pods | 1 | |
| u | 1 where L is not known, else 0 | 1 | |

priority    ((n + 1)^R, u, L, 1, GPUs)      one pod of a rank weighs more than all pods of lower ranks together
lost_work   (u, L, 1, (n + 1)^R, GPUs)
combined    (u, 10^6 ((p - p_0 + 1) / (N - p_0) + 0.1 L in GPU-hours), 1, GPUs): ten lost GPU-hours weigh as much as a
            priority just below the islands'
Prices are whole numbers, so that sums of equal prices are equal.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

from planner.domain import EvictionRule, PlacementSettings, Pod
from planner.domain.node_room import Ask, Left
from planner.domain.shapes import Shape

LOST_WORK_WEIGHT = 0.1
SCALE = 1_000_000
MS_PER_GPU_HOUR = 3_600_000

Price = tuple[int, ...]


def may_go(pod: Pod, priority: int) -> bool:
    """Whether a pod may be evicted for work of this priority, budgets aside."""
    # What a pod frees is only known where it is known which GPUs it holds.
    return pod.preemptible and not pod.locked and pod.priority < priority and pod.gpus_known


def prices_of(pods: Iterable[Pod], settings: PlacementSettings, rule: EvictionRule) -> Mapping[str, Price]:
    """The price of each pod, by key. All are equally long."""
    listed = list(pods)
    ranks = {priority: rank for rank, priority in enumerate(sorted({pod.priority for pod in listed}))}
    lowest = min(ranks, default=settings.priority - 1)
    # More than all pods: so one of a rank outweighs all of lower ranks.
    base = len(listed) + 1
    return {pod.key: _price(pod, settings, rule, base ** ranks[pod.priority], lowest) for pod in listed}


def _price(pod: Pod, settings: PlacementSettings, rule: EvictionRule, weight: int, lowest: int) -> Price:
    hours = settings.lost_gpu_hours(pod)
    unknown, lost_ms = (1, 0) if hours is None else (0, round(hours * MS_PER_GPU_HOUR))
    match rule:
        case EvictionRule.PRIORITY:
            return weight, unknown, lost_ms, 1, pod.gpu_count
        case EvictionRule.LOST_WORK:
            return unknown, lost_ms, 1, weight, pod.gpu_count
        case EvictionRule.COMBINED:
            near = (pod.priority - lowest + 1) / (settings.priority - lowest)
            return unknown, round(SCALE * (near + LOST_WORK_WEIGHT * (hours or 0.0))), 1, pod.gpu_count


def plus(price: Price, other: Price) -> Price:
    """Both together; () is nothing."""
    if not price or not other:
        return price or other
    return tuple(a + b for a, b in zip(price, other, strict=True))


MOST_SETS = 512
"""Sets of pods of one node that are looked at."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may go, what it holds on its node, and its price."""

    pod: Pod
    holds: Left
    price: Price


@dataclass(frozen=True, slots=True)
class Step:
    """So many groups for a price: `shares` lists nodes, groups on each, and who goes there."""

    price: Price
    shares: tuple[tuple[int, int, tuple[Pod, ...]], ...] = ()


Curve = Sequence[Step | None]
"""By number of groups; None: not to be had."""

NOTHING = Step(())

_Going = tuple[Left, Price, tuple[Candidate, ...]]
"""What is free once some pods are gone, what they cost, and who they are."""


def node_curve(
    node: int,
    shape: Shape,
    free: Left,
    candidates: Sequence[Candidate],
    ask: Ask,
    *,
    zero: Price,
    may_all_go: Callable[[Sequence[Pod]], bool] | None = None,
) -> Curve:
    """The curve of one node, as long as it has steps. `zero`: the price of nobody; `may_all_go`: whether a set of pods
    keeps to the limits (None: there are none), of which nothing is known where sets are too many to look at.

    Prices have one more figure at their end, the number of nodes: of equal answers that of fewer nodes comes first.
    """
    idle = free.room(shape, ask)
    curve: list[Step | None] = [NOTHING, *(Step((*zero, 1), ((node, k, ()),)) for k in range(1, idle + 1))]
    everything = free
    for candidate in candidates:
        everything = everything.plus(candidate.holds)
    reach = everything.room(shape, ask)
    # Nobody's going gains a group: no set need be looked at.
    if reach <= idle:
        return curve
    candidates = _helpful(candidates, free, ask, reach)
    kinds = _kinds(candidates, by_budget=may_all_go is not None)
    if prod(len(kind) + 1 for kind in kinds) <= MOST_SETS:
        by_room = _of_all_sets(shape, free, kinds, ask, may_all_go)
    else:
        by_room = _let_back_in(shape, free, candidates, ask, idle, reach)
    for groups in range(idle + 1, reach + 1):
        able = [going for room, going in by_room.items() if room >= groups]
        if not able:
            break
        best = min(able, key=_price_of)
        curve.append(Step((*_price_of(best), 1), ((node, groups, tuple(victim.pod for victim in best)),)))
    return curve


def _helpful(candidates: Sequence[Candidate], free: Left, ask: Ask, groups: int) -> list[Candidate]:
    """Without pods that hold nothing that is short for so many groups: the cheapest set never has them."""
    cpus, memory_gb = free.cpus < groups * ask.cores, free.memory_gb < groups * ask.memory_gb
    return [
        candidate
        for candidate in candidates
        if any(candidate.holds.gpus)
        or any(candidate.holds.cores)
        or (cpus and candidate.holds.cpus > 0)
        or (memory_gb and candidate.holds.memory_gb > 0)
    ]


def _kinds(candidates: Sequence[Candidate], *, by_budget: bool) -> list[list[Candidate]]:
    """Pods that hold alike together, the cheapest first."""
    kinds: dict[tuple[Left, str], list[Candidate]] = defaultdict(list)
    for candidate in sorted(candidates, key=lambda entry: (entry.price, entry.pod.key)):
        # With limits a pod of another budget is another choice, though it holds alike.
        kinds[candidate.holds, candidate.pod.disruption_budget if by_budget else ""].append(candidate)
    return list(kinds.values())


def _price_of(going: Iterable[Candidate]) -> Price:
    price: Price = ()
    for candidate in going:
        price = plus(price, candidate.price)
    return price


def _of_all_sets(
    shape: Shape,
    free: Left,
    kinds: Sequence[Sequence[Candidate]],
    ask: Ask,
    may_all_go: Callable[[Sequence[Pod]], bool] | None,
) -> dict[int, tuple[Candidate, ...]]:
    """The cheapest set for each number of groups that it makes room for; of equal ones that of the first names."""
    sets: list[_Going] = [(free, (), ())]
    for kind in reversed(kinds):
        sets = [longer for shorter in sets for longer in accumulate(kind, _with, initial=shorter)]
    best: dict[int, tuple[Price, tuple[Candidate, ...]]] = {}
    for after, price, going in sets:
        # Limits are of sets: two pods may break one that each of them keeps.
        if may_all_go is not None and not may_all_go([candidate.pod for candidate in going]):
            continue
        room = after.room(shape, ask)
        if room not in best or price < best[room][0]:
            best[room] = (price, going)
    return {room: going for room, (_, going) in best.items()}


def _with(going: _Going, candidate: Candidate) -> _Going:
    free, price, pods = going
    return free.plus(candidate.holds), plus(price, candidate.price), (*pods, candidate)


def _let_back_in(
    shape: Shape, free: Left, candidates: Sequence[Candidate], ask: Ask, idle: int, reach: int
) -> dict[int, tuple[Candidate, ...]]:
    """For each number of groups a set of which nobody can be spared; dearest pods stay first."""
    by_groups: dict[int, tuple[Candidate, ...]] = {}
    # Who is asked first is spared most likely.
    dearest_first = sorted(candidates, key=lambda entry: (entry.price, entry.pod.key), reverse=True)
    without = [free]  # what is free once everybody from the k-th on is gone
    for candidate in reversed(dearest_first):
        without.append(without[-1].plus(candidate.holds))
    without.reverse()
    for groups in range(idle + 1, reach + 1):
        going: list[Candidate] = []
        gone: Left | None = None
        for candidate, later in zip(dearest_first, without[1:], strict=True):
            after = later if gone is None else later.plus(gone)
            if after.room(shape, ask) < groups:
                going.append(candidate)
                gone = candidate.holds if gone is None else gone.plus(candidate.holds)
        by_groups[groups] = tuple(reversed(going))
    return by_groups
