"""What a provider offers for rent, and what a rent buys."""

import math
from dataclasses import dataclass
from typing import Annotated

from planner.domain.efficiency import RateBand
from planner.domain.keys import Bounds, Key
from planner.domain.layout import Layout

_Price = Annotated[float, Bounds(above=0, high=1e6)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedGpu:
    """GPUs of one type for rent. `count`: at most so many, None: as many as the money rents."""

    gpu: str
    usd_per_hour: Annotated[_Price, Key("of one GPU; else the shipped list's", unit="USD")]
    gpus_per_node: Annotated[int, Bounds(low=1)] = 1
    count: Annotated[int | None, Bounds(low=1, high=1_000_000), Key("at most so many; else as many as needed")] = None

    def count_for(self, rent_usd_per_hour: float) -> int:
        """GPUs that a rent pays for where all of it goes to this type, up to whole nodes, within what is offered."""
        paid = math.ceil(rent_usd_per_hour / self.usd_per_hour * (1 - 1e-12))
        nodes = max(1, math.ceil(paid / self.gpus_per_node))
        return min(nodes * self.gpus_per_node, self.count or nodes * self.gpus_per_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOffer:
    """GPU types for rent. `whole_nodes`: GPUs are rented by the node; `source`: whose prices these are."""

    gpus: tuple[OfferedGpu, ...]
    whole_nodes: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalFleet:
    """A fleet beside the plan's: `what` it is restricted to, the GPUs in its servers, their rent, and the rate at which
    they serve the mix (requests/s, capacity). Found, not proven best."""

    what: str
    gpus: tuple[tuple[str, int], ...]
    price_usd_per_hour: float
    rate_rps: float


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
