"""Rows of a programme of buckets that KV caches which leave a GPU type, or enter it, fit through its switch's uplink.

| symbol | meaning | unit |
|---|---|---|
| g, h | groups of stocks: those under one uplink, and all without one | 1 |
| i, k, v[i, k] | bucket of prefill, of decode; KV caches with a prompt in both of a request of the whole mix | GB |
| S[g, i], R[g, k] | what servers of g do of the bucket, over its probability | requests/s |
| M[i, k] | what servers of both phases do of it, who hand nothing over | requests/s |
| y[g, h, i, k] | requests that g prefills and h decodes, over the probability of the two buckets | requests/s |
| u, u' | steps of a share, 0 to 1 | 1 |

A router pairs servers whatever their type: with shares a of prefill and b of decode, lambda a[g] b[h] go from g to h.
That is no linear row. No less than this leaves g, whoever pairs servers:

handed   sum_h y[g, h, i, k] <= S[g, i]      taken   sum_g y[g, h, i, k] <= R[h, k]
carried  sum_(g, h) y[g, h, i, k] + M[i, k] >= lambda
out_<g>, into_<g>   sum v y[g, h, i, k] over h (y[h, g, i, k]) other than g <= uplink

so bounds are bounds. `surely` asks for more of what crosses, c: where the senders' share is no more than u and the
receivers' no more than u', c >= u u' lambda, or c >= u' S, or c >= u R. What keeps to that fits through however servers
are paired.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

import pulp

from planner.assignment.buckets.offer import BucketOffer, BucketOption, Partition, Place, PoolCount
from planner.domain import Phase

STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)
Servers = Mapping[tuple[Place, BucketOption], pulp.LpVariable]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """Requests/s that groups prefill of a bucket of prefill, and decode of one of decode, over their probabilities;
    `both`: what servers of both phases do of the two. `name`: of their rows."""

    name: str
    gb: float
    sent: Mapping[int, pulp.LpAffineExpression]
    received: Mapping[int, pulp.LpAffineExpression]
    both: pulp.LpAffineExpression


def uplink_rows(
    model: pulp.LpProblem,
    offer: BucketOffer,
    partition: Partition,
    servers: Servers,
    rate: pulp.LpVariable,
    *,
    scale: pulp.LpVariable | int = 1,
    relaxed: bool = False,
) -> None:
    """Adds the rows, none where no uplink is given. `scale`: what all counts are multiplied with; `relaxed`: without
    the binaries that `surely` needs."""
    uplinks = offer.uplinks
    if uplinks is None:
        return
    ends = [
        _ends(offer, servers, (Phase.PREFILL, i), (Phase.DECODE, k), gb)
        for i, k in product(partition.prefill, partition.decode)
        if (gb := uplinks.gb.get((i, k), 0.0))
    ]
    surely = uplinks.surely and not relaxed
    if surely:
        rate_bound = sum(v.upBound * option.rate_rps for (_, option), v in servers.items()) / min(
            offer.probabilities.values()
        )
        crossing = _surely(model, ends, rate, len(uplinks.gb_s), rate_bound)
    else:
        crossing = _at_least(model, ends, rate)
    for (group, way), load in crossing.items():
        if group < len(uplinks.gb_s):
            # Wide ones over their width, so that rows scale alike.
            gb_s = uplinks.gb_s[group]
            wide = max(1.0, gb_s)
            model += load * (1 / wide) - gb_s / wide * scale <= 0, f"{way}_{group}"


def uplink_rps(offer: BucketOffer, partition: Partition, pools: Iterable[PoolCount]) -> float:
    """The rate of the whole at which pools fill an uplink, where a router pairs servers whatever their type; inf where
    they fill none."""
    uplinks = offer.uplinks
    if uplinks is None:
        return math.inf
    done: dict[Place, dict[int, float]] = {}
    for pool in pools:
        of_place = done.setdefault(pool.place, {})
        group = uplinks.groups[pool.option.stock]
        of_place[group] = of_place.get(group, 0.0) + pool.count * pool.option.rate_rps
    loads: dict[tuple[int, str], float] = {}
    for (i, k), gb in uplinks.gb.items():
        prefill, decode = (Phase.PREFILL, i), (Phase.DECODE, k)
        sent, received = done.get(prefill, {}), done.get(decode, {})
        if i not in partition.prefill or k not in partition.decode or not (sent and received):
            continue
        apart = min(
            sum(sent.values()) / offer.probabilities[prefill], sum(received.values()) / offer.probabilities[decode]
        )
        both = sum(sum(flows.values()) for place, flows in done.items() if offer.served_by(place) == (prefill, decode))
        crosses = gb * apart / (apart + both / offer.probabilities[prefill])
        for g, h in product(sent, received):
            if g != h:
                part = crosses * sent[g] / sum(sent.values()) * received[h] / sum(received.values())
                loads[g, "out"] = loads.get((g, "out"), 0.0) + part
                loads[h, "into"] = loads.get((h, "into"), 0.0) + part
    full = (uplinks.gb_s[g] / load for (g, _), load in loads.items() if g < len(uplinks.gb_s) and load)
    return min(full, default=math.inf)


def _ends(offer: BucketOffer, servers: Servers, prefill: Place, decode: Place, gb: float) -> _Ends:
    assert offer.uplinks is not None, "who has rows has uplinks"
    groups = offer.uplinks.groups

    def done(place: Place) -> dict[int, pulp.LpAffineExpression]:
        by_group: dict[int, list[tuple[pulp.LpVariable, float]]] = {}
        for (home, option), count in servers.items():
            if home == place:
                by_group.setdefault(groups[option.stock], []).append(
                    (count, option.rate_rps / offer.probabilities[place])
                )
        return {group: pulp.LpAffineExpression(terms) for group, terms in sorted(by_group.items())}

    mixed = [
        (count, option.rate_rps / offer.probabilities[prefill])
        for (home, option), count in servers.items()
        if offer.served_by(home) == (prefill, decode)
    ]
    name = f"{prefill[1]}_{decode[1]}"
    return _Ends(name=name, gb=gb, sent=done(prefill), received=done(decode), both=pulp.LpAffineExpression(mixed))


Crossing = dict[tuple[int, str], pulp.LpAffineExpression]
"""GB/s out of a group, and into it."""


def _at_least(model: pulp.LpProblem, ends: list[_Ends], rate: pulp.LpVariable) -> Crossing:
    """What crosses where servers are paired as well as can be."""
    crossing: Crossing = {}
    for pair in ends:
        y = {
            (g, h): pulp.LpVariable(f"handed_{g}_{h}_{pair.name}", lowBound=0)
            for g, h in product(pair.sent, pair.received)
        }
        for g, sent in pair.sent.items():
            model += pulp.lpSum(y[g, h] for h in pair.received) - sent <= 0, f"handed_{g}_{pair.name}"
        for h, received in pair.received.items():
            model += pulp.lpSum(y[g, h] for g in pair.sent) - received <= 0, f"taken_{h}_{pair.name}"
        model += pulp.lpSum(y.values()) + pair.both - rate >= 0, f"carried_{pair.name}"
        for (g, h), flow in y.items():
            if g != h:
                for end in ((g, "out"), (h, "into")):
                    crossing[end] = crossing.get(end, pulp.LpAffineExpression()) + pair.gb * flow
    return crossing


def _surely(
    model: pulp.LpProblem, ends: list[_Ends], rate: pulp.LpVariable, uplinks: int, rate_bound: float
) -> Crossing:
    """What crosses at the most, however servers are paired; `rate_bound`: requests/s that nothing passes."""
    crossing: Crossing = {}
    for pair in ends:
        for group in sorted({*pair.sent, *pair.received} & {*range(uplinks)}):
            for way, leaves in (("out", True), ("into", False)):
                senders = _part(pair.sent, group, inside=leaves)
                receivers = _part(pair.received, group, inside=not leaves)
                load = pulp.LpVariable(f"crossing_{way}_{group}_{pair.name}", lowBound=0)
                _bounded(model, load, rate, (senders, pair.sent), (receivers, pair.received), rate_bound)
                crossing[group, way] = crossing.get((group, way), pulp.LpAffineExpression()) + pair.gb * load
    return crossing


def _part(flows: Mapping[int, pulp.LpAffineExpression], group: int, *, inside: bool) -> pulp.LpAffineExpression:
    return pulp.lpSum(flow for other, flow in flows.items() if (other == group) is inside)


def _bounded(
    model: pulp.LpProblem,
    load: pulp.LpVariable,
    rate: pulp.LpVariable,
    senders: tuple[pulp.LpAffineExpression, Mapping[int, pulp.LpAffineExpression]],
    receivers: tuple[pulp.LpAffineExpression, Mapping[int, pulp.LpAffineExpression]],
    rate_bound: float,
) -> None:
    """The load is no less than one of u u' lambda, u' S and u R, where u and u' are no less than the shares of the
    senders and the receivers."""
    ways = [pulp.LpVariable(f"way_{n}_{load.name}", cat=pulp.LpBinary) for n in range(3)]
    model += pulp.lpSum(ways) == 1
    sent, received = (
        _share_steps(model, f"{end}_{load.name}", flow, of_bucket, rate_bound)
        for end, (flow, of_bucket) in (("sent", senders), ("received", receivers))
    )
    for (u, first), (v, other) in product(sent.items(), received.items()):
        model += load - u * v * rate + rate_bound * (3 - ways[0] - first - other) >= 0
    for v, other in received.items():
        model += load - v * senders[0] + rate_bound * (2 - ways[1] - other) >= 0
    for u, first in sent.items():
        model += load - u * receivers[0] + rate_bound * (2 - ways[2] - first) >= 0


def _share_steps(
    model: pulp.LpProblem,
    name: str,
    flow: pulp.LpAffineExpression,
    of_bucket: Mapping[int, pulp.LpAffineExpression],
    rate_bound: float,
) -> dict[float, pulp.LpVariable]:
    """Which step a share of a bucket is no more than."""
    steps = {u: pulp.LpVariable(f"step_{n}_{name}", cat=pulp.LpBinary) for n, u in enumerate(STEPS)}
    model += pulp.lpSum(steps.values()) == 1
    for u, step in steps.items():
        if u < 1:
            model += flow - u * pulp.lpSum(of_bucket.values()) - rate_bound * (1 - step) <= 0
    return steps
