"""Which islands of a plan hand KV caches to each other: a prefill and a decode one that share a length.

The router pairs them request by request, so every such pair has to understand each other, and so does whatever hangs
together by pairs: one island has one configuration for all its partners.
"""

from collections import defaultdict
from collections.abc import Sequence

from planner.domain import Phase, Plan

Span = tuple[int, int]  # prompt lengths from the first to before the second (tokens)


def partners(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Island -> islands of the other phase that it shares a length with, each in the plan's order."""
    spans = _spans(plan)
    found: dict[str, list[str]] = {island.id: [] for island in plan.islands if island.phase is not None}
    for prefill in (i.id for i in plan.islands if i.phase is Phase.PREFILL):
        for decode in (i.id for i in plan.islands if i.phase is Phase.DECODE):
            if _meet(spans[prefill], spans[decode]):
                found[prefill].append(decode)
                found[decode].append(prefill)
    return {island: tuple(others) for island, others in found.items()}


def clusters(pairs: dict[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    """Island -> all islands that hang together with it by pairs, itself too."""
    found: dict[str, frozenset[str]] = {}
    for island in pairs:
        if island in found:
            continue
        held, ahead = {island}, [island]
        while ahead:
            new = set(pairs[ahead.pop()]) - held
            held |= new
            ahead += sorted(new)
        found |= dict.fromkeys(held, frozenset(held))
    return found


def _spans(plan: Plan) -> defaultdict[str, list[Span]]:
    """Island -> the lengths that it takes, as rising spans with gaps between."""
    found: defaultdict[str, list[Span]] = defaultdict(list)
    routes = (route for route in plan.routing if route.share > 0)
    for route in sorted(routes, key=lambda route: route.range_start):
        own = found[route.island]
        if own and own[-1][1] >= route.range_start:
            own[-1] = (own[-1][0], max(own[-1][1], route.range_end))
        else:
            own.append((route.range_start, route.range_end))
    return found


def _meet(mine: Sequence[Span], theirs: Sequence[Span]) -> bool:
    one, other = 0, 0
    while one < len(mine) and other < len(theirs):
        if max(mine[one][0], theirs[other][0]) < min(mine[one][1], theirs[other][1]):
            return True
        if mine[one][1] <= theirs[other][1]:
            one += 1
        else:
            other += 1
    return False
