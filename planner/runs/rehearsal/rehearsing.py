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
from planner.runs.rehearsal.prompts import request_bodies
from planner.runs.rehearsal.records import KilledServer, Rehearsal
from planner.runs.rehearsal.running import Death, Stage
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
    rehearsing = _Rehearsing(deployed(plan, settings), source, settings)
    start_s = time.monotonic()
    traffic, deaths = rehearsing.run(progress, through)
    return rehearsing.judged(traffic, deaths, time.monotonic() - start_s)


class _Rehearsing:
    """One rehearsal, prepared: its requests, its simulated servers and its programs' commands."""

    def __init__(self, plan: Plan, source: RequestTrace | LengthProfile, settings: RehearsalSettings) -> None:
        self._plan, self._settings = plan, settings
        self._engine = export.priced_engine(plan, settings.engine).name
        self._router = plan.scenario.deploy.router or export.chosen_router(export.TARGETS[_TARGET])
        self._commands = [process.command for process in self._processes(lambda endpoint: endpoint)]
        for command in self._commands:  # before anything is started
            program_words(command, settings.programs)
        self._replay_with = self._replay_settings()
        self._replay = PlanReplay(plan, posed(plan.scenario).workload, source, self._replay_with)
        self._requests: Requests = self._replay.requests(settings.rate_rps, settings.seed)
        table = AttemptTable(self._requests, self._replay.fleet.lengths)
        self._stations = ClockedStations(self._replay.fleet, table, PlanClock(settings.slowed))
        self._fleet = self._simulated()

    def _processes(self, at: Callable[[Endpoint], Endpoint]) -> Sequence[RouterProcess]:
        options = self._plan.scenario.deploy
        return export.router_processes(self._plan, engine=self._engine, options=options, router=self._router, at=at)

    def _replay_settings(self) -> ReplaySettings:
        settings = self._settings
        failures = [Failure(island=kill.island, at_s=kill.at_s, servers=((kill.island, 1),)) for kill in settings.kills]
        chosen = replay_settings(
            self._plan,
            router=export.router_behaviour(self._plan, self._router, target=_TARGET, engine=self._engine),
            requests=settings.requests,
            seeds=(settings.seed,),
            warm_up=settings.warm_up,
            failures=failures,
        )
        # where the router goes by tokens, it makes no difference how many bytes they have
        return replace(chosen, length_spread=settings.length_spread) if chosen.length_spread else chosen

    def _simulated(self) -> Fleet:
        engine, planned = self._engine, self._plan.scenario.engine
        profile = planned if planned.name == engine else catalog.engine(engine)
        return Fleet(
            stations=self._stations,
            hand_over=HAND_OVERS[engine],
            metrics=engine_metrics(profile),
            model=self._plan.scenario.model.uri.removeprefix("hf://"),
        )

    def run(self, progress: Progress, through: Through) -> tuple[Traffic, Sequence[Death]]:
        """All of it, by the wall's clock."""
        settings, deploy = self._settings, self._plan.scenario.deploy
        servers = {
            pool.island: [
                SimulatedServer(f"{pool.island}-{number}", station, self._fleet)
                for number, station in enumerate(stations)
            ]
            for pool, stations in zip(self._stations.fleet.pools, self._stations.servers, strict=True)
        }
        stage = Stage(fleet=self._fleet, servers=servers, processes=self._processes, commands=settings.programs)
        bodies = request_bodies(
            self._requests,
            self._fleet.model,
            bytes_per_token=deploy.bytes_per_token,
            spread=settings.length_spread,
            seed=settings.seed,
        )
        traffic = stage.run(
            lambda url: Traffic(through(url), bodies, self._requests.arrival_ms, self._stations.clock, self._few_left),
            settings.kills,
            60 * settings.minutes,
            progress,
        )
        return traffic, stage.deaths

    def _few_left(self) -> None:
        """Nothing but ends of a few long answers is to come: a moment more or less is little of those."""
        self._stations.quicken(min(self._settings.slowed, _QUICK))

    def judged(self, traffic: Traffic, deaths: Sequence[Death], seconds: float) -> Rehearsal:
        """What became of the requests, beside the replay."""
        settings, fleet, promise = self._settings, self._replay.fleet, self._replay.promise
        outcomes = [traffic.outcomes.get(number, Outcome(number=number)) for number in range(len(self._requests))]
        run = rehearsed_run(self._requests, outcomes, self._stations, settings.warm_up)
        rehearsed = judge(fleet, promise, self._replay_with, settings.rate_rps, [run])
        replayed = simulate(fleet, promise, self._replay_with, settings.rate_rps, self._replay.requests)
        failed = {outcome.number for outcome in outcomes if outcome.failure}
        return Rehearsal(
            router=self._router,
            programs=tuple(map(program_of, self._commands)),
            slower=settings.slowed,
            seconds=seconds,
            rehearsed=rehearsed,
            replayed=replayed,
            pools=pool_uses(fleet, self._requests.prompt_tokens, rehearsed, replayed),
            failures=tuple(Counter(outcome.failure for outcome in outcomes if outcome.failure).most_common()),
            elsewhere=len(failed - {number for death in deaths for number in death.numbers}),
            killed=tuple(_killed(death, failed) for death in deaths),
            lateness=lateness_of(self._fleet.late_ms, outcomes, promise.slo, self._requests.prompt_tokens),
            outcomes=tuple(outcomes),
            notes=self._requests.notes,
        )


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
