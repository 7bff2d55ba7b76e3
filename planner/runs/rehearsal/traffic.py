"""Requests sent to a router as they come in the plan, and what became of each."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, nan

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from planner.runs.rehearsal.clock import PlanClock
from planner.runs.rehearsal.wire import CHAT, END_OF_STREAM
from planner.units import MS_PER_S

_OK = 200
_TAIL = 4 * len(END_OF_STREAM)
_SHOWN = 80  # characters of a refusal
_PROGRESS_S = 2.0
_FEW = 60
CUT, UNANSWERED = "the answer was cut", "not answered in time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a request. `failure`: why it has no whole answer; empty: it has one. `first_ms`, `ended_ms`: when
    its first and last piece came (plan time; NaN: never). `sent_late_ms`: how long after its arrival it was sent."""

    number: int
    failure: str = UNANSWERED
    first_ms: float = nan
    ended_ms: float = nan
    sent_late_ms: float = 0.0


class Traffic:
    """`bodies` in the order of `arrival_ms` (plan time) to `url`. `outcomes`: by number, of those that have ended.
    `few_left` is called once few answers are to end and all have begun, or failed."""

    def __init__(
        self,
        url: str,
        bodies: Sequence[bytes],
        arrival_ms: Sequence[float],
        clock: PlanClock,
        few_left: Callable[[], None],
    ) -> None:
        self.outcomes: dict[int, Outcome] = {}
        self._few_left, self._to_begin = few_left, len(bodies)
        self._url, self._bodies, self._arrival_ms, self._clock = f"{url}{CHAT}", bodies, arrival_ms, clock
        self._client: AsyncHTTPClient | None = None

    async def send(self, limit_s: float, progress: Callable[[float], None]) -> None:
        """Send all, and wait for their answers, `limit_s` seconds of the wall's time at most."""
        count = len(self._bodies)
        self._client = SimpleAsyncHTTPClient(force_instance=True, max_clients=count + 1)
        teller = asyncio.create_task(self._tell(progress))
        tasks: list[asyncio.Task[None]] = []
        try:
            async with asyncio.timeout(limit_s):
                for number, arrival_ms in enumerate(self._arrival_ms):
                    delay_ms = arrival_ms - self._clock.now_ms
                    if delay_ms > 0:
                        await asyncio.sleep(delay_ms * self._clock.slower / MS_PER_S)
                    tasks.append(asyncio.create_task(self._ask(number, limit_s)))
                await asyncio.gather(*tasks)
        except TimeoutError:
            pass  # what has no outcome was not answered in time
        finally:
            for task in (teller, *tasks):
                task.cancel()
            self._client.close()

    async def _tell(self, progress: Callable[[float], None]) -> None:
        while True:
            progress(len(self.outcomes) / len(self._bodies))
            await asyncio.sleep(_PROGRESS_S)

    async def _ask(self, number: int, limit_s: float) -> None:
        assert self._client is not None, "requests are sent by `send`"
        sent_ms = self._clock.now_ms
        pieces = _Pieces(self._clock, self._begun)
        request = HTTPRequest(
            self._url,
            method="POST",
            body=self._bodies[number],
            headers={"Content-Type": "application/json"},
            streaming_callback=pieces.add,
            request_timeout=limit_s,
            connect_timeout=limit_s,
        )
        try:
            answer = await self._client.fetch(request, raise_error=False)
            failure = pieces.failure(answer.code, str(answer.reason or ""))
        except (HTTPClientError, OSError) as error:  # no HTTP came back, or not all of it
            failure = CUT if pieces.first_ms < inf else f"{type(error).__name__}: {error}"[:_SHOWN]
        if pieces.first_ms == inf:
            self._begun()
        self.outcomes[number] = Outcome(
            number=number,
            failure=failure,
            first_ms=nan if failure else pieces.first_ms,
            ended_ms=nan if failure else self._clock.now_ms,
            sent_late_ms=sent_ms - self._arrival_ms[number],
        )
        self._look()

    def _begun(self) -> None:
        """One answer more has begun, or none will."""
        self._to_begin -= 1

    def _look(self) -> None:
        """Say it when few are left, once."""
        if not self._to_begin and len(self._bodies) - len(self.outcomes) <= _FEW:
            self._few_left()
            self._few_left = _nothing


def _nothing() -> None:
    """There is nothing to be said."""


class _Pieces:
    """What came of an answer: when its first piece did, and its end."""

    def __init__(self, clock: PlanClock, begun: Callable[[], None]) -> None:
        self.first_ms, self._clock, self._tail, self._head = inf, clock, b"", b""
        self._begun = begun

    def add(self, piece: bytes) -> None:
        """A piece came."""
        if self.first_ms == inf:
            self.first_ms, self._head = self._clock.now_ms, piece[: 4 * _SHOWN]
            self._begun()
        self._tail = (self._tail + piece)[-_TAIL:]

    def failure(self, status: int, reason: str) -> str:
        """Why the answer is none; empty where it is whole."""
        if status != _OK:
            return f"{status}: {_message(self._head) or reason}"[:_SHOWN]
        return "" if self._tail.rstrip().endswith(END_OF_STREAM.rstrip()) else CUT


def _message(text: bytes) -> str:
    """What an error's body says."""
    try:
        body = json.loads(text)
    except ValueError:
        return " ".join(text.decode("utf-8", "replace").split())
    error = body.get("error", body) if isinstance(body, dict) else body
    return str(error.get("message", error) if isinstance(error, dict) else error)
