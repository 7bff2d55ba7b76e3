"""Which islands of a plan hand KV caches to each other: a prefill and a decode one that share a length.

The router pairs them request by request, so every such pair has to understand each other, and so does whatever hangs
together by pairs: one island has one configuration for all its partners.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from planner.domain import DeployedRoute, Phase, Route

Span = tuple[int, int]  # prompt lengths from the first to before the second (tokens)


def partners(phases: Mapping[str, Phase], routes: Iterable[Route | DeployedRoute]) -> dict[str, tuple[str, ...]]:
    """Island -> islands of the other phase that it shares a length with, each in the order of `phases`, which tells
    what the islands serve."""
    spans = _spans(routes)
    found: dict[str, list[str]] = {island: [] for island in phases}
    for prefill in (island for island, phase in phases.items() if phase is Phase.PREFILL):
        for decode in (island for island, phase in phases.items() if phase is Phase.DECODE):
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


def _spans(routes: Iterable[Route | DeployedRoute]) -> defaultdict[str, list[Span]]:
    """Island -> the lengths that it takes, as rising spans with gaps between."""
    found: defaultdict[str, list[Span]] = defaultdict(list)
    taken = (route for route in routes if route.share > 0)
    for route in sorted(taken, key=lambda route: route.range_start):
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
