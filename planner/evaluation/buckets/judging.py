"""One layout judged in pools behind buckets, in whatever process: its islands' servers and buckets are solved for."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from planner.assignment import BucketAnswer, BucketOffer, Partition, best_pools
from planner.domain import (
    Assignment,
    AssignmentSettings,
    BucketPool,
    Evaluation,
    IslandClass,
    Layout,
    ObjectiveSettings,
    Phase,
    halves_of,
    worth_of,
)
from planner.domain.serving.routing import WORTH_A_BUCKET
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.service import PricedPools
from planner.evaluation.judging import NEITHER_BOTH

GAP = 0.002
SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedLayout:
    """The pools of a layout; None, and why, where it serves nothing. `failed`: nothing is known of it."""

    answer: BucketAnswer | None
    error: str = ""
    failed: bool = False
    cpu_s: float = 0.0


def solve_pools(
    offers: Sequence[BucketOffer], _layout: Layout, partitions: Sequence[Partition], settings: AssignmentSettings
) -> SolvedLayout:
    """The best servers and buckets of a layout's islands, of one of the `offers`; more than one bucket a phase only
    where they pay."""
    start = time.process_time()
    limits = replace(settings, gap=max(GAP, settings.gap), work_limit=min(SECONDS, settings.work_limit))
    try:
        answer = _of_best_family(offers, partitions, limits)
    except InfeasibleError:
        return SolvedLayout(answer=None, error=NEITHER_BOTH, cpu_s=time.process_time() - start)
    except SolverError as error:
        return SolvedLayout(answer=None, error=error.message, failed=True, cpu_s=time.process_time() - start)
    return SolvedLayout(answer=answer, cpu_s=time.process_time() - start)


def _of_best_family(
    offers: Sequence[BucketOffer], partitions: Sequence[Partition], settings: AssignmentSettings
) -> BucketAnswer:
    """Of any family and form; split pools must win by more than the cost model's bias towards them."""
    answers = []
    for offer in offers:
        with suppress(InfeasibleError):
            answers.append(_worth_their_buckets(offer, partitions, settings))
    if not answers:
        raise InfeasibleError(NEITHER_BOTH, hint="Prefill and decode need an island each: add GPUs.")
    return max(answers, key=lambda answer: worth_of(answer.rate_rps, answer.form))


def _worth_their_buckets(
    offer: BucketOffer, partitions: Sequence[Partition], settings: AssignmentSettings
) -> BucketAnswer:
    """Of the answers by number of buckets, the fewest that the next do not outdo by `WORTH_A_BUCKET` each."""
    chosen: BucketAnswer | None = None
    for count in sorted({buckets_of(partition) for partition in partitions}):
        of_count = [partition for partition in partitions if buckets_of(partition) == count]
        try:
            answer = best_pools(offer, of_count, ObjectiveSettings(), settings)
        except InfeasibleError:
            continue
        added = 0 if chosen is None else count - chosen.buckets
        if chosen is None or answer.rate_rps > chosen.rate_rps * (1 + WORTH_A_BUCKET) ** added:
            chosen = answer
    if chosen is None:
        raise InfeasibleError(NEITHER_BOTH, hint="Prefill and decode need an island each: add GPUs.")
    return chosen


def buckets_of(partition: Partition) -> int:
    """Buckets of both phases."""
    return sum(partition.counts)


def pooled_assignment(priced: PricedPools, solver: str, *, optimal: bool = True) -> Assignment:
    """The assignment that pools are; its objective is the lower sum of capacities, as tables report it."""
    totals: dict[Phase, float] = {}
    for pool in priced.pools:
        for half in halves_of(pool.phase):
            totals[half] = totals.get(half, 0.0) + pool.count * pool.capacity_rps
    return Assignment(
        duties=(),
        throughput_rps=priced.rate_rps,
        prefill_rps=priced.prefill_rps,
        decode_rps=priced.decode_rps,
        objective_rps=min(totals.values(), default=0.0),
        optimal=optimal,
        solver=solver,
        network_bottleneck=priced.network_bottleneck,
        pools=priced.pools,
    )


def pooled_evaluation(layout: Layout, assignment: Assignment, cpu_s: float = 0.0) -> Evaluation:
    """What a search learns of it."""
    if not assignment.throughput_rps > 0:
        return Evaluation(layout=layout, throughput_rps=0.0, assignment=None, error=NEITHER_BOTH, cpu_s=cpu_s)
    return Evaluation(layout=layout, throughput_rps=assignment.throughput_rps, assignment=assignment, cpu_s=cpu_s)


def named_pools(pools: Sequence[BucketPool]) -> tuple[BucketPool, ...]:
    """The pools with the ids of their islands: GPU type, GPUs of a server, phase, number."""
    numbers: Counter[str] = Counter()
    with_ids = []
    for pool in pools:
        stem = stem_of(pool)
        numbers[stem] += 1
        with_ids.append(replace(pool, island=f"{stem}-{numbers[stem]}"))
    return tuple(with_ids)


def stem_of(pool: BucketPool) -> str:
    """What the id of a pool's island begins with."""
    return f"{pool.gpu.lower()}-{pool.server.parallel.devices}g-{pool.phase}"


def layout_of(pools: Sequence[BucketPool]) -> Layout:
    """The islands of pools: one a server."""
    counts: dict[IslandClass, int] = {}
    for pool in pools:
        island = IslandClass(gpu=pool.gpu, size=pool.server.parallel.devices)
        counts[island] = counts.get(island, 0) + pool.count
    return Layout(counts=tuple(sorted(counts.items())))
