"""What a layout is worth in each of several goals, and the values that are no use any more."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from planner.cost.serving.loading import change_usd, most_change_usd
from planner.domain import (
    Assignment,
    CurrentIsland,
    Goal,
    Layout,
    LoadPoint,
    PerformanceTable,
    Phase,
    Question,
    RangeService,
    Scenario,
)
from planner.domain.objective import ServerKind
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.goodput import duties_at_work, service_at

NOTHING_SERVED = -1.0  # headroom of a layout that serves nothing
BEYOND = 1.1  # a fleet of the whole inventory is still of some use, or fast layouts would cover next to nothing
ROUNDING = 1e-9

BoundedTime = tuple[float | None, float | None]
"""A predicted time (ms; None: without end) and its bound (None: there is none)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What goals are told of, whatever serves: the rate, the islands at work and their servers, and `rows`: what
    requests wait at a rate, with what they may."""

    rate_rps: float
    islands: Counter[tuple[str, int, Phase]]
    servers: Counter[ServerKind]
    rows: Callable[[float], Iterable[BoundedTime]]

    @classmethod
    def of_table(cls, question: Question, assignment: Assignment, table: PerformanceTable) -> "Standing":
        """Of islands that share out ranges."""
        slo, answer = question.scenario.slo, question.workload.mean_output_tokens
        islands: Counter[tuple[str, int, Phase]] = Counter()
        for duty in duties_at_work(assignment, table):
            islands[duty.island.gpu, duty.island.size, duty.phase] += duty.count
        return cls(
            rate_rps=assignment.throughput_rps,
            islands=islands,
            servers=_servers(assignment, table),
            rows=lambda rate_rps: _range_times(service_at(assignment, table, slo, answer, rate_rps)),
        )

    @classmethod
    def of_pools(cls, question: Question, priced: PricedPools) -> "Standing":
        """Of pools behind buckets, which are islands of a plan."""
        servers: Counter[ServerKind] = Counter()
        for pool in priced.pools:
            servers[pool.gpu, pool.phase, pool.server.parallel] += pool.count
        return cls(
            rate_rps=priced.rate_rps,
            islands=Counter((pool.gpu, pool.gpus, pool.phase) for pool in priced.pools),
            servers=servers,
            rows=lambda rate_rps: _bucket_times(question, priced, rate_rps),
        )


def _range_times(rows: Iterable[RangeService]) -> Iterator[BoundedTime]:
    return ((row.mean_ms if row.percentile_ms is None else row.percentile_ms, row.bound_ms) for row in rows)


def _bucket_times(question: Question, priced: PricedPools, rate_rps: float) -> Iterator[BoundedTime]:
    rows = BucketService(question).latencies(priced.pools, {LoadPoint.DEMAND: rate_rps})
    return ((row.late_ms, row.bound_ms) for row in rows)


def goal_values(question: Question, layout: Layout, standing: Standing) -> tuple[tuple[str, float], ...]:
    """Name and value of every goal of a layout that serves, in the scenario's order and in the units of `Goal`.

    Price and watts count all GPUs of the layout, as the plan's fleet does.
    """
    scenario, inventory = question.scenario, question.scenario.inventory

    def value(goal: Goal) -> float:
        match goal:
            case Goal.RATE:
                return standing.rate_rps
            case Goal.PRICE:
                return sum(inventory.item(i.gpu).rent_usd_per_gpu_hour * i.size * n for i, n in layout.counts)
            case Goal.WATTS:
                return sum(inventory.item(i.gpu).gpu.max_w * i.size * n for i, n in layout.counts)
            case Goal.HEADROOM:
                return headroom(question.demand_rps, standing)
            case Goal.CHANGES:
                return float(changes(scenario.objective.current, standing.islands))
            case Goal.CHANGE_COST:
                return change_usd(scenario, scenario.objective.running_servers, standing.servers)

    return tuple((goal.value, value(goal)) for goal in scenario.objective.goals)


def headroom(demand_rps: float, standing: Standing) -> float:
    """1 - the largest predicted TTFT or TPOT over its bound, over ranges and phases, at `demand_rps` (up to 1).

    Where the demand is more than the layout serves within its bounds, the share that it does not serve, as a negative
    number: throughput / demand - 1, -1 where nothing is served.
    """
    served = standing.rate_rps
    if demand_rps > served * (1 + ROUNDING):
        return served / demand_rps - 1
    rows = standing.rows(min(demand_rps, served))
    return max(0.0, 1 - max(_shares_of_bounds(rows), default=0.0))


def _shares_of_bounds(rows: Iterable[BoundedTime]) -> Iterator[float]:
    """Predicted time over its bound, where there is one; what has no end is beyond any."""
    for predicted_ms, bound_ms in rows:
        if bound_ms is not None:
            yield float("inf") if predicted_ms is None else predicted_ms / bound_ms


def changes(current: Iterable[CurrentIsland], new: Counter[tuple[str, int, Phase]]) -> int:
    """Islands to set up, tear down or turn round: the larger of what is new and what is gone, one for one."""
    old: Counter[tuple[str, int, Phase]] = Counter()
    for island in current:
        old[island.gpu, island.size, island.phase] += island.count
    return max((new - old).total(), (old - new).total())


def _servers(assignment: Assignment, table: PerformanceTable) -> Counter[ServerKind]:
    """The servers of islands that serve something."""
    servers: Counter[ServerKind] = Counter()
    for duty in duties_at_work(assignment, table):
        parallel = table.row(duty.island).phase(duty.phase).parallel
        assert parallel is not None, "an island that serves runs the model"
        servers[duty.island.gpu, duty.phase, replace(parallel, replicas=1)] += duty.count * parallel.replicas
    return servers


def reference_values(scenario: Scenario) -> tuple[float, ...]:
    """Per goal the value that is no use any more: that of a layout that serves nothing, or uses and changes everything.

    Rate 0; headroom -1; price and watts of the whole inventory and a tenth; one change more than replacing all
    that runs by the layout of the most islands; no less than any change costs, and a tenth.
    """
    items = scenario.inventory.items
    most_new = sum(item.count // scenario.search.min_island_size for item in items)
    values = {
        Goal.RATE: 0.0,
        Goal.PRICE: BEYOND * scenario.inventory.price_usd_per_hour,
        Goal.WATTS: BEYOND * sum(item.count * item.gpu.max_w for item in items),
        Goal.HEADROOM: NOTHING_SERVED,
        Goal.CHANGES: 1.0 + max(most_new, sum(island.count for island in scenario.objective.current)),
    }
    if Goal.CHANGE_COST in scenario.objective.goals:
        values[Goal.CHANGE_COST] = BEYOND * most_change_usd(scenario, scenario.objective.running_servers)
    return tuple(values[goal] for goal in scenario.objective.goals)
