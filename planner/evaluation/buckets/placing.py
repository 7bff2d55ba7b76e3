"""Pools on real nodes: placed, priced where their servers lie. A pool that finds no room whole is made smaller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planner.domain import (
    PHASES,
    BucketPool,
    Phase,
    PlacedPart,
    Placement,
    PlacementDemand,
    Question,
    Reach,
)
from planner.errors import InfeasibleError
from planner.evaluation.buckets.priced import serves
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.hosting import advice_of, advised_by
from planner.evaluation.placing import judged_rps, remedy
from planner.evaluation.reaches import reaches_of
from planner.placement import Fleet, place_around

MOST_ATTEMPTS = 24
SMALLER = 8  # a pool without room gives up an eighth of its servers at a time, at least one


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPools:
    """Pools that found room, where they lie, and their reaches by island. Shortfalls of the placement: pools that did
    not; `unplaced`: servers that the others lack, by island; `advice`: what moves would do for those without room."""

    placement: Placement
    priced: PricedPools
    reaches: dict[str, Reach]
    unplaced: dict[str, int]
    advice: dict[str, str]


def place_pools(
    pools: Sequence[BucketPool],
    question: Question,
    fleet: Fleet,
    *,
    advises: bool = False,
    stays: Sequence[PlacedPart] = (),
) -> PlacedPools:
    """Put named pools on nodes; `advises`: it is told what moves would do for those without room. `stays`: servers that
    run where they are to be, copies numbered from 0; they move only where others would find no room otherwise.

    Raises InfeasibleError where a bucket is left without servers, and says why.
    """
    scenario, unplaced_rps = question.scenario, BucketService(question).priced(pools).rate_rps
    gpus = [item.gpu for item in scenario.inventory.items]
    watts = {gpu.name: (gpu.idle_w, gpu.max_w) for gpu in gpus}
    remaining, first_shortfalls, advice = list(pools), None, {}
    for _ in range(MOST_ATTEMPTS):
        demands = _demands(remaining, question)
        placement = place_around(stays, demands, fleet, scenario.placement, watts)
        if advises and first_shortfalls is None:
            advice = advice_of(placement, demands, fleet.cluster, scenario.placement, watts)
            placement = advised_by(placement, advice)
            advice = {**_for_givers(advice, remaining), **advice}
        short = {shortfall.island for shortfall in placement.shortfalls}
        first_shortfalls = placement.shortfalls if first_shortfalls is None else first_shortfalls
        if not short:
            break
        gives_up = {_giver(pool, remaining) for pool in remaining if pool.island in short}
        smaller = [_smaller(pool) if pool.island in gives_up else pool for pool in remaining]
        remaining = [pool for pool in smaller if pool.count]
    placed = [pool for pool in remaining if pool.island not in short]
    if frozenset().union(*map(serves, placed)) != frozenset().union(*map(serves, pools)):
        reasons = "; ".join(f"{row.island}: {row.reason}" for row in (first_shortfalls or ())[:3])
        raise InfeasibleError(
            f"placement: the pools that find room on cluster {placement.cluster} do not serve every bucket: {reasons}.",
            hint=remedy(first_shortfalls or ()),
        )
    reaches = reaches_of(placement, demands, fleet, gpus, scenario.cost.cross_switch_bandwidth)
    priced = BucketService(question, reaches).priced(placed)
    placed_servers = {pool.island: pool.count for pool in placed}
    return PlacedPools(
        placement=replace(
            placement,
            shortfalls=tuple(row for row in first_shortfalls or () if row.island not in placed_servers),
            unplaced_rps=unplaced_rps,
            placed_rps=priced.rate_rps,
            judged_rps=judged_rps(placement, priced.rate_rps, scenario.placement, fleet),
        ),
        priced=priced,
        reaches=reaches,
        unplaced={
            pool.island: pool.count - placed_servers[pool.island]
            for pool in pools
            if pool.count > placed_servers.get(pool.island, pool.count)
        },
        advice=advice,
    )


def _for_givers(advice: Mapping[str, str], pools: Sequence[BucketPool]) -> dict[str, str]:
    """The advice on pools without room, by the islands that give up servers for them."""
    return {_giver(pool, pools): f"for {pool.island}, {advice[pool.island]}" for pool in pools if pool.island in advice}


def _smaller(pool: BucketPool) -> BucketPool:
    return replace(pool, count=pool.count - max(1, pool.count // SMALLER))


def _giver(short: BucketPool, pools: Sequence[BucketPool]) -> str:
    """The island that gives up servers where a pool finds no room: itself, but for the last server of its bucket, which
    the largest other pool of its GPU type makes room for."""
    alone = any(sum(pool.count for pool in pools if half in serves(pool)) == 1 for half in serves(short))
    others = [pool for pool in pools if pool.gpu == short.gpu and pool.island != short.island and pool.count > 1]
    if not alone or not others:
        return short.island
    return max(others, key=lambda pool: pool.gpus).island


def _demands(pools: Sequence[BucketPool], question: Question) -> list[PlacementDemand]:
    settings = question.scenario.placement
    served = {pool.island: pool.share * pool.count * pool.capacity_rps for pool in pools}
    decoded = sum(served[pool.island] for pool in pools if pool.phase is Phase.DECODE) or 1.0

    def feeds(pool: BucketPool) -> tuple[tuple[str, float], ...]:
        """Islands of the other phase that share a length with it, by what they serve."""
        others = (p for p in pools if {p.phase, pool.phase} == {*PHASES} and p.start < pool.end and pool.start < p.end)
        return tuple((other.island, served[pool.island] * served[other.island] / decoded) for other in others)

    return [
        PlacementDemand(
            island=pool.island,
            gpu=pool.gpu,
            phase=pool.phase,
            replicas=pool.count,
            groups=pool.server.parallel.dp * pool.server.parallel.pp,
            tp=pool.server.parallel.tp,
            qos=settings.qos(pool.phase),
            cpus_per_gpu=settings.cpus_per_gpu,
            memory_gb_per_gpu=settings.memory_gb_per_gpu,
            feeds=feeds(pool),
            rate_rps=served[pool.island],
            per_node=pool.spread(question.scenario.inventory.item(pool.gpu).gpu.gpus_per_host),
        )
        for pool in pools
    ]
