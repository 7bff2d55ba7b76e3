"""Rows of a programme of buckets that starts from servers which run already.

| symbol | meaning | unit |
|---|---|---|
| p, n[p], u[p] | servers that run already, how many, GPUs of one | 1 |
| y[p, B] | of them, those that run on, on bucket B: sum_B y <= n | 1 |
| k[p, B] | whether any do: y <= n k, sum_B k <= 1, as a copy cannot leave the object that started it | 0, 1 |
| z[o, B], u[o] | servers that are started, GPUs of one | 1 |
| S[t], T[t] | GPUs of type t that stop: sum u (n - sum_B y); that start: sum u z | 1 |
| G[t] | GPUs that are touched: G >= S, G >= T, what starts takes the GPUs of what stops first | 1 |

most_gpus           sum G <= as many as may be      running_on  sum y >= as many as must
turned_shape_<n>    sum z <= sum (n - y) of a shape: GPUs stay grouped as they are
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pulp

from planner.assignment.buckets.offer import BucketOffer, BucketOption, Place

Servers = Mapping[tuple[Place, BucketOption], pulp.LpVariable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a programme's servers take to be come to: GPUs touched, servers that run on, USD."""

    gpus: pulp.LpAffineExpression
    running_on: pulp.LpAffineExpression
    usd: pulp.LpAffineExpression


def change_rows(
    model: pulp.LpProblem,
    offer: BucketOffer,
    servers: Servers,
    *,
    relaxed: bool = False,
    scale: pulp.LpVariable | int = 1,
) -> Change:
    """Adds the rows, none where nothing runs. `relaxed`: started servers are GPUs, whatever servers they form;
    `scale`: what all counts are multiplied with."""
    if not offer.deployed and not offer.terms.turns_only:
        nothing = pulp.LpAffineExpression()
        return Change(gpus=nothing, running_on=nothing, usd=nothing)
    stays = [_sum((v, 1) for (_, o), v in servers.items() if o.deployed == p) for p in range(len(offer.deployed))]
    stops = [group.count * scale - run_on for group, run_on in zip(offer.deployed, stays, strict=True)]
    for p, group in enumerate(offer.deployed):
        model += stays[p] - group.count * scale <= 0, f"running_{p}"
    # Binaries would turn the relaxation, which is solved for every partition, into a search.
    if not relaxed:
        _one_bucket(model, offer, servers)
    touched = [_touched(model, offer, servers, stops, t) for t in range(len(offer.counts))]
    started = [(v, o.start_usd) for (_, o), v in servers.items() if o.deployed is None]
    change = Change(
        gpus=pulp.lpSum(touched),
        running_on=pulp.lpSum(stays),
        usd=_sum(started) + pulp.lpSum(g.stop_usd * n for g, n in zip(offer.deployed, stops, strict=True)),
    )
    if offer.terms.most_gpus is not None:
        model += change.gpus - offer.terms.most_gpus * scale <= 0, "most_gpus"
    if offer.terms.least_running_on:
        model += change.running_on - offer.terms.least_running_on * scale >= 0, "running_on"
    if offer.terms.turns_only and not relaxed:
        _turns(model, offer, servers, stops)
    return change


def _one_bucket(model: pulp.LpProblem, offer: BucketOffer, servers: Servers) -> None:
    """Copies of an island run on behind one bucket; behind another they would be of another island, and start anew."""
    for p, group in enumerate(offer.deployed):
        running = [v for (_, option), v in servers.items() if option.deployed == p]
        if len(running) > 1:
            stays = [pulp.LpVariable(f"stays_{v.name}", cat=pulp.LpBinary) for v in running]
            for v, stay in zip(running, stays, strict=True):
                model += v <= group.count * stay
            model += pulp.lpSum(stays) <= 1, f"one_bucket_{p}"


def _sum(terms: Iterable[tuple[pulp.LpVariable, float]]) -> pulp.LpAffineExpression:
    return pulp.LpAffineExpression(list(terms))


def _touched(
    model: pulp.LpProblem,
    offer: BucketOffer,
    servers: Servers,
    stops: list[pulp.LpAffineExpression],
    t: int,
) -> pulp.LpVariable:
    """G of a stock."""
    touched = pulp.LpVariable(f"touched_{t}", lowBound=0)
    begin = _sum((v, o.use) for (_, o), v in servers.items() if o.deployed is None and o.stock == t)
    end = pulp.lpSum(g.use * n for g, n in zip(offer.deployed, stops, strict=True) if g.stock == t)
    model += touched - begin >= 0, f"begin_{t}"
    model += touched - end >= 0, f"end_{t}"
    if offer.terms.turns_only:
        model += begin - end <= 0, f"turned_{t}"
    return touched


def _turns(model: pulp.LpProblem, offer: BucketOffer, servers: Servers, stops: list[pulp.LpAffineExpression]) -> None:
    """What starts has the place of one of its shape that stops."""
    fresh = [(option, v) for (_, option), v in servers.items() if option.deployed is None]
    for n, (stock, shape) in enumerate(sorted({(option.stock, option.shape) for option, _ in fresh})):
        begun = pulp.lpSum(v for option, v in fresh if (option.stock, option.shape) == (stock, shape))
        groups = zip(offer.deployed, stops, strict=True)
        ended = pulp.lpSum(stop for group, stop in groups if (group.stock, group.shape) == (stock, shape))
        model += begun - ended <= 0, f"turned_shape_{n}"
