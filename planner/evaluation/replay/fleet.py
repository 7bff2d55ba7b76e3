"""The fleet of a plan: islands as servers, the routing table as intervals of prompt length.

Everything follows from the plan's islands and routes, as they would be deployed, whatever its formulation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planner.cost import CostContext
from planner.cost.serving.loading import node_weights_gb
from planner.domain import (
    PHASES,
    Phase,
    Plan,
    PlannedIsland,
    Reach,
    Scenario,
    ServerConfig,
    Workload,
    context_tokens,
    kv_gb,
)
from planner.domain.arrivals import Failure
from planner.domain.fleet import Interval, PoolShare, ReplayFleet, ReplayPool
from planner.evaluation.buckets.spreads import lost_servers
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
    fleet = ReplayFleet(
        name=scenario.name,
        model=scenario.model.name,
        pools=pools,
        intervals=tuple(replace(i, context=_context(plan, serving, i)) for i in _intervals(plan, numbers)),
        uplinks=network.switch_gb_s if network else (),
        context=scenario.model.max_context,
    )
    if not fleet.uplinks:
        return fleet
    return replace(fleet, kv_gb=tuple(kv_gb(scenario.model, tokens) for tokens in fleet.lengths))


def with_servers(failure: Failure, plan: Plan) -> Failure:
    """The failure with the servers that die: of a plan of buckets those that its losses count, else as many of the
    island as fit its nodes. Nothing for an island that does not serve."""
    serving = {island.id: island for island in plan.islands if island.parallel is not None and island.phase is not None}
    island = serving.get(failure.island)
    if island is None or island.parallel is None:
        return failure
    copies, hosts = island.parallel.replicas, {i.gpu.name: i.gpu.gpus_per_host for i in plan.scenario.inventory.items}
    pools = plan.outlook.pools
    numbers = [number for number, pool in enumerate(pools) if pool.island == island.id]
    if not failure.nodes:
        servers = {island.id: copies}
    elif numbers:
        lost = lost_servers(pools, hosts, numbers[0], failure.nodes)
        servers = {pools[number].island: count for number, count in lost.items()}
    else:
        on_a_node = max(1, hosts[island.gpu] // island.parallel.devices)
        servers = {island.id: min(copies, failure.nodes * on_a_node)}
    return replace(failure, servers=tuple(servers.items()))


def _context(plan: Plan, serving: Sequence[PlannedIsland], interval: Interval) -> int:
    """Tokens of the longest sequence that every server of an interval takes."""
    rows = (*interval.prefill, *interval.decode)
    return min(context_tokens(plan.scenario, serving[row.pool]) for row in rows)


def _pool(
    plan: Plan, island: PlannedIsland, workload: Workload, replay_prefixes: bool, storage_gb_s: float
) -> ReplayPool:
    assert island.parallel is not None, "an island that serves runs the model"
    assert island.phase is not None, "an island that serves has a phase"
    settings = plan.scenario.cost
    server = ServerConfig(
        parallel=replace(island.parallel, replicas=1),
        tokens_per_step=island.tokens_per_step,
        batch_size=island.batch_size,
        overlapped=settings.two_micro_batches if island.overlapped is None else island.overlapped,
        drafted=island.drafted,
    )
    servers = ReplayServers(
        scenario=plan.scenario, workload=workload, replay_prefixes=replay_prefixes, storage_gb_s=storage_gb_s
    )
    one_server = servers.pool(island.gpu, island.phase, server, island.reach)
    return replace(one_server, island=island.id, servers=island.parallel.replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayServers:
    """Servers of a scenario with their step times. `replay_prefixes`, `storage_gb_s`: as of `replay_fleet`."""

    scenario: Scenario
    workload: Workload
    replay_prefixes: bool
    storage_gb_s: float

    def pool(self, gpu: str, phase: Phase, server: ServerConfig, reach: Reach | None = None) -> ReplayPool:
        """A pool of one such server, without a name."""
        spec, shape = self.scenario.inventory.item(gpu).gpu, server.parallel
        budget = server.tokens_per_step or self.scenario.cost.max_tokens_per_step
        cost = self.scenario.cost.with_drafted(server.drafted)
        settings = replace(cost, max_tokens_per_step=budget, reach=reach or cost.reach)
        curves = ServerCurves(
            context=CostContext(gpu=spec, model=self.scenario.model, settings=settings),
            shape=shape,
            overlapped=server.overlapped,
            workload=self.workload,
            replay_prefixes=self.replay_prefixes,
        )
        return replace(
            curves.pool(phase, budget, server.batch_size),
            reload_s=node_weights_gb(curves.context, shape) / self.storage_gb_s,
        )


def _intervals(plan: Plan, numbers: Mapping[str, int]) -> tuple[Interval, ...]:
    """Servers of both phases stand in prefill alone."""
    mixed = {island.id for island in plan.islands if island.phase is Phase.MIXED}
    weights = {pool.island: pool.weight for pool in plan.outlook.pools}
    return intervals_of(
        [
            Duty(
                phase=route.phase,
                start=route.range_start,
                end=route.range_end,
                pool=numbers[route.island],
                share=route.share,
                weight=weights.get(route.island, 0.0),
            )
            for route in plan.routing
            if route.share > 0 and not (route.phase is Phase.DECODE and route.island in mixed)
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """A pool, by its number, takes `share` of the prompts of `start` <= tokens < `end` in a phase. `weight`: as of
    `BucketPool`."""

    phase: Phase
    start: int
    end: int
    pool: int
    share: float
    weight: float = 0.0


def intervals_of(duties: Sequence[Duty]) -> tuple[Interval, ...]:
    """Prompts cut wherever a duty of either phase begins. Intervals with the same shares are one; lengths between two
    ranges belong to the one below."""
    starts = sorted({duty.start for duty in duties})
    ends = [*starts[1:], max(duty.end for duty in duties)]
    intervals: list[Interval] = []
    for start, end in zip(starts, ends, strict=True):
        prefill, decode = (_shares(duties, phase, start) for phase in PHASES)
        if intervals and _alike(intervals[-1].prefill, prefill) and _alike(intervals[-1].decode, decode):
            intervals[-1] = replace(intervals[-1], end=end)
        else:
            intervals.append(Interval(start=start if intervals else 0, end=end, prefill=prefill, decode=decode))
    return tuple(intervals)


def _shares(duties: Sequence[Duty], phase: Phase, start: int) -> tuple[PoolShare, ...]:
    """Of a phase for prompts of `start` tokens."""
    return tuple(
        PoolShare(pool=duty.pool, share=duty.share, weight=duty.weight)
        for duty in duties
        if duty.phase is phase and duty.start <= start < duty.end
    )


def _alike(first: tuple[PoolShare, ...], other: tuple[PoolShare, ...]) -> bool:
    return [row.pool for row in first] == [row.pool for row in other] and all(
        abs(a.share - b.share) < _SAME for a, b in zip(first, other, strict=True)
    )
