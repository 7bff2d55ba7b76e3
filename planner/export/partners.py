"""Which islands of a plan hand KV caches to each other: a prefill and a decode one that share a length.

The router pairs them request by request, so every such pair has to understand each other, and so do all islands
connected by pairs: one island has one configuration for all its partners. Mixed islands keep their caches.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from planner.domain import DeployedRoute, Phase, Route

Span = tuple[int, int]  # prompt lengths from the first to before the second (tokens)


def partners(phases: Mapping[str, Phase], routes: Iterable[Route | DeployedRoute]) -> dict[str, tuple[str, ...]]:
    """Island -> islands of the other phase that it shares a length with, each in the order of `phases`, which gives
    what the islands serve."""
    spans = {island: tuple(rising) for island, rising in _spans(routes).items()}
    meets = cache(_meet)  # many islands take the same lengths
    others_of: dict[str, list[str]] = {island: [] for island in phases}
    prefills, decodes = (
        [island for island, phase in phases.items() if phase is half] for half in (Phase.PREFILL, Phase.DECODE)
    )
    for prefill in prefills:
        for decode in decodes:
            if meets(spans.get(prefill, ()), spans.get(decode, ())):
                others_of[prefill].append(decode)
                others_of[decode].append(prefill)
    return {island: tuple(others) for island, others in others_of.items()}


def clusters(pairs: dict[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    """Island -> all islands that pairs connect it with, itself too."""
    cluster_of: dict[str, frozenset[str]] = {}
    for island in pairs:
        if island in cluster_of:
            continue
        members, ahead = {island}, [island]
        while ahead:
            new = set(pairs[ahead.pop()]) - members
            members |= new
            ahead += sorted(new)
        cluster_of |= dict.fromkeys(members, frozenset(members))
    return cluster_of


def _spans(routes: Iterable[Route | DeployedRoute]) -> defaultdict[str, list[Span]]:
    """Island -> the lengths that it takes, as ascending spans with gaps between."""
    spans: defaultdict[str, list[Span]] = defaultdict(list)
    used = (route for route in routes if route.share > 0)
    for route in sorted(used, key=lambda route: route.range_start):
        rising = spans[route.island]
        if rising and rising[-1][1] >= route.range_start:
            rising[-1] = (rising[-1][0], max(rising[-1][1], route.range_end))
        else:
            rising.append((route.range_start, route.range_end))
    return spans


def _meet(spans: Sequence[Span], others: Sequence[Span]) -> bool:
    left_at, right_at = 0, 0
    while left_at < len(spans) and right_at < len(others):
        if max(spans[left_at][0], others[right_at][0]) < min(spans[left_at][1], others[right_at][1]):
            return True
        if spans[left_at][1] <= others[right_at][1]:
            left_at += 1
        else:
            right_at += 1
    return False
