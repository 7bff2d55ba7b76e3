"""What handing KV caches from prefill to decode costs the split pools of a plan: time of a request, and traffic.

Servers that do both phases hand nothing over. Times are those that the pools' TTFT counts: what lies on one GPU, over
its own NIC.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from planner.cost import CostContext
from planner.cost.grid import Degrees
from planner.cost.service_levels import transfer_ms
from planner.cost.serving import Arrivals
from planner.domain import BucketPool, KvTransfer, Phase, Question, Reach, kv_gb
from planner.evaluation.buckets.priced import priced_buckets


def transfer_of(
    question: Question, pools: Iterable[BucketPool], rate_rps: float, reaches: Mapping[str, Reach] | None = None
) -> KvTransfer | None:
    """What pools hand over where the whole mix is served at `rate_rps`; None where no requests are split."""
    scenario, where = question.scenario, reaches or {}
    weight = mean_ms = longest_ms = gb_per_request = 0.0
    for bucket in priced_buckets(question, pools, Arrivals(), where):
        if bucket.phase is not Phase.PREFILL:
            continue
        mix, prompts = bucket.buckets.weights[0], bucket.buckets.prompts
        longest = bucket.buckets.longest[mix > 0].max(keepdims=True)
        gb = float(mix @ np.array([kv_gb(scenario.model, tokens) for tokens in prompts.tolist()]))
        for pool in bucket.pools:
            reach = where.get(pool.island)
            context = CostContext(
                gpu=scenario.inventory.item(pool.gpu).gpu,
                model=scenario.model,
                settings=scenario.cost if reach is None else replace(scenario.cost, reach=reach),
            )
            degrees, share = Degrees.of([pool.server.parallel]), bucket.probability * pool.share
            weight += share
            mean_ms += share * float(mix @ transfer_ms(context, prompts[None], degrees)[0])
            longest_ms = max(longest_ms, float(transfer_ms(context, longest[None], degrees)[0, 0]) if share else 0.0)
            gb_per_request += share * gb
    if not weight:
        return None
    return KvTransfer(mean_ms=mean_ms / weight, longest_ms=longest_ms, gb_s=rate_rps * gb_per_request)
