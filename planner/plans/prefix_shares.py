"""What of its prompts each island of prefill has in its prefix cache, where that is not one number for all.

share = sum_j a p s h / sum_j a p s over ranges j: share of the range that the island gets, probability, mean prompt,
`cost.prefix_hits` of it on the island as it is deployed.
"""

import math
from dataclasses import replace

from planner.cost import CostContext
from planner.cost.arrays import as_array
from planner.cost.prefix_hits import shape_hits
from planner.domain import LengthRange, Phase, Plan, PlannedIsland, Workload
from planner.plans.exact_lengths import Deployed


def with_cached_shares(plan: Plan, workload: Workload) -> Plan:
    """The plan, its islands with `cached_share`; as it is where `cost.kv_cache_rate` is a number."""
    if isinstance(plan.scenario.cost.kv_cache_rate, float | int):
        return plan
    return replace(plan, islands=tuple(_with_share(plan, workload, island) for island in plan.islands))


def _with_share(plan: Plan, workload: Workload, island: PlannedIsland) -> PlannedIsland:
    if island.phase is not Phase.PREFILL:
        return island
    prompts = [max(1.0, span.mean_input_tokens) for span in workload.ranges]
    tokens = [
        _share_of(plan, island, span) * span.probability * prompt
        for span, prompt in zip(workload.ranges, prompts, strict=True)
    ]
    deployed = Deployed.of(island)
    scenario = deployed.priced(plan.scenario)
    context = CostContext(gpu=scenario.inventory.item(island.gpu).gpu, model=scenario.model, settings=scenario.cost)
    hits = as_array(shape_hits(context, prompts, deployed.parallel)).tolist()
    share = math.fsum(n * hit for n, hit in zip(tokens, hits, strict=True)) / math.fsum(tokens)
    return replace(island, cached_share=round(share, 6))


def _share_of(plan: Plan, island: PlannedIsland, span: LengthRange) -> float:
    """Share of a range's requests that the island gets."""
    routes = (route for route in plan.routing if route.island == island.id)
    return sum(route.share for route in routes if route.range_start <= span.start < route.range_end)
