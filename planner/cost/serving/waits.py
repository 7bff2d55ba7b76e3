"""Waiting before servers that take prompts in: how requests come to them, and how long the tail of the wait is.

| symbol | meaning | unit |
|---|---|---|
| I(t) | index of dispersion for counts: variance over mean of the arrivals in a time t (1: Poisson) | 1 |
| cs2 | squared variation of the prompts' fresh tokens: m2 / m1^2 - 1 | 1 |
| X, rho | full rate of all servers of the bucket together, share of it that comes | requests/ms, 1 |
| y | what a bound leaves for the wait | ms |
| eta(y) | tail of the wait behind the router: P(wait > y) = rho e^(-y / eta) | ms |
| X1 | full rate of one server | requests/ms |
| d, B, n | ranks of a server, budget, tokens that come to a rank in a step where the fullest rank is full | 1, tokens |
| S | time between starts of such steps | ms |
| cr2 | squared variation of the work that comes to a rank, as far as the router leaves it there | 1 |

y / eta = min over t of X (y + (1 - rho) t)^2 / (2 t (I(t) + cs2)): more work has come in a time t than the pool does in
t + y, as the normal law has it, at the t where that is likeliest. Where I does not depend on t this is the tail of
M/G/c in heavy traffic: eta = (I + cs2) / (2 X (1 - rho)).
Routers that draw servers or take them in turn (blind) leave each to its own arrivals: I1 = 1 + (I - 1) X1 / X where
they are drawn, I X1 / X in turn. Where work is not balanced over ranks they have queues of their own; the fullest sets
the pace: eta += m1 cr2 S / (2 (B - n)), cr2 by what the layers balance (`uneven`); behind a blind router the wait is
that of the ranks alone. d = 1: the server's own queue, n of a full step.

| layers that choose a rank | cr2 |
|---|---|
| drawn or in turn, whatever is there | I1 / d + cs2 |
| ranks in turn, or by an engine's own count of requests | `IN_TURN` v |
| ranks by requests | `BY_REQUESTS` v |
| the better of two servers, or of two ranks, by a router's own counts | `OF_TWO_SERVERS`, `OF_TWO_RANKS` more |
| ranks by work, tokens or bytes | 0 |

v: cs2 (1 - 1 / d) where the server is chosen by work or tokens, else cs2. The four numbers are those that come nearest
to replays of four plans (tests/replay/test_router_promises.py); 1 would be ranks that know nothing of each other.

Sources: Choe and Shroff, A Central-Limit-Theorem-Based Approach for Analyzing Queue Behavior in High-Speed Networks,
1998 (the likeliest t); facts on bucketed plans.
"""

from dataclasses import dataclass, replace

import numpy as np

from planner.cost.arrays import Array
from planner.domain import CountDispersion, Counted, Endpoints, Rule
from planner.domain.serving.routers import LEAST_WORK, Layers
from planner.units import MS_PER_S

_TIMES_MS = np.geomspace(20.0, 1_200_000.0, 45)
"""t that are tried: from less than a step to a quarter of an hour and more."""

