"""How sure a promise is, and is to be; and what replays said of a plan that was chosen by them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from planner.domain.keys import Bounds, Key

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


def share_of(rates_rps: Sequence[float], rate_rps: float) -> float:
    """Of some rates, those that are no lower, but for rounding."""
    return sum(rate >= rate_rps * (1 - ROUNDING) for rate in rates_rps) / len(rates_rps)


ROUNDING = 1e-9


def quantile(ranked: Sequence[float], share: float) -> float:
    """Hazen's: the k-th of n stands for (k - 0.5) / n, lines between."""
    place = min(max(share * len(ranked) - 0.5, 0.0), len(ranked) - 1.0)
    below = math.floor(place)
    above = min(below + 1, len(ranked) - 1)
    return ranked[below] + (place - below) * (ranked[above] - ranked[below])


_Rate = Annotated[float, Bounds(low=0)]
_Count = Annotated[int, Bounds(low=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedRates:
    """The highest rates (requests/s) that hold the levels. `search_rps`: on the seeds of the search. `fresh_rps`: on
    seeds that the search had not seen, with longer streams (None: an interrupt came before)."""

    analytic_rps: Annotated[_Rate, Key("capacity by the model of queues")]
    search_rps: Annotated[_Rate, Key("on the seeds of the search")]
    fresh_rps: Annotated[float | None, Bounds(low=0), Key("on seeds that the search had not seen (null: not replayed)")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedChoice:
    """How a plan was chosen by replays. `solved`: the programme's answer, which the search began with; `candidate`: the
    best other one that was replayed (None: none was better on the seeds of the search); `chosen`: whether it is the
    plan."""

    arrivals: Annotated[str, Key("how requests come")]
    requests: Annotated[_Count, Key("of a replay of the search")]
    fresh_requests: Annotated[_Count, Key("of a replay on fresh seeds")]
    search_seeds: Annotated[tuple[int, ...], Bounds(low=0)]
    fresh_seeds: Annotated[tuple[int, ...], Bounds(low=0)]
    replayed: Annotated[_Count, Key("candidates that were replayed, the programme's answer included")]
    solved: ReplayedRates
    candidate: Annotated[ReplayedRates | None, Key("the best other one, where it was better in the search")]
    chosen: Annotated[bool, Key("whether the candidate is the plan")]

    @property
    def plan(self) -> ReplayedRates:
        """Of the plan."""
        return self.candidate if self.chosen and self.candidate is not None else self.solved
