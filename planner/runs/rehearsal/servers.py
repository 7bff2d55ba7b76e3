"""Servers of a plan as routers meet them: ports on the loopback that answer as an engine does, when
the stations say so.

One port a server takes its ranks in turn, as an engine does; a port that stands for one rank queues there.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders, HTTPServerRequest, ResponseStartLine
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets

from planner.errors import InputError
from planner.export.objects.operating.queries import EngineMetrics
from planner.replay.stations.decode import DecodeServer
from planner.replay.stations.prefill import PrefillServer
from planner.replay.stations.serving import Taker
from planner.runs.rehearsal.attempts import Attempt
from planner.runs.rehearsal.stations import ClockedStations
from planner.runs.rehearsal.wire import END_OF_STREAM, LOOPBACK, AnswerForm, HandOver, request_number

_JSON, _EVENTS, _TEXT = "application/json", "text/event-stream", "text/plain; version=0.0.4"
_OK, _BAD, _FAILED = 200, 400, 500
_MOST_BYTES = 64 * 1024 * 1024  # of a body: a prompt of ten million tokens


@dataclass(slots=True, kw_only=True)
class Fleet:
    """What servers share: the stations, the engine's words, caches by name, and how late words were said (plan ms).
    `names`: to which the engine answers beside its `model`."""

    stations: ClockedStations
    hand_over: HandOver
    metrics: EngineMetrics
    model: str
    names: tuple[str, ...] = ()
    caches: dict[int, "asyncio.Future[Attempt]"] = field(default_factory=dict)
    late_ms: list[float] = field(default_factory=list)

    def cache(self, name: int) -> "asyncio.Future[Attempt]":
        """The attempt behind a cache, once its prefill server was asked."""
        if name not in self.caches:
            self.caches[name] = asyncio.get_running_loop().create_future()
        return self.caches[name]

    def require_served(self, name: str) -> None:
        """Raises InputError where the engine answers to no such model."""
        if not self.hand_over.any_name and name not in (self.model, *self.names):
            raise InputError(f"Request: the model {name!r} does not exist.", hint="Name one of /v1/models.")

    def note_lateness(self, moment_ms: float) -> None:
        """A word that was due at that moment is said now."""
        self.late_ms.append(self.stations.clock.now_ms - moment_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A port of a server; `rank`: whose it is, None where it is the server's."""

    port: int
    rank: int | None = None


