"""A question about money and its answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from planner.domain import Plan, Scenario
from planner.domain.serving.offers import RivalFleet


class MoneyQuestion(StrEnum):
    """`cheapest`: least rent for a promised rate. `buy`: most requests/s for a rent. `max`: most of an owned fleet."""

    CHEAPEST = "cheapest"
    BUY = "buy"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What is to be served and how: a model and a workload (names, paths or documents), and further sections of a
    scenario (`slo`, `engine`, `serving`, `survive`, `routing`, `search` ...). `name`: the plan's, else the question's.
    """

    model: object
    workload: object
    sections: Mapping[str, object]
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyAnswer:
    """The plan that answers, and the scenario that the question stands for.

    `document`: the scenario's; `offered`: what could be rented, in words; `rent_usd_per_hour`: of the fleet, by whole
    nodes where those are rented, `gpus` its GPUs. `bound`, `gap`: no fleet of the offer costs less (serves more), and
    how far the answer is from that, relative; None: not known. `amount`: requests/s to promise, or USD/hour.
    """

    question: MoneyQuestion
    amount: float
    document: Mapping[str, object]
    scenario: Scenario
    plan: Plan
    rivals: tuple[RivalFleet, ...]
    offered: str = ""
    gpus: tuple[tuple[str, int], ...]
    rent_usd_per_hour: float
    bound: float | None
    gap: float | None
    whole_nodes: bool = False

    @property
    def promise_rps(self) -> float:
        """Requests/s that the fleet promises."""
        return self.plan.outlook.promise_rps

    @property
    def price_usd_per_million_tokens(self) -> float:
        """The rent over input and output tokens at capacity (USD per 10^6 tokens)."""
        return self.rent_usd_per_hour / (self.plan.tokens_per_s * 3600.0) * 1e6
