"""What a rehearsal is asked for, checked: how many requests, how slowly, who dies, and how long all of it may take."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

from planner.domain import DeploySettings, Plan
from planner.domain.fleets import FleetPlan
from planner.errors import InputError, PlannerError

INSTALL = 'pip install "llm-fleet-planner[rehearse]"'
MOST_REQUESTS = 20_000
_MOST_MINUTES, _MOST_SLOWER = 240.0, 1000.0
KEEPS_UP_RPS = 80.0
"""Requests a second of the wall's time that one process sends and answers with room to spare: on a core of 2024, where
a paired request takes it 3 ms, and the router shares the machine."""
_STEP = 0.5
_DRAIN_S = 30.0  # of plan time: what the last requests may take


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A server of `island` dies at `at_s` (seconds of the plan, from the first request on)."""

    island: str
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalSettings:
    """`router`: by name, empty: the scenario's, else the target's; `ranks`, `router_counts`: as of `planner export`,
    empty: the scenario's. `slower`: times that plan time runs as slowly as the
    wall's (None: as the rate needs). `minutes`: of the wall's time at most. `length_spread`: of bytes a token, standard
    deviation of the logarithm. `programs`: words that start a router's program, by its name."""

    router: str = ""
    engine: str = ""
    ranks: str = ""
    router_counts: str = ""
    rate_rps: float
    requests: int = 2000
    seed: int = 0
    slower: float | None = None
    minutes: float = 10.0
    warm_up: float = 0.1
    length_spread: float = 0.2
    kills: tuple[Kill, ...] = ()
    programs: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def slowed(self) -> float:
        """Times that plan time runs as slowly as the wall's."""
        return slow_down(self.rate_rps) if self.slower is None else self.slower

    @property
    def expected_s(self) -> float:
        """Seconds of the wall's time that it takes about."""
        return (self.requests / self.rate_rps + _DRAIN_S) * self.slowed


def deployed(plan: Plan, settings: RehearsalSettings) -> Plan:
    """The plan with the settings that shape its routers' programs in place of its scenario's, and no others."""
    deploy, name = plan.scenario.deploy, settings.router or plan.scenario.deploy.router
    counts = settings.router_counts or (deploy if name == deploy.router else DeploySettings()).router_counts
    chosen = DeploySettings(
        name=deploy.name,
        router=name,
        bytes_per_token=deploy.bytes_per_token,
        ranks=settings.ranks or deploy.ranks,
        router_counts=counts,
    )
    return replace(plan, scenario=replace(plan.scenario, deploy=chosen))


def slow_down(rate_rps: float) -> float:
    """The slow-down at which one process keeps up with a rate, in halves, at least 1."""
    return max(1.0, math.ceil(rate_rps / KEEPS_UP_RPS / _STEP) * _STEP)


def check_settings(settings: RehearsalSettings, plan: Plan) -> None:
    """InputError names the value that cannot be; PlannerError where the HTTP library is not installed."""
    if find_spec("tornado") is None:
        raise PlannerError("A rehearsal speaks HTTP by tornado, which is not installed.", hint=INSTALL)
    if not 1 <= settings.requests <= MOST_REQUESTS:
        raise _fault("requests", f"must be from 1 to {MOST_REQUESTS:,}", settings.requests, "Try 2000.")
    if settings.slower is not None and not 1 / 8 <= settings.slower <= _MOST_SLOWER:
        raise _fault("slower", f"must be from 0.125 to {_MOST_SLOWER:g}", settings.slower, "Try 4.")
    if not 0 < settings.minutes <= _MOST_MINUTES:
        raise _fault("minutes", f"must be above 0 and at most {_MOST_MINUTES:g}", settings.minutes, "Try 10.")
    if not 0 <= settings.warm_up < 1:
        raise _fault("warm_up", "must be a share of the requests from 0 to below 1", settings.warm_up, "Try 0.1.")
    if settings.seed < 0:
        raise _fault("seed", "must be a whole number from 0 on", settings.seed, "Try 0.")
    if not 0 <= settings.length_spread <= 1:
        raise _fault("length_spread", "must be from 0 to 1", settings.length_spread, "Try 0.2.")
    serving = [island.id for island in plan.islands if island.phase is not None]
    for kill in settings.kills:
        if kill.island not in serving:
            raise _fault("kill", f"must name an island that serves ({', '.join(serving)})", kill.island, "Choose one.")
        if not 0 <= kill.at_s < math.inf:
            raise _fault("kill", f"of {kill.island} must be at a second from 0 on", kill.at_s, "Try 30.")
    if settings.requests / settings.rate_rps * settings.slowed > 60 * settings.minutes:
        needed = math.ceil(settings.expected_s / 60)
        raise _fault(
            "minutes",
            f"must be enough for {settings.requests:,} requests at {settings.rate_rps:.4g} requests/s, "
            f"{settings.slowed:g} times slower",
            f"{settings.minutes:g}",
            f"Give --minutes {needed}, or fewer --requests.",
        )


def check_fleet_settings(settings: RehearsalSettings, fleet: FleetPlan) -> None:
    """As `check_settings`, of several deployments behind one front; InputError where all work waits, too."""
    if settings.kills:
        raise _fault(
            "kill",
            "must be left out for a fleet",
            settings.kills[0].island,
            "Rehearse the deployment by itself: planner rehearse FLEET/services/NAME --kill ISLAND@SECONDS.",
        )
    if not fleet.parts:
        raise _fault("services", "must be some with a demand", "work that waits", "Give a service a demand.")
    check_settings(settings, fleet.parts[0].plan)


def _fault(key: str, rule: str, shown: object, hint: str) -> InputError:
    return InputError(f"rehearse: {key}: {rule}, got {shown}.", hint=hint)
