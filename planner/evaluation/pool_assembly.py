"""Plan records of pools: an island a pool, a route for each bucket and pool, how firm the rates are."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from planner.cost import CostContext, band_of
from planner.cost.table import origin_in
from planner.domain import (
    PHASES,
    BucketPool,
    Estimate,
    Phase,
    PlannedIsland,
    Question,
    Reach,
    Route,
    Scenario,
    Shortfall,
)


def pool_routes(question: Question, pools: Sequence[BucketPool], rate_rps: float) -> tuple[Route, ...]:
    """A row for each phase, bucket and pool at this rate of the whole mix; pools of both phases have two."""
    return tuple(
        _route(question, pool, phase, rate_rps)
        for phase in PHASES
        for pool in pools
        if pool.share > 0 and pool.serves(phase)
    )


def _route(question: Question, pool: BucketPool, phase: Phase, rate_rps: float) -> Route:
    ranges = [s for s in question.workload.ranges if pool.start <= s.start and s.end <= pool.end]
    chance = min(1.0, math.fsum(span.probability for span in ranges))  # all of them together may pass 1 by rounding
    capacity = pool.count * pool.capacity_rps
    served = pool.share * chance * rate_rps
    ranks = pool.server.parallel.dp * pool.count
    step_ms = 0.0
    if phase is Phase.DECODE:
        answer = max(1.0, question.workload.mean_output_tokens)
        step_ms = 1000.0 * ranks * pool.server.batch_size / (pool.count * pool.full_rps * answer)
    return Route(
        phase=phase,
        range_start=pool.start,
        range_end=pool.end,
        probability=chance,
        island=pool.island,
        share=pool.share,
        rate_rps=served,
        assigned_rps=capacity,
        capacity_rps=capacity,
        batch_size=pool.server.batch_size,
        step_ms=step_ms,
    )


def pool_islands(
    scenario: Scenario,
    pools: Sequence[BucketPool],
    routes: Sequence[Route],
    reaches: Mapping[str, Reach],
    unplaced: Mapping[str, int],
    advice: Mapping[str, str],
) -> Iterator[PlannedIsland]:
    """The island of each pool: its servers are replicas of one copy of the model. `unplaced`: servers that found no
    room; `advice`: what would give them some."""
    by_island = {route.island: route for route in routes}
    for pool in pools:
        route = by_island[pool.island]
        price = scenario.inventory.item(pool.gpu).rent_usd_per_gpu_hour
        yield PlannedIsland(
            id=pool.island,
            gpu=pool.gpu,
            size=pool.gpus,
            phase=pool.phase,
            parallel=replace(pool.server.parallel, replicas=pool.count),
            batch_size=pool.server.batch_size,
            longest_prompt=pool.end - 1,
            rate_rps=route.rate_rps,
            utilisation=route.rate_rps / route.capacity_rps,
            price_usd_per_hour=price * pool.gpus,
            reach=reaches.get(pool.island),
            tokens_per_step=pool.server.tokens_per_step,
            overlapped=pool.server.overlapped,
            context=pool.context,
            drafted=pool.server.drafted,
            note=_no_room(unplaced.get(pool.island, 0), pool, advice.get(pool.island, "")),
        )


def unplaced_islands(scenario: Scenario, shortfalls: Sequence[Shortfall]) -> Iterator[PlannedIsland]:
    """Pools of which no server found room."""
    for shortfall in shortfalls:
        price = scenario.inventory.item(shortfall.gpu).rent_usd_per_gpu_hour * shortfall.gpus
        yield PlannedIsland.idle(shortfall.island, shortfall.gpu, shortfall.gpus, price, shortfall.reason)


def _no_room(missing: int, pool: BucketPool, advice: str) -> str:
    if not missing:
        return ""
    return f"{missing} of its {pool.count + missing} servers find no room on the cluster" + (
        f"; {advice}" * bool(advice)
    )


def pool_estimates(scenario: Scenario, pools: Sequence[BucketPool]) -> tuple[Estimate, ...]:
    """How firm the rates of every GPU type and phase of the pools are; of pools of both phases together."""
    estimates = []
    for gpu, phase in sorted({(pool.gpu, pool.phase) for pool in pools}):
        spec = scenario.inventory.item(gpu).gpu
        context = CostContext(gpu=spec, model=scenario.model, settings=scenario.cost)
        origin, source = origin_in(context, phase)
        band = band_of(spec, scenario.model, phase, scenario.cost)
        estimates.append(Estimate(gpu=gpu, phase=phase, origin=origin, source=source, band=band))
    return tuple(estimates)
