"""What of their prompts the islands of a finished plan find in caches, and in which.

share = sum_j a p s h / sum_j a p s over ranges j: share of the range that the island gets, probability, mean prompt,
`cost.prefix_hits` of it on the island as it is deployed.
"""

import math
from dataclasses import replace

from planner.cost import CostContext
from planner.cost.arrays import Array, as_array
from planner.cost.grid import Degrees
from planner.cost.prefix_hits import hit_shares, kept_gb, tier_shares
from planner.domain import CacheRate, LengthRange, Phase, Plan, PlannedIsland, Workload
from planner.domain.serving.caches.tiers import TierHits, TierOutlook
from planner.plans.exact_lengths import Deployed

_DIGITS = 6


def with_cached_shares(plan: Plan, workload: Workload) -> Plan:
    """The plan, its islands with `cached_share`, and what its pools read from tiers; as it is where
    `cost.kv_cache_rate` is a number."""
    if isinstance(plan.scenario.cost.kv_cache_rate, float | int):
        return plan
    found = [_Cached.of(plan, workload, island) if _takes_in(plan, island) else None for island in plan.islands]
    islands = tuple(
        island if cached is None else replace(island, cached_share=cached.share)
        for island, cached in zip(plan.islands, found, strict=True)
    )
    tiered = plan.scenario.cost.kv_cache_rate is CacheRate.AUTO and plan.scenario.tiers is not None
    if plan.buckets is None or not tiered:
        return replace(plan, islands=islands)
    hits = tuple(row for cached in found if cached is not None for row in cached.hits)
    return replace(plan, islands=islands, buckets=replace(plan.buckets, tiers=TierOutlook(hits=hits)))


def _takes_in(plan: Plan, island: PlannedIsland) -> bool:
    return island.phase is Phase.PREFILL or (island.phase is Phase.MIXED and plan.scenario.tiers is not None)


class _Cached:
    """Share of an island's prompts that is cached, and what it reads from each tier."""

    def __init__(self, share: float, hits: tuple[TierHits, ...]) -> None:
        self.share = share
        self.hits = hits

    @classmethod
    def of(cls, plan: Plan, workload: Workload, island: PlannedIsland) -> "_Cached":
        """Of an island that takes prompts in."""
        assert island.phase is not None, "asked for of islands that serve"
        prompts = as_array([max(1.0, span.mean_input_tokens) for span in workload.ranges])
        parts = as_array([_share_of(plan, island, span) * span.probability for span in workload.ranges])
        deployed = Deployed.of(island)
        scenario, degrees = deployed.priced(plan.scenario), Degrees.of([deployed.parallel])
        context = CostContext(gpu=scenario.inventory.item(island.gpu).gpu, model=scenario.model, settings=scenario.cost)

        def mean(shares: Array) -> float:
            tokens = (parts * prompts).tolist()
            row = (as_array(shares) + 0.0 * prompts).ravel().tolist()
            return math.fsum(n * share for n, share in zip(tokens, row, strict=True)) / math.fsum(tokens)

        share = mean(as_array(hit_shares(context, prompts[None], degrees, island.phase)))
        ranks = deployed.parallel.replicas * deployed.parallel.dp
        kept_by_prompt = kept_gb(context, prompts[None], degrees)
        hits = tuple(
            TierHits(
                island=island.id,
                tier=tier.name,
                share=round(mean(part), _DIGITS),
                gb_per_s_per_gpu=round(_per_request(parts, part * kept_by_prompt) * island.rate_rps / ranks, _DIGITS),
            )
            for tier, part in tier_shares(context, prompts[None], degrees, island.phase)
        )
        return cls(round(share, _DIGITS), hits)


def _per_request(parts: Array, read_gb: Array) -> float:
    """Mean of what the island's requests read of one GPU's tier (GB)."""
    return float((parts * read_gb).sum() / parts.sum())


def _share_of(plan: Plan, island: PlannedIsland, span: LengthRange) -> float:
    """Share of a range's requests that the island gets."""
    routes = (route for route in plan.routing if route.island == island.id)
    return sum(route.share for route in routes if route.range_start <= span.start < route.range_end)
