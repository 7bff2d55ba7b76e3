"""Why a pool of a plan of buckets is what it is.

| symbol | meaning | unit |
|---|---|---|
| R[t, B] | best rate of a GPU of type t on bucket B of a phase | requests/s |
| y[B] | price of capacity on the bucket in the relaxation of the plan's buckets | 1 |
| R y | what a GPU's time is worth there: requests/s of the whole plan | requests/s |
"""

from collections.abc import Iterator

from planner.assignment import Partition, RelaxedBuckets
from planner.domain import BucketPlan, BucketPool, InventoryItem, Phase, Plan, halves_of
from planner.domain.explanations import CountReason, PoolExplanation, RivalServer, TypeUse
from planner.errors import InputError
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.buckets.rivals import (
    PoolPlace,
    best_of_type,
    excluded_servers,
    rival_servers,
)
from planner.proposing.buckets.sensitivity import Neighbours, prices_of
from planner.proposing.certificate import layout_settings
from planner.proposing.explaining.replanning import Replanner
from planner.proposing.explaining.what_ifs import what_ifs
from planner.proposing.feasibility import posed

MOST_RIVALS = 6


def explain_pool(plan: Plan, island: str, seconds: float) -> PoolExplanation:
    """Why the pool of that island is what it is; what would change it is planned again for `seconds` of CPU time.

    Raises InputError where the plan has no such pool.
    """
    pool = _pool(plan, plan.outlook, island)
    prices = prices_of(plan, posed(plan.scenario))
    neighbours = Neighbours(plan, prices, layout_settings(plan.scenario))
    bucket = _bucket(prices, neighbours.partition, pool)
    probability = _probability(plan, pool)
    load_rps = plan.throughput_rps * probability * pool.share
    place = PoolPlace.of(pool, bucket, plan.scenario.survive.share * load_rps)
    replanner = Replanner(plan, seconds)
    relaxed = neighbours.relaxed(neighbours.counts)
    return PoolExplanation(
        plan=plan.scenario.name,
        island=pool.island,
        gpu=pool.gpu,
        phase=pool.phase,
        start=pool.start,
        end=pool.end,
        servers=pool.count,
        server=pool.server,
        load_rps=load_rps,
        plan_rps=plan.throughput_rps,
        types=tuple(_types(plan, prices, neighbours.partition, pool, bucket, relaxed)),
        rivals=tuple(_rivals(rival_servers(prices, place))),
        excluded=excluded_servers(prices, place),
        count=_count(plan, plan.outlook, pool, probability),
        cuts=plan.outlook.simpler,
        what_ifs=what_ifs(replanner, prices, pool, place, neighbours),
        notes=tuple(_notes(plan, replanner)),
    )


def _pool(plan: Plan, buckets: BucketPlan, island: str) -> BucketPool:
    for pool in buckets.pools:
        if pool.island == island:
            return pool
    names = ", ".join(pool.island for pool in buckets.pools)
    raise InputError(
        f"plan {plan.scenario.name}: must have a pool {island!r}, has none.", hint=f"Its pools are {names}."
    )


def _bucket(prices: BucketPrices, partition: Partition, pool: BucketPool) -> int:
    """The number of the pool's bucket."""
    ranges, phase = prices.question.workload.ranges, prices.phases[pool.phase]
    for bucket in partition.of(pool.phase):
        first, after = phase.buckets.intervals[bucket]
        if (ranges[first].start, ranges[after - 1].end) == (pool.start, pool.end):
            return bucket
    raise InputError(
        f"pool {pool.island}: its prompts, {pool.start} to {pool.end - 1} tokens, must be a bucket of its workload.",
        hint="The plan was made by another version: plan again.",
    )


def _probability(plan: Plan, pool: BucketPool) -> float:
    half = halves_of(pool.phase)[0]
    return next(r.probability for r in plan.routing if r.phase is half and r.range_start == pool.start)


def _rivals(rivals: list[RivalServer]) -> list[RivalServer]:
    """The first few, and the chosen one."""
    return [rival for rank, rival in enumerate(rivals) if rank < MOST_RIVALS or rival.chosen]


