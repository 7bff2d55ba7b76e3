"""What the caches of several servers find of the prompts that they share, by how each prompt's server is chosen.

| symbol | meaning | unit |
|---|---|---|
| k, C | servers that share the prompts, tokens that the cache of each holds | 1, tokens |
| K | tokens that all caches hold: k C, where the servers together are as busy as the trace; else C r / x | tokens |
| u | window: tokens of all prompts since the last use of the block that a full cache is about to give up | tokens |
| n(u) | how often a block was used in the window before it is used again (`domain.PrefixAffinity`) | 1 |
| h(u) | share of the prompts' tokens that is found, given u; h1 of one server | 1 |
| q | shares that prompts of one session, or with one first block, have in the work | 1 |
| rho | how busy servers are | 1 |
| s | share of prompts that go by load although their prefix is known | 1 |

By load (or drawn: blind to prefixes) the server of a prompt has each of the n earlier uses with chance 1/k:
h(u) = E[1 - (1 - 1/k)^n(u)]. By session the own session's uses are there for certain, those of n' other sessions with
chance 1 - (1 - 1/k)^n'. By prefix (the longest match, whoever is loaded) h(u) = h1(u), but prompts that begin with the
same block all go to one server: q of the work meets one cache, which keeps its prompts for u as one of K / (k q) would.
By both a prompt follows its longest match where that is half of it at least, unless that server has more than twice the
mean work; else it goes by load. Where jobs are alike the work of busy servers is spread evenly between a job and none,
the mean of all is rho / 2 of a job, and a server is above twice that with chance s = rho (1 - rho); of two servers
none can be. h(u) = (1 - s) f(u) + s b(u) + l(u): f is what prompts that follow find, b what these would find by
load, l what the others find by load.

What is read again within u occupies a cache once (Denning and Schwartz 1972: a window grows by what is new in it):
K = integral of 1 - h from 0 to u, with the h of the policy. So servers that find less also keep prompts for less long.
One cache with the same window holds the integral of 1 - h1; the table of reuse knows exactly what that one finds, by
length of prompt, and h(u) / h1(u) of it is found here.

Capacity that load leaves: mean work over that of the fullest server, over as many prompts as the trace has. Where n
shares q are dealt out at random a server's work has the variance (k - 1) sum q^2 of its mean's square and the skewness
sum q^3 (1 - 2/k) / ((sum q^2)^1.5 ((1 - 1/k) / k)^0.5); the fullest of k is the quantile (k - 3/8) / (k + 1/4) (Blom
1958) of the curve with these moments (Pearson III, by Wilson and Hilferty 1931), 1 + e:

- by session 1 / (1 + e) with q of sessions: of all their tokens where nothing is found, of those that an endless cache
  lacks where all of that is found, between them in proportion; drawn the same with q of prompts;
- by load work differs by idle time alone: 1 / (1 + (1 - rho) e) with q of prompts;
- by both 1 / (1 + e / 4) with q of sessions: new ones, and prompts that leave their server, even out about three
  quarters of their spread (measured, not derived);
- by prefix as by both, or what the fullest server has where the greatest families are dealt out at random and the
  others fill servers up: a prefix with more than 1/k of the work overloads its server.

Assumed: sessions and prefixes come and go alike over the trace, and of prompts of all lengths the same part h / h1 is
found. `tests/cost/test_affinity.py` holds it against caches that are replayed.
"""

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from statistics import NormalDist
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array
from planner.domain import PrefixAffinity, RouterPolicy, WeightSpread

BUSY = 0.9
"""rho where a plan says nothing else: what it promises of its capacity."""
_DRAWS = 32  # of families to servers
_STEPS = 8  # of a window to the next one, twice as long
_USES = (1.0, 2.4, 5.4, 11.0, 22.0, 45.0, 128.0)  # of blocks that were used 1, 2-3, 4-7, ..., at least 64 times
_REMAINING_SPREAD = 0.25


class Choice(StrEnum):
    """Whom a prompt is sent to: the server with the least work, one drawn, that with the longest match, that of its
    session, or that with the longest match unless it is loaded."""

    LOAD = "load"
    DRAWN = "drawn"
    PREFIX = "prefix"
    SESSION = "session"
    BOTH = "both"


