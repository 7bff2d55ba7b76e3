"""A plan of buckets from its pools: islands, routes, latencies, losses, promise."""

from collections.abc import Mapping, Sequence

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
    promise = rate_rps * scenario.routing.margin
    loads = {LoadPoint.PROMISE: promise, LoadPoint.CAPACITY: rate_rps}
    if question.demand_rps:
        loads = {LoadPoint.DEMAND: question.demand_rps, **loads}
    return BucketPlan(
        promise_rps=promise,
        burst_rps=_burst_rps(question, service, tuple(pools)),
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


def _burst_rps(question: Question, service: BucketService, pools: Sequence[BucketPool]) -> float | None:
    """Capacity where arrivals bunch as the trace's do, laid over each other; None where that is not known."""
    counts = question.scenario.workload.counts
    return None if counts is None else service.priced(pools, counts).rate_rps
