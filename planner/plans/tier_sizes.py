"""The size of host memory for KV caches that a plan is made with, where its scenario has a list to choose from.

Every size is planned for with pools, buckets and servers of its own, so that what is chosen is the best over sizes and
pools together, and no worse than the best of the bounds by more than the plan's own gap. Of sizes within the share
that a plan may give up for being simpler, the smallest is taken; what memory costs is in the rent of GPUs already.
"""

from collections.abc import Callable
from dataclasses import replace

from planner.domain import Plan, Scenario
from planner.domain.serving.caches.tiers import TierOutlook, TierSettings, TierSize
from planner.errors import InfeasibleError


def with_chosen_size(scenario: Scenario, planned: Callable[[Scenario], Plan]) -> Plan:
    """The plan with the size that is best, and what the others reach. `planned`: the plan of a scenario with one size.

    Raises InfeasibleError where no size serves, with what the largest one said.
    """
    tiers = scenario.tiers
    assert tiers is not None, "asked for where sizes are given"
    plans: dict[float, Plan] = {}
    sizes: list[TierSize] = []
    for size in tiers.host_sizes_gb:
        try:
            plans[size] = planned(replace(scenario, tiers=with_host_gb(tiers, size)))
        except InfeasibleError as error:
            if size == tiers.host_sizes_gb[-1] and not plans:
                raise
            sizes.append(TierSize(host_gb_per_node=size, value=None, why=str(error)))
        else:
            sizes.append(_row(size, plans[size]))
    chosen = plans[_best(scenario, sizes)]
    assert chosen.buckets is not None, "tiers are of plans with pools"
    outlook = chosen.buckets.tiers or TierOutlook(hits=())
    return replace(chosen, buckets=replace(chosen.buckets, tiers=replace(outlook, sizes=tuple(sizes))))


def with_host_gb(tiers: TierSettings, size: float) -> TierSettings:
    """The tiers with so much host memory a node, and no choice."""
    return replace(tiers, host_gb_per_node=size, host_sizes_gb=())


def _row(size: float, plan: Plan) -> TierSize:
    certificate = plan.certificate
    if certificate is None:
        return TierSize(host_gb_per_node=size, value=plan.throughput_rps)
    return TierSize(host_gb_per_node=size, value=certificate.objective_value, bound=certificate.objective_bound)


def _best(scenario: Scenario, sizes: list[TierSize]) -> float:
    """The smallest size that gives up no more of the best value than a plan may for being simpler."""
    values = {row.host_gb_per_node: row.value for row in sizes if row.value is not None}
    if scenario.objective.minimises:
        limit = min(values.values()) * (1 + scenario.simplicity)
        return min(size for size, value in values.items() if value <= limit)
    limit = max(values.values()) * (1 - scenario.simplicity)
    return min(size for size, value in values.items() if value >= limit)
