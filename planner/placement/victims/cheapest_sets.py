"""The cheapest victims of one node for so many groups of a plan's islands.

A curve lists, for 0, 1, 2, ... groups, the least price of the evictions that make room for them, and who goes. Every
set of pods is looked at that may be the cheapest (of pods that hold alike, the cheapest go first), where these are few;
else pods are let back in, the dearest first.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

from planner.domain import Pod
from planner.domain.node_room import Ask, Left
from planner.domain.shapes import Shape
from planner.placement.victims.prices import Price, plus

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
