"""A plan rehearsed: its routers' programs before simulated engines, then the same requests replayed in virtual time."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from planner import export
from planner.domain import LengthProfile, Plan, RequestTrace
from planner.domain.arrivals import Failure, ReplaySettings, Requests
from planner.evaluation.replay.replaying import PlanReplay
from planner.export.objects.operating.queries import engine_metrics
from planner.export.seams import Endpoint, RouterProcess
from planner.files import catalog
from planner.proposing.feasibility import posed
from planner.replay import judge, simulate
from planner.runs.rehearsal.attempts import AttemptTable
from planner.runs.rehearsal.clock import PlanClock
from planner.runs.rehearsal.judging import lateness_of, pool_uses, rehearsed_run
from planner.runs.rehearsal.naming import program_of, program_words
from planner.runs.rehearsal.prompts import Sender, request_bodies
from planner.runs.rehearsal.records import KilledServer, Rehearsal
from planner.runs.rehearsal.running import Death, Stage, perform
from planner.runs.rehearsal.servers import Fleet, SimulatedServer
from planner.runs.rehearsal.settings import RehearsalSettings, check_settings, deployed
from planner.runs.rehearsal.stations import ClockedStations
from planner.runs.rehearsal.traffic import Outcome, Traffic
from planner.runs.rehearsal.wire import HAND_OVERS
from planner.runs.replays.replay_settings import replay_settings

_TARGET = "script"
_QUICK = 0.25
"""Slow-down once a few answers are left, all of them begun: the longest ones would take minutes else."""

Progress = Callable[[float], None]
Through = Callable[[str], str]


def rehearse(
    plan: Plan,
    source: RequestTrace | LengthProfile,
    settings: RehearsalSettings,
    progress: Progress = lambda _: None,
    through: Through = lambda url: url,
) -> Rehearsal:
    """The plan's requests through its router's real programs, on the loopback. `source`: their lengths; `progress`
    hears the share that is answered; `through`: of the URL of those programs, where requests go, as something may stand
    in front of them.

    Raises:
        InputError: a value that cannot be, a program that is not there, or an engine that the router does not know.
        ExportError: the router cannot execute the plan's routing, or is no program of its own.
        PlannerError: a program ends, or does not take requests.
    """
    check_settings(settings, plan)
    rehearsing = _Rehearsing(plan, source, settings)
    start_s = time.monotonic()
    traffic, deaths = rehearsing.run(progress, through)
    return rehearsing.judged(traffic, deaths, time.monotonic() - start_s)


class Prepared:
    """A plan before its requests are known: its router's programs, its replay, and what simulates its servers. Raises
    as `rehearse` does.

    `router`: by name; `commands`: of its programs; `replay`, `replay_with`: of the same plan in virtual time."""

    def __init__(self, plan: Plan, source: RequestTrace | LengthProfile, settings: RehearsalSettings) -> None:
        self.plan, self._settings = deployed(plan, settings), settings
        self._engine = export.priced_engine(self.plan, settings.engine).name
        self.router = self.plan.scenario.deploy.router or export.chosen_router(export.TARGETS[_TARGET])
        self.commands = [process.command for process in self._processes(lambda endpoint: endpoint)]
        for command in self.commands:  # before anything is started
            program_words(command, settings.programs)
        self.replay_with = self._replay_settings()
        self.replay = PlanReplay(self.plan, posed(self.plan.scenario).workload, source, self.replay_with)

    def _processes(self, at: Callable[[Endpoint], Endpoint]) -> Sequence[RouterProcess]:
        options = self.plan.scenario.deploy
        return export.router_processes(self.plan, engine=self._engine, options=options, router=self.router, at=at)

    def _replay_settings(self) -> ReplaySettings:
        settings = self._settings
        failures = [Failure(island=kill.island, at_s=kill.at_s, servers=((kill.island, 1),)) for kill in settings.kills]
        chosen = replay_settings(
            self.plan,
            router=export.router_behaviour(self.plan, self.router, target=_TARGET, engine=self._engine),
            requests=settings.requests,
            seeds=(settings.seed,),
            warm_up=settings.warm_up,
            failures=failures,
        )
        # where the router goes by tokens, it makes no difference how many bytes they have
        return replace(chosen, length_spread=settings.length_spread) if chosen.length_spread else chosen

    @property
    def model(self) -> str:
        """What its engines call the model by themselves."""
        return export.TARGETS[_TARGET].model_name(self.plan.scenario.model)

    def stage(self, requests: Requests, clock: PlanClock, names: Sequence[str] = ()) -> Stage:
        """Its servers for these requests, of which some may go elsewhere; `names`: to which engines answer, too."""
        table = AttemptTable(requests, self.replay.fleet.lengths)
        stations = ClockedStations(self.replay.fleet, table, clock)
        planned = self.plan.scenario.engine
        profile = planned if planned.name == self._engine else catalog.engine(self._engine)
        fleet = Fleet(
            stations=stations,
            hand_over=HAND_OVERS[self._engine],
            metrics=engine_metrics(profile),
            model=self.model,
            names=tuple(names),
        )
        servers = {
            pool.island: [
                SimulatedServer(f"{pool.island}-{number}", station, fleet) for number, station in enumerate(of_pool)
            ]
            for pool, of_pool in zip(stations.fleet.pools, stations.servers, strict=True)
        }
        settings = self._settings
        return Stage(
            fleet=fleet,
            servers=servers,
            processes=self._processes,
            commands=settings.programs,
            kills=settings.kills,
        )


class _Rehearsing:
    """One rehearsal, prepared: its requests, and the stage that they come to."""

    def __init__(self, plan: Plan, source: RequestTrace | LengthProfile, settings: RehearsalSettings) -> None:
        self._prepared, self._settings = Prepared(plan, source, settings), settings
        self._requests: Requests = self._prepared.replay.requests(settings.rate_rps, settings.seed)
        self._stage = self._prepared.stage(self._requests, PlanClock(settings.slowed))

    def run(self, progress: Progress, through: Through) -> tuple[Traffic, Sequence[Death]]:
        """All of it, by the wall's clock."""
        settings, sender = self._settings, sender_of(self._prepared)
        clock = self._stage.fleet.stations.clock
        bodies = request_bodies(self._requests, (sender,), spread=settings.length_spread, seed=settings.seed)
        traffic = perform(
            (self._stage,),
            lambda url: Traffic(through(url), bodies, self._requests.arrival_ms, clock, self._few_left),
            60 * settings.minutes,
            progress,
        )
        return traffic, self._stage.deaths

    def _few_left(self) -> None:
        """Nothing but ends of a few long answers is to come: a moment more or less is little of those."""
        quicken((self._stage,), self._settings)

    def judged(self, traffic: Traffic, deaths: Sequence[Death], seconds: float) -> Rehearsal:
        """What became of the requests, beside the replay."""
        settings, prepared = self._settings, self._prepared
        fleet, promise = prepared.replay.fleet, prepared.replay.promise
        outcomes = [traffic.outcomes.get(number, Outcome(number=number)) for number in range(len(self._requests))]
        run = rehearsed_run(self._requests, outcomes, self._stage.fleet.stations, settings.warm_up)
        rehearsed = judge(fleet, promise, prepared.replay_with, settings.rate_rps, [run])
        replayed = simulate(fleet, promise, prepared.replay_with, settings.rate_rps, prepared.replay.requests)
        failed = {outcome.number for outcome in outcomes if outcome.failure}
        return Rehearsal(
            router=prepared.router,
            programs=tuple(map(program_of, prepared.commands)),
            slower=settings.slowed,
            seconds=seconds,
            rehearsed=rehearsed,
            replayed=replayed,
            pools=pool_uses(fleet, self._requests.prompt_tokens, rehearsed, replayed),
            failures=tuple(Counter(outcome.failure for outcome in outcomes if outcome.failure).most_common()),
            elsewhere=len(failed - {number for death in deaths for number in death.numbers}),
            killed=tuple(_killed(death, failed) for death in deaths),
            lateness=lateness_of(self._stage.fleet.late_ms, outcomes, promise.slo, self._requests.prompt_tokens),
            outcomes=tuple(outcomes),
            notes=self._requests.notes,
        )


def sender_of(prepared: Prepared, name: str = "") -> Sender:
    """Who asks its engines for the model, by that name or else by the model's own."""
    return Sender(model=name or prepared.model, bytes_per_token=prepared.plan.scenario.deploy.bytes_per_token)


def quicken(stages: Sequence[Stage], settings: RehearsalSettings) -> None:
    """Nothing but ends of a few long answers is to come: plan time runs as fast as those can still be written."""
    for stage in stages:
        stage.fleet.stations.quicken(min(settings.slowed, _QUICK))


def _killed(death: Death, failed: set[int]) -> KilledServer:
    name, _, _ = death.server.name.rpartition("-")
    return KilledServer(
        server=death.server.name,
        island=name,
        at_s=death.at_s,
        answering=len(death.numbers),
        lost=len(failed & set(death.numbers)),
        back_s=death.back_s,
    )
