"""Plans with caches below device memory: a thousand GB of host memory a node, four thousand of SSD, round by hand."""

from dataclasses import replace
from typing import Any

from export_plans import DENSE, gpu, island, plan_of, route

from planner.domain import PHASES, ModelSpec, ParallelConfig, Phase, Plan, RouterPolicy
from planner.domain.serving.caches.tiers import TierSettings
from planner.files import load_engine

HOST = {"host_gb_per_node": 1000.0}
BOTH = {**HOST, "ssd_gb_per_node": 4000.0, "ssd_gb_per_s_per_node": 20.0}
EIGHT = ParallelConfig(tp=8, dp=1)
FOUR = ParallelConfig(tp=4, dp=1, replicas=2)


def tiered(plan: Plan, **sizes: Any) -> Plan:
    """The plan with these tiers, read at 50 GB/s."""
    tiers = TierSettings(host_gb_per_s_per_gpu=50.0, **sizes)
    return replace(plan, scenario=replace(plan.scenario, tiers=tiers))


def split_plan(prefill: ParallelConfig = FOUR, *, model: ModelSpec = DENSE) -> Plan:
    """One island of each phase, on nodes of eight GPUs."""
    return plan_of(
        (
            island("H200-0", "H200", Phase.PREFILL, prefill, batch_size=2),
            island("H20-0", "H20", Phase.DECODE, EIGHT),
        ),
        model=model,
    )


def mixed_plan(parallel: ParallelConfig = EIGHT, *, model: ModelSpec = DENSE, engine: str = "") -> Plan:
    """One island of both phases."""
    server = island("H200-0", "H200", Phase.MIXED, parallel)
    routes = tuple(route(server.id, phase, 0, 1.0) for phase in PHASES)
    plan = plan_of((server,), gpus=(gpu("H200"),), model=model, routing=routes)
    return replace(plan, scenario=replace(plan.scenario, engine=load_engine(engine)))


def by_prefix(plan: Plan) -> Plan:
    """The same, whose router looks for prefixes."""
    settings = replace(plan.scenario.routing, policy=RouterPolicy.PREFIX_AWARE)
    return replace(plan, scenario=replace(plan.scenario, routing=settings))
