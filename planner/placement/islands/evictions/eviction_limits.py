"""How many evictions are still allowed: the scenario's own limits, and the disruption budgets of the cluster.

They hold for all islands of a placement together.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from planner.domain import Cluster, PlacementSettings, Pod
from planner.placement.victims.cheapest_sets import may_go

ROUNDING_H = 1e-9


@dataclass(frozen=True, slots=True)
class Excess:
    """A limit that some evictions would break: what it is called, what is asked of it and what it has left.

    `remedy` is what would lift it.
    """

    limit: str
    needed: str
    remaining: str
    remedy: str


@dataclass(slots=True)
class Allowance:
    """What is left of every limit."""

    settings: PlacementSettings
    victims: int | None
    lost_gpu_hours: float | None
    budgets: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, cluster: Cluster, settings: PlacementSettings) -> "Allowance":
        """Before any eviction."""
        budgets = {budget.name: budget.allowed for budget in cluster.disruption_budgets}
        return cls(settings, settings.most_victims, settings.most_lost_gpu_hours, budgets)

    @property
    def binds(self) -> bool:
        """Whether any limit is there."""
        return self.victims is not None or self.lost_gpu_hours is not None or bool(self.budgets)

    def may_go(self, pod: Pod) -> bool:
        """Whether the pod may be evicted next, alone."""
        hours = self.settings.lost_gpu_hours(pod)
        return (
            may_go(pod, self.settings.priority)
            and self.victims != 0
            and (not pod.disruption_budget or self.budgets.get(pod.disruption_budget, 0) > 0)
            # A checkpoint of unknown age could lose any amount.
            and not (self.settings.lost_work_counts and hours is None)
            and (self.lost_gpu_hours is None or (hours or 0.0) <= self.lost_gpu_hours + ROUNDING_H)
        )

    def allows(self, pods: Sequence[Pod]) -> bool:
        """Whether evicting all of these breaks no limit."""
        return not any(self.broken_by(pods))

    def take(self, pods: Iterable[Pod]) -> None:
        """Evict pods that break no limit."""
        for pod in pods:
            if self.victims is not None:
                self.victims -= 1
            if self.lost_gpu_hours is not None:
                self.lost_gpu_hours -= self.settings.lost_gpu_hours(pod) or 0.0
            if pod.disruption_budget:
                self.budgets[pod.disruption_budget] -= 1

    def share_of(self, pods: Sequence[Pod]) -> float:
        """Which share of what is left of each limit these pods take, added up; they break none."""
        share = 0.0
        # A limit with nothing left is not divided by: who keeps to it takes none of it.
        if self.victims:
            share += len(pods) / self.victims
        if self.lost_gpu_hours:
            share += sum(self.settings.lost_gpu_hours(pod) or 0.0 for pod in pods) / self.lost_gpu_hours
        return share + sum(1 / self.budgets[pod.disruption_budget] for pod in pods if pod.disruption_budget)

    def broken_by(self, pods: Sequence[Pod]) -> Iterator[Excess]:
        """Every limit that evicting all of these would break."""
        if self.victims is not None and len(pods) > self.victims:
            limit = self.settings.most_victims or 0
            more = limit + len(pods) - self.victims
            yield Excess("most_victims", _pods(len(pods)), _pods(self.victims), f"placement.most_victims {more}")
        unknown = sum(self.settings.lost_gpu_hours(pod) is None for pod in pods)
        if unknown and self.settings.lost_work_counts:
            text = f"{_pods(unknown)} without a known checkpoint"
            yield Excess("lost work", text, "0 pods", "placement.assumed_checkpoint_age_s")
        lost = sum(self.settings.lost_gpu_hours(pod) or 0.0 for pod in pods)
        if self.lost_gpu_hours is not None and lost > self.lost_gpu_hours + ROUNDING_H:
            most_h = (self.settings.most_lost_gpu_hours or 0.0) + lost - self.lost_gpu_hours
            yield Excess(
                "most_lost_gpu_hours",
                f"{lost:.3g} GPU-hours",
                f"{max(self.lost_gpu_hours, 0.0):.3g} GPU-hours",
                f"placement.most_lost_gpu_hours {most_h:.4g}",
            )
        for budget, count in sorted(Counter(pod.disruption_budget for pod in pods if pod.disruption_budget).items()):
            allowed = self.budgets.get(budget, 0)
            if count > allowed:
                text = f"disruption budget {budget}"
                yield Excess(text, _pods(count), _pods(allowed), f"{text}: {count - allowed} more allowed disruptions")


def _pods(count: int) -> str:
    return f"{count:,} pod{'' if count == 1 else 's'}"
