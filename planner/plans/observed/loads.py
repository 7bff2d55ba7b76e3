"""What was measured, by island: the series of answers joined to the plan's islands by their labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.domain import Phase, Plan, PlannedIsland, halves_of
from planner.domain.serving.observed import ObservedSeries, Quantity
from planner.errors import InputError
from planner.plans.observed.histograms import TimeHistogram, histogram_of, together


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """Values by island and quantity, and histograms (`TTFT`, `TPOT`)."""

    plan: Plan
    values: Mapping[tuple[str, Quantity], float]
    histograms: Mapping[tuple[str, Quantity], TimeHistogram]

    def value(self, island: str, quantity: Quantity) -> float | None:
        """None where no series tells."""
        return self.values.get((island, quantity))

    def serving(self, phase: Phase) -> tuple[PlannedIsland, ...]:
        """Islands of the plan that do this half of a request."""
        return tuple(i for i in self.plan.islands if i.phase is not None and phase in halves_of(i.phase))

    def total(self, quantity: Quantity, phase: Phase) -> float:
        """Over the islands of a half."""
        return sum(self.values.get((island.id, quantity), 0.0) for island in self.serving(phase))

    @property
    def rate_rps(self) -> float:
        """Of the whole mix: what came out of the half that more of it came out of."""
        return max(self.total(Quantity.REQUESTS, phase) for phase in (Phase.PREFILL, Phase.DECODE))

    def histogram(self, islands: Sequence[str], quantity: Quantity) -> TimeHistogram | None:
        """Of all these islands together; None where none of them tells of a request."""
        parts = [self.histograms[i, quantity] for i in islands if (i, quantity) in self.histograms]
        return together([part for part in parts if part.count], f"{quantity} of {', '.join(islands)}")


def loads_of(plan: Plan, series: Sequence[ObservedSeries], labels: Mapping[str, str], plan_label: str) -> Loads:
    """`labels`: an island's label -> its id; `plan_label`: the plan's name on its objects.

    Raises:
        InputError: a series of another plan or of an island that the plan has not, a histogram without its last class,
            no count of requests, or none that ended.
    """
    values: dict[tuple[str, Quantity], float] = {}
    classes: dict[tuple[str, Quantity], list[tuple[float, float]]] = {}
    for item in series:
        island = _island(item, labels, plan_label)
        if item.edge_s is None:
            values[island, item.quantity] = item.value
        else:
            classes.setdefault((island, item.quantity), []).append((item.edge_s, item.value))
    sums = {Quantity.TTFT: Quantity.TTFT_SUM, Quantity.TPOT: Quantity.TPOT_SUM}
    histograms = {
        (island, quantity): histogram_of(rows, values.get((island, sums[quantity])), f"{quantity} of {island}")
        for (island, quantity), rows in classes.items()
    }
    loads = Loads(plan=plan, values=values, histograms=histograms)
    if not any(quantity is Quantity.REQUESTS for _, quantity in values):
        raise InputError(f"Answers: must hold {Quantity.REQUESTS}, hold none.", hint="Give the answers to all queries.")
    if not loads.rate_rps:
        raise InputError("Answers: must be of a time with load, no request ended in it.", hint="Take another time.")
    return loads


def _island(item: ObservedSeries, labels: Mapping[str, str], plan_label: str) -> str:
    if item.plan != plan_label:
        raise InputError(
            f"{item.file}: {item.quantity} must be of plan {plan_label!r}, got {item.plan!r}.",
            hint="Give the run that is deployed; with --name, the name that it was exported under.",
        )
    if item.island not in labels:
        raise InputError(
            f"{item.file}: {item.quantity}: the island must be one of {', '.join(sorted(labels))}, "
            f"got {item.island!r}.",
            hint="Give the run that is deployed.",
        )
    return labels[item.island]
