"""What was measured, by island: the series of answers joined to the plan's islands by their labels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from planner.domain import Phase, Plan, PlannedIsland, halves_of
from planner.domain.serving.observed import ObservedSeries, Quantity
from planner.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeQuantile:
    """A quantile (s) with the edges of its class: what it may be by the classes alone. `high` inf: beyond all edges."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeHistogram:
    """Classes as (edge, cumulative count) pairs, ascending; `total`: sum of the observed times, a second (None: not
    told)."""

    classes: tuple[tuple[float, float], ...]
    total: float | None = None

    @property
    def count(self) -> float:
        """Observations a second."""
        return self.classes[-1][1]

    @property
    def mean(self) -> float | None:
        """s; None without observations or without their sum."""
        return None if self.total is None or not self.count else self.total / self.count

    def quantile(self, q: float) -> TimeQuantile | None:
        """None without observations."""
        if not self.count:
            return None
        rank, below, low = q * self.count, 0.0, 0.0
        for edge, count in self.classes:
            if count >= rank and count > below:
                if math.isinf(edge):
                    return TimeQuantile(value=low, low=low, high=edge)
                value = low + (edge - low) * (rank - below) / (count - below)
                return TimeQuantile(value=value, low=low, high=edge)
            below, low = max(below, count), edge
        return TimeQuantile(value=low, low=low, high=math.inf)  # pragma: no cover  # the last class has all


def histogram_of(classes: Sequence[tuple[float, float]], total: float | None, where: str) -> TimeHistogram:
    """The histogram. `where` names it in an error.

    Raises:
        InputError: no class up to +Inf, or counts that fall.
    """
    ordered = tuple(sorted(classes))
    if not ordered or not math.isinf(ordered[-1][0]):
        raise InputError(f"{where}: must have a class up to +Inf, has none.", hint="Ask for all classes (label le).")
    counts = [count for _, count in ordered]
    # rates of counters that were scraped one after another may differ by a little
    if any(later < earlier * (1 - 1e-6) for earlier, later in pairwise(counts)):
        raise InputError(f"{where}: counts must not fall from class to class.", hint="Ask again for all classes.")
    return TimeHistogram(classes=ordered, total=total)


def together(histograms: Sequence[TimeHistogram], where: str) -> TimeHistogram | None:
    """All observations in one; None of none. InputError where their edges differ."""
    if not histograms:
        return None
    edges = [edge for edge, _ in histograms[0].classes]
    if any([edge for edge, _ in other.classes] != edges for other in histograms[1:]):
        raise InputError(f"{where}: islands must have the same classes.", hint="Run one version of the engine.")
    counts = [math.fsum(column) for column in zip(*([c for _, c in h.classes] for h in histograms), strict=True)]
    totals = [h.total for h in histograms]
    total = None if None in totals else math.fsum(value for value in totals if value is not None)
    return TimeHistogram(classes=tuple(zip(edges, counts, strict=True)), total=total)


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
