"""How a router that counts what it sent parts a bucket's requests among unlike servers, and what they serve so.

| symbol | meaning | unit |
|---|---|---|
| i, n | kind of server of the bucket, servers of it | |
| x, F | rate of one server, its full rate | requests/s |
| w | weight of a server, what its counts are divided by: F T(0.85 F)^a; its endpoints where the router is blind | |
| a | of 0, 1/2, 1 that under which most is served; the plan keeps w, and programs are started with it | 1 |
| e | endpoints of a server: its attention ranks, or 1 | 1 |
| T(x) | how long a request counts: rest of the step under way, mean wait, own steps; or to its last token | ms |
| X | full rate of all servers together, as one of kind i sees it | requests/s |

Who sends each request where least is keeps counts equal for their weights: x T(x) / (e w) is the same of all kinds, as
by Little's law what is there is the rate times the stay. So a server that is done sooner gets more than its share of
the speed, and one that is slow for its endpoints fills up first; T grows without end towards F, which no kind passes.
Weights that count the stay (a = 1) load all kinds alike, and those of speed alone keep a slow one's queue short. In w
and X no server's rate is more than its NICs and places let through.
A blind router's endpoints have equal queues, which a slow one takes longer to work off: what X is to kind i is that of
as many endpoints of its own speed, F / e times all endpoints.
The bucket serves the highest rate at which, over all kinds together, no more are late than may be; no more than behind
a router that knows all, which is priced kind by kind.
Where counts decide nothing (draws, turns, work as engines tell it) shares are those of weights or speeds.
Sources: Little 1961; facts on promises and routers; held against replays in tests/replay/test_router_promises.py.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from planner.cost.arrays import Array
from planner.cost.serving.buckets import Buckets, Levels
from planner.cost.serving.mixed_servers import MixedServers
from planner.cost.serving.prefill_servers import PrefillServers
from planner.cost.serving.waits import Arrivals, RestOfStep, WaitTail, late_share
from planner.domain import Counted, Endpoints, Freed, Rule
from planner.domain.serving.routers import Layers
from planner.units import MS_PER_S

_LOADS = np.concatenate([np.linspace(0.02, 0.86, 15), np.linspace(0.88, 0.995, 24)])
"""Of the full rate, at which a server is looked at; lines in between."""
_HALVINGS = 16
_USUAL_LOAD = 0.85
_POWERS = (0.0, 0.5, 1.0)
_FULLEST = 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`count` equal servers of one row, `full_rps` of one, what its places and NICs let through (`most_rps`), its
    `weight` (0: to be chosen) and attention `ranks`, and what a request takes of a router's count after its first token
    (`answer_ms`)."""

    servers: PrefillServers | MixedServers
    count: int
    full_rps: float
    most_rps: float
    weight: float
    ranks: int
    answer_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Curve:
    """A server at `_LOADS`: rates (requests/s), service (loads, ranges; ms), S and u of the step under way, its usual
    rest (ms), what ranks add to the tail (ms), and rho."""

    rates: Array
    service: Array
    cycle_ms: Array
    chance: Array
    rest_ms: Array
    ranks_ms: Array
    rho: Array

    def at(self, rate: float) -> tuple[Array, float, float, RestOfStep]:
        """(service of each range, rho, what ranks add to the tail, rest of a step) at a rate."""
        row = int(np.clip(np.searchsorted(self.rates, rate) - 1, 0, len(self.rates) - 2))
        part = float((rate - self.rates[row]) / (self.rates[row + 1] - self.rates[row]))

        def line(column: Array) -> Array:
            return np.asarray(column[row] + part * (column[row + 1] - column[row]))

        under_way = RestOfStep(cycle_ms=line(self.cycle_ms)[None, None], chance=line(self.chance)[None, None])
        return line(self.service), float(line(self.rho)), float(line(self.ranks_ms)), under_way


