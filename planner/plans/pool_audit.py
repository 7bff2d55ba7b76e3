"""An independent look at pools behind buckets: they are the islands and routes of the plan, and promise no more."""

from collections.abc import Iterator
from dataclasses import replace

from planner.domain import (
    BucketPlan,
    BucketPool,
    Plan,
    PlannedIsland,
    halves_of,
)
from planner.plans.claims import close


def false_pools(plan: Plan, buckets: BucketPlan) -> Iterator[str]:
    """What the record of the pools says that the rest of the plan does not."""
    islands = {island.id: island for island in plan.islands if island.phase is not None}
    names = [pool.island for pool in buckets.pools]
    if sorted(names) != sorted(islands):
        yield f"its pools are {', '.join(names)}, its islands with a phase {', '.join(islands)}"
        return
    for pool in buckets.pools:
        if not _is_pool(islands[pool.island], pool):
            yield f"island {pool.island} is not the {pool.count} servers of its pool"
    yield from _false_routes(plan, buckets)
    yield from _false_figures(plan, buckets)


def _is_pool(island: PlannedIsland, pool: BucketPool) -> bool:
    server = pool.server
    return (
        (island.gpu, island.phase, island.size) == (pool.gpu, pool.phase, pool.gpus)
        and island.parallel == replace(server.parallel, replicas=pool.count)
        and (island.tokens_per_step, island.batch_size) == (server.tokens_per_step, server.batch_size)
        and (island.overlapped, island.context) == (server.overlapped, pool.context)
    )


def _false_routes(plan: Plan, buckets: BucketPlan) -> Iterator[str]:
    routes = {(route.island, route.phase): route for route in plan.routing}
    for pool, phase in [(mine, half) for mine in buckets.pools for half in halves_of(mine.phase)]:
        route = routes.get((pool.island, phase))
        if route is None:
            yield f"pool {pool.island} has no {phase} route"
        elif (route.range_start, route.range_end) != (pool.start, pool.end):
            yield f"the route to {pool.island} is not of prompts of {pool.start} to {pool.end - 1} tokens"
        elif not close(route.share, pool.share) or not close(route.capacity_rps, pool.count * pool.capacity_rps):
            yield f"the route to {pool.island} has another share or capacity than its pool"


def _false_figures(plan: Plan, buckets: BucketPlan) -> Iterator[str]:
    promise = plan.throughput_rps * plan.scenario.routing.margin
    if not close(buckets.promise_rps, promise):
        yield f"it promises {buckets.promise_rps:.6g} requests/s, its margin leaves {promise:.6g}"
    if sum(point.chosen for point in buckets.simpler) != 1:
        yield "not exactly one of its simpler plans is the plan itself"
    strangers = {loss.island for loss in buckets.losses} - {pool.island for pool in buckets.pools}
    if strangers:
        yield f"it tells the loss of {', '.join(sorted(strangers))}, which is no pool"
