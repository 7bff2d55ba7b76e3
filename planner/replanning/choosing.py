"""Which of the plans near the one that runs is chosen, and which are shown beside it.

Of the plans within the limits, and within `give_up` of one that nothing runs before, the choice touches the fewest GPUs
as it can be carried out; of these it is the best, then the one that serves more, but for the `simplicity` that fewer
pools may cost; then the one whose change takes least. Where a change is to pay within a time, it is what is best with
its USD counted. Figures are compared as tables show them: a plan that is better than the choice in one of them is worse
in another.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.domain.changes import ChangeKind, ChangeLimits, ChangePoint
from planner.replanning.near import MET, NearPlan

DIGITS = 4  # of the figures that tables show

GROUPED_ANEW = (ChangeKind.START, ChangeKind.RESIZE)
"""What servers do not do where they only turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choosing:
    """By which plans are chosen. `sign`: -1 where the objective is the less the better."""

    limits: ChangeLimits
    sign: float
    simplicity: float

    def choice(self, plans: Sequence[NearPlan], anew: NearPlan | None) -> NearPlan | None:
        """One of `plans`; `anew`: the plan from scratch. None where none is within the limits."""
        allowed = [near for near in plans if self.allows(near)]
        if not allowed:
            return None
        good = self._good(allowed, anew)
        fewest = min(near.change.gpus_touched for near in good)
        alike = [near for near in good if near.change.gpus_touched == fewest]
        best = max(alike, key=lambda near: (self.sign * _shown(near.value), near.priced.rate_rps))
        least_rps = _shown(best.priced.rate_rps) * (1 - self.simplicity)
        simple = [near for near in alike if self.near_enough(near, best, within=self.simplicity)]
        return min((near for near in simple if _shown(near.priced.rate_rps) >= least_rps), key=self._rank)

    def _good(self, allowed: Sequence[NearPlan], anew: NearPlan | None) -> list[NearPlan]:
        """The plans that are worth enough: against the one from scratch where any is near it, else against the best."""
        paying = self.limits.horizon_hours is not None
        if anew is not None and not paying and (good := [near for near in allowed if self.near_enough(near, anew)]):
            return good
        best = max(allowed, key=lambda near: self.sign * near.value)
        return [near for near in allowed if self.near_enough(near, best, within=self.simplicity if paying else None)]

    def _rank(self, near: NearPlan) -> tuple[float, ...]:
        """Lower is better: GPUs touched, pools, value, rate, and what the change takes."""
        change = near.change
        return (
            change.gpus_touched,
            len(near.priced.pools),
            -self.sign * _shown(near.value),
            -_shown(near.priced.rate_rps),
            _shown(change.gpu_seconds if change.usd is None else change.usd),
            -_shown(change.running_on_share),
        )

    def allows(self, near: NearPlan) -> bool:
        """Whether a plan is within the limits, as it can be carried out."""
        limits, change = self.limits, near.change
        return (
            (limits.most_gpus is None or change.gpus_touched <= limits.most_gpus)
            and change.running_on_share >= (limits.least_running_on or 0.0)
            and not (limits.turns_only and change.servers(*GROUPED_ANEW))
        )

    def near_enough(self, near: NearPlan, best: NearPlan, *, within: float | None = None) -> bool:
        """Whether a plan is worth what the best is but for the share `within`, or what the limits give up."""
        floor = _shown(best.value) * (1 - self.sign * (self.limits.give_up if within is None else within))
        return self.sign * _shown(near.value) >= self.sign * floor * (1 - self.sign * MET)

    def frontier(self, plans: Sequence[NearPlan], chosen: NearPlan) -> tuple[ChangePoint, ...]:
        """The chosen plan, and those that are better than all which touch no more."""
        points, best = list[ChangePoint](), None
        others = [near for near in plans if near is not chosen and near.priced.pools != chosen.priced.pools]
        for near in sorted([chosen, *others], key=lambda near: (near.change.gpus_touched, -self.sign * near.value)):
            better = best is None or self.sign * near.value > self.sign * best * (1 + self.sign * MET)
            if better or near is chosen:
                points.append(_point(near, chosen=near is chosen))
            best = near.value if better else best
        return tuple(points)


def _shown(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _point(near: NearPlan, *, chosen: bool) -> ChangePoint:
    return ChangePoint(
        gpus_touched=near.change.gpus_touched,
        running_on_share=near.change.running_on_share,
        rate_rps=near.priced.rate_rps,
        value=near.value,
        bound=near.bound,
        change_usd=near.change.usd,
        pools=len(near.priced.pools),
        label=near.label or "chosen" * chosen,
        chosen=chosen,
    )