class Parting:
    """The servers of a bucket behind a router; `levels` with what the first decode step takes. `knowing_rps`: what they
    serve behind one that knows all, which is the most."""

    def __init__(
        self, kinds: Sequence[Kind], buckets: Buckets, levels: Levels, arrivals: Arrivals, knowing_rps: float
    ) -> None:
        self._kinds, self._buckets, self._levels, self._arrivals = kinds, buckets, levels, arrivals
        self._first = arrivals.layers[0]
        self._knowing_rps = knowing_rps
        self._together = sum(kind.count * min(kind.full_rps, kind.most_rps) for kind in kinds)
        self._curves = [self._curve(kind) for kind in kinds]
        fresh = kinds[0].servers
        lengths = fresh.fresh if isinstance(fresh, PrefillServers) else fresh.prompts.fresh
        mean = float(buckets.weights[0] @ lengths[0])
        self._lengths = float(buckets.weights[0] @ lengths[0] ** 2) / mean**2 - 1
        self._chances = buckets.weights[0]
        self._sizes = self._chances * buckets.prompts / float(self._chances @ buckets.prompts)
        self.weights = tuple(kind.weight for kind in kinds)

    def _curve(self, kind: Kind) -> _Curve:
        points = len(_LOADS)
        many = replace(
            self._buckets,
            intervals=self._buckets.intervals * points,
            weights=np.repeat(self._buckets.weights, points, axis=0),
            probabilities=np.repeat(self._buckets.probabilities, points),
        )
        rates = _LOADS * kind.full_rps
        full = np.full((1, points), kind.full_rps)
        service, rho, tail, under_way = kind.servers.queue(
            many, rates[None], full, np.full(points, self._together), self._arrivals
        )
        later_ms = self._levels.first_step_ms if isinstance(kind.servers, PrefillServers) else 0.0
        return _Curve(
            rates=rates,
            service=service[0] + later_ms,
            cycle_ms=np.broadcast_to(under_way.cycle_ms, rho.shape)[0],
            chance=np.broadcast_to(under_way.chance, rho.shape)[0],
            rest_ms=kind.servers.usual_rest_ms(many, rates[None])[0],
            ranks_ms=np.broadcast_to(np.asarray(tail.ranks_ms), rho.shape)[0],
            rho=rho[0],
        )

    def _endpoints(self, kind: Kind) -> int:
        return kind.ranks if self._first.among is Endpoints.RANK else 1

    @property
    def seen_rps(self) -> tuple[float, ...]:
        """X as a server of each kind sees it."""
        return tuple(self._seen_rps(kind) for kind in self._kinds)

    def _seen_rps(self, kind: Kind) -> float:
        if self._first.among is Endpoints.POOL and self._first.rule is not Rule.LEAST_LOADED:
            return kind.count * kind.full_rps
        if self._first.by_speed:
            return self._together
        endpoints = sum(other.count * self._endpoints(other) for other in self._kinds)
        return endpoints * kind.full_rps / self._endpoints(kind)

    def _tail(self, kind: Kind, ranks_ms: Array, rho: Array) -> WaitTail:
        """Of one server at loads, shape (1, loads)."""
        cells = np.ones((1, len(rho)))
        counts = self._arrivals.counts
        return WaitTail(
            rate=self._seen_rps(kind) / MS_PER_S * cells,
            spare=np.maximum(1 - rho, 1e-9)[None],
            lengths=self._lengths * cells,
            counts=np.broadcast_to(counts, (1, len(rho), len(counts))),
            ranks_ms=ranks_ms[None],
        )

    def rates(self, total_rps: float) -> list[float] | None:
        """x of each kind where all serve `total_rps`; None where they cannot."""
        if not self._first.counting:
            shares = [kind.full_rps if self._first.by_speed else float(self._endpoints(kind)) for kind in self._kinds]
            together = sum(kind.count * share for kind, share in zip(self._kinds, shares, strict=True))
            rates = [total_rps * share / together for share in shares]
        else:
            rates = self._levelled(total_rps)
        limits = [min(_FULLEST * kind.full_rps, kind.most_rps) for kind in self._kinds]
        fits = all(rate <= limit for rate, limit in zip(rates, limits, strict=True))
        return rates if fits else None

    def _levelled(self, total_rps: float) -> list[float]:
        """x at equal counts: on lines between the counts at which some kind's curve bends."""
        counts = self._counts
        bends = np.unique(np.concatenate([[0.0], *counts]))
        rates = [
            np.interp(bends, np.concatenate([[0.0], count]), np.concatenate([[0.0], curve.rates]))
            for count, curve in zip(counts, self._curves, strict=True)
        ]
        served = sum(kind.count * of_kind for kind, of_kind in zip(self._kinds, rates, strict=True))
        if served[-1] < total_rps:
            return [kind.full_rps for kind in self._kinds]
        level = float(np.interp(total_rps, np.maximum.accumulate(served), bends))
        return [float(np.interp(level, bends, of_kind)) for of_kind in rates]

    def weighed(self) -> "Parting":
        """The same with weights under which most is served, where the router has any and they are not given."""
        if not self._first.weighs or all(self.weights):
            return self
        full = [min(kind.full_rps, kind.most_rps) for kind in self._kinds]
        stays = [
            float(np.interp(_USUAL_LOAD * rate, curve.rates, stay_ms))
            for rate, curve, stay_ms in zip(full, self._curves, self._stays_ms, strict=True)
        ]
        tries = [self._with([rate * stay**power for rate, stay in zip(full, stays, strict=True)]) for power in _POWERS]
        return max(tries, key=lambda each: each.served_rps)

    def _with(self, weights: Sequence[float]) -> "Parting":
        other = copy(self)
        other.weights = tuple(weight / max(weights) for weight in weights)
        return other

    @property
    def _counts(self) -> list[Array]:
        """x T / w along each curve, ascending."""
        rows = zip(self._kinds, self._curves, self._stays_ms, self.weights, strict=True)
        return [
            np.maximum.accumulate(curve.rates * stay_ms / self._divisor(kind, weight))
            for kind, curve, stay_ms, weight in rows
        ]

    def _divisor(self, kind: Kind, weight: float) -> float:
        if self._first.by_speed:
            return weight or kind.full_rps
        return float(self._endpoints(kind))

    @cached_property
    def _stays_ms(self) -> list[Array]:
        """T along each curve."""
        return [self._stay_ms(kind, curve) for kind, curve in zip(self._kinds, self._curves, strict=True)]

    def _stay_ms(self, kind: Kind, curve: _Curve) -> Array:
        sizes = self._sizes if self._first.counts in (Counted.TOKENS, Counted.BYTES) else self._chances
        waits = curve.rho * self._tail(kind, curve.ranks_ms, curve.rho).at(np.full((1, len(curve.rho)), MS_PER_S))[0]
        stay_ms = curve.service @ sizes + curve.rest_ms + waits
        if self._first.freed is Freed.ANSWERED:
            stay_ms = stay_ms + kind.answer_ms
        return np.asarray(stay_ms)

    def holds(self, total_rps: float) -> bool:
        """Whether the bucket's requests keep the bounds on TTFT at a rate, those of all kinds together."""
        rates = self.rates(total_rps)
        if rates is None:
            return False
        late = spare_ms = 0.0
        for kind, curve, rate in zip(self._kinds, self._curves, rates, strict=True):
            service, rho, ranks_ms, under_way = curve.at(rate)
            slack = (self._levels.ttft_ms - service)[None, None]
            mean = (np.where(np.isinf(slack), 0.0, slack) * self._chances).sum(-1)
            tail = self._tail(kind, np.array([ranks_ms]), np.array([rho])).at(mean)
            share = kind.count * rate / total_rps
            late += share * float((late_share(slack, np.array([[rho]]), tail, under_way) * self._chances).sum())
            spare_ms += share * float((mean - rho * tail - under_way.mean_ms)[0, 0])
        if self._levels.misses is None:
            return spare_ms >= 0
        return late <= float(np.ravel(self._levels.misses)[0])

    @property
    def served_rps(self) -> float:
        """The highest rate that holds."""
        return sum(kind.count * rate for kind, rate in zip(self._kinds, self.highest, strict=True))

    @cached_property
    def highest(self) -> list[float]:
        """x of each kind at the highest rate that holds."""
        low, high = 0.0, min(self._together, self._knowing_rps)
        for _ in range(_HALVINGS if high else 0):
            middle = (low + high) / 2
            low, high = (middle, high) if self.holds(middle) else (low, middle)
        return (self.rates(low) if low else None) or [0.0] * len(self._kinds)


def parts_unevenly(layers: Layers) -> bool:
    """Whether unlike servers behind the layers get other shares than those of their speeds, or see other queues."""
    first = layers[0]
    return first.counting or first.among is Endpoints.POOL or not first.by_speed
