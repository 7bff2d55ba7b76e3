"""A finished plan's routing table brought onto a router's uniform grid, and what that costs.

| symbol | meaning | unit |
|---|---|---|
| W, K | width of a cell: the longest prompt and one, over K, rounded up; cells | tokens, 1 |
| q(s), t[i](s) | probability of a prompt of s tokens, time of island i for one of those | 1, s |
| w[i, c] = sum over s in cell c of q t | what `pool_cells` parts | s |
| a[i] | share of its pool's requests that an island takes: 1 / T[i] over the pool's sum | 1 |

t is the cost stage's, for the island's own degrees where it lies, with the batch that suits each exact length; pools
are made with that. An engine's batch is that of its cells' longest prompts, so what the grid reaches is told by the
finished table, replayed at exact lengths with the batches that it deploys, and so is what the plan's own table reaches:
the two compare. Neither sees queues or the network. Plans of buckets
keep their pools, budgets and batches: a cell goes to the bucket of its longest prompt.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.assignment import busy_times, pool_cells
from planner.cost import tabulate_placed
from planner.domain import (
    PHASES,
    LengthRange,
    Phase,
    PhasePerformance,
    Plan,
    PlannedIsland,
    PoolGrid,
    Route,
    RouterGrid,
    Workload,
)
from planner.errors import ExportError, InputError
from planner.plans.exact_lengths import Deployed, evaluate_exactly, rates_at
from planner.units import MS_PER_S
from planner.workload import divide

CELLS = 32
MOST_CELLS = 4096


def grid_of(plan: Plan, cells: int = CELLS) -> RouterGrid:
    """The plan's islands in pools, and the pool of every one of `cells` cells of prompt length, by phase.

    Raises InputError for a number of cells out of range and for plans in reference mode or on a profile's times, whose
    islands have no times beyond their own ranges; ExportError where no island takes all lengths of a cell.
    """
    if not 1 <= cells <= MOST_CELLS:
        raise InputError(f"grid: cells must be 1 to {MOST_CELLS}, got {cells}.", hint="32 do for most plans.")
    exact = _exact(plan)
    width = -(-(exact.longest_prompt + 1) // cells)
    grids = {phase: _phase_grid(plan, phase, exact, width, cells) for phase in PHASES}
    grid = RouterGrid(planned_rps=plan.throughput_rps, prefill=grids[Phase.PREFILL], decode=grids[Phase.DECODE])
    return _replayed(plan, grid)


def _replayed(plan: Plan, grid: RouterGrid) -> RouterGrid:
    """The grid with the rates that its table and the plan's reach at exact lengths, each with its own batches."""
    ours, theirs = _exact_rps(plan), _exact_rps(on_grid(plan, grid))
    prefill, decode = (
        replace(grid.phase(phase), plan_rps=ours[phase], grid_rps=theirs[phase])
        for phase in (Phase.PREFILL, Phase.DECODE)
    )
    return replace(grid, prefill=prefill, decode=decode)


def _exact_rps(plan: Plan) -> dict[Phase, float]:
    return {evaluation.phase: evaluation.throughput_rps for evaluation in evaluate_exactly(plan).per_phase}


def on_grid(plan: Plan, grid: RouterGrid) -> Plan:
    """The plan with the routing table that the grid gives: its ranges are the cells, its rate is the grid's.

    Islands keep their degrees; batch, longest prompt, rate and busy share follow from the cells of their pool.
    """
    cells = divide(plan.scenario.workload, grid.prefill.width)
    routes = tuple(route for phase in PHASES for route in _routes(plan, grid, grid.phase(phase), cells))
    islands = tuple(
        island if island.phase is None else _served(island, [r for r in routes if r.island == island.id], cells)
        for island in plan.islands
    )
    scenario = replace(plan.scenario, ranges=replace(plan.scenario.ranges, width=grid.prefill.width))
    rates = {phase: grid.phase(phase).grid_rps for phase in PHASES}
    return replace(
        plan,
        scenario=scenario,
        throughput_rps=grid.grid_rps,
        prefill_rps=rates[Phase.PREFILL],
        decode_rps=rates[Phase.DECODE],
        islands=islands,
        routing=routes,
        flows=(),
    )


