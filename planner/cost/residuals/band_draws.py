"""How far a rate may be off that several estimates make together: draws of their errors, the same for every plan.

| symbol  | meaning                                                                              | unit       |
|---------|--------------------------------------------------------------------------------------|------------|
| eps[g,p]| measured over predicted rate of GPU type g in phase p, two-piece lognormal; servers  | 1          |
|         | that do both phases have one for both                                                |            |
| z[g,p]  | its normal score: sqrt(rho) s[p] + sqrt(1 - rho) u[g,p], ranked to an exact normal   | 1          |
| s, u    | standard normal: the error that all types of a phase share, and a type's own         | 1          |
| rho     | SHARED                                                                               | 1          |
| w[g,p]  | share of the work of phase p that islands of type g do                               | 1          |
| F[p]    | capacity of the phase over the predicted one: sum over g of w[g,p] eps[g,p]          | 1          |
| U[p]    | rate of the plan over the rate that the phase could serve                            | 1          |
| rate    | predicted rate times min over p of F[p] / U[p]                                       | requests/s |

F is linear as load shifts between the islands of a phase when one of them turns out slower; assigning anew by rates
that differ by 30 to 40 % says the same to about 2 %. Errors are one draw for all islands of a type in a phase, share a
part across types, and are independent across phases. A draw depends on its type and phase alone: plans that use the
same types in the same phases err together, which comparisons rely on.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np

from planner.cost.arrays import Array
from planner.domain import Band, Phase, RateBand
from planner.domain.serving.doubt import SHARED

DRAWS = 10_000
"""P10 and P90 of a rate come out to about 1 % of its band's width."""

_SCORE = NormalDist().inv_cdf(0.9)
_LOW, _HIGH = 0.1, 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkShare:
    """`share` of the work of `phase` that islands of a GPU type do, and the band of their rates (None: taken as exact).

    `whose`: the phase of these islands, where they do both: they are as fast or slow in the one as in the other.
    """

    gpu: str
    phase: Phase
    share: float
    band: Band | None
    whose: Phase | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainRate:
    """A predicted rate and what it rests on. The shares of a phase sum to 1; a phase without shares never binds.

    `utilisations`: of each phase, in (0, 1]. `ceiling`: what else bounds the rate, over the predicted one (a network).
    """

    rate_rps: float
    shares: tuple[WorkShare, ...]
    utilisations: tuple[tuple[Phase, float], ...]
    ceiling: float = math.inf

    @property
    def bands(self) -> tuple[Band, ...]:
        """Every band that it rests on."""
        return tuple(share.band for share in self.shares if share.band is not None)


def rate_draws(uncertain: UncertainRate) -> Array:
    """DRAWS possible rates (requests/s); draw k of two rates rests on the same errors."""
    factors = np.full(DRAWS, uncertain.ceiling)
    for phase, utilisation in uncertain.utilisations:
        of_phase = [share for share in uncertain.shares if share.phase is phase]
        if of_phase:
            factors = np.minimum(factors, sum(share.share * _ratios(share) for share in of_phase) / utilisation)
    return np.asarray(uncertain.rate_rps * factors)


def rate_band(uncertain: UncertainRate) -> RateBand | None:
    """P10 and P90 of the rate; None where nothing that it rests on has a band."""
    if not uncertain.bands:
        return None
    # Hazen's places are those that the scores were ranked to: one band alone comes out exactly.
    low, high = np.quantile(rate_draws(uncertain), [_LOW, _HIGH], method="hazen")
    return RateBand(low_rps=float(low), high_rps=float(high), basis=basis_of(uncertain.bands))


def basis_of(bands: Sequence[Band]) -> str:
    """What the bands come from, each once."""
    return "; ".join(dict.fromkeys(band.basis for band in bands if band.basis))


def probability_better(rate: UncertainRate, other: UncertainRate) -> float | None:
    """How likely the first rate is the higher one in truth, ties counted half; None where neither has a band."""
    if not (rate.bands and other.bands):
        return None
    difference = rate_draws(rate) - rate_draws(other)
    # Plans of the same parts differ by rounding alone.
    tied = np.abs(difference) <= _TIE * max(rate.rate_rps, other.rate_rps)
    return float(np.mean(np.where(tied, 0.5, difference > 0)))


def shares_of_best(rates: Sequence[UncertainRate], worths: Sequence[float]) -> tuple[float, ...] | None:
    """Of each rate, how likely it is the highest of all when each is multiplied by its worth (1 / price: requests per
    USD); they sum to 1, ties are parted. None where some rate has no band."""
    if not rates or not all(rate.bands for rate in rates):
        return None
    draws = np.array([worth * rate_draws(rate) for rate, worth in zip(rates, worths, strict=True)])
    # Plans that tie up to rounding share the draw.
    best = draws >= draws.max(axis=0) * (1 - _TIE)
    return tuple((best / best.sum(axis=0)).mean(axis=1).tolist())


_TIE = 1e-12
"""Relative difference of rates that is rounding."""


def _ratios(share: WorkShare) -> Array:
    """eps of every draw. The median is 1 where the band holds 1 inside, else the band's middle."""
    if share.band is None:
        return np.ones(DRAWS)
    return errors_of(share.band, _scores(share.gpu, share.whose or share.phase))


def errors_of(band: Band, scores: Array) -> Array:
    """eps of normal scores z, two-piece lognormal within a band."""
    low, high = math.log(band.low), math.log(band.high)
    middle = 0.0 if low < 0 < high else (low + high) / 2
    return np.asarray(np.exp(middle + scores / _SCORE * np.where(scores < 0, middle - low, high - middle)))


@cache
def _scores(gpu: str, phase: Phase) -> Array:
    """z of one type and phase: standard normal to the last quantile, so that a single band is reproduced exactly."""
    mixed = math.sqrt(SHARED) * _normal(phase.value) + math.sqrt(1 - SHARED) * _normal(f"{phase.value} {gpu}")
    return _quantiles()[np.argsort(np.argsort(mixed, kind="stable"), kind="stable")]


def _normal(name: str) -> Array:
    """Standard normal draws of their own for every name, the same in every run."""
    # Not `hash`, which differs from run to run.
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])
    return np.asarray(np.random.default_rng(seed).standard_normal(DRAWS))


@cache
def _quantiles() -> Array:
    standard = NormalDist()
    return np.array([standard.inv_cdf((k + 0.5) / DRAWS) for k in range(DRAWS)])
