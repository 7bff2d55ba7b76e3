"""Requests with the lengths of the Azure trace, sent to a router over the loopback, and what became of each."""

import asyncio
import csv
import json
import lzma
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from planner.domain import Plan
from planner.export.routers.haproxy import envelope_bytes

_TRACE = Path(__file__).parents[2] / "data" / "azure_llm_2023" / "code.csv.xz"
BYTES_PER_TOKEN, _SPREAD, _LEAST, _MOST = 4.0, 0.4, 2.5, 6.0
_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request: its number, the tokens of its prompt, its body."""

    number: int
    tokens: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of a request: status (0: no answer), the engine's name, when it was sent (monotonic clock, s)."""

    request: Request
    status: int
    engine: str
    at: float


def trace_requests(count: int, plan: Plan, *, seed: int = 1, most: int = 1 << 30) -> tuple[Request, ...]:
    """Requests of at most `most` tokens; of each prompt another number of bytes a token, 4 in the mean."""
    draw = random.Random(seed)  # no secrets
    with lzma.open(_TRACE, "rt") as text:
        lengths = [int(row["ContextTokens"]) for row in csv.DictReader(text)]
    chosen = draw.sample([length for length in lengths if length <= most], count)
    return tuple(_request(number, tokens, plan, draw) for number, tokens in enumerate(chosen))


def _request(number: int, tokens: int, plan: Plan, draw: random.Random) -> Request:
    scale = min(_MOST, max(_LEAST, draw.gauss(BYTES_PER_TOKEN, _SPREAD)))
    head = json.dumps({"model": "stub", "max_tokens": 7, "prompt": f"{number} "})
    room = envelope_bytes(plan) + round(scale * tokens) - len(head)
    return Request(number=number, tokens=tokens, body=f'{head[:-2]}{"x" * room}"}}'.encode())


def send(
    url: str, requests: Sequence[Request], *, at_once: int = 24, chunked: int = 0, answered: Callable[[int], None] = int
) -> tuple[Sent, ...]:
    """Send all, `at_once` at a time; every `chunked`-th body in chunks. `answered` is called with how many are."""
    return asyncio.run(_send_all(url, requests, at_once, chunked, answered))


async def _send_all(
    url: str, requests: Sequence[Request], at_once: int, chunked: int, answered: Callable[[int], None]
) -> tuple[Sent, ...]:
    waiting, done = list(reversed(requests)), []

    async def sender() -> None:
        while waiting:
            request = waiting.pop()
            at = time.monotonic()
            try:
                in_chunks = bool(chunked) and request.number % chunked == 0
                status, engine = await asyncio.wait_for(_send(url, request, in_chunks=in_chunks), _TIMEOUT_S)
            except (OSError, asyncio.IncompleteReadError, TimeoutError, ValueError):
                status, engine = 0, ""
            done.append(Sent(request=request, status=status, engine=engine, at=at))
            answered(len(done))

    await asyncio.gather(*(sender() for _ in range(at_once)))
    return tuple(done)


async def _send(url: str, request: Request, *, in_chunks: bool) -> tuple[int, str]:
    host, _, port = url.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        head = f"POST /v1/completions HTTP/1.1\r\nhost: {url}\r\ncontent-type: application/json\r\n"
        head += "connection: close\r\n"
        if in_chunks:
            half = len(request.body) // 2
            parts = (b"%x\r\n%s\r\n" % (len(part), part) for part in (request.body[:half], request.body[half:], b""))
            writer.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode() + b"".join(parts))
        else:
            writer.write(f"{head}content-length: {len(request.body)}\r\n\r\n".encode() + request.body)
        await writer.drain()
        answer = await reader.read()
        top, _, body = answer.partition(b"\r\n\r\n")
        status = int(top.split(b" ", 2)[1])
        return status, str(json.loads(body[body.index(b"{") : body.rindex(b"}") + 1])["choices"][0]["text"]) if (
            status == 200  # HTTP's own
        ) else ""
    finally:
        writer.close()
