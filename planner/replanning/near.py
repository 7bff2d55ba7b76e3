"""Pools near those that run: what they are worth, what it takes to come to them, which is chosen, and which are shown.

Of the plans within the limits, and within `give_up` of one that nothing runs before, the choice touches the fewest GPUs
as it can be carried out; of these it is the best, then the one that serves more, but for the `simplicity` that fewer
pools may cost; then the one whose change takes least. Where a change is to pay within a time, it is what is best with
its USD counted. Figures are compared as tables show them: a plan that is better than the choice in one of them is worse
in another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from planner.assignment import Partition
from planner.cost.serving.loading import S_PER_HOUR
from planner.domain import BucketPool, LengthRange, ObjectiveSettings, ParallelConfig, Phase, Plan, Question, halves_of
from planner.domain.changes import ChangeKind, ChangeLimits, ChangePoint, ChangeSettings, PlanChange
from planner.evaluation.buckets.deployed import DeployedPool, running_with
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.replanning.changes import ChangeClock, carried_out, changes_to, context_of, role_of, same_engines
from planner.replanning.staying import named_after

MET = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class NearPlan:
    """Pools, their change from those that run, and their `value` in the objective's unit (the USD of the change in it,
    where they count). `bound`: of all pools that touch no more, `partition`: their buckets (None: not solved for)."""

    priced: PricedPools
    change: PlanChange
    value: float
    bound: float | None
    solver: str
    label: str = ""
    partition: Partition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NearService:
    """Pools of a question as changes of the plan that runs. `horizon_hours`: time over which the USD of a change are
    spread in an objective that counts money (None: they do not count)."""

    before: Plan
    question: Question
    objective: ObjectiveSettings
    settings: ChangeSettings
    horizon_hours: float | None = None

    def near(self, pools: Sequence[BucketPool], bound: float | None, solver: str, label: str = "") -> NearPlan:
        """The pools at work together; those that get no requests are left out."""
        service = BucketService(self.question)
        priced = service.priced(pools)
        if any(not pool.share for pool in priced.pools):
            priced = service.priced(pool for pool in priced.pools if pool.share)
        change = self._change(priced.pools)
        value = self._value(priced, change)
        return NearPlan(priced=priced, change=change, value=value, bound=bound, solver=solver, label=label)

    def _change(self, pools: Sequence[BucketPool]) -> PlanChange:
        """As it can be carried out once the pools have names: no copy joins another island."""
        before, scenario = self.before, self.question.scenario
        change = changes_to(before, named_after(before, pools, scenario), scenario, self.settings)
        return carried_out(change, before, scenario, self.settings)

    def _value(self, priced: PricedPools, change: PlanChange) -> float:
        items = {item.gpu.name: item for item in self.question.scenario.inventory.items}
        watts = sum(items[pool.gpu].gpu.max_w * pool.gpus for pool in priced.pools)
        usd = self.rent(priced)
        if self.horizon_hours is not None:
            usd += (change.usd or 0.0) / self.horizon_hours
        return self.objective.kind.row.value(priced.rate_rps, usd, watts)

    def rent(self, priced: PricedPools) -> float:
        """USD/hour of the pools' GPUs."""
        inventory = self.question.scenario.inventory
        return sum(inventory.item(pool.gpu).rent_usd_per_gpu_hour * pool.gpus for pool in priced.pools)

    def serves(self, near: NearPlan) -> bool:
        """Whether a target and a budget are kept to."""
        objective, rate = self.objective, near.priced.rate_rps
        paid = not objective.kind.row.budgeted or self.rent(near.priced) <= objective.budget_usd_per_hour * (1 + MET)
        return paid and 0 < rate >= objective.target_rps * (1 - MET)

    def as_it_runs(self) -> NearPlan | None:
        """The old pools on the new workload, nothing but the load changed; None where that cannot be, or does not serve
        what is asked for."""
        pools = self.before.outlook.pools
        if self.question.scenario.slo != self.before.scenario.slo or not self._offered(pools):
            return None
        if not same_engines(self.before.scenario, self.question.scenario) or not self._covers(pools):
            return None
        near = self.near([self._fitted(pool) for pool in pools], None, "as it runs", "nothing touched")
        return near if self.serves(near) and not near.change.gpus_touched else None

    def _fitted(self, pool: BucketPool) -> BucketPool:
        """The pool on the ranges of its bucket, its engines with the context that they run with."""
        spans = [span for span in self.question.workload.ranges if pool.start <= span.start < pool.end]
        context = context_of(self.before.scenario, pool)
        fitted = replace(pool, start=spans[0].start, end=spans[-1].end)
        return running_with(fitted, context, self.question.scenario)

    def _offered(self, pools: Sequence[BucketPool]) -> bool:
        used: dict[str, int] = {}
        for pool in pools:
            used[pool.gpu] = used.get(pool.gpu, 0) + pool.gpus
        counts = {item.gpu.name: item.count for item in self.question.scenario.inventory.items}
        return all(count <= counts.get(gpu, 0) for gpu, count in used.items())

    def _covers(self, pools: Sequence[BucketPool]) -> bool:
        """Whether every prompt has servers in both phases, and every pool prompts."""
        ranges = self.question.workload.ranges
        if any(span.start < edge < span.end for span in ranges for pool in pools for edge in (pool.start, pool.end)):
            return False
        reached = [_cells(pool, ranges) for pool in pools]
        return all(reached) and len(set().union(*reached)) == 2 * len(ranges)


def deployed_pools(before: Plan, question: Question, clock: ChangeClock) -> Iterator[DeployedPool]:
    """The servers that run; where engines would have to be started with other flags, none of them can run on."""
    same = same_engines(before.scenario, question.scenario)
    for pool in before.outlook.pools:
        price = question.scenario.inventory.item(pool.gpu).rent_usd_per_gpu_hour
        stop_usd = clock.drain_s(role_of(pool)) / S_PER_HOUR * pool.server.parallel.devices * price
        yield DeployedPool(
            pool=replace(pool, share=1.0),
            context=context_of(before.scenario, pool) if same else 0,
            stop_usd=stop_usd,
        )


def start_usd(question: Question, clock: ChangeClock, gpu: str, shape: ParallelConfig) -> float:
    """GPU time that loading a server takes, in USD."""
    price = question.scenario.inventory.item(gpu).rent_usd_per_gpu_hour
    return clock.load_s(gpu, shape) / S_PER_HOUR * shape.devices * price


def _cells(pool: BucketPool, ranges: Sequence[LengthRange]) -> set[tuple[Phase, int]]:
    """Phases and starts of the ranges that a pool serves."""
    starts = [span.start for span in ranges if pool.start <= span.start < pool.end]
    return {(half, start) for half in halves_of(pool.phase) for start in starts}


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
