"""A deployment's part of a fleet's rehearsal: the requests that came to it, judged and replayed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from planner.domain.arrivals import Requests
from planner.domain.fleets import FleetPart, FleetScenario
from planner.domain.replay import ReplayResult, ServiceReplay
from planner.domain.slo import SloSettings
from planner.replay import judge, judge_classes, simulate_classes
from planner.runs.rehearsal.fleets.records import RehearsedService
from planner.runs.rehearsal.judging import lateness_of, rehearsed_run
from planner.runs.rehearsal.records import Lateness
from planner.runs.rehearsal.rehearsing import Prepared
from planner.runs.rehearsal.running import Stage
from planner.runs.rehearsal.settings import RehearsalSettings
from planner.runs.rehearsal.traffic import Outcome

Judged = tuple[ReplayResult, tuple[ServiceReplay, ...]]


@dataclass(frozen=True, kw_only=True)
class RehearsedPart:
    """A deployment after the rehearsal. `rate_rps`: at which it was to be asked; `numbers`: of its requests among all
    `requests` of the fleet, whose classes are `services` by name; `outcomes`: of all."""

    fleet: FleetScenario
    part: FleetPart
    prepared: Prepared
    stage: Stage
    settings: RehearsalSettings
    rate_rps: float
    numbers: Sequence[int]
    requests: Requests
    services: Sequence[str]
    outcomes: Sequence[Outcome]

    @cached_property
    def rehearsed(self) -> Judged:
        """As its routers and the front served them."""
        prepared, fleet, promise = self.prepared, self.prepared.replay.fleet, self.prepared.replay.promise
        outcomes = [self.outcomes[number] for number in self.numbers]
        stations = self.stage.fleet.stations
        run = rehearsed_run(self._requests, outcomes, stations, self.settings.warm_up, self.numbers)
        result = judge(fleet, promise, prepared.replay_with, self.rate_rps, [run])
        return result, judge_classes(fleet, promise, [run], [self._requests.classes], self._levels)

    @cached_property
    def replayed(self) -> Judged:
        """In virtual time, as the planner takes its router to route."""
        prepared = self.prepared
        return simulate_classes(
            prepared.replay.fleet,
            prepared.replay.promise,
            prepared.replay_with,
            self.rate_rps,
            lambda _rate, _seed: self._requests,
            self._levels,
        )

    @property
    def _levels(self) -> list[tuple[str, SloSettings]]:
        services = [self.fleet.service(name) for name, _ in self.part.deployment.parts]
        return [(service.name, service.scenarios[0].slo) for service in services]

    @cached_property
    def _requests(self) -> Requests:
        """Its own, by the numbers of its services."""
        names = [name for name, _ in self.part.deployment.parts]
        every, numbers = self.requests, self.numbers
        return replace(
            every,
            arrival_ms=[every.arrival_ms[number] for number in numbers],
            prompt_tokens=[every.prompt_tokens[number] for number in numbers],
            answer_tokens=[every.answer_tokens[number] for number in numbers],
            classes=[names.index(self.services[every.classes[number]]) for number in numbers],
        )

    @property
    def each_service(self) -> Iterator[RehearsedService]:
        """Its services, in both."""
        for rehearsed, replayed in zip(self.rehearsed[1], self.replayed[1], strict=True):
            why = (
                self.outcomes[number].failure
                for number in self.numbers
                if self.services[self.requests.classes[number]] == rehearsed.service
            )
            yield RehearsedService(
                promised_rps=self.part.promised_to(rehearsed.service),
                rehearsed=rehearsed,
                replayed=replayed,
                failures=tuple(Counter(filter(None, why)).most_common()),
            )

    @property
    def lateness(self) -> Lateness:
        """Of its engines, by the tightest bound of its services."""
        slo, prompts = self.prepared.replay.promise.slo, self._requests.prompt_tokens
        return lateness_of(self.stage.fleet.late_ms, [self.outcomes[number] for number in self.numbers], slo, prompts)
