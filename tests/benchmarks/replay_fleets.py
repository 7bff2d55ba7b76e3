"""Fleets and streams for the replay's benchmarks: islands of both phases under lengths like those of chats."""

from dataclasses import replace

import numpy as np

from planner.domain.arrivals import ReplaySettings
from planner.domain.fleet import (
    AnswerCurve,
    Interval,
    KvRoom,
    PoolShare,
    PromptCurve,
    ReplayFleet,
    ReplayPool,
)
from planner.domain.layout import Phase
from planner.replay.engine import Engine
from planner.replay.requests import RequestTable

LONGEST = 16_384
BUCKET = 2048  # tokens from which on prompts are long ones
ISLAND_RPS = 50.0
"""What an island of either phase does of these lengths, less a fifth."""


def busy_fleet(islands: int) -> ReplayFleet:
    """Half of the islands prefill with four ranks each, the other half decode with eight; two buckets."""
    lengths = tuple(float(round(n)) for n in np.geomspace(16, LONGEST, 160))
    tokens = (64.0, 1024.0, 4096.0, 16384.0)
    prompts = PromptCurve(
        lengths=lengths,
        tokens=tokens,
        step_ms=tuple(tuple(15 + n * (0.04 + 1e-6 * s) for n in tokens) for s in lengths),
    )
    contexts, batches = tuple(map(float, np.geomspace(64, 24_000, 8))), tuple(map(float, range(8, 257, 8)))
    answers = AnswerCurve(
        contexts=contexts,
        batches=batches,
        pass_ms=tuple(tuple(20 + 0.15 * b + 2e-6 * b * c for b in batches) for c in contexts),
    )
    taking = ReplayPool(
        island="",
        gpu="A",
        phase=Phase.PREFILL,
        servers=1,
        ranks=4,
        budget=8192,
        prompts=prompts,
        sent_ms=tuple(0.002 * s for s in lengths),
    )
    answering = ReplayPool(
        island="",
        gpu="B",
        phase=Phase.DECODE,
        servers=1,
        ranks=8,
        batch=128,
        answers=answers,
        room=KvRoom(free_gb=60.0, lengths=lengths, cache_gb=tuple(7e-5 * s for s in lengths)),
        redo_ms=0.01,
    )
    half = islands // 2
    pools = (
        *(replace(taking, island=f"prefill {k}") for k in range(half)),
        *(replace(answering, island=f"decode {k}") for k in range(half)),
    )
    cut = max(1, half // 2)
    decode = _shares(range(half, 2 * half))
    return ReplayFleet(
        name="busy",
        model="",
        pools=pools,
        intervals=(
            Interval(start=0, end=BUCKET, prefill=_shares(range(cut)), decode=decode),
            Interval(start=BUCKET, end=LONGEST + 1, prefill=_shares(range(cut, half) or range(half)), decode=decode),
        ),
    )


def _shares(numbers: range) -> tuple[PoolShare, ...]:
    return tuple(PoolShare(pool=number, share=1 / len(numbers)) for number in numbers)


def stream(requests: int, rate_rps: float, lengths: tuple[float, ...]) -> RequestTable:
    """Poisson arrivals of prompts of 1 200 and answers of 210 tokens in the mean."""
    rng = np.random.default_rng(0)
    return RequestTable(
        rng.exponential(1000 / rate_rps, requests).cumsum().tolist(),
        rng.lognormal(6.6, 1.0, requests).astype(int).clip(16, LONGEST).tolist(),
        rng.lognormal(5.0, 0.8, requests).astype(int).clip(1, 4000).tolist(),
        lengths,
    )


def replayed(requests: int, islands: int) -> Engine:
    """All of them through the fleet, at four fifths of what it can do."""
    fleet = busy_fleet(islands)
    engine = Engine(fleet, stream(requests, ISLAND_RPS * islands / 2, fleet.lengths), ReplaySettings(), 0)
    engine.run()
    return engine
