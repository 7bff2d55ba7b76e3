"""What of its prompts each island of prefill has in its prefix cache, where that is not one number for all.

share = sum_j a p s h / sum_j a p s over ranges j: share of the range that the island gets, probability, mean prompt,
`cost.prefix_hits` of it on the island as it is deployed.
"""

from dataclasses import replace

import numpy as np

from planner.cost import CostContext
from planner.cost.prefix_hits import shape_hits
from planner.domain import Phase, Plan, PlannedIsland, Workload
from planner.plans.exact_lengths import Deployed


def with_cached_shares(plan: Plan, workload: Workload) -> Plan:
    """The plan, its islands with `cached_share`; as it is where `cost.kv_cache_rate` is a number."""
    if isinstance(plan.scenario.cost.kv_cache_rate, float | int):
        return plan
    return replace(plan, islands=tuple(_with_share(plan, workload, island) for island in plan.islands))


def _with_share(plan: Plan, workload: Workload, island: PlannedIsland) -> PlannedIsland:
    if island.phase is not Phase.PREFILL:
        return island
    tokens = np.zeros(len(workload.ranges))
    for route in plan.routing:
        if route.island == island.id:
            for j, span in enumerate(workload.ranges):
                if route.range_start <= span.start < route.range_end:
                    tokens[j] += route.share * span.probability * max(1.0, span.mean_input_tokens)
    deployed = Deployed.of(island, pooled=plan.buckets is not None)
    scenario = deployed.priced(plan.scenario)
    context = CostContext(gpu=scenario.inventory.item(island.gpu).gpu, model=scenario.model, settings=scenario.cost)
    prompts = [max(1.0, span.mean_input_tokens) for span in workload.ranges]
    hits = np.asarray(shape_hits(context, prompts, deployed.parallel))
    return replace(island, cached_share=float(round(hits @ tokens / tokens.sum(), 6)))
