"""Simpler pools than the plan's, and what they would serve."""

from dataclasses import replace

from planner.assignment import BucketAnswer, BucketOffer, fastest_of_kinds
from planner.domain import AssignmentSettings, ObjectiveSettings, SimplerPlan
from planner.errors import InfeasibleError, SolverError

SIMPLE_WORK = 4.0
MOST_KINDS = 6  # of the frontier's points without length routing

Counts = tuple[int, int]  # buckets of prefill and of decode


def frontier_of(
    offer: BucketOffer,
    answers: dict[Counts, BucketAnswer],
    chosen: BucketAnswer,
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
) -> tuple[SimplerPlan, ...]:
    """Rate against simplicity: few kinds without length routing, then every number of buckets, and the plan. Where GPUs
    are rented, simpler plans may cost as much as this one, or its budget."""
    limits = replace(settings, work_limit=SIMPLE_WORK, gap=max(settings.gap, 0.005))
    most_cost = _most_cost(offer, chosen, objective)
    candidates = list(answers.values())
    single_buckets = answers.get((1, 1))
    if single_buckets is not None:
        for kinds in range(2, min(MOST_KINDS, single_buckets.kinds)):
            try:
                candidates.append(fastest_of_kinds(offer, single_buckets.partition, kinds, limits, most_cost=most_cost))
            except (InfeasibleError, SolverError):
                continue
    points = {_point(answer, chosen=False) for answer in candidates} - {_point(chosen, chosen=False)}
    points = {point for point in points if not any(_outdoes(other, point) for other in points)}
    return tuple(sorted((*points, _point(chosen, chosen=True)), key=_simplicity))


def _most_cost(offer: BucketOffer, chosen: BucketAnswer, objective: ObjectiveSettings) -> float | None:
    """What simpler plans may cost (as the offer charges); None where nothing is rented."""
    if not objective.rents:
        return None
    if objective.kind.row.budgeted:
        return objective.budget_usd_per_hour
    return sum(offer.charges[pool.option.stock] * pool.option.use * pool.count for pool in chosen.pools)


def _simplicity(point: SimplerPlan) -> tuple[float, ...]:
    return point.prefill_buckets + point.decode_buckets, point.kinds, point.pools, point.rate_rps


def _point(answer: BucketAnswer, *, chosen: bool) -> SimplerPlan:
    return SimplerPlan(
        kinds=answer.kinds,
        prefill_buckets=answer.partition.counts[0],
        decode_buckets=answer.partition.counts[1],
        pools=len(answer.pools),
        rate_rps=answer.rate_rps,
        chosen=chosen,
    )


def _outdoes(other: SimplerPlan, point: SimplerPlan) -> bool:
    """Whether another is as simple and as fast, and better in one of both."""
    sizes = [
        (other.kinds, point.kinds),
        (other.prefill_buckets, point.prefill_buckets),
        (other.decode_buckets, point.decode_buckets),
        (other.pools, point.pools),
        (-other.rate_rps, -point.rate_rps),
    ]
    return all(a <= b for a, b in sizes) and any(a < b for a, b in sizes)
