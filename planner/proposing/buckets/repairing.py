"""A finished plan's pools before a cluster: what topology costs them, and what wins it back."""

from planner.domain import Plan, Scenario
from planner.domain.defragmentation import RepairReport
from planner.domain.soundness import require_buckets
from planner.errors import InputError
from planner.evaluation.buckets.service import BucketService
from planner.evaluation.repairs import repairs_of
from planner.proposing.feasibility import posed, require_saved_rate


def repairs_on(saved: Plan, scenario: Scenario, limit: int) -> RepairReport:
    """`scenario` is the plan's own but for cluster and placement.

    Raises InputError where the plan has no pools, or they do not serve what it says, as servers are missing, and where
    an exchange is asked for already.
    """
    if scenario.placement.exchange:
        raise InputError(
            "placement.exchange: does not go with --repairs, which names single changes of the plan without it, got "
            f"{scenario.placement.exchange!r}.",
            hint="Leave one of them out.",
        )
    require_buckets(scenario, "where --repairs are sought", instead="place it without")
    question, pools = posed(scenario), saved.outlook.pools
    require_saved_rate(saved, BucketService(question).priced(pools).rate_rps, "pools serve")
    return repairs_of(pools, question, posed, limit=limit)
