"""A server with one attention group that does both phases, pass by pass, as requests come to it.

Prompts are taken in first come, first served, as many as the budget holds of them; passes with a chunk are mixed and
apart by turns, and a pass apart keeps the sequences waiting. A prompt's first token comes at the end of its last chunk.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.cost import CostContext
from planner.cost.mixed import Passes, mixed_cost
from planner.domain import ParallelConfig

MOST = 160
_CHUNKS = np.array([0.0, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384])


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTable:
    """Times of passes (ms), by sequences and tokens of the chunk, of prompts of each length (tokens)."""

    lengths: tuple[int, ...]
    ms: tuple[tuple[tuple[float, ...], ...], ...]

    @classmethod
    def of(cls, context: CostContext, shape: ParallelConfig, lengths: Sequence[int], cached: float) -> "PassTable":
        """Passes of sequences with `cached` tokens each."""
        sequences, chunk = np.arange(MOST + 1.0)[:, None], _CHUNKS[None]
        passes = Passes(
            tp=np.array(float(shape.tp)),
            dp=np.array(float(shape.dp)),
            sequences=sequences,
            cached=np.array(cached),
            chunk=np.where(sequences == 0, np.maximum(chunk, 1.0), chunk),
            prompt=np.array(lengths, dtype=float)[:, None, None],
        )
        ms = mixed_cost(context, passes).total_ms
        return cls(lengths=tuple(lengths), ms=tuple(tuple(map(tuple, rows)) for rows in ms.tolist()))

    def at(self, sequences: int, chunk: float, length: int) -> float:
        """Time of a pass (ms), between known chunks by lines."""
        return float(np.interp(chunk, _CHUNKS, self.ms[self.lengths.index(length)][min(sequences, MOST)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """TTFT and TPOT of every request (ms), and the mean number of sequences in answer."""

    ttft_ms: np.ndarray
    tpot_ms: np.ndarray
    sequences: float


@dataclass(slots=True, kw_only=True)
class _Request:
    came: float
    length: int
    left: float
    tokens: int
    first: float = 0.0


def simulate(
    table: PassTable,
    *,
    rate_rps: float,
    chances: Sequence[float],
    answer: int,
    budget: int,
    batch: int,
    requests: int,
    seed: int,
) -> Outcome:
    """Poisson arrivals at `rate_rps` of prompts of the table's lengths; the first tenth is left out."""
    rng = np.random.default_rng(seed)
    came = np.cumsum(rng.exponential(1000 / rate_rps, requests))
    lengths = rng.choice(table.lengths, requests, p=chances)
    waiting: deque[_Request] = deque()
    running: list[_Request] = []
    done: list[tuple[float, float, float]] = []
    clock, following, apart, held = 0.0, 0, False, 0.0
    while len(done) < requests:
        while following < requests and came[following] <= clock:
            length = int(lengths[following])
            waiting.append(_Request(came=float(came[following]), length=length, left=length, tokens=answer))
            following += 1
        if not waiting and not running:
            clock = float(came[following])
            continue
        chunk, taken_in, length = _chunk(waiting, budget, batch - len(running))
        apart = bool(chunk) and not apart
        took = table.at(0 if apart else len(running), chunk, length or table.lengths[0])
        clock, held = clock + took, held + took * len(running)
        if not apart:
            for request in running:
                request.tokens -= 1
            done += [(r.came, r.first - r.came, (clock - r.first) / (answer - 1)) for r in running if not r.tokens]
            running = [r for r in running if r.tokens]
        for request in taken_in:
            request.first, request.tokens = clock, answer - 1
            running.append(request)
    kept = np.array(sorted(done))[requests // 10 :]
    return Outcome(ttft_ms=kept[:, 1], tpot_ms=kept[:, 2], sequences=held / clock)


def _chunk(waiting: deque[_Request], budget: float, places: int) -> tuple[float, list[_Request], int]:
    """(tokens, requests whose prompts end with them, length of the first of these prompts)."""
    chunk, ended = 0.0, list[_Request]()
    length = waiting[0].length if waiting else 0
    while waiting and chunk < budget and len(ended) < places:
        tokens = min(waiting[0].left, budget - chunk)
        chunk += tokens
        waiting[0].left -= tokens
        if waiting[0].left:
            break
        ended.append(waiting.popleft())
    return chunk, ended, length