_TINY = 1e-9
IN_TURN = 0.8
BY_REQUESTS = 0.6
OF_TWO_SERVERS, OF_TWO_RANKS = 0.25, 0.6
_UNSEEING = (Rule.RANDOM, Rule.IN_TURN)
_OF_LENGTH = (Counted.WORK, Counted.TOKENS, Counted.BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """How requests come to the servers of a bucket: I at `windows_ms` (ascending), and the router's layers."""

    windows_ms: tuple[float, ...] = (1.0,)
    dispersion: tuple[float, ...] = (1.0,)
    layers: Layers = LEAST_WORK.prefill

    @classmethod
    def of(cls, layers: Layers, counts: CountDispersion | None = None) -> "Arrivals":
        """Behind a router; Poisson unless `counts` say how they bunch."""
        if counts is None:
            return cls(layers=layers)
        windows = tuple(window * MS_PER_S for window in counts.windows_s)
        return cls(windows_ms=windows, dispersion=counts.dispersion, layers=layers)

    @classmethod
    def varied(cls, variation: float) -> "Arrivals":
        """Independent gaps of this squared variation, to the router that the cap was made for."""
        return cls(dispersion=(variation,))

    def thinned(self, share: float) -> "Arrivals":
        """Of the requests of a bucket, which are such a share of all: 1 + share (I - 1)."""
        return replace(self, dispersion=tuple(1 + share * (counts - 1) for counts in self.dispersion))

    @property
    def steady(self) -> bool:
        """Whether I is the same over all times."""
        return len(set(self.dispersion)) == 1

    @property
    def blind(self) -> bool:
        """Whether servers are chosen whatever is there."""
        return self.layers[0].rule in _UNSEEING and self.layers[0].among is not Endpoints.POOL

    @property
    def in_turn(self) -> bool:
        """Whether ranks have queues of their own, as nothing balances their work."""
        last = self.layers[-1]
        return not (last.among is Endpoints.RANK and last.rule is Rule.LEAST_LOADED and last.counts in _OF_LENGTH)

    @property
    def finds_ranks(self) -> bool:
        """Whether a prompt goes to the rank with the least of something, where it fits in soonest."""
        last = self.layers[-1]
        return last.among is Endpoints.RANK and last.rule is Rule.LEAST_LOADED

    def uneven(self, lengths: Array, ranks: Array) -> Array:
        """cr2 where requests are balanced; `lengths`: cs2, `ranks`: d."""
        first, last = self.layers[0], self.layers[-1]
        by_length = first.among is Endpoints.SERVER and first.rule is Rule.LEAST_LOADED and first.counts in _OF_LENGTH
        by_count = last.rule is not Rule.IN_TURN and first.among is not Endpoints.SERVER
        variation = (BY_REQUESTS if by_count else IN_TURN) * (lengths * (1 - 1 / ranks) if by_length else lengths)
        counted = [layer for layer in self.layers if layer.counts is not Counted.WORK]
        two = [layer.among for layer in counted if layer.rule is Rule.BETTER_OF_TWO]
        added = OF_TWO_RANKS if Endpoints.RANK in two else OF_TWO_SERVERS if two else 0.0
        return np.asarray(variation + added)

    @property
    def counts(self) -> Array:
        """I at `_TIMES_MS`; where all are alike one of them, which says it all and spares the minimum."""
        return self.at(_TIMES_MS[:1] if self.steady else _TIMES_MS)

    def at(self, times_ms: Array) -> Array:
        """I at these times: on lines over the logarithm of the time, and 1 of no time."""
        if self.steady:
            return np.full(np.shape(times_ms), self.dispersion[0])
        windows = np.array(self.windows_ms)
        inside = np.interp(np.log(times_ms), np.log(windows), self.dispersion)
        # Below the first window arrivals hardly bunch: towards no time they are one at a time.
        before = 1 + (self.dispersion[0] - 1) * times_ms / windows[0]
        return np.asarray(np.where(times_ms < windows[0], before, inside))

    def of_server(self, share: Array) -> Array:
        """I1 at `_TIMES_MS` (one more axis) of servers that get so much of the bucket's requests each."""
        counts, part = self.at(_TIMES_MS), np.asarray(share)[..., None]
        # In turn every so-many-th request comes, which evens out; drawn ones come as by chance.
        return np.asarray(counts * part if self.layers[0].rule is Rule.IN_TURN else 1 + (counts - 1) * part)


POISSON = Arrivals()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTail:
    """eta of servers on buckets, shape (servers, buckets): `rate` X (requests/ms), `spare` 1 - rho, `lengths` cs2,
    `counts` I at `_TIMES_MS` (one more axis) or alike at all times. `ranks_ms`: what ranks in turn add."""

    rate: Array
    spare: Array
    lengths: Array
    counts: Array
    ranks_ms: Array | float = 0.0

    def at(self, wait_ms: Array) -> Array:
        """eta where a bound leaves so much for the wait, shape (servers, buckets) (ms)."""
        if self.counts.shape[-1] == 1:
            varied, work = self.counts[..., 0] + self.lengths, 2 * self.rate * self.spare
            likeliest = np.divide(varied, work, out=np.full(np.shape(work), np.inf), where=work > 0)
            return np.asarray(likeliest + self.ranks_ms)
        wait = np.maximum(wait_ms, 1.0)[..., None]
        work = self.rate[..., None] * (wait + self.spare[..., None] * _TIMES_MS) ** 2
        varied = np.maximum(self.counts + self.lengths[..., None], _TINY)
        exponent = (work / (2 * _TIMES_MS * varied)).min(axis=-1)
        return np.asarray(wait[..., 0] / np.maximum(exponent, _TINY) + self.ranks_ms)

    def rank_backlog(self, ranks: "FullRanks") -> Array:
        """Tokens that wait before the fullest of ranks in turn: of d exponential ones, mean eta each."""
        of_ranks = self.ranks_ms if np.ndim(self.ranks_ms) else self.at(np.zeros(np.shape(self.spare)))
        return np.asarray(of_ranks * np.log(ranks.ranks) * ranks.budget / ranks.cycle_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class FullRanks:
    """Steps whose fullest rank is full, shape (servers, buckets): `cycle_ms` S, `tokens` n, `budget` B, `ranks` d."""

    cycle_ms: Array
    tokens: Array
    budget: Array
    ranks: Array


def wait_tail(
    arrivals: Arrivals, full: Array, together: Array, rho: Array, moments: tuple[Array, Array], ranks: FullRanks | None
) -> WaitTail:
    """The tail behind the router. `full`, `together`: full rate of a server and of all (requests/ms); `moments`: m1 and
    m2 of the prompts' fresh tokens; `ranks` are needed where they are taken in turn, and else not looked at."""
    m1, m2 = moments
    lengths = m2 / m1**2 - 1
    # At full load the tail has no end: it is long, not infinite, so that no figure is lost to NaN.
    spare = np.maximum(1 - rho, _TINY)
    counts = arrivals.counts
    shape = (*np.broadcast_shapes(rho.shape, np.shape(together)), len(counts))
    wide = np.broadcast_to(together, shape[:-1])
    if not arrivals.in_turn:
        return WaitTail(rate=wide, spare=spare, lengths=lengths, counts=np.broadcast_to(counts, shape))
    assert ranks is not None, "ranks that are taken in turn"
    share = np.divide(full, wide, out=np.ones(shape[:-1]), where=wide > 0)
    of_one = arrivals.of_server(share)
    slack = np.maximum(ranks.budget - ranks.tokens, _TINY)
    if arrivals.blind:
        return _blind(arrivals, m1, lengths, of_one, slack, ranks)
    ranks_ms = m1 * arrivals.uneven(lengths, ranks.ranks) * ranks.cycle_ms / (2 * slack)
    return WaitTail(rate=wide, spare=spare, lengths=lengths, counts=np.broadcast_to(counts, shape), ranks_ms=ranks_ms)


def _blind(arrivals: Arrivals, m1: Array, lengths: Array, of_one: Array, slack: Array, ranks: FullRanks) -> WaitTail:
    """The wait is that of a rank alone: it works `budget` tokens in a cycle, as X of its own."""
    work = ranks.budget / (ranks.cycle_ms * m1)  # requests/ms of a full rank
    counts = of_one / ranks.ranks[..., None]
    if arrivals.steady:
        counts = counts[..., -1:]  # alike at all times
    return WaitTail(rate=work, spare=slack / ranks.budget, lengths=lengths, counts=counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestOfStep:
    """What is left of the step under way when a request comes: S and u, shape (servers, buckets)."""

    cycle_ms: Array
    chance: Array

    @property
    def mean_ms(self) -> Array:
        """u S / 2."""
        return np.asarray(self.chance * self.cycle_ms / 2)


def late_share(slack_ms: Array, rho: Array, tail_ms: Array, step: RestOfStep) -> Array:
    """Chance that the rest of a step and the wait together pass the slack, shape (..., ranges); 1 without slack."""
    # The formulas hold from slack 0 on; below it everybody is late, which the last line sets.
    slack, cycle = np.maximum(slack_ms, 0.0), step.cycle_ms[..., None]
    tail, under_way = np.maximum(tail_ms, 1e-9)[..., None], step.chance[..., None]
    with np.errstate(over="ignore", invalid="ignore"):
        waits = rho[..., None] * np.exp(-slack / tail)
        beyond = np.exp(-np.maximum(slack - cycle, 0.0) / tail)
        both = np.maximum(1 - slack / cycle, 0.0)
        both = both - rho[..., None] * tail / cycle * beyond * np.expm1(-np.minimum(slack, cycle) / tail)
        # Either a step is under way, and its rest adds to the wait, or the wait is all.
        late = under_way * np.minimum(both, 1.0) + (1 - under_way) * waits
    return np.asarray(np.where(slack_ms < 0, 1.0, late))
