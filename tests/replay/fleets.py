"""Small fleets and requests whose step times can be told by hand."""

from collections.abc import Sequence

from planner.domain.arrivals import ReplaySettings
from planner.domain.fleet import (
    AnswerCurve,
    ChunkCurve,
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

LENGTHS = (16.0, 128.0, 1024.0, 8192.0)
LONGEST = 8192
_FIELD = (1.0, 1000.0)  # tokens, sequences: two points, so that curves are straight everywhere


def prompts(base_ms: float, ms_per_token: float) -> PromptCurve:
    """Steps of a fixed time and one for each token."""
    row = tuple(base_ms + ms_per_token * tokens for tokens in _FIELD)
    return PromptCurve(lengths=LENGTHS, tokens=_FIELD, step_ms=(row,) * len(LENGTHS))


def answers(
    base_ms: float, ms_per_sequence: float = 0.0, ms_per_context: float = 0.0, gain: float = 1.0
) -> AnswerCurve:
    """Passes that take longer with each sequence of a group, and with each cached token of the mean one."""
    rows = tuple(
        tuple(base_ms + ms_per_sequence * batch + ms_per_context * context for batch in _FIELD) for context in _FIELD
    )
    return AnswerCurve(contexts=_FIELD, batches=_FIELD, pass_ms=rows, gain=gain)


def chunks(base_ms: float, ms_per_token: float) -> ChunkCurve:
    """What a chunk adds, whatever it is added to."""
    row = tuple(base_ms + ms_per_token * tokens for tokens in _FIELD)
    return ChunkCurve(lengths=LENGTHS, batches=_FIELD, chunks=_FIELD, added_ms=(((row,) * 2),) * len(LENGTHS))


def room(free_gb: float = 1e9, gb_per_token: float = 1.0) -> KvRoom:
    """Caches that grow by the token."""
    return KvRoom(free_gb=free_gb, lengths=_FIELD, cache_gb=tuple(gb_per_token * tokens for tokens in _FIELD))


def prefill_pool(
    *,
    servers: int = 1,
    ranks: int = 1,
    budget: int = 1000,
    base_ms: float = 5.0,
    ms_per_token: float = 0.1,
    stages: int = 1,
    pace: float = 1.0,
    sent_ms: float = 0.0,
    cache_tokens: int = 0,
    gpu: str = "P",
    island: str = "prefill",
    reload_s: float = 1.0,
) -> ReplayPool:
    return ReplayPool(
        island=island,
        gpu=gpu,
        phase=Phase.PREFILL,
        servers=servers,
        ranks=ranks,
        stages=stages,
        budget=budget,
        pace=pace,
        prompts=prompts(base_ms, ms_per_token),
        sent_ms=(sent_ms,) * len(LENGTHS),
        cache_tokens=cache_tokens,
        reload_s=reload_s,
    )


def decode_pool(
    *,
    servers: int = 1,
    ranks: int = 1,
    batch: int = 8,
    curve: AnswerCurve | None = None,
    kv: KvRoom | None = None,
    redo_ms: float = 0.0,
    gpu: str = "D",
    island: str = "decode",
    reload_s: float = 1.0,
) -> ReplayPool:
    return ReplayPool(
        island=island,
        gpu=gpu,
        phase=Phase.DECODE,
        servers=servers,
        ranks=ranks,
        batch=batch,
        answers=curve or answers(10.0),
        room=kv or room(),
        redo_ms=redo_ms,
        reload_s=reload_s,
    )


def mixed_pool(
    *,
    servers: int = 1,
    ranks: int = 1,
    budget: int = 512,
    batch: int = 8,
    curve: AnswerCurve | None = None,
    kv: KvRoom | None = None,
    chunk_base_ms: float = 1.0,
    ms_per_token: float = 0.02,
    first_ms: float = 0.0,
    first_passes: float = 0.0,
    cache_tokens: int = 0,
    gpu: str = "M",
    island: str = "mixed",
    reload_s: float = 1.0,
) -> ReplayPool:
    return ReplayPool(
        island=island,
        gpu=gpu,
        phase=Phase.MIXED,
        servers=servers,
        ranks=ranks,
        budget=budget,
        batch=batch,
        answers=curve or answers(10.0),
        chunks=chunks(chunk_base_ms, ms_per_token),
        room=kv or room(),
        first_ms=first_ms,
        first_passes=first_passes,
        cache_tokens=cache_tokens,
        reload_s=reload_s,
    )


def fleet(
    pools: Sequence[ReplayPool],
    intervals: Sequence[Interval] | None = None,
    *,
    kv_gb_per_token: float = 0.0,
    uplinks: Sequence[tuple[str, float]] = (),
) -> ReplayFleet:
    """Without `intervals` all prompts are one, and pools of a phase share them by their servers."""
    return ReplayFleet(
        name="test",
        model="test",
        pools=tuple(pools),
        intervals=tuple(intervals) if intervals is not None else (interval(pools),),
        kv_gb=tuple(kv_gb_per_token * tokens for tokens in LENGTHS),
        uplinks=tuple(uplinks),
    )


def interval(pools: Sequence[ReplayPool], start: int = 0, end: int = LONGEST + 1) -> Interval:
    """All pools, by their servers."""
    taking = [(n, pool.servers) for n, pool in enumerate(pools) if pool.phase is not Phase.DECODE]
    decoding = [(n, pool.servers) for n, pool in enumerate(pools) if pool.phase is Phase.DECODE]
    return Interval(start=start, end=end, prefill=_shares(taking), decode=_shares(decoding))


def _shares(servers: Sequence[tuple[int, int]]) -> tuple[PoolShare, ...]:
    total = sum(count for _, count in servers)
    return tuple(PoolShare(pool=number, share=count / total) for number, count in servers)


def table(arrival_ms: Sequence[float], prompt: Sequence[int], answer: Sequence[int]) -> RequestTable:
    return RequestTable(arrival_ms, prompt, answer, LENGTHS)


def run(of: ReplayFleet, requests: RequestTable, settings: ReplaySettings | None = None, *, seed: int = 0) -> Engine:
    """All requests through the fleet."""
    engine = Engine(of, requests, settings or ReplaySettings(), seed)
    engine.run()
    return engine