def _exact(plan: Plan) -> Workload:
    """Every length its own range; a synthetic prompt may have no tokens, and is counted as one token."""
    exact = divide(plan.scenario.workload, 1)
    spans = tuple(
        replace(span, mean_input_tokens=max(1.0, span.mean_input_tokens), longest_input_tokens=max(1, span.start))
        for span in exact.ranges
    )
    return replace(exact, ranges=spans)


def _phase_grid(plan: Plan, phase: Phase, exact: Workload, width: int, cells: int) -> PoolGrid:
    islands = [island for island in plan.islands if island.phase is phase]
    times = [_times(plan, island, exact) for island in islands]
    work = [_by_cell(exact.ranges, island_times, width, cells) for island_times in times]
    if plan.form.row.pooled:
        pools, settled = bucket_pools(plan, phase), bucket_cells(plan, phase, exact, width, cells)
        numbers = {island.id: i for i, island in enumerate(islands)}
        busy = busy_times(work, [[numbers[name] for name in pool] for pool in pools], settled)
        return PoolGrid(
            phase=phase,
            width=width,
            pools=tuple(pools),
            cells=tuple(settled),
            plan_rps=plan.throughput_rps,
            grid_rps=1 / max(busy),
        )
    best = pool_cells(work)
    if best is None:
        raise ExportError(
            f"plan {plan.scenario.name}, {phase}: every one of {cells} cells must have an island that takes all its "
            "lengths; some have none.",
            hint="Take more cells, or plan with ranges on the grid (`ranges: {cells: 32}`).",
        )
    return PoolGrid(
        phase=phase,
        width=width,
        pools=tuple(tuple(islands[i].id for i in pool) for pool in best.pools),
        cells=_settled(best.cells, work),
        plan_rps=plan.throughput_rps,
        grid_rps=1 / max(busy_times(work, best.pools, best.cells)),
    )


def _settled(cells: Sequence[int], work: Sequence[Sequence[float]]) -> tuple[int, ...]:
    """A cell that no request of the trace falls into may lie anywhere: the pool of the next above has its context."""
    settled, pool = list(cells), cells[-1]
    for cell in range(len(cells) - 1, -1, -1):
        pool = cells[cell] if any(times[cell] for times in work) else pool
        settled[cell] = pool
    return tuple(settled)


def _performance(plan: Plan, island: PlannedIsland, workload: Workload) -> PhasePerformance:
    """What the island does of each range, at its degrees and where it lies."""
    if plan.form.row.pooled:
        return pool_performance(plan, island, workload)
    scenario = plan.scenario
    assert island.parallel is not None
    assert island.phase is not None
    return tabulate_placed(
        scenario.inventory.item(island.gpu).gpu,
        island.phase,
        island.parallel,
        model=scenario.model,
        workload=workload,
        settings=replace(scenario.cost, reach=island.reach),
        slo=scenario.slo,
    )


def _times(plan: Plan, island: PlannedIsland, exact: Workload) -> list[float]:
    """t of each length that occurs (s; inf: not served)."""
    rates = _performance(plan, island, exact).rates_rps
    return [span.probability / rate if rate > 0 else math.inf for span, rate in zip(exact.ranges, rates, strict=True)]


