"""A fleet as requests meet it: servers with curves of their step times, and who serves which prompts.

Curves are plain numbers, so that the replay knows nothing of where they come from. All times are in ms.
"""

from dataclasses import dataclass

from planner.domain.layout import Phase

Row = tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCurve:
    """Prefill steps: `step_ms[i][k]` of a step that takes `tokens[k]` tokens on every rank, of prompts of `lengths[i]`
    tokens. Both ascend; between tokens times lie on lines, between lengths the nearest (in proportion) counts."""

    lengths: Row
    tokens: Row
    step_ms: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCurve:
    """Decode passes: `pass_ms[i][k]` with `batches[k]` sequences an attention group of `contexts[i]` cached tokens.

    A pass yields `gain` tokens of each sequence."""

    contexts: Row
    batches: Row
    pass_ms: tuple[Row, ...]
    gain: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkCurve:
    """What taking in `chunks[k]` prompt tokens a rank adds to a pass with `batches[j]` sequences a group, of prompts of
    `lengths[i]` tokens: `added_ms[i][j][k]`."""

    lengths: Row
    batches: Row
    chunks: Row
    added_ms: tuple[tuple[Row, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KvRoom:
    """KV caches of a rank: `free_gb` for them, `cache_gb[i]` of a sequence of `lengths[i]` tokens (ascending)."""

    free_gb: float
    lengths: Row
    cache_gb: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTier:
    """Where blocks lie below a rank's own cache: `tokens` of them for each rank, or for all servers together where the
    tier is `shared`; `ms_per_token` until one is read, `latency_ms` until a read begins."""

    name: str
    tokens: int
    ms_per_token: float
    latency_ms: float = 0.0
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPool:
    """`servers` equal copies of the model.

    `ranks`: attention groups of a server, which step together. `stages`: passes in flight at once (prefill). `budget`:
    prompt tokens of a rank and step. `batch`: sequences of an attention group. `pace`: rate of a prefill pool over that
    of its steps. `sent_ms[i]`: handing over the cache of a prompt of `prompts.lengths[i]` tokens. `cache_tokens`:
    prefix cache of a rank (0: none). `hit_shares[i]`: of a prompt of `lengths[i]` tokens, found in a prefix cache that
    is not replayed (empty: nothing). `hit_tokens`: what a hit that is replayed is a multiple of. `tiers`: below that
    cache, the fastest first, over whose way to the GPU what lies in the others comes as well. `layers`: of the model,
    whose caches are loaded one after the other. `first_ms`, `first_passes`: what a first token takes beside its
    prompt's passes. `reload_s`: until a server that was lost answers again. `redo_ms`: what a preempted sequence takes
    of its server for each token that it takes in anew.
    """

    island: str
    gpu: str
    phase: Phase
    servers: int
    ranks: int
    stages: int = 1
    budget: int = 0
    batch: int = 0
    pace: float = 1.0
    prompts: PromptCurve | None = None
    answers: AnswerCurve | None = None
    chunks: ChunkCurve | None = None
    room: KvRoom | None = None
    sent_ms: Row = ()
    cache_tokens: int = 0
    hit_shares: Row = ()
    hit_tokens: int = 1
    tiers: tuple[PoolTier, ...] = ()
    layers: int = 1
    first_ms: float = 0.0
    first_passes: float = 0.0
    reload_s: float = 0.0
    redo_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShare:
    """`share` of the requests of an interval that go to the pool with this number. `weight`: of one of its servers to a
    router that counts (0: its part of the share)."""

    pool: int
    share: float
    weight: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Who serves prompts of `start` <= tokens < `end`: `prefill` pools, mixed ones among them, and `decode` pools for
    what was prefilled by itself. `context`: tokens of prompt and answer that each of them takes (0: any)."""

    start: int
    end: int
    prefill: tuple[PoolShare, ...]
    decode: tuple[PoolShare, ...]
    context: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFleet:
    """All pools, and intervals of prompt length that partition the prompts. `kv_gb[i]`: what a prompt of
    `lengths[i]` tokens hands over; `uplinks`: what all servers of a GPU type share of the network, each way (GB/s, 10^9
    bytes).

    `context`: tokens of the longest sequence that the model takes. The curves of all pools have the same lengths.
    """

    name: str
    model: str
    pools: tuple[ReplayPool, ...]
    intervals: tuple[Interval, ...]
    kv_gb: Row = ()
    uplinks: tuple[tuple[str, float], ...] = ()
    context: int = 0

    @property
    def lengths(self) -> Row:
        """Prompt lengths at which step times are known."""
        curves = (pool.prompts or pool.chunks for pool in self.pools)
        return next(curve.lengths for curve in curves if curve is not None)

    @property
    def tiers(self) -> tuple[str, ...]:
        """Names of the tiers of all pools, each once."""
        return tuple(dict.fromkeys(tier.name for pool in self.pools for tier in pool.tiers))
