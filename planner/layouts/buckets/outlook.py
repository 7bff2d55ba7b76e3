"""A plan of buckets from its pools: islands, routes, latencies, losses, promise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.domain import (
    BucketPlan,
    BucketPool,
    FormChoice,
    LoadPoint,
    Question,
    Reach,
    SimplerPlan,
)
from planner.domain.serving.replayed import ReplayedChoice
from planner.evaluation.buckets.service import BucketService
from planner.evaluation.buckets.transfer import transfer_of


def outlook(
    question: Question,
    pools: Sequence[BucketPool],
    rate_rps: float,
    *,
    simpler: Sequence[SimplerPlan],
    unrestricted_rps: float | None,
    survival_cost_rps: float | None,
    forms: FormChoice | None = None,
    reaches: Mapping[str, Reach] | None = None,
    replayed: ReplayedChoice | None = None,
) -> BucketPlan:
    """What a plan of buckets says beyond its islands and routes."""
    scenario, service = question.scenario, BucketService(question, reaches)
    promise, bursts = rate_rps * scenario.routing.margin, _Bursts.of(question, service, tuple(pools), rate_rps)
    loads = {LoadPoint.PROMISE: promise, LoadPoint.CAPACITY: rate_rps}
    if question.demand_rps:
        loads = {LoadPoint.DEMAND: question.demand_rps, **loads}
    return BucketPlan(
        promise_rps=promise,
        burst_rps=bursts.promise_rps,
        burst_left_rps=bursts.left_rps,
        unrestricted_rps=unrestricted_rps,
        survival_cost_rps=survival_cost_rps,
        forms=forms,
        levels_set=scenario.slo.bounds_anything,
        pools=tuple(pools),
        latencies=service.latencies(tuple(pools), loads),
        simpler=tuple(simpler),
        losses=tuple(service.losses(tuple(pools), scenario.survive.nodes)),
        transfer=transfer_of(question, pools, promise, reaches),
        replayed=replayed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bursts:
    """What is promised, and what a loss leaves at worst, where arrivals bunch; None where that is not known."""

    promise_rps: float | None = None
    left_rps: float | None = None

    @classmethod
    def of(cls, question: Question, service: BucketService, pools: Sequence[BucketPool], rate_rps: float) -> "_Bursts":
        """Of pools as they stand: none is used less because of a loss that has not come. Where a loss is to be
        survived no more is promised than without bursts, as the servers beyond that are spare. The margin is for what
        a calculation does not see, with bursts as without."""
        counts, survive = question.scenario.workload.counts, question.scenario.survive
        if counts is None:
            return cls()
        served = service.unbroken(pools, counts).rate_rps
        if not survive.share:
            return cls(promise_rps=served * question.scenario.routing.margin)
        left = min(loss.rate_rps for loss in service.losses(pools, survive.nodes, counts))
        return cls(promise_rps=min(served, rate_rps) * question.scenario.routing.margin, left_rps=left)
