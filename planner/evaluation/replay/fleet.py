"""The fleet of a plan: islands as servers, the routing table as intervals of prompt length.

Everything follows from the plan's islands and routes, as they would be deployed, whatever its formulation.
"""

from collections.abc import Mapping
from dataclasses import replace

from planner.cost import CostContext
from planner.domain import PHASES, Phase, Plan, PlannedIsland, Workload, kv_gb
from planner.domain.replay.fleet import Interval, PoolShare, ReplayFleet, ReplayPool, Uplink
from planner.evaluation.replay.curves import ServerCurves

_SAME = 1e-9  # of shares: neighbouring ranges with the same ones are one interval


def replay_fleet(plan: Plan, workload: Workload, *, replay_prefixes: bool, storage_gb_s: float) -> ReplayFleet:
    """`replay_prefixes`: prefix caches are replayed from the prompts' blocks, where the plan counts on what they find;
    `storage_gb_s`: at which a node reads weights."""
    scenario = plan.scenario
    serving = [island for island in plan.islands if island.phase is not None and island.parallel is not None]
    pools = tuple(_pool(plan, island, workload, replay_prefixes, storage_gb_s) for island in serving)
    numbers = {island.id: number for number, island in enumerate(serving)}
    network = scenario.network
    return ReplayFleet(
        name=scenario.name,
        model=scenario.model.name,
        pools=pools,
        intervals=_intervals(plan, numbers),
        kv_gb_per_token=kv_gb(scenario.model, 1.0),
        uplinks=tuple(Uplink(gpu=gpu, gb_s=gb_s) for gpu, gb_s in (network.switch_gb_s if network else ())),
        context=scenario.model.max_context,
    )


def _pool(
    plan: Plan, island: PlannedIsland, workload: Workload, replay_prefixes: bool, storage_gb_s: float
) -> ReplayPool:
    scenario = plan.scenario
    assert island.parallel is not None, "an island that serves runs the model"
    assert island.phase is not None, "an island that serves has a phase"
    gpu = scenario.inventory.item(island.gpu).gpu
    budget = island.tokens_per_step or scenario.cost.max_tokens_per_step
    settings = replace(scenario.cost, max_tokens_per_step=budget, reach=island.reach or scenario.cost.reach)
    overlapped = settings.two_micro_batches if island.overlapped is None else island.overlapped
    curves = ServerCurves(
        context=CostContext(gpu=gpu, model=scenario.model, settings=settings),
        shape=replace(island.parallel, replicas=1),
        overlapped=overlapped,
        workload=workload,
        replay_prefixes=replay_prefixes,
    )
    return replace(
        curves.pool(island.phase, budget, island.batch_size),
        island=island.id,
        servers=island.parallel.replicas,
        reload_s=curves.node_weights_gb / storage_gb_s,
        servers_per_node=max(1, gpu.gpus_per_host // island.parallel.stage_devices // island.parallel.pp),
    )


def _intervals(plan: Plan, numbers: Mapping[str, int]) -> tuple[Interval, ...]:
    """The phases may have buckets of their own: lengths between two edges of any of them, equal neighbours as one.
    Lengths that no range holds belong to the one below."""
    edges = sorted({route.range_start for route in plan.routing})
    ends = (*edges[1:], max(route.range_end for route in plan.routing))
    intervals: list[Interval] = []
    for start, end in zip(edges, ends, strict=True):
        prefill, decode = (_shares(plan, phase, start, numbers) for phase in PHASES)
        if intervals and _alike(intervals[-1].prefill, prefill) and _alike(intervals[-1].decode, decode):
            intervals[-1] = replace(intervals[-1], end=end)
        else:
            intervals.append(Interval(start=start if intervals else 0, end=end, prefill=prefill, decode=decode))
    return tuple(intervals)


def _shares(plan: Plan, phase: Phase, start: int, numbers: Mapping[str, int]) -> tuple[PoolShare, ...]:
    """Of a phase in the range that holds `start`; servers of both phases stand in prefill alone."""
    mixed = {island.id for island in plan.islands if island.phase is Phase.MIXED}
    return tuple(
        PoolShare(pool=numbers[route.island], share=route.share)
        for route in plan.routing
        if route.phase is phase
        and route.range_start <= start < route.range_end
        and route.share > 0
        and not (phase is Phase.DECODE and route.island in mixed)
    )


def _alike(first: tuple[PoolShare, ...], other: tuple[PoolShare, ...]) -> bool:
    return [row.pool for row in first] == [row.pool for row in other] and all(
        abs(a.share - b.share) < _SAME for a, b in zip(first, other, strict=True)
    )
