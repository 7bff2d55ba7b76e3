"""What changing from a plan to another costs: GPUs that load or drain are paid for and serve nothing.

New servers load before the window in which they serve begins, old ones drain after it has begun. Servers run on where
the other plan has a pool of the same GPU type, servers and bucket.
"""

from collections import Counter

import numpy as np

from planner.cost import CostContext, memory
from planner.domain import Phase, Plan, Scenario, ServerConfig
from planner.domain.replanning.changes import ChangeSettings

HOUR_S = 3600.0

Server = tuple[str, Phase, ServerConfig, int, int]


def change_usd(before: Plan, after: Plan, change: ChangeSettings) -> float:
    """USD of changing from a plan to another, both of one scenario but for their targets."""
    old, new, scenario = _servers(before), _servers(after), after.scenario
    loading = sum(
        n * _usd_per_s(scenario, server) * _load_s(scenario, server, change) for server, n in (new - old).items()
    )
    draining = sum(n * _usd_per_s(scenario, server) * change.drain_s for server, n in (old - new).items())
    return loading + draining


def _servers(plan: Plan) -> Counter[Server]:
    pools = plan.buckets.pools if plan.buckets else ()
    counts: Counter[Server] = Counter()
    for pool in pools:
        counts[pool.gpu, pool.phase, pool.server, pool.start, pool.end] += pool.count
    return counts


def _usd_per_s(scenario: Scenario, server: Server) -> float:
    return scenario.inventory.item(server[0]).price_usd_per_gpu_hour * server[2].parallel.devices / HOUR_S


def _load_s(scenario: Scenario, server: Server, change: ChangeSettings) -> float:
    spec, shape = scenario.inventory.item(server[0]).gpu, server[2].parallel
    context = CostContext(gpu=spec, model=scenario.model, settings=scenario.cost)
    of_gpu = memory.weights_gb(
        context.model,
        tp=shape.tp,
        experts_on_device=memory.experts_on_device(context.model, context.settings, shape.stage_devices),
        pp=shape.pp,
        drafts=context.settings.mtp_tokens > 0,
    )
    weights_gb = float(np.max(of_gpu)) * min(shape.devices, spec.gpus_per_host)
    return weights_gb / change.storage_gb_s + change.start_s
