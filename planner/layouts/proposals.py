"""The seam between those who propose a plan and all that follows: what a proposer hands on, whoever it is."""

from collections.abc import Callable
from dataclasses import dataclass

from planner.domain import (
    Assignment,
    BucketPlan,
    Certificate,
    Estimate,
    KvFlow,
    Placement,
    Plan,
    PlannedIsland,
    Route,
    SearchRecord,
    Sensitivity,
    Service,
)
from planner.domain.frontier import RivalFleet


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedPlan:
    """Islands and the routes to them, where they lie, with what they serve, and how far that is from the best.

    `record`: how they were found. `certificate`: value and bound. `estimates`: how firm the rates are. `worths`: what
    would change the rate of the finished plan, which only its proposer can tell (None: nothing can be told); `rivals`:
    other fleets for its objective, the best first.
    `service`, `flows`, `network_bottleneck`, `buckets`: as in `Plan`.
    """

    assignment: Assignment
    islands: tuple[PlannedIsland, ...]
    routing: tuple[Route, ...]
    record: SearchRecord
    certificate: Certificate
    estimates: tuple[Estimate, ...]
    worths: Callable[[Plan], Sensitivity | None]
    rivals: Callable[[Plan], tuple[RivalFleet, ...]] = lambda _: ()
    placement: Placement | None = None
    service: Service | None = None
    flows: tuple[KvFlow, ...] = ()
    network_bottleneck: str = ""
    buckets: BucketPlan | None = None
