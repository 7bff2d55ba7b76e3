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
"""A form whose pools cannot come nearer to the best than this is left out."""


def other_answers(
    offer: BucketOffer,
    best: BucketAnswer,
    partitions: Sequence[Partition],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
) -> Iterator[tuple[BucketOffer, BucketAnswer]]:
    """The best pools that are all split, and those that are all mixed, where `best` is not; and where a loss is to be
    survived, those that survive it whatever pools it takes nodes of. All with as many buckets as `best`, and
    with what they were chosen from; none where fleets are compared by what they cost."""
    if objective.minimises or objective.kind.row.per_charge:
        return
    limits = replace(settings, work_limit=min(SECONDS, settings.work_limit))
    alike = [partition for partition in partitions if partition.counts == best.partition.counts]
    jointly = [(replace(offer, jointly=True), alike)] if offer.survive else []
    for chosen, among in (*_forms(offer, best, alike), *jointly):
        bounds = relaxed_values(chosen, among, objective, limits)
        near = {partition: value for partition, value in bounds.items() if value >= NEAR * best.value}
        try:
            if near:
                yield chosen, best_pools(chosen, list(near), objective, limits, relaxed=near)
        except (InfeasibleError, SolverError):
            continue


def _forms(
    offer: BucketOffer, best: BucketAnswer, alike: Sequence[Partition]
) -> Iterator[tuple[BucketOffer, list[Partition]]]:
    """What either form alone may choose from, where that is less than what there is."""
    phases = {pool.place[0] for pool in best.pools}
    offered = {place[0] for place, options in offer.options.items() if options}
    split = [partition._replace(mixed=()) for partition in alike]
    mixed = [partition for partition in alike if partition.mixed == partition.prefill]
    for kept, among in ((PHASES, split), ((Phase.MIXED,), mixed)):
        if offered <= set(kept) or phases <= set(kept):
            continue
        options = {place: of_place for place, of_place in offer.options.items() if place[0] in kept}
        yield replace(offer, options=options), list(dict.fromkeys(among))