CHOICES: Mapping[RouterPolicy, Choice] = MappingProxyType(
    {
        RouterPolicy.LEAST_WORK: Choice.LOAD,
        RouterPolicy.OVERFLOW: Choice.LOAD,
        RouterPolicy.PREFIX_AWARE: Choice.BOTH,
        RouterPolicy.SESSION: Choice.SESSION,
        RouterPolicy.ROUND_ROBIN: Choice.DRAWN,
        RouterPolicy.RANDOM: Choice.DRAWN,
    }
)
"""What each policy of routers comes to."""


class Found(NamedTuple):
    """Of what one cache of `single` tokens finds (infinite: one without bounds), `part` is found."""

    single: Array
    part: Array


class _Curve(NamedTuple):
    """Over windows (tokens) that ascend from 0: share found, and tokens that a cache needs for the window."""

    windows: Array
    shares: Array
    cache_tokens: Array


def found_by(
    affinity: PrefixAffinity, choice: Choice, cache_tokens: Numbers, servers: Numbers, busy: float = BUSY
) -> Found:
    """What is found where caches of all `servers` hold `cache_tokens` (K); shapes broadcast."""
    cache_tokens, servers = np.broadcast_arrays(as_array(cache_tokens), as_array(servers))
    single, part = np.array(cache_tokens, dtype=float), np.ones(cache_tokens.shape)
    single_curve = _curve(affinity, Choice.LOAD, 1.0, busy)
    for count in np.unique(servers[servers > 1]):
        those = servers == count
        if choice is Choice.PREFIX:
            single[those] = _by_prefix(affinity, single_curve, cache_tokens[those], float(count))
        else:
            single[those], part[those] = _beside(
                _curve(affinity, choice, float(count), busy), single_curve, cache_tokens[those]
            )
    return Found(single, part)


def capacity(
    affinity: PrefixAffinity, choice: Choice, cache_tokens: Numbers, servers: Numbers, busy: float = BUSY
) -> Array:
    """Mean work over that of the fullest server, at most 1; arguments as of `found_by`."""
    cache_tokens, servers = np.broadcast_arrays(as_array(cache_tokens), as_array(servers))
    capacity_left = np.ones(cache_tokens.shape)
    for count in np.unique(servers[servers > 1]):
        those = servers == count
        capacity_left[those] = 1 / (1 + _unevenness(affinity, choice, cache_tokens[those], float(count), busy))
    return capacity_left


def _unevenness(affinity: PrefixAffinity, choice: Choice, cache_tokens: Array, servers: float, busy: float) -> Array:
    """What the fullest server has more than the mean, over the mean."""
    if choice in (Choice.LOAD, Choice.DRAWN):
        part = 1 - busy if choice is Choice.LOAD else 1.0
        return as_array(part * _excess(affinity.prompts, servers))
    curve = _curve(affinity, choice, servers, busy)
    most_found = float(curve.shares[-1])
    lacking = 1 - np.interp(cache_tokens, curve.cache_tokens, curve.shares) / most_found if most_found > 0 else 1.0
    by_session = lacking * _excess(affinity.sessions, servers) + (1 - lacking) * _excess(affinity.fresh, servers)
    if choice is Choice.SESSION:
        return np.asarray(by_session)
    hottest = servers * _families(affinity, servers).max(axis=1).mean() - 1 if choice is Choice.PREFIX else 0.0
    return np.asarray(np.maximum(hottest, _REMAINING_SPREAD * by_session))


def _excess(spread: WeightSpread, servers: float) -> float:
    """e."""
    deviation = math.sqrt((servers - 1) / spread.equal)
    normal = NormalDist().inv_cdf((servers - 0.375) / (servers + 0.25))
    third = spread.skew * (1 - 2 / servers) / ((1 - 1 / servers) / servers) ** 0.5 / 6
    if third < 1e-6:
        return deviation * normal
    return float(deviation * (max(0.0, 1 + third * normal - third**2) ** 3 - 1) / (3 * third))


@lru_cache(maxsize=256)
def _families(affinity: PrefixAffinity, servers: float) -> Array:
    """Shares of servers in the work, a row a draw: each family is dealt to one; those that have no name fill up."""
    count, dealt = max(1, round(servers)), np.random.default_rng(0)
    shares = np.zeros((_DRAWS, count))
    for family in affinity.families:
        shares[np.arange(_DRAWS), dealt.integers(count, size=_DRAWS)] += family
    level = np.sort(shares, axis=1)
    remainder = np.maximum(0.0, 1 - level.sum(axis=1, keepdims=True))
    even = (remainder + np.cumsum(level, axis=1)) / np.arange(1, count + 1)
    filled = np.where(even >= level, even, -np.inf)
    # The most servers that can be filled evenly: those that are emptier than what it comes to.
    last = count - 1 - np.argmax(np.isfinite(filled)[:, ::-1], axis=1)
    return np.asarray(np.maximum(shares, even[np.arange(_DRAWS), last][:, None]))


