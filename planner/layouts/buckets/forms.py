"""Plans of one form of serving beside a plan of both.

The programme prices the queue of mixed servers as if they took all of a bucket, and that of split ones likewise. Where
both share one, each has a smaller pool than that, and their rate together is below the programme's: the best of either
form alone may then serve more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.assignment import BucketAnswer, BucketOffer, Partition, best_pools
from planner.domain import PHASES, AssignmentSettings, ObjectiveSettings, Phase
from planner.errors import InfeasibleError, SolverError

SECONDS = 5.0


def purer_answers(
    offer: BucketOffer,
    best: BucketAnswer,
    partitions: Sequence[Partition],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
) -> Iterator[BucketAnswer]:
    """The best pools that are all split, and those that are all mixed, of as many buckets as `best`; none where `best`
    is of one form, or where fleets are compared by what they cost."""
    phases = {pool.place[0] for pool in best.pools}
    if Phase.MIXED not in phases or len(phases) == 1 or objective.minimises or objective.kind.row.per_charge:
        return
    limits = replace(settings, time_limit_s=min(SECONDS, settings.time_limit_s))
    alike = [partition for partition in partitions if partition.counts == best.partition.counts]
    split = [partition._replace(mixed=()) for partition in alike]
    mixed = [partition for partition in alike if partition.mixed == partition.prefill]
    for kept, candidates in ((PHASES, split), ((Phase.MIXED,), mixed)):
        options = {place: of_place for place, of_place in offer.options.items() if place[0] in kept}
        try:
            yield best_pools(replace(offer, options=options), list(dict.fromkeys(candidates)), objective, limits)
        except (InfeasibleError, SolverError):
            continue
