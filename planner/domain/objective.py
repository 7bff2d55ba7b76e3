"""What a plan is to be best at, and how good it is proven to be."""

from dataclasses import dataclass
from enum import StrEnum


class ObjectiveKind(StrEnum):
    """`rate`: most requests/s of the inventory. `budget`: most for a rent. `target`: cheapest fleet for a rate.

    `per_dollar`: most requests per USD. `watts`: least watts for a rate. All but `rate` choose how many GPUs to rent.
    """

    RATE = "rate"
    BUDGET = "budget"
    TARGET = "target"
    PER_DOLLAR = "per_dollar"
    WATTS = "watts"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveSettings:
    """`budget_usd_per_hour` belongs to `budget`; `target_rps` to `target` and `watts`, and may bind `per_dollar`."""

    kind: ObjectiveKind = ObjectiveKind.RATE
    budget_usd_per_hour: float = 0.0
    target_rps: float = 0.0

    @property
    def rents(self) -> bool:
        """Whether the number of GPUs is chosen, up to the inventory."""
        return self.kind is not ObjectiveKind.RATE

    @property
    def minimises(self) -> bool:
        """Whether smaller values are better."""
        return self.kind in (ObjectiveKind.TARGET, ObjectiveKind.WATTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """How far a plan is from the best possible, under the cost model.

    `bound_rps`: no layout of the GPUs that the plan has serves the mix faster; `gap` = 1 - throughput / bound.
    `objective_bound`: no layout of the offered GPUs has a better objective (in its own unit), `objective_gap` how far
    the plan is from it, relative. Each is None where no bound is known; `note` then says why.
    """

    bound_rps: float | None
    gap: float | None
    objective_value: float
    objective_bound: float | None
    objective_gap: float | None
    note: str = ""
