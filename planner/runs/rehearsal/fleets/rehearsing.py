"""A fleet rehearsed: its front and all routers as programs, simulated engines behind them, and the merged requests of
all services, each of which names its own.

The front divides a service with several deployments, so which requests each of them gets is known afterwards alone:
then each deployment's are replayed in virtual time, and every service is judged by its own levels in both.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner import export
from planner.domain.arrivals import Requests
from planner.domain.fleets import FleetPlan, FleetService
from planner.domain.replay import FleetReplay
from planner.export.seams import RouterProcess
from planner.replay.arrivals import merged_streams
from planner.runs.rehearsal.clock import PlanClock
from planner.runs.rehearsal.fleets.judging import Judged, RehearsedPart
from planner.runs.rehearsal.fleets.records import FleetRehearsal
from planner.runs.rehearsal.naming import program_of, program_words
from planner.runs.rehearsal.prompts import request_bodies
from planner.runs.rehearsal.rehearsing import Prepared, Progress, quicken, sender_of
from planner.runs.rehearsal.running import perform
from planner.runs.rehearsal.settings import RehearsalSettings, check_fleet_settings
from planner.runs.rehearsal.traffic import Outcome, Traffic
from planner.runs.rehearsal.wire import LOOPBACK

_BETWEEN = 10_007
"""Between the seeds of two services, so that their streams are drawn apart."""


def rehearse_fleet(plan: FleetPlan, settings: RehearsalSettings, progress: Progress = lambda _: None) -> FleetRehearsal:
    """Every service with a demand, at its part of `settings.rate_rps`, which is all services' together and divided as
    the promises are. Work that waits is left out. `progress` hears the share that is answered.

    Raises:
        InputError: a value that cannot be, a program that is not there, or no service with a demand.
        ExportError: a router cannot execute a plan's routing, or is no program of its own.
        PlannerError: a program ends, or does not take requests.
    """
    check_fleet_settings(settings, plan)
    rehearsing = _Rehearsing(replace(plan, batches=()), settings)
    start_s = time.monotonic()
    traffic = rehearsing.run(progress)
    return rehearsing.judged(traffic, time.monotonic() - start_s)


class _Rehearsing:
    """One rehearsal, prepared: all requests, and a stage a deployment on one clock."""

    def __init__(self, plan: FleetPlan, settings: RehearsalSettings) -> None:
        self._plan, self._settings = plan, settings
        self._prepared = [Prepared(part.plan, part.plan.scenario.workload, settings) for part in plan.parts]
        program_words(self._front([]).command, settings.programs)
        self._services = [service for service in plan.fleet.interactive if _promised(plan, service)]
        self._requests = self._merged()
        clock = PlanClock(settings.slowed)
        self._stages = [
            prepared.stage(self._requests, clock, [name for name, _ in part.deployment.parts])
            for prepared, part in zip(self._prepared, plan.parts, strict=True)
        ]

    def _merged(self) -> Requests:
        """Of all services, as they come; those that some deployment of theirs could not take are left out."""
        settings, share = self._settings, self._settings.rate_rps / self._plan.promise_rps
        streams = []
        for number, service in enumerate(self._services):
            shortest = min(self._serving(service), key=lambda prepared: prepared.replay.fleet.intervals[-1].end)
            stream = shortest.replay.with_trace(service.scenarios[0].workload)
            rate_rps = share * _promised(self._plan, service)
            streams.append(stream.requests(rate_rps, settings.seed + _BETWEEN * number))
        return merged_streams(self._plan.fleet.name, streams, settings.requests)

    def _serving(self, service: FleetService) -> list[Prepared]:
        pairs = zip(self._plan.parts, self._prepared, strict=True)
        return [prepared for part, prepared in pairs if part.promised_to(service.name)]

    def _front(self, urls: Sequence[str]) -> RouterProcess:
        """The exported front, before the routers that take requests at `urls` (none: it is not started)."""
        ports = [int(url.rpartition(":")[2]) for url in urls] or [1] * len(self._prepared)
        entries = {
            part.name: export.Entry(
                deployment=part.name,
                model=prepared.model,
                names=tuple(name for name, _ in part.deployment.parts),
                host=LOOPBACK,
                port=port,
            )
            for part, prepared, port in zip(self._plan.parts, self._prepared, ports, strict=True)
        }
        routes = export.service_routes(self._plan, entries)
        return export.front_process(self._plan, routes, f"{export.fleet_label(self._plan)}-front", cluster=False)

    def run(self, progress: Progress) -> Traffic:
        """All of it, by the wall's clock."""
        settings, clock = self._settings, self._stages[0].fleet.stations.clock
        senders = [sender_of(self._serving(service)[0], service.name) for service in self._services]
        bodies = request_bodies(self._requests, senders, spread=settings.length_spread, seed=settings.seed)
        return perform(
            self._stages,
            lambda url: Traffic(url, bodies, self._requests.arrival_ms, clock, lambda: quicken(self._stages, settings)),
            60 * settings.minutes,
            progress,
            front=self._front,
        )

    def judged(self, traffic: Traffic, seconds: float) -> FleetRehearsal:
        """What became of the requests, beside the replay."""
        numbers = range(len(self._requests))
        outcomes = tuple(traffic.outcomes.get(number, Outcome(number=number)) for number in numbers)
        parts = [part for part in self._parts(outcomes) if part.numbers]
        settings, name = self._settings, self._plan.fleet.name
        commands = [self._front([]).command, *(command for each in self._prepared for command in each.commands)]
        return FleetRehearsal(
            share=settings.rate_rps / self._plan.promise_rps,
            programs=tuple(dict.fromkeys(map(program_of, commands))),
            slower=settings.slowed,
            seconds=seconds,
            rehearsed=_fleet_replay(name, [part.rehearsed for part in parts]),
            replayed=_fleet_replay(name, [part.replayed for part in parts]),
            services=tuple(service for part in parts for service in part.each_service),
            lateness=tuple(part.lateness for part in parts),
            outcomes=outcomes,
            notes=self._requests.notes,
        )

    def _parts(self, outcomes: Sequence[Outcome]) -> Iterator[RehearsedPart]:
        """Every deployment with its requests: those that reached it, and those that reached none and that it is
        promised the largest part of."""
        parts, stages, rate_rps = self._plan.parts, self._stages, self._settings.rate_rps
        reached = {number: place for place, stage in enumerate(stages) for number in stage.fleet.stations.table.numbers}
        largest = [
            max(range(len(parts)), key=[part.promised_to(service.name) for part in parts].__getitem__)
            for service in self._services
        ]
        where = [reached.get(number, largest[kind]) for number, kind in enumerate(self._requests.classes)]
        for place, (part, prepared, stage) in enumerate(zip(parts, self._prepared, stages, strict=True)):
            yield RehearsedPart(
                fleet=self._plan.fleet,
                part=part,
                prepared=prepared,
                stage=stage,
                settings=self._settings,
                rate_rps=part.promise_rps * rate_rps / self._plan.promise_rps,
                numbers=[number for number, to in enumerate(where) if to == place],
                requests=self._requests,
                services=[service.name for service in self._services],
                outcomes=outcomes,
            )


def _promised(plan: FleetPlan, service: FleetService) -> float:
    return sum(part.promised_to(service.name) for part in plan.parts)


def _fleet_replay(name: str, judged: Sequence[Judged]) -> FleetReplay:
    services = tuple(service for _, of_part in judged for service in of_part)
    return FleetReplay(fleet=name, results=tuple(result for result, _ in judged), services=services)
