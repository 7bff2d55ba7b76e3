"""A deployment of a fleet replayed: the requests of all its services in one queue, each judged by its own levels."""

from collections.abc import Mapping, Sequence

from planner.domain import LengthProfile, RequestTrace
from planner.domain.arrivals import Requests
from planner.domain.fleets import FleetPart, FleetScenario
from planner.domain.replay import ReplayResult, ServiceReplay
from planner.evaluation.replay.replaying import PlanReplay, Progress
from planner.replay import simulate_classes
from planner.replay.arrivals import merged_streams

_BETWEEN = 10_007
"""Between the seeds of two services, so that their streams are drawn apart."""


def replay_part(
    fleet: FleetScenario,
    part: FleetPart,
    replaying: PlanReplay,
    rate_rps: float,
    sources: Mapping[str, RequestTrace | LengthProfile],
    progress: Progress = lambda _: None,
) -> tuple[ReplayResult, tuple[ServiceReplay, ...]]:
    """The deployment at a rate, of which each service has its part; `sources`: of services, in place of their own
    lengths. Raises InputError where those do not suit the plan."""
    services = [(fleet.service(name), share) for name, share in part.deployment.parts]
    streams = [
        (replaying.with_trace(sources.get(service.name, service.scenarios[0].workload)), share)
        for service, share in services
    ]
    levels = [(service.name, service.scenarios[0].slo) for service, _ in services]
    return simulate_classes(
        replaying.fleet,
        replaying.promise,
        replaying.settings,
        rate_rps,
        lambda rate, seed: _requests(part.name, streams, rate, seed),
        levels,
        progress,
    )


def _requests(name: str, streams: Sequence[tuple[PlanReplay, float]], rate_rps: float, seed: int) -> Requests:
    drawn = [stream.requests(rate_rps * share, seed + _BETWEEN * k) for k, (stream, share) in enumerate(streams)]
    return merged_streams(name, drawn, streams[0][0].settings.requests)
