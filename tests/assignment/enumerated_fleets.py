"""Fleets divided the long way: every division of whole nodes, every count of servers on every share of them.

What a deployment does with so many GPUs of each stock is found by trying all numbers of servers that fit in it; a
division is judged from these rates and the definitions of the aims, without any programme.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from enumerated_buckets import worst_loss

from planner.assignment import (
    BucketOffer,
    BucketOption,
    DeploymentOffer,
    FleetOffer,
    Partition,
    RateLimit,
    ServiceTerms,
)
from planner.assignment.buckets.offer import columns_of, places_of
from planner.domain import Phase
from planner.domain.fleets import FleetAim

WHOLE, HALVED, TOGETHER = Partition((0,), (0,), (0,)), Partition((1, 2), (0,)), Partition((0,), (0,))
KEPT = 1e-6
"""Of a place's share, what places after it may take: the programme's own tolerance."""


@dataclass(frozen=True, slots=True)
class Divisions:
    """Every division of a fleet. `gpus`: of division, deployment and stock; `rates_rps`: of division and deployment."""

    gpus: np.ndarray
    rates_rps: np.ndarray


def fleet_of(seed: int, *, share_nodes: bool | None = None, survive: float | None = None) -> FleetOffer:
    """Two or three services on two stocks (or three tiny ones), drawn: some nodes are not whole, some services have
    two checkpoints, some share pools, some deployments have several forms."""
    rng = np.random.default_rng(seed)
    stocks = 3 if seed % 8 == 7 else 2
    services = 2 if stocks == 3 else int(rng.integers(2, 4))
    nodes = [int(rng.integers(2, 5)) for _ in range(stocks)]
    share_nodes = bool(rng.random() < 0.2) if share_nodes is None else share_nodes
    most = (3 if stocks == 3 else 5) if share_nodes else (4 if stocks == 3 else 6)
    counts = tuple(min(most, int(rng.integers(1, 4)) * host + int(rng.integers(0, host))) for host in nodes)
    survive = float(rng.choice([0.0, 0.0, 0.5])) if survive is None else survive
    serves: list[dict[int, float]] = [{s: float(rng.uniform(0.8, 1.0))} for s in range(services)]
    if rng.random() < 0.4:
        part = float(rng.uniform(0.2, 0.8))
        serves.append({0: 0.9 * part, 1: 0.9 * (1 - part)})
    if rng.random() < 0.4 and len(serves) < 4:
        serves.append({services - 1: 0.9})
    return FleetOffer(
        counts=counts,
        hosts=(1,) * stocks if share_nodes else tuple(nodes),
        charges=tuple(rng.uniform(1, 5, stocks).tolist()),
        services=tuple(
            ServiceTerms(
                demand_rps=float(rng.uniform(1, 6)),
                weight=float(rng.uniform(0.5, 3)),
                priority=int(rng.integers(1, 3)),
                floor=float(rng.choice([0.0, 0.1, 0.2])),
            )
            for _ in range(services)
        ),
        deployments=tuple(_deployment(rng, counts, part, survive) for part in serves),
    )


def _deployment(
    rng: np.random.Generator, counts: tuple[int, ...], serves: dict[int, float], survive: float
) -> DeploymentOffer:
    partitions = [(WHOLE,), (TOGETHER,), (TOGETHER, HALVED), (WHOLE, HALVED)][int(rng.integers(4))]
    offers = [_offer(rng, counts, survive) for _ in range(int(rng.integers(1, 3)))]
    return DeploymentOffer(
        alternatives=tuple((offer, partition) for offer in offers for partition in partitions),
        serves=serves,
        most_rps=float(rng.choice([60.0, 60.0, 4.0])),
    )


def _offer(rng: np.random.Generator, counts: tuple[int, ...], survive: float) -> BucketOffer:
    """One bucket of all lengths, number 0, and its halves, 1 and 2, of prefill; mixed servers for all lengths."""
    chance = float(rng.uniform(0.3, 0.7))
    places = [(Phase.PREFILL, 0), (Phase.PREFILL, 1), (Phase.PREFILL, 2), (Phase.DECODE, 0), (Phase.MIXED, 0)]
    options = {place: tuple(_server(rng, t, count) for t, count in enumerate(counts)) for place in places}
    return BucketOffer(
        counts=counts,
        charges=(1.0,) * len(counts),
        options=options,
        probabilities=dict(zip(places, (1.0, chance, 1 - chance, 1.0, 1.0), strict=True)),
        halves={(Phase.MIXED, 0): ((Phase.PREFILL, 0), (Phase.DECODE, 0))},
        survive=survive,
    )


def _server(rng: np.random.Generator, stock: int, count: int) -> BucketOption:
    use = int(rng.integers(1, min(3, count) + 1))
    rate = float(rng.uniform(1, 5)) * use**1.1
    nodes = int(rng.integers(1, 4))
    left = float(rng.uniform(0.9, 1.1)) * rate
    return BucketOption(stock=stock, use=use, server=0, kind=use, rate_rps=rate, nodes=nodes, left_rps=left)


def rates_of(deployment: DeploymentOffer, counts: Sequence[int]) -> np.ndarray:
    """The most that a deployment serves by GPUs of every stock, no more than is of use."""
    best = np.zeros([count + 1 for count in counts])
    for offer, partition in deployment.alternatives:
        for used, rate in _ways(offer, partition, counts):
            best[used] = max(best[used], rate)
    for axis in range(best.ndim):  # who has more need not use it
        best = np.maximum.accumulate(best, axis=axis)
    return np.minimum(best, deployment.most_rps)


def _ways(offer: BucketOffer, partition: Partition, counts: Sequence[int]) -> Iterator[tuple[tuple[int, ...], float]]:
    columns = list(columns_of(offer, partition))
    for numbers in _numbers([option for _, option in columns], list(counts)):
        pools = [(home, option, n) for (home, option), n in zip(columns, numbers, strict=True) if n]
        used = [sum(o.use * n for _, o, n in pools if o.stock == t) for t in range(len(counts))]
        rows = []
        for place in places_of(partition):
            serving = [(o, n) for home, o, n in pools if place == home or home[0] is Phase.MIXED]
            carried = sum(o.rate_rps * n for o, n in serving)
            if offer.survive:
                after = sum(o.after_rps * n for o, n in serving)
                carried = min(carried, (after - worst_loss(offer, serving)) / offer.survive)
            rows.append(carried / offer.probabilities[place])
        if min(rows) > 0:
            yield tuple(used), min(rows)


def _numbers(options: Sequence[BucketOption], left: list[int]) -> Iterator[tuple[int, ...]]:
    if not options:
        yield ()
        return
    first, *others = options
    for number in range(left[first.stock] // first.use + 1):
        rest = list(left)
        rest[first.stock] -= number * first.use
        yield from ((number, *more) for more in _numbers(others, rest))


def divisions_of(offer: FleetOffer) -> Divisions:
    """All of them, with what every deployment serves of its share."""
    most = len(offer.deployments)
    of_stocks = [
        np.array(list(_shares(count // host, host, count % host, most)))
        for count, host in zip(offer.counts, offer.hosts, strict=True)
    ]
    chosen = np.array(list(product(*(range(len(rows)) for rows in of_stocks))))
    gpus = np.stack([rows[chosen[:, t]] for t, rows in enumerate(of_stocks)], axis=2)
    tables = [rates_of(deployment, offer.counts) for deployment in offer.deployments]
    rates = [table[tuple(gpus[:, j, t] for t in range(gpus.shape[2]))] for j, table in enumerate(tables)]
    limits = np.stack([_limited(offer.limits, j, gpus[:, j], rate) for j, rate in enumerate(rates)], axis=1)
    return Divisions(gpus, limits)


def _limited(limits: Sequence[RateLimit], deployment: int, gpus: np.ndarray, rates: np.ndarray) -> np.ndarray:
    for limit in limits:
        if limit.deployment == deployment:
            within = (gpus <= np.array(limit.gpus)).all(axis=1)
            rates = np.where(within, np.minimum(rates, limit.rate_rps), rates)
    return rates


def _shares(nodes: int, host: int, rest: int, deployments: int) -> Iterator[tuple[int, ...]]:
    """GPUs of one stock by deployment: whole nodes, and the one that is not whole to one of them."""
    for whole in product(range(nodes + 1), repeat=deployments):
        if sum(whole) > nodes:
            continue
        yield tuple(host * n for n in whole)
        for lucky in range(deployments) if rest else ():
            yield tuple(host * n + rest * (j == lucky) for j, n in enumerate(whole))


def promised(offer: FleetOffer, divisions: Divisions) -> np.ndarray:
    """Requests/s to every service, by division."""
    parts = np.array([[d.serves.get(s, 0.0) for s in range(len(offer.services))] for d in offer.deployments])
    return divisions.rates_rps @ parts


def best_value(offer: FleetOffer, aim: FleetAim, divisions: Divisions | None = None) -> float | None:
    """The best of all divisions; None where none meets what must be met."""
    every = divisions_of(offer) if divisions is None else divisions
    demands = np.array([service.demand_rps for service in offer.services])
    floors = np.array([service.floor for service in offer.services])
    got = promised(offer, every)
    shares = got / demands
    if aim is FleetAim.MULTIPLE:
        return float(shares.min(axis=1).max())
    if aim is FleetAim.TARGET:
        met = (shares >= 1).all(axis=1)
        rents = (every.gpus.sum(axis=1) * np.array(offer.charges)).sum(axis=1)
        return float(rents[met].min()) if met.any() else None
    met = (shares >= floors * (1 - 1e-9)).all(axis=1)
    if not met.any():
        return None
    if aim is FleetAim.WEIGHTED:
        weights = np.array([service.weight for service in offer.services])
        return float((np.minimum(got, demands) @ weights)[met].max())
    return _in_order(offer, shares[met])


def _in_order(offer: FleetOffer, shares: np.ndarray) -> float:
    places = np.array([service.priority for service in offer.services])
    total = 0.0
    for place in sorted(set(places.tolist())):
        served = np.minimum(shares[:, places == place].min(axis=1), 1.0)
        total += float(served.max())
        shares = shares[served >= served.max() * (1 - KEPT)]
    return total
