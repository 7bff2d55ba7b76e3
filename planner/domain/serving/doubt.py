"""What is not known of a plan: how fast servers are, what is asked, what GPUs cost, which nodes are there; and what a
plan is worth under that."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from planner.domain.explanations import WhatIf
from planner.domain.keys import Bounds, Key
from planner.domain.serving.promise import ROUNDING, quantile, share_of

SHARED = 0.5
"""Correlation of the errors of two GPU types in one phase. One half: slices of Hopper and Blackwell err alike (MoE +21
and +5 %, dense -11 and -16 %), those of AMD the other way (dense +31 %); formulas and engines are common to all types,
kernels are not. A judgement, until runs of several types under equal conditions are left out together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlikeErrors:
    """Two GPU types whose speeds are mispredicted alike, or the other way round, in every phase."""

    gpu: Annotated[str, Key("type")]
    other: Annotated[str, Key("type")]
    correlation: Annotated[float, Bounds(low=-1, high=1), Key("of what the logarithms of their paces are off")]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtSettings:
    """What is doubted. `demand`, `prices`: deviations of logarithms, 0.2 is about 20 %."""

    speeds: Annotated[bool, Key("servers are as fast as the bands of the cost model say")] = True
    demand: Annotated[float, Bounds(low=0, high=2), Key("of the rate asked: deviation of its logarithm")] = 0.0
    prices: Annotated[float, Bounds(low=0, high=2), Key("of each type's price: deviation of its logarithm")] = 0.0
    unavailable: Annotated[float, Bounds(low=0, high=0.5), Key("chance of a node to be away")] = 0.0
    alike: Annotated[
        tuple[AlikeErrors, ...],
        Key("pairs of GPU types whose errors correlate otherwise than types of a phase do", sparse=True),
    ] = ()
    draws: Annotated[int, Bounds(low=16, high=4096), Key("of everything that is doubted")] = 256

    @property
    def nothing(self) -> bool:
        """Whether nothing is doubted."""
        return not (self.speeds or self.demand or self.prices or self.unavailable)


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
        return math.floor((1 - self.sure) * draws + ROUNDING)

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


class Swung(StrEnum):
    """What one doubted thing moves, with its unit."""

    RATE = "rate (requests/s)"
    ASKED = "rate asked (requests/s)"
    RENT = "rent (USD/hour)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Swing:
    """One doubted thing alone, all else as planned: what it makes of the rate, the rent or the rate asked at its P10
    (`low`) and its P90 (`high`), which `span` says in words."""

    thing: str
    span: str
    moves: Swung
    planned: float
    low: float
    high: float

    @property
    def changes(self) -> tuple[float, float]:
        """Shares of what was planned."""
        return self.low / self.planned - 1, self.high / self.planned - 1

    @property
    def width(self) -> float:
        """From the lower to the higher end, the plan among them, as a share of what was planned."""
        return max(0.0, *self.changes) - min(0.0, *self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtedPlan:
    """A plan in draws of what is doubted: its pools stay, requests are routed anew. `rates_rps`: what it may promise
    within the levels, its margin taken off, `demands_rps`: what is asked, `rents`: USD/hour, a number a draw each.
    `rate_rps` (capacity), `promise_rps`: as planned, nothing doubted. `swings`: each doubted thing alone, the widest
    first. `breakpoints`: prices and paces at which other GPU types would serve, where they were sought; of
    `untold_breakpoints` keys time was out."""

    name: str
    rate_rps: float
    promise_rps: float
    rates_rps: tuple[float, ...]
    demands_rps: tuple[float, ...]
    rents: tuple[float, ...]
    known_better: tuple[KnownBetter, ...] = ()
    swings: tuple[Swing, ...] = ()
    breakpoints: tuple[WhatIf, ...] = ()
    untold_breakpoints: int = 0

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
