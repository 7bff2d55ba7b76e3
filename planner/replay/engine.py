"""Requests through a fleet in virtual time: arrival, router, prefill, KV transfer, decode; or passes that do both.

The way of a KV cache is the NICs of the sending rank, and uplinks that a GPU type shares. Each part of it carries one
cache after the other at its full rate; a cache is there when its slowest part is done.
"""

from collections.abc import Callable, Sequence
from math import inf
from random import Random

from planner.domain.arrivals import Failure, ReplaySettings
from planner.domain.fleet import ReplayFleet
from planner.domain.serving.routers import Freed
from planner.replay.curves import between
from planner.replay.requests import Events, RequestLog, RequestTable
from planner.replay.routing.router import Router
from planner.replay.stations.caches import stores_of
from planner.replay.stations.decode import DecodeServer
from planner.replay.stations.mixed import MixedServer
from planner.replay.stations.prefill import PrefillServer
from planner.replay.stations.serving import Taker, fresh_tokens, server_of
from planner.replay.stations.usage import Usage
from planner.units import MS_PER_S


class Network:
    """Free from when on (ms): NICs of sending ranks, uplinks out of and into a GPU type's switch."""

    __slots__ = ("_free", "_gb_ms", "_kv_gb", "_lengths", "_types")

    def __init__(self, fleet: ReplayFleet) -> None:
        self._free: dict[tuple[object, ...], float] = {}
        self._gb_ms = {gpu: gb_s / MS_PER_S for gpu, gb_s in fleet.uplinks}
        self._types = [pool.gpu for pool in fleet.pools]
        self._lengths, self._kv_gb = fleet.lengths if fleet.uplinks else (), fleet.kv_gb

    def sent(self, now: float, nic: tuple[int, int], nic_ms: float, pools: tuple[int, int], tokens: int) -> float:
        """When the cache of a prompt of `tokens` is there. `nic`: server and rank that send; `nic_ms`: over its NIC
        alone; `pools`: numbers of the sending and the receiving pool."""
        done = self._over(now, nic, nic_ms)
        sender, receiver = (self._types[pool] for pool in pools)
        if self._gb_ms and sender != receiver:
            gb = between(self._lengths, self._kv_gb, tokens)
            for way, gpu in (("out", sender), ("in", receiver)):
                if gpu in self._gb_ms:
                    done = max(done, self._over(now, (way, gpu), gb / self._gb_ms[gpu]))
        return done

    def _over(self, now: float, link: tuple[object, ...], length_ms: float) -> float:
        free = self._free
        start = free.get(link, 0.0)
        done = (start if start > now else now) + length_ms
        free[link] = done
        return done


_AT_ONCE = 4096  # requests between two looks at the clock


