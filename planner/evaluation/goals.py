"""What a layout is worth in each of several goals, and the values that are no use any more."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from planner.cost.serving.loading import change_usd, most_change_usd
from planner.domain import (
    Assignment,
    CurrentIsland,
    Goal,
    Layout,
    PerformanceTable,
    Phase,
    Question,
    RangeService,
    Scenario,
    SloSettings,
)
from planner.domain.objective import ServerKind
from planner.evaluation.goodput import duties_at_work, service_at

NOTHING_SERVED = -1.0  # headroom of a layout that serves nothing
BEYOND = 1.1  # a fleet of the whole inventory is still of some use, or fast layouts would cover next to nothing
ROUNDING = 1e-9


def goal_values(
    question: Question, layout: Layout, assignment: Assignment, table: PerformanceTable
) -> tuple[tuple[str, float], ...]:
    """Name and value of every goal of a layout that serves, in the scenario's order and in the units of `Goal`.

    Price and watts count all GPUs of the layout, as the plan's fleet does.
    """
    scenario, inventory = question.scenario, question.scenario.inventory

    def value(goal: Goal) -> float:
        match goal:
            case Goal.RATE:
                return assignment.throughput_rps
            case Goal.PRICE:
                return sum(inventory.item(i.gpu).price_usd_per_gpu_hour * i.size * n for i, n in layout.counts)
            case Goal.WATTS:
                return sum(inventory.item(i.gpu).gpu.max_w * i.size * n for i, n in layout.counts)
            case Goal.HEADROOM:
                return headroom(
                    question.demand_rps, assignment, table, scenario.slo, question.workload.mean_output_tokens
                )
            case Goal.CHANGES:
                return float(changes(scenario.objective.current, assignment, table))
            case Goal.CHANGE_COST:
                return change_usd(scenario, scenario.objective.running_servers, _servers(assignment, table))

    return tuple((goal.value, value(goal)) for goal in scenario.objective.goals)


def headroom(
    demand_rps: float, assignment: Assignment, table: PerformanceTable, slo: SloSettings, mean_output_tokens: float
) -> float:
    """1 - the largest predicted TTFT or TPOT over its bound, over ranges and phases, at `demand_rps` (up to 1).

    Where the demand is more than the layout serves within its bounds, the share that it does not serve, as a negative
    number: throughput / demand - 1, -1 where nothing is served.
    """
    served = assignment.throughput_rps
    if demand_rps > served * (1 + ROUNDING):
        return served / demand_rps - 1
    rows = service_at(assignment, table, slo, mean_output_tokens, min(demand_rps, served))
    return max(0.0, 1 - max(_shares_of_bounds(rows), default=0.0))


def _shares_of_bounds(rows: Iterable[RangeService]) -> Iterator[float]:
    """Predicted time over its bound, where there is one."""
    for row in rows:
        if row.bound_ms is not None:
            predicted = row.mean_ms if row.percentile_ms is None else row.percentile_ms
            yield float("inf") if predicted is None else predicted / row.bound_ms


def changes(current: Iterable[CurrentIsland], assignment: Assignment, table: PerformanceTable) -> int:
    """Islands to set up, tear down or turn round: the larger of what is new and what is gone, one for one."""
    new: Counter[tuple[str, int, Phase]] = Counter()
    for duty in duties_at_work(assignment, table):
        new[duty.island.gpu, duty.island.size, duty.phase] += duty.count
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