class SimulatedServer:
    """A server with its name. `answering`: numbers of the requests that it has, caches that nobody fetched yet among
    them."""

    def __init__(self, name: str, station: Taker | DecodeServer, fleet: Fleet) -> None:
        self.name, self.station, self.alive = name, station, True
        self._fleet = fleet
        self._endpoints: list[tuple[Endpoint, HTTPServer]] = []
        self._tasks: dict[asyncio.Task[None], Attempt | None] = {}
        self._stored: dict[int, Attempt] = {}  # prompts taken in, by row, whose caches are here
        self._ended = self._prompt_tokens = self._generated = 0

    def open(self, endpoints: int = 1) -> tuple[int, ...]:
        """Answer at one port, or at a port a rank; their numbers."""
        ranks = [None] if endpoints == 1 else list(range(endpoints))
        self._listen([Endpoint(port=0, rank=rank) for rank in ranks])
        return tuple(endpoint.port for endpoint, _ in self._endpoints)

    def _listen(self, endpoints: list[Endpoint]) -> None:
        self._endpoints = []
        for endpoint in endpoints:
            sockets = bind_sockets(endpoint.port, LOOPBACK, backlog=1024)
            bound = Endpoint(port=sockets[0].getsockname()[1], rank=endpoint.rank)
            server = HTTPServer(self._handler(bound), max_body_size=_MOST_BYTES, max_buffer_size=2 * _MOST_BYTES)
            server.add_sockets(sockets)
            self._endpoints.append((bound, server))

    async def close(self) -> None:
        """Close all ports and connections."""
        for _, server in self._endpoints:
            server.stop()
        self._cancel()
        for _, server in self._endpoints:
            await server.close_all_connections()
        # a last request may have been read while connections were closed
        await asyncio.gather(*self._cancel(), return_exceptions=True)

    def _cancel(self) -> list["asyncio.Task[None]"]:
        """Give up what is answered."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        return tasks

    async def die(self) -> tuple[int, ...]:
        """Lose all that is here; the numbers of the requests that were."""
        self.alive = False
        numbers, rows = self._fleet.stations.table.numbers, {a.row for a in self._tasks.values() if a is not None}
        stored = {row for row, attempt in self._stored.items() if not attempt.first.done()}
        self._fleet.stations.lose(self.station)
        self._stored.clear()
        await self.close()
        return tuple(sorted({numbers[row] for row in rows | stored}))

    def come_back(self) -> None:
        """Answer again, at the same ports."""
        self._fleet.stations.come_back(self.station)
        self._listen([endpoint for endpoint, _ in self._endpoints])
        self.alive = True

    def _handler(self, endpoint: Endpoint) -> Any:
        """What is called with every request to an endpoint."""

        def start(request: HTTPServerRequest) -> None:
            task = asyncio.get_running_loop().create_task(self._serve(request, endpoint.rank))
            self._tasks[task] = None
            task.add_done_callback(lambda ended: self._tasks.pop(ended, None))

        return start

    async def _serve(self, request: HTTPServerRequest, rank: int | None) -> None:
        try:
            if request.method == "POST":
                await self._generate(request, rank)
            else:
                kind, text = self._about(request.path)
                await _send(request, _OK, kind, text)
        except StreamClosedError:
            pass  # whoever asked is gone
        except (InputError, ValueError, LookupError) as error:
            await _send(request, _BAD, _JSON, _error(str(error)))

    def _about(self, path: str) -> tuple[str, bytes]:
        """What engines tell of themselves."""
        if path == "/metrics":
            return _TEXT, self._metrics().encode()
        if path == "/v1/models":
            names = (self._fleet.model, *self._fleet.names)
            rows = [{"id": name, "object": "model", "created": 0, "owned_by": "rehearsal"} for name in names]
            return _JSON, json.dumps({"object": "list", "data": rows}).encode()
        model = self._fleet.model
        about = {"model_path": model, "served_model_name": model, "tokenizer_path": "", "is_generation": True}
        return _JSON, json.dumps({**about, "dp_size": 1, "tp_size": 1}).encode()

    def _metrics(self) -> str:
        """Counters and gauges under the engine's names."""
        log, names = self._fleet.stations.log, self._fleet.metrics
        begun = log.placed if isinstance(self.station, DecodeServer) else log.started
        rows = [attempt.row for attempt in self._tasks.values() if attempt is not None]
        running = sum(not isnan(begun[row]) for row in rows)
        values = {
            names.running: running,
            names.waiting: len(rows) - running,
            names.requests: self._ended,
            names.prompt_tokens: self._prompt_tokens,
            names.generated_tokens: self._generated,
        }
        return "".join(f'{name}{{model_name="{self._fleet.model}"}} {value}\n' for name, value in values.items())

    async def _generate(self, request: HTTPServerRequest, rank: int | None) -> None:
        body = json.loads(request.body or b"{}")
        self._fleet.require_served(str(body.get("model", "")))
        number = request_number(body)
        table = self._fleet.stations.table
        form = AnswerForm(
            model=self._fleet.model,
            path=request.path,
            prompt_tokens=table.requests.prompt_tokens[number],
            tokens=table.requests.answer_tokens[number],
        )
        if isinstance(self.station, PrefillServer):
            await self._take_in(request, body, form, number, rank)
        else:
            await self._answer(request, body, form, await self._attempt(body, number, rank))

    async def _attempt(self, body: Mapping[str, Any], number: int, rank: int | None) -> Attempt:
        """Whom this server answers: what it takes in itself, or a cache that it fetches."""
        fleet = self._fleet
        if not isinstance(self.station, DecodeServer):
            attempt = fleet.stations.take(self.station, number, rank)
        else:
            cache = fleet.hand_over.cache_of(body)
            if cache is None:
                raise InputError("Request: must name a cache, as this server decodes alone.", hint="Pair it with one.")
            attempt = await fleet.cache(cache)
            fleet.caches.pop(cache, None)
            fleet.stations.receive(attempt, self.station, rank)
        self._note(attempt)
        return attempt

    def _note(self, attempt: Attempt) -> None:
        """The task that runs serves this attempt."""
        task = asyncio.current_task()
        if task is not None:
            self._tasks[task] = attempt

    async def _take_in(
        self, request: HTTPServerRequest, body: Mapping[str, Any], form: AnswerForm, number: int, rank: int | None
    ) -> None:
        """A prompt's prefill alone: its first token, and whose cache it is."""
        fleet = self._fleet
        assert isinstance(self.station, PrefillServer), "prefill servers alone hand caches over"
        attempt = fleet.stations.take(self.station, number, rank)
        self._note(attempt)
        room = fleet.hand_over.cache_of(body)
        name = attempt.row if room is None else room
        cache = fleet.cache(name)
        if not cache.done():
            cache.set_result(attempt)
        moment = await attempt.prefilled
        if isnan(moment):
            await _send(request, _FAILED, _JSON, _error("the prompt was lost"))
            return
        self._store(attempt)
        self._count(form.prompt_tokens, 1)
        fleet.note_lateness(moment)
        one_token = AnswerForm(model=form.model, path=form.path, prompt_tokens=form.prompt_tokens, tokens=1)
        if body.get("stream"):
            await _send(request, _OK, _EVENTS, one_token.event(1, last=True) + END_OF_STREAM)
        else:
            await _send(request, _OK, _JSON, one_token.completion(fleet.hand_over.offer(name, self.name)))

    def _store(self, attempt: Attempt) -> None:
        """Its cache is here until its first token is made from it elsewhere."""
        self._stored[attempt.row] = attempt
        attempt.first.add_done_callback(lambda _: self._stored.pop(attempt.row, None))

    async def _answer(
        self, request: HTTPServerRequest, body: Mapping[str, Any], form: AnswerForm, attempt: Attempt
    ) -> None:
        """An answer in whole: as a stream its first token, then all others in one piece when the last one comes."""
        first = await attempt.first
        if isnan(first):
            await _send(request, _FAILED, _JSON, _error("its KV cache was lost with a server"))
            return
        streams, connection = bool(body.get("stream")), request.connection
        assert connection is not None, "requests come over connections"
        if streams:
            self._fleet.note_lateness(first)
            await connection.write_headers(*_head(_OK, _EVENTS), form.event(1, last=form.tokens == 1))
        ended = await attempt.ended
        self._fleet.note_lateness(ended)
        self._count(form.prompt_tokens, form.tokens)
        if not streams:
            await _send(request, _OK, _JSON, form.completion({}))
            return
        others = form.event(form.tokens - 1, last=True) if form.tokens > 1 else b""
        await connection.write(others + END_OF_STREAM)
        connection.finish()

    def _count(self, prompt_tokens: int, tokens: int) -> None:
        self._ended += 1
        self._prompt_tokens += prompt_tokens
        self._generated += tokens


def _head(status: int, kind: str, length: int | None = None) -> tuple[ResponseStartLine, HTTPHeaders]:
    headers = HTTPHeaders({"Content-Type": kind})
    if length is not None:  # else it goes in chunks
        headers["Content-Length"] = str(length)
    return ResponseStartLine("HTTP/1.1", status, "OK" if status == _OK else "Error"), headers


async def _send(request: HTTPServerRequest, status: int, kind: str, text: bytes) -> None:
    """An answer in one piece."""
    connection = request.connection
    assert connection is not None, "requests come over connections"
    await connection.write_headers(*_head(status, kind, len(text)), text)
    connection.finish()


def _error(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "rehearsal"}}).encode()
