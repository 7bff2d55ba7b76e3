"""The programme of buckets solved the long way: every partition, every count of servers, from the definitions.

A place (a bucket of a phase) carries what its servers do, and where a loss is to be survived no more than what remains
without the servers of any pool that are lost, over the share that must remain. What is tried at one place is kept by
GPUs used, kinds and pools: all that other places and objectives can ask for. Where mixed servers may serve a bucket,
its prefill, its decode and the mixed ones are one place: requests that mixed servers take are taken in both phases.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise, product
from operator import add, le

import numpy as np

from planner.assignment.buckets.offer import BucketOffer, BucketOption, Halves, Partition, Place, places_of
from planner.domain import PHASES, Phase

Kinds = frozenset[tuple[int, int]]
LEFT = 0.9  # of its rate, what a server does where less is served after a loss
Used = tuple[int, ...]
Effort = tuple[Used, Kinds, int]  # units of each stock, kinds, pools


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An offer with all its partitions, and the intervals that its buckets are."""

    offer: BucketOffer
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One way to serve: its rate, charge, kinds and pools."""

    partition: Partition
    rate: float
    cost: float
    kinds: int
    pools: int


def instance_of(seed: int, *, survive: float = 0.0, nodes: int = 1, cuts: int = 3, mixed: bool = False) -> Instance:
    """One or two stocks of 2-6 units, two or three servers each; some ranges do not fit some servers.

    `nodes`: that are lost at once. `mixed`: some servers do both phases of a bucket that
    has the same lengths in both.
    """
    rng = np.random.default_rng(seed)
    stocks = int(rng.integers(1, 3))
    counts = tuple(int(rng.integers(3, 6 - mixed if stocks > 1 else 8 - mixed)) for _ in range(stocks))
    chances = rng.dirichlet(np.full(cuts + 1, 2.0))
    edges = [(0, *inner, cuts + 1) for inner in [(), *((cut,) for cut in range(1, cuts + 1))]]
    intervals = list(dict.fromkeys(interval for ends in edges for interval in pairwise(ends)))
    own = tuple(tuple(intervals.index(interval) for interval in pairwise(ends)) for ends in edges)
    options: dict[Place, tuple[BucketOption, ...]] = {}
    for phase in Phase if mixed else PHASES:
        numbers = [(t, n) for t in range(stocks) for n in range(rng.integers(2 - mixed, 4 - mixed))]
        servers = [_server(rng, t, n, counts[t], cuts + 1) for t, n in numbers]
        for number, (first, after) in enumerate(intervals):
            mix = chances[first:after] / chances[first:after].sum()
            options[phase, number] = tuple(_on(server, mix, first, after) for server in servers)
    probabilities = {place: float(chances[slice(*intervals[place[1]])].sum()) for place in options}
    offer = BucketOffer(
        counts=counts,
        charges=tuple(rng.uniform(1, 5, stocks).tolist()),
        options=options,
        probabilities=probabilities,
        halves={place: _halves(place[1]) for place in options if place[0] is Phase.MIXED},
        survive=survive,
        lost_nodes=nodes,
    )
    partitions = tuple(
        Partition(prefill, decode, tuple(b for b in prefill if b in decode) if mixed else ())
        for prefill, decode in product(own, repeat=2)
    )
    return Instance(offer=offer, partitions=partitions)


def _halves(bucket: int) -> Halves:
    return (Phase.PREFILL, bucket), (Phase.DECODE, bucket)


def _server(
    rng: np.random.Generator, stock: int, number: int, count: int, ranges: int
) -> tuple[BucketOption, np.ndarray]:
    use = int(rng.integers(1, min(count, 3) + 1))
    rates = rng.uniform(1, 9, ranges) * use**1.1 * (rng.random(ranges) >= 0.1)
    spread, shared = int(rng.integers(1, 4)), bool(rng.random() < 0.5)
    option = BucketOption(stock=stock, use=use, server=number, kind=number, rate_rps=0.0, nodes=spread, shared=shared)
    return option, rates


def _on(server: tuple[BucketOption, np.ndarray], mix: np.ndarray, first: int, after: int) -> BucketOption:
    """The harmonic mean over the mix; 0 where a range does not fit."""
    option, rates = server
    mine = rates[first:after]
    rate = float(1 / (mix / mine).sum()) if (mine > 0).all() else 0.0
    return BucketOption(
        stock=option.stock,
        use=option.use,
        server=option.server,
        kind=option.kind,
        rate_rps=rate,
        nodes=option.nodes,
        shared=option.shared,
        left_rps=LEFT * rate,
    )


def numbers_of(options: Sequence[BucketOption], counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every number of servers of each option that the stocks have room for."""
    if not options:
        yield ()
        return
    first, *others = options
    for number in range(counts[first.stock] // first.use + 1):
        left = [count - number * first.use * (stock == first.stock) for stock, count in enumerate(counts)]
        yield from ((number, *rest) for rest in numbers_of(others, left))


def _used(options: Sequence[BucketOption], numbers: Sequence[int], stocks: int) -> Used:
    used = [0] * stocks
    for option, number in zip(options, numbers, strict=True):
        used[option.stock] += number * option.use
    return tuple(used)


def _carried(offer: BucketOffer, options: Sequence[BucketOption], numbers: Sequence[int]) -> float:
    pools = [(option, number) for option, number in zip(options, numbers, strict=True) if number]
    served = sum(option.rate_rps * number for option, number in pools)
    after = sum(option.after_rps * number for option, number in pools)
    return min(served, (after - worst_loss(offer, pools)) / offer.survive) if offer.survive else served


def worst_loss(offer: BucketOffer, pools: Sequence[tuple[BucketOption, int]]) -> float:
    """The most that the servers of a bucket lose (requests/s), each pool dealt out to its nodes in turn: the fullest
    node of a pool; of several nodes the fastest servers, one each, and no less than so many nodes' part of a pool;
    jointly every node has what the fullest may have of all pools that share it."""
    dealt = {
        option: [len(range(node, number, option.nodes)) for node in range(option.nodes)] for option, number in pools
    }
    fullest = {option: max(counts) * option.after_rps for option, counts in dealt.items()}
    if offer.jointly:
        stocks = {option.stock for option in fullest}
        shared = [sum(rps for o, rps in fullest.items() if o.shared and o.stock == stock) for stock in stocks]
        return offer.lost_nodes * max([*shared, *fullest.values()], default=0.0)
    if offer.lost_nodes == 1:
        return max(fullest.values(), default=0.0)
    servers = sorted((option.after_rps for option, number in pools for _ in range(number)), reverse=True)
    parts = [min(1.0, offer.lost_nodes / o.nodes) * number * o.after_rps for o, number in pools]
    return max([sum(servers[: offer.lost_nodes]), *parts])


def _groups(partition: Partition) -> list[tuple[Place, ...]]:
    """Places whose servers are tried together: alone, or the three of a bucket that mixed servers may take."""
    alone = [(place,) for place in places_of(partition) if place[1] not in partition.mixed]
    return alone + [(*_halves(bucket), (Phase.MIXED, bucket)) for bucket in partition.mixed]


def _at(offer: BucketOffer, group: tuple[Place, ...], *, counted: bool) -> dict[Effort, float]:
    """The most that each effort carries of the whole mix; kinds and pools are left out unless they are `counted`."""
    pairs = [(place, option) for place in group for option in offer.options[place] if option.rate_rps > 0]
    options = [option for _, option in pairs]
    rows = [place for place in group if place[0] is not Phase.MIXED]
    best: dict[Effort, float] = {}
    for numbers in numbers_of(options, offer.counts):
        chosen = [o for o, n in zip(options, numbers, strict=True) if n]
        kinds = frozenset((o.stock, o.kind) for o in chosen) if counted else frozenset()
        effort = (_used(options, numbers, len(offer.counts)), kinds, len(chosen) * counted)
        rate = min(
            _carried(
                offer,
                [option for place, option in pairs if place[0] in (row[0], Phase.MIXED)],
                [n for n, (place, _) in zip(numbers, pairs, strict=True) if place[0] in (row[0], Phase.MIXED)],
            )
            / offer.probabilities[row]
            for row in rows
        )
        best[effort] = max(rate, best.get(effort, 0.0))
    return {effort: rate for effort, rate in best.items() if rate > 0}


def trials(offer: BucketOffer, *partitions: Partition, counted: bool = False) -> list[Trial]:
    """Every way to serve by one of these partitions that another of it with the same effort does not outdo."""
    at = cache(partial(_at, offer, counted=counted))
    return [trial for partition in partitions for trial in _joined(offer, partition, at)]


def _joined(
    offer: BucketOffer, partition: Partition, at: Callable[[tuple[Place, ...]], dict[Effort, float]]
) -> Iterator[Trial]:
    joined: dict[Effort, float] = {((0,) * len(offer.counts), frozenset(), 0): np.inf}
    for group in _groups(partition):
        following: dict[Effort, float] = {}
        for ((used, kinds, pools), rate), ((more, other, added), own) in product(joined.items(), at(group).items()):
            both = tuple(map(add, used, more))
            if all(map(le, both, offer.counts)):
                effort = (both, kinds | other, pools + added)
                following[effort] = max(min(rate, own), following.get(effort, 0.0))
        joined = following
    for (used, kinds, pools), rate in joined.items():
        cost = sum(a * b for a, b in zip(used, offer.charges, strict=True))
        yield Trial(partition=partition, rate=rate, cost=cost, kinds=len(kinds), pools=pools)
