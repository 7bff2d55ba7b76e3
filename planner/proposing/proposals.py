"""The seam between those who propose a plan and all that follows: what a proposer hands on, and what it is asked."""

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
    ReportProgress,
    Route,
    SearchJournal,
    SearchRecord,
    Sensitivity,
    Service,
)
from planner.domain.frontier import RivalFleet
from planner.evaluation.evaluator import Evaluator


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


Propose = Callable[[Evaluator, ReportProgress, SearchJournal | None], ProposedPlan]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProposer:
    """Who proposes plans of a form.

    `propose`: the best plan that is found for the question of an evaluator. Raises InfeasibleError where nothing serves
    the workload, InputError where the inventory admits no island, and KeyboardInterrupt where the search was cut short
    with nothing found. Where the journal knows of a search, the plan was not to be solved for in time.
    `again`: the islands of a saved plan. Raises InputError where they are not those that its layout gives today.
    `require_possible`: raises as `propose` does before it searches, and tells of each step.
    """

    propose: Propose
    again: Callable[[Evaluator, Plan], ProposedPlan]
    require_possible: Callable[[Evaluator, Tell], None]
