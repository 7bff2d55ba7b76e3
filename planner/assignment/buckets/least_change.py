"""The pools that touch fewest GPUs of those which come within a share of a value, whatever the partition.

A partition is relaxed first (servers divisible), and solved, least relaxation first, as long as that may still be less.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pulp

from planner.assignment.buckets.offer import BucketAnswer, BucketOffer, Partition
from planner.assignment.buckets.programme import LEAST_WORK, PoolProgramme
from planner.assignment.buckets.relaxed import relaxed_touched
from planner.assignment.relaxation import within_share
from planner.domain import AssignmentSettings, ObjectiveSettings
from planner.errors import InfeasibleError, SolverError
from planner.milp import Meter

EDGE = 1e-6  # GPUs: the size of the solver's tolerances


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastChange:
    """`answer`: the pools; `gpus`: what they touch; `proven`: whether no pools touch fewer."""

    answer: BucketAnswer
    gpus: int
    proven: bool


def least_changed_pools(
    offer: BucketOffer,
    partitions: Sequence[Partition],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    *,
    value: float,
    within: float,
) -> LeastChange:
    """Raises InfeasibleError where no pools come so near to `value`, SolverError where the limit leaves that open."""
    floors = {
        partition: floor
        for partition in partitions
        if (floor := relaxed_touched(offer, partition, objective, settings, value=value, within=within)) is not None
    }
    best: LeastChange | None = None
    late, meter = False, Meter(settings.work_limit)
    # Floors apart by the solver's last digits count as equal: then fewer buckets come first.
    for partition in sorted(floors, key=lambda p: (round(floors[p], 3), sum(p.counts))):
        # GPUs are whole, and no later partition has a lower floor.
        if best is not None and math.ceil(floors[partition] - EDGE) >= best.gpus:
            break
        if meter.remaining <= 0:
            late = True
            break
        # A hard partition must not use up what the others need.
        limits = replace(settings, work_limit=max(LEAST_WORK, meter.remaining / 4))
        try:
            change = _of_partition(offer, partition, objective, limits, value, within, best, meter)
        except InfeasibleError:
            continue
        except SolverError:
            late = True
            continue
        best, late = change, late or not change.proven
    if best is None:
        raise _nothing(late=late)
    return replace(best, proven=not late)


def _nothing(*, late: bool) -> InfeasibleError | SolverError:
    if late:
        return SolverError("changes: none were found within the work limit.", hint="Raise search.work_limit.")
    return InfeasibleError("changes: no pools within these limits serve so much.", hint="Allow more change.")


def _of_partition(
    offer: BucketOffer,
    partition: Partition,
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    value: float,
    within: float,
    best: LeastChange | None,
    meter: Meter,
) -> LeastChange:
    """The fewest GPUs of one partition, fewer than `best`, by the fewest pools."""
    programme = PoolProgramme(offer, partition, ObjectiveSettings())
    programme.model.sense = pulp.LpMinimize
    _, pools = programme.count_kinds()
    # All pools together weigh less than one GPU, so that they decide between equals alone.
    weight = 1.0 / (len(pools) + 1)
    programme.model.setObjective(programme.change.gpus + weight * pulp.lpSum(pools.values()))
    within_share(programme.model, objective, value, within, programme.rate, programme.cost())
    if best is not None:
        programme.model += programme.change.gpus <= best.gpus - 1, "fewer"
    answer = programme.solved(replace(settings, gap=0.0), meter)
    gpus = round(float(pulp.value(programme.change.gpus) or 0.0))
    return LeastChange(answer=answer, gpus=gpus, proven=answer.proven)
