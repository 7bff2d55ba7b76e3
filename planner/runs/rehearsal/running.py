"""One rehearsal from its first port to its last: engines, routers' programs in front, of one plan or of several behind
one program more, traffic, deaths; nothing of it is left behind, however it ends."""

import asyncio
import logging
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from tornado.httpclient import AsyncHTTPClient, HTTPClientError

from planner.errors import PlannerError
from planner.export.seams import Endpoint, RouterProcess
from planner.runs.rehearsal.programs import Programs, programs_in
from planner.runs.rehearsal.servers import Fleet, SimulatedServer
from planner.runs.rehearsal.settings import Kill
from planner.runs.rehearsal.wire import LOOPBACK
from planner.units import MS_PER_S

_START_S, _LOOK_S = 60.0, 0.1
_SEEN_S = 3.0
"""Until who stands in front has seen that those behind it answer: HAProxy looks at what was down every 2 s."""
_FILES = 65_536
_OK = 200


@dataclass(slots=True, kw_only=True)
class Death:
    """A server that died, with the requests that it had; `back_s`: when it came back."""

    server: SimulatedServer
    at_s: float
    numbers: tuple[int, ...]
    back_s: float | None = None


@dataclass(slots=True, kw_only=True)
class Stage:
    """A plan's simulated servers behind its router's programs. `servers`: island -> its servers; `processes`: the
    programs that the export makes of where each endpoint is; `commands`: words that start a program; `kills`: who dies.
    """

    fleet: Fleet
    servers: Mapping[str, Sequence[SimulatedServer]]
    processes: Callable[[Callable[[Endpoint], Endpoint]], Sequence[RouterProcess]]
    commands: Mapping[str, Sequence[str]]
    kills: Sequence[Kill] = ()
    deaths: list[Death] = field(default_factory=list)

    async def open(self, programs: Programs) -> str:
        """Open all ports and start the programs; the URL where requests go. Raises as `perform` does."""
        await _ready(programs, programs.start(self.processes(self._open), self.commands))
        return programs.front

    def begin(self) -> list["asyncio.Task[None]"]:
        """From now on servers die."""
        return [asyncio.create_task(self._kill(kill)) for kill in self.kills]

    async def close(self) -> None:
        """Nothing happens any more, and no port is open."""
        self.fleet.stations.close()
        for server in self._all():
            await server.close()

    def _all(self) -> Iterator[SimulatedServer]:
        return (server for servers in self.servers.values() for server in servers)

    def _open(self, endpoint: Endpoint) -> Endpoint:
        """The ports of an island's servers, or of their ranks, in place of where the export has them."""
        servers = self.servers[endpoint.island.id]
        by_server = [server.open(len(endpoint.addresses) // len(servers)) for server in servers]
        ranks = tuple(f"{LOOPBACK}:{port}" for ports in by_server for port in ports)
        leaders = tuple(f"{LOOPBACK}:{ports[0]}" for ports in by_server)
        return replace(endpoint, leaders=leaders, ranks=ranks if endpoint.ranks else ())

    async def _kill(self, kill: Kill) -> None:
        """A server dies, and comes back when its weights are loaded again."""
        clock = self.fleet.stations.clock
        await asyncio.sleep(max(0.0, clock.wall_s(kill.at_s * MS_PER_S) - time.monotonic()))
        server = next((server for server in self.servers[kill.island] if server.alive), None)
        if server is None:
            return
        death = Death(server=server, at_s=clock.now_ms / MS_PER_S, numbers=await server.die())
        self.deaths.append(death)
        reload_s = self.fleet.stations.fleet.pools[server.station.pool].reload_s
        await asyncio.sleep(reload_s * clock.slower)
        server.come_back()
        death.back_s = clock.now_ms / MS_PER_S


class Load(Protocol):
    """Whoever sends requests to an open stage."""

    async def send(self, limit_s: float, progress: Callable[[float], None], /) -> None:
        """Send them, and wait for their answers, so many seconds of the wall's time at most."""


Sender = TypeVar("Sender", bound=Load)


def perform(
    stages: Sequence[Stage],
    traffic: Callable[[str], Sender],
    limit_s: float,
    heard: Callable[[float], None],
    front: Callable[[Sequence[str]], RouterProcess] | None = None,
) -> Sender:
    """Send `traffic` (of the URL where requests go) while servers die. All stages have one clock. `front`: the program
    before several, of the URLs where each takes requests.

    Raises:
        InputError: a program is not there.
        PlannerError: a program ends or does not take requests.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running, _many_files(), _hushed():
        folders = [Path(folder, str(number)) for number in range(len(stages) + (front is not None))]
        for each in folders:
            each.mkdir()
        programs = [running.enter_context(programs_in(each)) for each in folders]
        return asyncio.run(_perform(stages, programs, front, traffic, (limit_s, heard)))


async def _perform(
    stages: Sequence[Stage],
    programs: Sequence[Programs],
    front: Callable[[Sequence[str]], RouterProcess] | None,
    traffic: Callable[[str], Sender],
    terms: tuple[float, Callable[[float], None]],
) -> Sender:
    killers: list[asyncio.Task[None]] = []
    try:
        urls = [await stage.open(running) for stage, running in zip(stages, programs, strict=False)]
        if front is not None:
            await _ready(programs[-1], programs[-1].start((front(urls),), stages[0].commands))
        sent = traffic(programs[-1].front)
        stages[0].fleet.stations.clock.start()
        killers = [killer for stage in stages for killer in stage.begin()]
        await sent.send(*terms)
        for running in programs:
            running.check()
        return sent
    finally:
        for killer in killers:
            killer.cancel()
        for stage in stages:
            await stage.close()


async def _ready(programs: Programs, urls: Sequence[str]) -> None:
    """Until all of these answer."""
    client, limit_s = AsyncHTTPClient(), time.monotonic() + _START_S
    for url in urls:
        while not await _answers(client, url):
            programs.check()
            if time.monotonic() > limit_s:
                raise PlannerError(
                    f"Router's program at {url}: must answer 200 within {_START_S:g} s, does not: {programs.log()}",
                    hint="Try the program by itself; its version may have other options.",
                )
            await asyncio.sleep(_LOOK_S)
    if len(urls) > 1:
        await asyncio.sleep(_SEEN_S)


async def _answers(client: AsyncHTTPClient, url: str) -> bool:
    try:
        answer = await client.fetch(url, raise_error=False, request_timeout=2.0)
    except (OSError, HTTPClientError):
        return False
    return answer.code == _OK


@contextmanager
def _many_files() -> Iterator[None]:
    """Room for a connection a request, here and in the programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    more = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, more) if soft != resource.RLIM_INFINITY else soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def _hushed() -> Iterator[None]:
    """What the HTTP library logs of requests that are given up is told by their outcomes.

    Each of its loggers by itself, as Dask gives them levels of their own."""
    loggers = [logging.getLogger(name) for name in ("tornado.application", "tornado.general", "tornado.access")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
