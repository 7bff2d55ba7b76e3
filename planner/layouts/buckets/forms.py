"""Other pools beside those that the programme calls the best, to be priced as they stand.

The programme prices the queue of a pool as if its bucket were served by such servers alone, and looks at the loss of
the nodes of one pool at a time. Where pools of both forms share a bucket, where the form itself decides how far the
price of its queue is off, and where a loss takes nodes of several pools, pools of a lower value may serve more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.assignment import BucketAnswer, BucketOffer, Partition, best_pools, relaxed_values
from planner.domain import PHASES, AssignmentSettings, ObjectiveSettings, Phase
from planner.errors import InfeasibleError, SolverError

SECONDS = 5.0
NEAR = 0.85
"""Pools that cannot come nearer to the best than this are left out."""


def other_answers(
    offer: BucketOffer,
    best: BucketAnswer,
    partitions: Sequence[Partition],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
) -> Iterator[tuple[BucketOffer, BucketAnswer]]:
    """The best pools that are all split, where some of `best` are and others not; and where a loss is to be survived,
    those that survive it whatever pools it takes nodes of. All with as many buckets as `best`, and with what they were
    chosen from; none where fleets are compared by what they cost."""
    if objective.minimises or objective.kind.row.per_charge:
        return
    limits = replace(settings, time_limit_s=min(SECONDS, settings.time_limit_s))
    alike = [partition for partition in partitions if partition.counts == best.partition.counts]
    jointly = [(replace(offer, jointly=True), alike)] if offer.survive else []
    phases = {pool.place[0] for pool in best.pools}
    beside = Phase.MIXED in phases and len(phases) > 1
    split = list(dict.fromkeys(partition._replace(mixed=()) for partition in alike))
    for chosen, among in (*([(offer.of_phases(PHASES), split)] if beside else []), *jointly):
        bounds = relaxed_values(chosen, among, objective, limits)
        near = {partition: value for partition, value in bounds.items() if value >= NEAR * best.value}
        try:
            if near:
                yield chosen, best_pools(chosen, list(near), objective, limits, relaxed=near)
        except (InfeasibleError, SolverError):
            continue
