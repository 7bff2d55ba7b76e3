"""What is not known of a plan: how fast servers are, what is asked, what GPUs cost, which nodes are there; and what a
plan is worth under that."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from planner.domain.keys import Bounds, Key


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtSettings:
    """What is doubted. `demand`, `prices`: deviations of logarithms, 0.2 is about 20 %."""

    speeds: Annotated[bool, Key("servers are as fast as the bands of the cost model say")] = True
    demand: Annotated[float, Bounds(low=0, high=2), Key("of the rate asked: deviation of its logarithm")] = 0.0
    prices: Annotated[float, Bounds(low=0, high=2), Key("of each type's price: deviation of its logarithm")] = 0.0
    unavailable: Annotated[float, Bounds(low=0, high=0.5), Key("chance of a node to be away")] = 0.0
    draws: Annotated[int, Bounds(low=16, high=4096), Key("of everything that is doubted")] = 256

    @property
    def nothing(self) -> bool:
        """Whether nothing is doubted."""
        return not (self.speeds or self.demand or self.prices or self.unavailable)


SURE = (0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1)
"""How sure the rates are that are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseSettings:
    """What is promised: as predicted, or no more than is so sure."""

    sure: Annotated[float | None, Bounds(above=0, below=1), Key("probability with which the promise holds")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SureRate:
    """A rate that may be promised with a probability."""

    sure: Annotated[float, Bounds(above=0, below=1), Key("probability")]
    rate_rps: Annotated[float, Bounds(low=0), Key("that may be promised with it")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseOdds:
    """How sure pools are of what they promise, as servers may be slower or faster than predicted."""

    odds: Annotated[float, Bounds(low=0, high=1), Key("that the margin's share of the capacity holds")]
    sure: tuple[SureRate, ...]

    def sure_rps(self, sure: float) -> float:
        """The rate told for a probability that is among those told."""
        return next(row.rate_rps for row in self.sure if row.sure == sure)


class RiskMeasure(StrEnum):
    """What makes one number of the rates of all draws. `p10`: the rate that at least 90 % of draws reach (requests/s).
    `cvar`: the mean of the worst 20 % (requests/s). `regret`: the mean share that is missed of a draw's own best."""

    P10 = "p10"
    CVAR = "cvar"
    REGRET = "regret"


WORST = 0.2
"""Of all draws, those whose mean is `cvar`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """A measure of the rates of all draws. `sure`: of `p10`, the share of draws that reach it, which is 90 % where
    nothing else was asked for."""

    measure: RiskMeasure
    sure: float = 0.9

    @property
    def minimised(self) -> bool:
        """Whether less is better."""
        return self.measure is RiskMeasure.REGRET

    @property
    def unit(self) -> str:
        """What its numbers are of."""
        return "of the best rate" if self.minimised else "requests/s"

    @property
    def name(self) -> str:
        """`p10`, `p20` where it is to be 80 % sure, `cvar`, `regret`."""
        return f"p{100 * (1 - self.sure):.3g}" if self.measure is RiskMeasure.P10 else self.measure.value

    def may_miss(self, draws: int) -> int:
        """Of so many draws, those that need not reach the rate."""
        return math.floor((1 - self.sure) * draws + _ROUNDING)

    def of(self, rates_rps: Sequence[float], best_rps: Sequence[float] = ()) -> float:
        """Of rates, a draw each; `best_rps`: the most that any pools serve in each, which `regret` alone asks for."""
        if self.measure is RiskMeasure.REGRET:
            pairs = zip(rates_rps, best_rps, strict=True)
            return math.fsum(max(0.0, 1 - rate / best) for rate, best in pairs if best > 0) / len(rates_rps)
        ranked = sorted(rates_rps)
        if self.measure is RiskMeasure.P10:
            return ranked[self.may_miss(len(ranked))]
        worst = WORST * len(ranked)
        return math.fsum(min(1.0, worst - k) * rate for k, rate in enumerate(ranked) if k < worst) / worst


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBetter:
    """A draw (by its number), what the plan may promise in it, and what a plan could that had been made knowing it."""

    draw: int
    rate_rps: float
    knowing_rps: float

    @property
    def regret(self) -> float:
        """Share of the rate that one would have had, and has not."""
        return max(0.0, 1.0 - self.rate_rps / self.knowing_rps) if self.knowing_rps > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtedPlan:
    """A plan in draws of what is doubted: its pools stay, requests are routed anew. `rates_rps`: what it may promise
    within the levels, its margin taken off, `demands_rps`: what is asked, `rents`: USD/hour, a number a draw each.
    `rate_rps` (capacity), `promise_rps`: as planned, nothing doubted."""

    name: str
    rate_rps: float
    promise_rps: float
    rates_rps: tuple[float, ...]
    demands_rps: tuple[float, ...]
    rents: tuple[float, ...]
    known_better: tuple[KnownBetter, ...] = ()

    def sure_rps(self, sure: float) -> float:
        """The rate that may be promised with this probability."""
        ranked = sorted(self.rates_rps)
        return quantile(ranked, 1.0 - sure)

    def odds(self, rate_rps: float) -> float:
        """How likely so much may be promised."""
        return share_of(self.rates_rps, rate_rps)

    @property
    def odds_of_demand(self) -> float:
        """How likely the levels hold at what is asked."""
        pairs = zip(self.rates_rps, self.demands_rps, strict=True)
        return sum(rate >= demand for rate, demand in pairs) / len(self.rates_rps)

    @property
    def mean_rps(self) -> float:
        """Of all draws."""
        return math.fsum(self.rates_rps) / len(self.rates_rps)


def share_of(rates_rps: Sequence[float], rate_rps: float) -> float:
    """Of some rates, those that are no lower, but for rounding."""
    return sum(rate >= rate_rps * (1 - _ROUNDING) for rate in rates_rps) / len(rates_rps)


_ROUNDING = 1e-9


def quantile(ranked: Sequence[float], share: float) -> float:
    """Hazen's: the k-th of n stands for (k - 0.5) / n, lines between."""
    place = min(max(share * len(ranked) - 0.5, 0.0), len(ranked) - 1.0)
    below = math.floor(place)
    above = min(below + 1, len(ranked) - 1)
    return ranked[below] + (place - below) * (ranked[above] - ranked[below])