def _by_prefix(affinity: PrefixAffinity, single_curve: _Curve, cache_tokens: Array, servers: float) -> Array:
    """Tokens of the one cache that finds as much."""
    shares = _families(affinity, servers)
    busy = np.maximum(shares, 1e-12)
    shares_there = np.interp(
        cache_tokens[..., None, None] / (servers * busy), single_curve.cache_tokens, single_curve.shares
    )
    found_there = (shares_there * shares).sum(axis=-1).mean(axis=-1)
    alike = np.interp(found_there, single_curve.shares, single_curve.cache_tokens)
    return np.where(found_there >= single_curve.shares[-1], np.inf, np.minimum(alike, cache_tokens))


def _beside(curve: _Curve, single_curve: _Curve, cache_tokens: Array) -> tuple[Array, Array]:
    endless = cache_tokens >= curve.cache_tokens[-1]
    window = np.where(endless, curve.windows[-1], np.interp(cache_tokens, curve.cache_tokens, curve.windows))
    single = np.where(endless, np.inf, np.interp(window, single_curve.windows, single_curve.cache_tokens))
    shares_there, alone = (
        np.interp(window, curve.windows, curve.shares),
        np.interp(window, single_curve.windows, single_curve.shares),
    )
    return single, np.divide(shares_there, alone, out=np.ones(window.shape), where=alone > 0)


@lru_cache(maxsize=1024)
def _curve(affinity: PrefixAffinity, choice: Choice, servers: float, busy: float) -> _Curve:
    shares = _SHARES[choice](affinity, servers, busy)
    # What is used again after the longest window is taken to be so within the next one.
    ends = np.array([*affinity.windows, 2.0 * affinity.windows[-1]])
    windows = np.concatenate([np.linspace(0, ends[0], _STEPS, endpoint=False), _between(ends)])
    logs = np.interp(np.log(np.maximum(windows, ends[0])), np.log(ends), shares)
    fine = np.where(windows < ends[0], shares[0] * windows / ends[0], logs)
    cache_tokens = np.concatenate([[0.0], np.cumsum(np.diff(windows) * (1 - (fine[1:] + fine[:-1]) / 2))])
    return _Curve(windows, fine, cache_tokens)


def _between(ends: Array) -> Array:
    return np.asarray(np.exp(np.interp(np.arange(0, len(ends) - 1 + 1e-9, 1 / _STEPS), range(len(ends)), np.log(ends))))


def _blind(rows: Array, servers: float) -> Array:
    """E[1 - (1 - 1/k)^n] of rows of tokens that were used at least so many times."""
    exactly = rows - np.vstack([rows[1:], np.zeros_like(rows[:1])])
    return np.asarray((1 - (1 - 1 / servers) ** np.array(_USES)) @ exactly)


def _by_load(affinity: PrefixAffinity, servers: float, _: float) -> Array:
    return _blind(np.array(affinity.uses), servers)


def _longest(affinity: PrefixAffinity, _: float, __: float) -> Array:
    return np.array(affinity.uses[0])


def _by_session(affinity: PrefixAffinity, servers: float, _: float) -> Array:
    return np.array(affinity.own) + _blind(np.array(affinity.others), servers)


def _by_both(affinity: PrefixAffinity, servers: float, busy: float) -> Array:
    uses, loose = np.array(affinity.uses), np.array(affinity.loose)
    leaving = busy * (1 - busy) if servers > 2 else 0.0
    following = (1 - leaving) * (uses[0] - loose[0]) + leaving * _blind(uses - loose, servers)
    return np.asarray(following + _blind(loose, servers))


_SHARES: Mapping[Choice, Callable[[PrefixAffinity, float, float], Array]] = MappingProxyType(
    {
        Choice.LOAD: _by_load,
        Choice.DRAWN: _by_load,
        Choice.PREFIX: _longest,
        Choice.SESSION: _by_session,
        Choice.BOTH: _by_both,
    }
)