class Engine:
    """One run. `log`: what became of the requests; `usages`: of every pool's servers."""

    def __init__(self, fleet: ReplayFleet, requests: RequestTable, settings: ReplaySettings, seed: int) -> None:
        self.fleet, self.requests = fleet, requests
        self.log = RequestLog(len(requests), fleet.tiers)
        self._stores = stores_of(fleet)
        self._events = Events()
        self._network = Network(fleet)
        self._sent = [pool.sent_ms for pool in fleet.pools]
        self._homeless: list[int] = []
        self.finished = self._following = 0
        self._closed = False
        self._next_turns = requests.next_turns()
        mean = sum(requests.prompt) / max(1, len(requests))
        self._servers = [
            [self._server(number, int(mean)) for _ in range(pool.servers)] for number, pool in enumerate(fleet.pools)
        ]
        self._numbers = {
            server: k for k, server in enumerate(server for servers in self._servers for server in servers)
        }
        random = Random(seed)  # noqa: S311  (draws of a simulation)
        self._router = Router(fleet, settings, self._servers, requests, random)
        for failure in settings.failures:
            self._events.at(failure.at_s * MS_PER_S, self._fail, failure)

    def _server(self, number: int, mean_prompt: int) -> Taker | DecodeServer:
        state = (self.requests, self.log, self._events)
        return server_of(self.fleet, number, state, mean_prompt, self._handed, self._done, self._taken_in, self._stores)

    @property
    def sent_to(self) -> Sequence[int]:
        """The number of the interval that the router sends each request to."""
        return self._router.numbers

    @property
    def usages(self) -> list[list[Usage]]:
        """Of every pool's servers."""
        return [[server.usage for server in servers] for servers in self._servers]

    def count_usage(self, since: float, until: float) -> None:
        """Usage counts between two moments (ms)."""
        for servers in self._servers:
            for server in servers:
                server.usage.since, server.usage.until = since, until

    def run(self, end_ms: float = inf, progress: Callable[[float], None] = lambda _: None) -> None:
        """All requests arrive, and what has begun ends, unless `end_ms` comes first. Turns that wait for the answer
        before them come a pause after it; the table is told when (inf: not before the end)."""
        arrivals, events, arrive = tuple(self.requests.arrival_ms), self._events, self._arrive
        waiting = set(self._next_turns.values())
        for request in waiting:
            self.requests.arrival_ms[request] = inf
        for request, now in enumerate(arrivals):
            events.until(now)
            if not request % _AT_ONCE:
                progress(request / len(arrivals))
            if request not in waiting:
                arrive(now, request)
        events.until(end_ms)

    def run_closed(self, concurrency: int) -> None:
        """So many requests are in flight: the next one arrives where one ends, whatever the table says of arrivals; it
        is told the moments."""
        self._following = min(concurrency, len(self.requests))
        self._closed = True
        for request in range(self._following):
            self.requests.arrival_ms[request] = 0.0
            self._events.at(0.0, self._arrive, request)
        self._events.until(inf)

    def _arrive(self, now: float, request: int) -> None:
        choice = self._router.taker(request, now)
        if choice is None:
            self._homeless.append(request)
            return
        server, rank = choice
        log = self.log
        log.prefill[request] = server.pool
        if isinstance(server, MixedServer):
            log.decode[request] = server.pool
        server.add(now, request, rank, fresh_tokens(self.fleet, self.requests, log, server, rank, request))

    def _handed(self, now: float, request: int, server: PrefillServer, rank: int) -> None:
        """A prompt is taken in: its cache goes to a decode server."""
        self._taken_in(request)
        target = self._router.answerer(request, now)
        if target is None:
            # Nobody can take the cache: the prompt is taken in again when somebody is back.
            self.log.begin_anew(request)
            self._homeless.append(request)
            return
        tokens = self.requests.prompt[request]
        self.log.decode[request] = target.pool
        curve = self.fleet.pools[server.pool].prompts
        assert curve is not None, "prefill servers have curves of their steps"
        sent_ms = between(curve.lengths, self._sent[server.pool], tokens)
        nic = (self._numbers[server], rank)
        received_ms = self._network.sent(now, nic, sent_ms, (server.pool, target.pool), tokens)
        target.expect(1)
        self._events.at(received_ms, self._received, (request, server, server.deaths, target, target.deaths))

    def _received(self, now: float, transfer: tuple[int, PrefillServer, int, DecodeServer, int]) -> None:
        """A cache is there, unless one of its servers died on the way."""
        request, sender, sender_deaths, target, target_deaths = transfer
        # A server that died and is back has lost the cache as well: its deaths tell, not that it lives.
        if sender.deaths == sender_deaths and target.deaths == target_deaths:
            target.add(now, request)
        else:
            target.expect(-1)
            self._again(now, [request])

    def _taken_in(self, request: int) -> None:
        self._router.freed(request, Freed.PREFILLED)

    def _done(self, now: float, request: int) -> None:
        self._router.freed(request, None)
        self.finished += 1
        if request in self._next_turns:
            self._follow(now, self._next_turns[request])
        if self._closed and self._following < len(self.requests):
            self.requests.arrival_ms[self._following] = now
            self._events.at(now, self._arrive, self._following)
            self._following += 1

    def _follow(self, ended: float, turn: int) -> None:
        """The answer before a turn has ended: it comes when its pause is over."""
        assert self.requests.turns is not None, "turns follow where there are sessions"
        moment = ended + self.requests.turns.pause_s[turn] * MS_PER_S
        self.requests.arrival_ms[turn] = moment
        self._events.at(moment, self._arrive, turn)

    def _fail(self, now: float, failure: Failure) -> None:
        """Servers die; what was with them begins anew, and they come back when their weights are loaded."""
        numbers = {pool.island: number for number, pool in enumerate(self.fleet.pools)}
        lost: list[int] = []
        for island, count in failure.servers:
            dying = [server for server in self._servers[numbers[island]] if server.alive][:count]
            lost += (request for server in dying for request in server.lose(now))
            reload_s = self.fleet.pools[numbers[island]].reload_s
            away_s = reload_s if failure.back_after_s is None else failure.back_after_s
            self._events.at(now + away_s * MS_PER_S, self._return, dying)
        # The router first hears of all that died, or requests would go from one dying server to the next.
        self._router.refresh()
        self._again(now, sorted(lost))

    def _again(self, now: float, requests: Sequence[int]) -> None:
        """Requests begin anew, as if they had only come."""
        for request in requests:
            self._router.freed(request, None)
            self.log.begin_anew(request)
            self._arrive(now, request)

    def _return(self, now: float, servers: Sequence[Taker | DecodeServer]) -> None:
        for server in servers:
            server.come_back(now)
        self._router.refresh()
        waiting, self._homeless = self._homeless, []
        for request in waiting:
            self._arrive(now, request)