def _types(
    plan: Plan,
    prices: BucketPrices,
    partition: Partition,
    pool: BucketPool,
    bucket: int,
    relaxed: RelaxedBuckets | None,
) -> Iterator[TypeUse]:
    """Every GPU type of the inventory in the pool's place, the most valuable there first: by USD where the objective
    counts them."""
    rows = []
    for item in plan.scenario.inventory.items:
        gpu = item.gpu.name
        rate, server = best_of_type(prices, gpu, pool.phase, bucket)
        worth = _worth(prices, relaxed, pool.phase, bucket, rate)
        uses = {
            (phase, other): _worth(prices, relaxed, phase, other, best_of_type(prices, gpu, phase, other)[0])
            for phase in prices.space.serving
            for other in partition.of(phase)
            if (phase, other) != (pool.phase, bucket)
        }
        best_use = max(uses, key=lambda use: uses[use], default=None)
        rows.append(
            TypeUse(
                gpu=gpu,
                gpus=_gpus_there(plan.outlook, pool, gpu),
                server=server,
                rate_per_gpu_rps=rate,
                rate_per_usd=_per_usd(rate, item),
                worth_rps=worth,
                elsewhere=best_use[0] if best_use else None,
                elsewhere_rps=uses[best_use] if best_use else 0.0,
            )
        )
    priced = plan.scenario.objective.kind.row.priced
    yield from sorted(rows, key=lambda row: (-((row.rate_per_usd or 0.0) if priced else row.rate_per_gpu_rps), row.gpu))


def _worth(prices: BucketPrices, relaxed: RelaxedBuckets | None, phase: Phase, bucket: int, rate: float) -> float:
    if relaxed is None:
        return 0.0
    # a mixed server takes both halves of a request off others, and is worth both
    places = prices.space.halves.get(bucket, ()) if phase is Phase.MIXED else ((phase, bucket),)
    return rate * sum(relaxed.worth.get(place, 0.0) for place in places)


def _per_usd(rate: float, item: InventoryItem) -> float | None:
    return rate / item.rent_usd_per_gpu_hour if item.rent_usd_per_gpu_hour > 0 else None


def _gpus_there(buckets: BucketPlan, pool: BucketPool, gpu: str) -> int:
    alike = (other for other in buckets.pools if (other.phase, other.start) == (pool.phase, pool.start))
    return sum(other.gpus for other in alike if other.gpu == gpu)


def _count(plan: Plan, buckets: BucketPlan, pool: BucketPool, probability: float) -> CountReason:
    """What one server less would do, the capacity of the others taken as it is."""
    item = plan.scenario.inventory.item(pool.gpu)
    # servers smaller than a node go with it, as many as fit; larger ones go one a node
    lost = plan.scenario.survive.nodes * max(1, item.gpu.gpus_per_host // pool.server.parallel.devices)
    together = min(
        sum(p.count * p.capacity_rps for p in buckets.pools if p.serves(half) and p.start <= pool.start < p.end)
        for half in halves_of(pool.phase)
    )
    fewer = max(0.0, together - pool.capacity_rps)
    # one server less, and then the loss takes what is left of the pool at most
    after_loss = max(0.0, fewer - min(lost, max(0, pool.count - 1)) * pool.capacity_rps)
    used = sum(island.size for island in plan.islands if island.gpu == pool.gpu and island.phase is not None)
    return CountReason(
        offered_gpus=item.count,
        type_gpus=plan.fleet[pool.gpu],
        type_idle=plan.fleet[pool.gpu] - used,
        one_less_rps=min(plan.throughput_rps, fewer / probability),
        one_less_left_rps=min(plan.throughput_rps, after_loss / probability),
        survive_rps=plan.scenario.survive.share * plan.throughput_rps,
    )


def _notes(plan: Plan, replanner: Replanner) -> Iterator[str]:
    if plan.placement is not None:
        yield "where the servers lie on nodes is not looked at"
    if not replanner.comparable:
        yield "the plan was searched for or replayed, not solved for: nothing is planned again"
    elif not replanner.affords:
        yield f"planning again takes about {max(replanner.price_s, 0.1):.2g} s of CPU each: more --seconds tell more"
    if not plan.scenario.objective.kind.row.priced:
        yield "prices change nothing: the objective counts the rate of the GPUs at hand, whatever they cost"
