"""Questions about money from Python: the cheapest fleet for a rate, the best for a rent, the most of a fleet."""

from collections.abc import Mapping
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import files
from planner.api.deployments import PlannedDeployment
from planner.api.progress import Listener, search_bar
from planner.api.tables import counts_of, with_levels
from planner.api.workloads import document_of
from planner.domain.frontier import GpuOffer, RivalFleet
from planner.errors import InputError
from planner.runs.questions import (
    Demand,
    MoneyAnswer,
    answer_document,
    answer_text,
    best_fleet_for,
    cheapest_fleet,
    most_of_fleet,
)
from planner.runs.questions.documents import text_of

if TYPE_CHECKING:
    import pandas as pd

OfferLike = str | Path | Mapping[str, object] | GpuOffer | None


class AnsweredPlan(PlannedDeployment):
    """The plan that answers a question about money: all that a plan has, the fleet, and the scenario behind it."""

    def __init__(self, answer: MoneyAnswer) -> None:
        super().__init__(answer.plan)
        self.answer = answer

    @property
    def plan(self) -> PlannedDeployment:
        """The plan by itself."""
        return PlannedDeployment(self.answer.plan)

    @property
    def fleet(self) -> dict[str, int]:
        """GPUs to rent (or at hand) by type."""
        return dict(self.answer.gpus)

    @property
    def price_usd_per_hour(self) -> float:
        """Rent of the fleet, by whole nodes where those are rented."""
        return self.answer.rent_usd_per_hour

    @property
    def bound(self) -> float | None:
        """No fleet of the offer costs less (USD/hour), or serves more (requests/s); None: not known."""
        return self.answer.bound

    @property
    def gap(self) -> float | None:
        """How far the answer is from the bound, relative."""
        return self.answer.gap

    @cached_property
    def scenario_yaml(self) -> str:
        """The scenario that the question stands for, as the text of a file."""
        return text_of(self.answer)

    @property
    def rivals(self) -> tuple[RivalFleet, ...]:
        """Other fleets, the best first."""
        return self.answer.rivals

    def text(self) -> str:
        """The answer in a few lines, as `planner cheapest` prints it."""
        return answer_text(self.answer)

    def document(self) -> dict[str, Any]:
        """The answer as plain values."""
        return answer_document(self.answer)


def cheapest(
    rps: float,
    *,
    model: str | Path | Mapping[str, object] = "deepseek-v3",
    workload: Any,
    offer: OfferLike = None,
    prices: Mapping[str, float] | None = None,
    name: str = "",
    progress: Listener = None,
    **sections: Any,
) -> AnsweredPlan:
    """The cheapest fleet that promises `rps` requests/s within the levels.

    `model`, `workload`: as `planner.plan` takes them. `offer`: an offer file, its document, or None for every GPU type
    with a list price; `prices` (USD per GPU and hour) change those. `sections`: a scenario's other keys, such as
    `slo={"ttft_ms": 4000, "tpot_ms": 60}` (or `ttft="4s"`, `tpot="60ms"`), `engine`, `serving` and `survive`.
    `progress`: as of `planner.plan`. Raises InputError and InfeasibleError.
    """
    demand, gpus = _demand(model, workload, name, sections), _offer(offer, prices)
    with search_bar(name or "cheapest", progress) as heard:
        return AnsweredPlan(cheapest_fleet(demand, _number("rps", rps), gpus, heard))


def buy(
    usd: float,
    *,
    model: str | Path | Mapping[str, object] = "deepseek-v3",
    workload: Any,
    offer: OfferLike = None,
    prices: Mapping[str, float] | None = None,
    name: str = "",
    progress: Listener = None,
    **sections: Any,
) -> AnsweredPlan:
    """The fleet that serves most requests/s for at most `usd` per hour; all else as for `cheapest`."""
    demand, gpus = _demand(model, workload, name, sections), _offer(offer, prices)
    with search_bar(name or "buy", progress) as heard:
        return AnsweredPlan(best_fleet_for(demand, _number("usd", usd), gpus, heard))


def max(
    inventory: "Mapping[str, int] | pd.Series[int] | pd.DataFrame | str",
    *,
    model: str | Path | Mapping[str, object] = "deepseek-v3",
    workload: Any,
    prices: Mapping[str, float] | None = None,
    name: str = "",
    progress: Listener = None,
    **sections: Any,
) -> AnsweredPlan:
    """The most requests/s of GPUs at hand, `inventory` as `planner.plan` takes it; all else as for `cheapest`.

    >>> planner.max({"H100": 8}, model="gpt-oss-120b", workload="azure-conv-2023", ttft="3s", tpot="60ms")
    """
    gpus = counts_of(inventory, "inventory")
    if not isinstance(gpus, Mapping):
        raise InputError(f"inventory: must be GPUs by type, got {gpus!r:.60}.", hint='Write such as {"H100": 8}.')
    demand = _demand(model, workload, name, sections)
    with search_bar(name or "max_rate", progress) as heard:
        return AnsweredPlan(most_of_fleet(demand, dict(gpus), dict(prices or {}), heard))


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{key}: must be a number, got {value!r:.60}.", hint=f"Write such as {key}=50.")
    return float(value)


def _demand(model: Any, workload: Any, name: str, sections: Mapping[str, Any]) -> Demand:
    model, workload = (str(value) if isinstance(value, Path) else value for value in (model, document_of(workload)))
    return Demand(model=model, workload=workload, sections=with_levels(sections, "planner"), name=name)


def _offer(offer: OfferLike, prices: Mapping[str, float] | None) -> GpuOffer:
    if offer is None:
        return files.listed_offer(files.price_list_from_document(prices or {}), source="prices")
    if prices is not None:
        raise InputError("prices: goes without an offer, which has prices.", hint="Write the prices into the offer.")
    if isinstance(offer, GpuOffer):
        return offer
    return files.load_offer(Path(offer)) if isinstance(offer, str | Path) else files.offer_from_document(offer)
