"""How sure a promise is, and is to be."""

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
