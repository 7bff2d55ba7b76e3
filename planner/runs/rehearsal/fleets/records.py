"""What a rehearsal of a fleet showed: every service in each of its deployments, beside the same requests replayed."""

from dataclasses import dataclass

from planner.domain.replay import FleetReplay, ServiceReplay
from planner.domain.serving.levels import Standing
from planner.runs.rehearsal.records import MOST_LATE, Lateness
from planner.runs.rehearsal.traffic import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedService:
    """A service in a deployment: what that promises it (requests/s), how its requests fared behind the front and its
    routers, and how they fare in virtual time; `failures`: why, how many.
    """

    promised_rps: float
    rehearsed: ServiceReplay
    replayed: ServiceReplay
    failures: tuple[tuple[str, int], ...] = ()

    @property
    def failed(self) -> int:
        """Requests without a whole answer."""
        return sum(count for _, count in self.failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRehearsal:
    """`share` of what is promised was sent. `rehearsed`, `replayed`: the same requests, each deployment's as the front
    divided them. `programs`: of the front and of all routers; `seconds`: of the wall's time; `lateness`: of the engines
    of each deployment; `outcomes` of all requests, in their order.
    """

    share: float
    programs: tuple[str, ...]
    slower: float
    seconds: float
    rehearsed: FleetReplay
    replayed: FleetReplay
    services: tuple[RehearsedService, ...]
    lateness: tuple[Lateness, ...]
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...] = ()

    @property
    def keeps_up(self) -> bool:
        """Whether the simulated engines spoke in time, so that what is late is the routers' doing."""
        return all(lateness.share <= MOST_LATE for lateness in self.lateness)

    @property
    def standing(self) -> Standing | None:
        """Of the levels of all services; untold where the engines were late, None where no service has any."""
        return self.rehearsed.standing if self.keeps_up else Standing.UNTOLD

    @property
    def holds(self) -> bool | None:
        """Whether the levels of all services hold behind the front; None where that cannot be told."""
        return None if self.standing in (None, Standing.UNTOLD) else self.standing is Standing.HOLDS