def _by_cell(spans: Sequence[LengthRange], times: Sequence[float], width: int, cells: int) -> list[float]:
    sums = [0.0] * cells
    for span, seconds in zip(spans, times, strict=True):
        sums[span.start // width] += seconds
    return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """An island of a pool: what it does of each range of the grid, and its share of the pool's requests."""

    island: PlannedIsland
    performance: PhasePerformance
    share: float


def _routes(plan: Plan, grid: RouterGrid, phase: PoolGrid, cells: Workload) -> list[Route]:
    islands = {island.id: island for island in plan.islands}
    pools = [
        _members(plan, [islands[name] for name in pool], cells, [phase.pool_of(r.start) == p for r in cells.ranges])
        for p, pool in enumerate(phase.pools)
    ]
    return [
        Route(
            phase=phase.phase,
            range_start=span.start,
            range_end=span.end,
            probability=span.probability,
            island=member.island.id,
            share=member.share,
            rate_rps=member.share * span.probability * grid.grid_rps,
            assigned_rps=member.share * span.probability * phase.grid_rps,
            capacity_rps=member.performance.rates_rps[j],
            batch_size=member.performance.batch_sizes[j],
            step_ms=member.performance.step_ms[j],
        )
        for j, span in enumerate(cells.ranges)
        for member in pools[phase.pool_of(span.start)]
    ]


def _members(plan: Plan, islands: Sequence[PlannedIsland], cells: Workload, chosen: Sequence[bool]) -> list[_Member]:
    """`chosen`: whether the pool takes each range."""
    performances = [_performance(plan, island, cells) for island in islands]
    speeds = [
        1
        / math.fsum(
            r.probability / rate for r, rate, ours in zip(cells.ranges, p.rates_rps, chosen, strict=True) if ours
        )
        for p in performances
    ]
    return [
        _Member(island=island, performance=performance, share=speed / math.fsum(speeds))
        for island, performance, speed in zip(islands, performances, speeds, strict=True)
    ]


def _served(island: PlannedIsland, routes: Sequence[Route], cells: Workload) -> PlannedIsland:
    longest = {r.start: r.longest_input_tokens for r in cells.ranges}
    return replace(
        island,
        batch_size=max(route.batch_size for route in routes),
        longest_prompt=max(longest[route.range_start] for route in routes),
        rate_rps=math.fsum(route.rate_rps for route in routes),
        utilisation=min(1.0, math.fsum(route.rate_rps / route.capacity_rps for route in routes)),
    )


def bucket_pools(plan: Plan, phase: Phase) -> list[tuple[str, ...]]:
    """Islands by bucket, shortest prompts first."""
    routes = [route for route in plan.routing if route.phase is phase]
    starts = sorted({route.range_start for route in routes})
    return [tuple(route.island for route in routes if route.range_start == start) for start in starts]


def bucket_cells(plan: Plan, phase: Phase, exact: Workload, width: int, cells: int) -> list[int]:
    """The bucket of every cell; one that no request falls into goes where the next longer one goes.

    Raises ExportError where a bucket is left without cells.
    """
    ends = sorted({route.range_end for route in plan.routing if route.phase is phase})
    longest: dict[int, int] = {}
    for span in exact.ranges:
        longest[span.start // width] = span.start
    chosen, bucket = [0] * cells, len(ends) - 1
    for cell in range(cells - 1, -1, -1):
        if cell in longest:
            bucket = next((k for k, end in enumerate(ends) if longest[cell] < end), len(ends) - 1)
        chosen[cell] = bucket
    served = {chosen[cell] for cell in longest}
    if len(served) < len(ends):
        lost = next(k for k in range(len(ends)) if k not in served)
        raise ExportError(
            f"plan {plan.scenario.name}, {phase}: every bucket must have a cell of the grid, that of prompts below "
            f"{ends[lost]} tokens has none of {cells} cells of {width} tokens.",
            hint="Take more cells.",
        )
    return chosen


def pool_performance(plan: Plan, island: PlannedIsland, workload: Workload) -> PhasePerformance:
    """What the servers of a pool do of each range, as they are started."""
    answers = [
        max(1.0, span.mean_output_tokens or plan.scenario.workload.mean_output_tokens) for span in workload.ranges
    ]
    lengths = [max(1, round(span.mean_input_tokens)) for span in workload.ranges]
    batches = [island.batch_size] * len(lengths)
    deployed = Deployed.of(island)
    rates = rates_at(plan.scenario, deployed, lengths, batches, answers)
    return PhasePerformance(
        parallel=island.parallel,
        rates_rps=tuple(rates),
        batch_sizes=tuple(batches),
        step_ms=tuple(_token_times(deployed, rates, batches, answers)),
    )


def _token_times(
    deployed: Deployed, rates: Sequence[float], batches: Sequence[int], answers: Sequence[float]
) -> list[float]:
    """Times per output token; steps of prefill take prompts of all lengths, and have none."""
    if deployed.phase is Phase.PREFILL:
        return [0.0] * len(rates)
    groups = deployed.parallel.replicas * deployed.parallel.dp
    rows = zip(rates, batches, answers, strict=True)
    return [MS_PER_S * groups * batch / (rate * answer) if rate > 0 else 0.0 for rate, batch, answer in rows]
