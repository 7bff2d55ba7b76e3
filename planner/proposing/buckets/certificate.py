"""How far a plan of buckets is from the best: among all that can be deployed, and among all layouts there are.

| bound | of |
|---|---|
| objective_bound | pools of servers that the engine accepts, on parts of a node or whole ones, so many buckets |
| bound_rps | layouts of any sizes, lengths and configurations of the plan's own GPUs, without queues |

What being deployable costs is at most the difference of the two.
"""

import math

from planner.domain import Certificate, Layout, Scenario
from planner.domain.serving.routing import class_of_pools
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.buckets.unrestricted import unrestricted_rps
from planner.proposing.buckets.pools import BucketChoice
from planner.proposing.certificate import ONE_OF_SEVERAL, objective_value

STOPPED = "the solver stopped at its work limit: the best found so far"
SEARCHED = "searched, not solved for: the bound is the programme's"
UNBROKEN = "what was not solved for is bounded as if no node were lost"
REPLAYED = "the bounds and gaps are of the model of queues, nothing is claimed of the replayed rate"
PLACED = "without the placement, which the bound does not see"


def certify_buckets(
    scenario: Scenario,
    prices: BucketPrices,
    layout: Layout,
    rate_rps: float,
    choice: BucketChoice,
    *,
    searched: bool = False,
) -> Certificate:
    """Bounds for pools that form `layout` and serve `rate_rps`; where the choice has none (inf), that of all layouts is
    told for both."""
    value = objective_value(scenario, layout, rate_rps)
    counts = {item.gpu.name: item.count for item in scenario.inventory.items}
    if scenario.objective.rents:
        counts = dict(layout.gpus)
    unrestricted = unrestricted_rps(prices, counts)
    bound_rps = None if unrestricted is None else max(unrestricted, rate_rps)
    reached = bound_rps or value if math.isinf(choice.bound) else choice.bound_of_form
    bound = min(reached, value) if scenario.objective.minimises else max(reached, value)
    several = scenario.objective.kind.row.several
    notes = (
        f"the bound is of {class_of_pools(scenario.serving_form, choice.forms)} that can be deployed",
        "" if choice.proven else STOPPED,
        SEARCHED if searched else "",
        _of_one_family(scenario, prices),
        UNBROKEN if scenario.survive.share else "",
        REPLAYED if scenario.objective.kind.row.replayed else "",
        ONE_OF_SEVERAL if several else "",
        PLACED if scenario.cluster is not None else "",
    )
    return Certificate(
        bound_rps=bound_rps,
        gap=None if bound_rps is None else 1 - rate_rps / bound_rps,
        objective_value=value,
        objective_bound=None if several else bound,
        objective_gap=None if several else abs(value - bound) / max(abs(bound), 1e-12),
        note="; ".join(filter(None, notes)),
    )


def _of_one_family(scenario: Scenario, prices: BucketPrices) -> str:
    """Why some GPU types are not used."""
    if len(prices.families) == 1:
        return ""
    names = " and ".join(", ".join(sorted(family)) for family in prices.families)
    return f"{scenario.engine} hands no KV caches between {names}: the pools are all of one of them"
