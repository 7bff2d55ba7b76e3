"""What a rent buys: the best fleet found for each budget."""

from dataclasses import dataclass

from planner.domain.band import RateBand
from planner.domain.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """The best layout found for a budget, and what no layout of that budget exceeds.

    `price_usd_per_hour` is what the layout costs, at most the budget. `gpus`: how many are rented, by type, in the
    order of the inventory. `watts`: of these GPUs at full load. `band`: how far the rate may be off;
    `most_per_usd_probability`: that this point serves most requests per USD of the frontier's (None: no bands).
    """

    budget_usd_per_hour: float
    price_usd_per_hour: float
    rate_rps: float
    bound_rps: float
    gpus: tuple[tuple[str, int], ...]
    watts: float
    layout: Layout
    band: RateBand | None = None
    most_per_usd_probability: float | None = None

    @property
    def gap(self) -> float:
        """1 - rate / bound."""
        return 1 - self.rate_rps / self.bound_rps

    @property
    def requests_per_usd(self) -> float:
        """Requests served for one USD."""
        return self.rate_rps * 3600.0 / self.price_usd_per_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """Points by rising price and rate; none is dominated.

    `unsolved`: budgets for which no layout was found within the work limit. `unasked`: those that an interrupt
    came before.
    """

    points: tuple[FrontierPoint, ...]
    unsolved: tuple[float, ...] = ()
    unasked: tuple[float, ...] = ()

    @property
    def most_per_dollar(self) -> FrontierPoint:
        """The point that serves most requests for one USD."""
        return max(self.points, key=lambda point: point.requests_per_usd)
