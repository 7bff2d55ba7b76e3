"""A plan of buckets on a router's grid: its pools stay as they are, a cell goes to the bucket of its longest prompt.

Servers keep the budget and the batch that they are started with, whatever cells they get.
"""

from collections.abc import Sequence

from planner.domain import Phase, PhasePerformance, Plan, PlannedIsland, Workload
from planner.errors import ExportError
from planner.plans.exact_lengths import Deployed, rates_at
from planner.units import MS_PER_S


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
