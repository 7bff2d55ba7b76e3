"""The cheapest evictions for so many groups of several nodes together: those of a switch, and all of them.

Curves of nodes are put together exactly, by dynamic programming: an answer of W groups uses at most W nodes, so the W
cheapest nodes for each number of groups are enough. Where even that takes too many steps, nodes come in by their price
per group.
"""

from collections.abc import Iterable, Mapping

from planner.placement.victims.cheapest_sets import NOTHING, Curve, Price, Step, plus

MOST_STEPS = 50_000
"""Steps of the programme over nodes."""

PARTS_OF_A_PRICE = 1_000
"""So finely prices per group are told apart."""


def joined(curves: Iterable[Curve], group_limit: int) -> list[Step | None]:
    """The curve of several nodes or switches together, up to `group_limit`."""
    needed = _needed([curve for curve in curves if len(curve) > 1], group_limit)
    if sum(min(len(curve), group_limit + 1) for curve in needed) * group_limit > MOST_STEPS:
        return _in_turn(needed, group_limit)
    best: list[Step | None] = [NOTHING]
    for curve in needed:
        reach = min(group_limit, len(best) + len(curve) - 2)
        new: list[Step | None] = [None] * (reach + 1)
        for have, reached in enumerate(best):
            if reached is None:
                continue
            for more, step in enumerate(curve[: reach - have + 1]):
                if step is None:
                    continue
                now, price = new[have + more], plus(reached.price, step.price)
                if now is None or price < now.price:
                    new[have + more] = Step(price, reached.shares + step.shares)
        best = new
    return best


def _needed(curves: list[Curve], group_limit: int) -> list[Curve]:
    """Those that an answer can need, in their order: of more nodes than groups some are left over."""
    if len(curves) <= group_limit:
        return curves
    needed: set[int] = set()
    for groups in range(1, min(group_limit, max(map(len, curves)) - 1) + 1):
        able = [(step.price, k) for k, curve in enumerate(curves) if (step := _at(curve, groups)) is not None]
        needed |= {k for _, k in sorted(able)[:group_limit]}
    return [curves[k] for k in sorted(needed)]


def _in_turn(curves: list[Curve], group_limit: int) -> list[Step | None]:
    """One node filled after the other, those of the lowest price per group first."""

    def per_group(k: int) -> tuple[Price, int]:
        (groups, step), *_ = ((g, s) for g, s in reversed(list(enumerate(curves[k]))) if s is not None)
        # Whole thousandths: prices are large whole numbers, of which floats would lose the end.
        return tuple(PARTS_OF_A_PRICE * part // groups for part in step.price), k

    steps: list[Step | None] = [NOTHING]
    for k in sorted((k for k, curve in enumerate(curves) if any(curve[1:])), key=per_group):
        full = steps[-1] or NOTHING
        for step in curves[k][1 : group_limit + 2 - len(steps)]:
            steps.append(None if step is None else Step(plus(full.price, step.price), full.shares + step.shares))
        # The next node's groups are added to a number that can be had.
        while steps[-1] is None:
            steps.pop()
    return steps


def _at(curve: Curve, groups: int) -> Step | None:
    return curve[groups] if groups < len(curve) else None


def whole_units(curve: Curve, unit: int) -> list[Step | None]:
    """The curve of whole units of so many groups."""
    return list(curve[::unit])


def cheapest(curves: Mapping[int, Curve], groups: int) -> Step | None:
    """The cheapest single curve that has so many groups."""
    able = [(step.price, at, step) for at, curve in sorted(curves.items()) if (step := _at(curve, groups)) is not None]
    return min(able, key=lambda option: option[:2])[2] if able else None
