"""The cheapest evictions for so many groups: of one node, of the nodes of a switch, of all of them.

A curve lists, for 0, 1, 2, ... groups, the least price of the evictions that make room for them, and who goes. Of a
node every set of pods is looked at that may be the cheapest (of pods that hold alike, the cheapest go first), where
these are few; else pods are let back in, the dearest first. Nodes are put together exactly, by dynamic programming: an
answer of W groups uses at most W nodes, so the W cheapest nodes for each number of groups are enough. Where even that
takes too many steps, nodes come in by their price per group.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from planner.domain import Pod
from planner.domain.node_room import Ask, Left
from planner.domain.shapes import Shape
from planner.placement.islands.evictions.eviction_prices import Price, plus

MOST_SETS = 512
"""Sets of pods of one node that are looked at."""

MOST_STEPS = 50_000
"""Steps of the programme over nodes."""

PARTS_OF_A_PRICE = 1_000
"""So finely prices per group are told apart."""


@dataclass(frozen=True, slots=True)
class Held:
    """A pod that may go, what it holds on its node, and its price."""

    pod: Pod
    left: Left
    price: Price


@dataclass(frozen=True, slots=True)
class Step:
    """So many groups for a price: `taken` lists nodes, groups on each, and who goes there."""

    price: Price
    taken: tuple[tuple[int, int, tuple[Pod, ...]], ...] = ()


Curve = Sequence[Step | None]
"""By number of groups; None: not to be had."""

NOTHING = Step(())


def node_curve(
    node: int,
    shape: Shape,
    free: Left,
    held: Sequence[Held],
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
    for one in held:
        everything = everything.plus(one.left)
    reach = everything.room(shape, ask)
    if reach <= idle:
        return curve
    kinds = _kinds(held, by_budget=may_all_go is not None)
    if prod(len(kind) + 1 for kind in kinds) <= MOST_SETS:
        found = _of_all_sets(shape, free, kinds, ask, may_all_go)
    else:
        found = _let_back_in(shape, free, held, ask, idle, reach)
    for groups in range(idle + 1, reach + 1):
        able = [one for room, one in found.items() if room >= groups]
        if not able:
            break
        best = min(able, key=_price_of)
        curve.append(Step((*_price_of(best), 1), ((node, groups, tuple(one.pod for one in best)),)))
    return curve


def _kinds(held: Sequence[Held], *, by_budget: bool) -> list[list[Held]]:
    """Pods that hold alike together, the cheapest first."""
    kinds: dict[tuple[Left, str], list[Held]] = defaultdict(list)
    for one in sorted(held, key=lambda one: (one.price, one.pod.key)):
        kinds[one.left, one.pod.disruption_budget if by_budget else ""].append(one)
    return list(kinds.values())


def _price_of(going: Iterable[Held]) -> Price:
    price: Price = ()
    for one in going:
        price = plus(price, one.price)
    return price


def _of_all_sets(
    shape: Shape,
    free: Left,
    kinds: Sequence[Sequence[Held]],
    ask: Ask,
    may_all_go: Callable[[Sequence[Pod]], bool] | None,
) -> dict[int, tuple[Held, ...]]:
    """The cheapest set for each number of groups that it makes room for; of equal ones that of the first names."""
    best: dict[int, tuple[Price, tuple[Held, ...]]] = {}
    last_first = list(reversed(kinds))
    for counts in product(*(range(len(kind) + 1) for kind in last_first)):
        going = tuple(one for kind, count in zip(last_first, counts, strict=True) for one in kind[:count])
        if may_all_go is not None and not may_all_go([one.pod for one in going]):
            continue
        left = free
        for one in going:
            left = left.plus(one.left)
        room, price = left.room(shape, ask), _price_of(going)
        if room not in best or price < best[room][0]:
            best[room] = (price, going)
    return {room: going for room, (_, going) in best.items()}


def _let_back_in(
    shape: Shape, free: Left, held: Sequence[Held], ask: Ask, idle: int, reach: int
) -> dict[int, tuple[Held, ...]]:
    """For each number of groups a set of which nobody can be spared; dearest pods stay first."""
    found: dict[int, tuple[Held, ...]] = {}
    dearest_first = sorted(held, key=lambda one: (one.price, one.pod.key), reverse=True)
    without = [free]  # what is free once everybody from the k-th on is gone
    for one in reversed(dearest_first):
        without.append(without[-1].plus(one.left))
    without.reverse()
    for groups in range(idle + 1, reach + 1):
        going: list[Held] = []
        gone: Left | None = None
        for one, later in zip(dearest_first, without[1:], strict=True):
            left = later if gone is None else later.plus(gone)
            if left.room(shape, ask) < groups:
                going.append(one)
                gone = one.left if gone is None else gone.plus(one.left)
        found[groups] = tuple(reversed(going))
    return found


def joined(curves: Iterable[Curve], most: int) -> list[Step | None]:
    """The curve of several nodes or switches together, up to `most`."""
    needed = _needed([curve for curve in curves if len(curve) > 1], most)
    if sum(min(len(curve), most + 1) for curve in needed) * most > MOST_STEPS:
        return _in_turn(needed, most)
    best: list[Step | None] = [NOTHING]
    for curve in needed:
        reach = min(most, len(best) + len(curve) - 2)
        new: list[Step | None] = [None] * (reach + 1)
        for have, there in enumerate(best):
            if there is None:
                continue
            for more, step in enumerate(curve[: reach - have + 1]):
                if step is None:
                    continue
                now, price = new[have + more], plus(there.price, step.price)
                if now is None or price < now.price:
                    new[have + more] = Step(price, there.taken + step.taken)
        best = new
    return best


def _needed(curves: list[Curve], most: int) -> list[Curve]:
    """Those that an answer can need, in their order: of more nodes than groups some are left over."""
    if len(curves) <= most:
        return curves
    needed: set[int] = set()
    for groups in range(1, min(most, max(map(len, curves)) - 1) + 1):
        able = [(step.price, k) for k, curve in enumerate(curves) if (step := _at(curve, groups)) is not None]
        needed |= {k for _, k in sorted(able)[:most]}
    return [curves[k] for k in sorted(needed)]


def _in_turn(curves: list[Curve], most: int) -> list[Step | None]:
    """One node filled after the other, those of the lowest price per group first."""

    def per_group(k: int) -> tuple[Price, int]:
        (groups, step), *_ = ((g, s) for g, s in reversed(list(enumerate(curves[k]))) if s is not None)
        return tuple(PARTS_OF_A_PRICE * part // groups for part in step.price), k

    found: list[Step | None] = [NOTHING]
    for k in sorted((k for k, curve in enumerate(curves) if any(curve[1:])), key=per_group):
        full = found[-1] or NOTHING
        for step in curves[k][1 : most + 2 - len(found)]:
            found.append(None if step is None else Step(plus(full.price, step.price), full.taken + step.taken))
        while found[-1] is None:
            found.pop()
    return found


def _at(curve: Curve, groups: int) -> Step | None:
    return curve[groups] if groups < len(curve) else None


def whole_units(curve: Curve, unit: int) -> list[Step | None]:
    """The curve of whole units of so many groups."""
    return list(curve[::unit])


def least(curves: Mapping[int, Curve], groups: int) -> Step | None:
    """The cheapest single curve that has so many groups."""
    able = [(step.price, at, step) for at, curve in sorted(curves.items()) if (step := _at(curve, groups)) is not None]
    return min(able, key=lambda one: one[:2])[2] if able else None
