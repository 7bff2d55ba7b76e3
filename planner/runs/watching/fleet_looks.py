"""One look at a fleet that runs: do its promises hold for the loads of its services, and what is asked of it if not?

The rules are those of the watch of one plan: medians of the last `smooth_s`, a change where a service's load is above
`raise_at` of its promise, new promises `headroom` above the highest load of `dwell_s`; and where the fleet is planned
for least rent, one that saves `least_saving` of it. Whoever looks again and again starts this as often as wanted: the
folder of the fleet that stands is all that is remembered.
"""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from planner.domain.fleets import FleetAim, FleetPlan, FleetScenario
from planner.domain.schedules import RateSeries
from planner.domain.watching import Cause, WatchSettings
from planner.errors import InputError
from planner.files.tables.rates import load_rates

LEAST_LOAD_RPS = 0.01
"""What a service is asked for where nobody asks for anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLoad:
    """What a service is asked for (requests/s): now, the median of the last `smooth_s`, and the highest of `dwell_s`;
    and what it is promised."""

    service: str
    load_rps: float
    highest_rps: float
    promised_rps: float

    @property
    def share(self) -> float:
        """Of the promise that the load takes."""
        return self.load_rps / self.promised_rps if self.promised_rps > 0 else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLook:
    """The loads of all services with a demand, and why the fleet changes, or could (None: it stands)."""

    loads: tuple[ServiceLoad, ...]
    cause: Cause | None

    @property
    def tightest(self) -> ServiceLoad:
        """The service that takes most of its promise."""
        return max(self.loads, key=lambda row: row.share)


def look_at(saved: FleetPlan, feed: Path, settings: WatchSettings) -> FleetLook:
    """The loads of a feed, a CSV file with a column of services beside times and requests/s, and what they ask for.
    Raises InputError where a service with a demand is not in it."""
    promised = {share.service: share.promised_rps for share in saved.shares}
    loads = tuple(_load(load_rates(feed, name), name, rps, settings) for name, rps in promised.items())
    short = any(row.load_rps > settings.raise_at * row.promised_rps for row in loads)
    money = saved.aim is FleetAim.TARGET
    return FleetLook(loads=loads, cause=Cause.LOAD if short else Cause.SAVING if money else None)


def _load(series: RateSeries, service: str, promised_rps: float, settings: WatchSettings) -> ServiceLoad:
    """Of the windows that end within the last seconds."""
    end_s = series.window_s * len(series.windows)

    def since(seconds: float) -> list[float]:
        return [row.rate_rps for row in series.windows if row.start_s + series.window_s > end_s - seconds]

    return ServiceLoad(
        service=service,
        load_rps=statistics.median(since(settings.smooth_s)),
        highest_rps=max(since(settings.dwell_s)),
        promised_rps=promised_rps,
    )


def asked_by_loads(saved: FleetPlan, look: FleetLook, settings: WatchSettings) -> FleetScenario:
    """The fleet's question, each demand `headroom` above the highest load."""
    wanted: Mapping[str, float] = {
        row.service: max(LEAST_LOAD_RPS, row.highest_rps) * (1 + settings.headroom) for row in look.loads
    }
    services = []
    for service in saved.fleet.services:
        rps = wanted.get(service.name)
        if rps is None:
            services.append(service)
            continue
        posed = tuple(replace(s, objective=replace(s.objective, demand_rps=rps)) for s in service.scenarios)
        services.append(replace(service, demand_rps=rps, scenarios=posed, rates=None))
    return replace(saved.fleet, services=tuple(services))


def require_once(*, once: bool) -> None:
    """Raises InputError where a fleet is to be watched without end."""
    if not once:
        raise InputError(
            "--once: must be given for the folder of a fleet, which is looked at once a call.",
            hint="Start it as often as you want to look, as by cron.",
        )
