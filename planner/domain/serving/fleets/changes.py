"""What it takes to get from one plan of a fleet to another: who gives which nodes to whom, in which steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.domain.changes import LostServers, PlanChange
from planner.domain.fleets import FleetPart, FleetPlan
from planner.domain.rollouts import Replan, RollOut, RollOutStep

GpuCounts = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTerms:
    """What is asked of a change of a fleet. `lost`: GPUs that are gone, by type; `lost_of`: of deployments, by name.
    `least_share`: of the smaller of its old and its new promise, that no step takes from a service (None: as the
    deployments' scenarios say). `meanwhile`: GPUs that there are until the change is done, of types that then have more
    or fewer."""

    lost: Mapping[str, int] = field(default_factory=dict)
    lost_of: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    least_share: float | None = None
    meanwhile: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentChange:
    """A deployment on its way from `before` to `after` (None: there was none, there is none any more).

    `lost`: what it lost before. `replan`, `change`: near its plan, as it can be carried out (None: it stays as it is,
    comes, goes, or is planned from scratch). `roll_out`: its own steps (None: nothing of it changes).
    """

    name: str
    before: FleetPart | None
    after: FleetPart | None
    lost: LostServers = field(default_factory=LostServers)
    replan: Replan | None = None
    change: PlanChange | None = None
    roll_out: RollOut | None = None

    @property
    def stays(self) -> bool:
        """Whether its plan is the very same."""
        return self.before is not None and self.after is not None and self.before.plan is self.after.plan

    @property
    def servers_before(self) -> int:
        """Servers that ran."""
        return 0 if self.before is None else sum(pool.count for pool in self.before.plan.outlook.pools)

    @property
    def servers_running_on(self) -> int:
        """Those of them whose engines are not touched."""
        if self.stays:
            return self.servers_before
        return 0 if self.change is None else self.change.servers_running_on


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStep:
    """What happens at once, all stops before all starts: a step of the roll-out of some deployments. `nodes`: GPUs of
    whole nodes by deployment and type that they take (positive) or give. `promised_rps`: what every service is promised
    while it lasts, `seconds` long. `nodes_after`: GPUs of whole nodes that each deployment lies on then."""

    number: int
    moves: tuple[tuple[str, RollOutStep], ...]
    nodes: tuple[tuple[str, GpuCounts], ...]
    nodes_after: tuple[tuple[str, GpuCounts], ...]
    promised_rps: tuple[tuple[str, float], ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChange:
    """A fleet's plan that takes another's place. `lower_rps`: of every service the smaller of its old and its new
    promise, which shares are of. `best_value`: of the best division, whatever moves. `moved_gpus`: GPUs of nodes that
    change hands, by type; `best_moved_gpus`: of the best division. `guessed`: only types of lost GPUs were named;
    `short`: types of which the inventory has fewer than ran, so that some count as lost."""

    before: FleetPlan
    plan: FleetPlan
    deployments: tuple[DeploymentChange, ...]
    steps: tuple[FleetStep, ...]
    lower_rps: tuple[tuple[str, float], ...]
    least_share: float
    best_value: float
    moved_gpus: GpuCounts
    best_moved_gpus: GpuCounts
    guessed: bool = False
    short: tuple[str, ...] = ()

    def share_of(self, service: str, promised_rps: float) -> float:
        """Of the smaller of its old and its new promise; 1 of none."""
        lower = dict(self.lower_rps).get(service, 0.0)
        return promised_rps / lower if lower else 1.0

    @property
    def tightest(self) -> tuple[float, str, int]:
        """(the least share that a step leaves a service, that service, the step's number); 1 where there is no step."""
        shares = [
            (self.share_of(service, rps), service, step.number)
            for step in self.steps
            for service, rps in step.promised_rps
        ]
        return min(shares, default=(1.0, "", 0))

    @property
    def reached_share(self) -> float:
        """The least share that a step leaves a service."""
        return self.tightest[0]

    @property
    def seconds(self) -> float:
        """All steps, one after the other."""
        return sum(step.seconds for step in self.steps)

    @property
    def running_on_share(self) -> float:
        """Of the servers that ran, those that run on (1 of none)."""
        before = sum(row.servers_before for row in self.deployments)
        return sum(row.servers_running_on for row in self.deployments) / before if before else 1.0
