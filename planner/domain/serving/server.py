"""What one server is started with, and pools of such servers."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.layout import PHASES, ParallelConfig, Phase, halves_of
from planner.domain.serving.caches.tiers import TierOutlook
from planner.domain.serving.promise import PromiseOdds, ReplayedChoice
from planner.domain.serving.routing import FormChoice


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ServerConfig:
    """One copy of the model as an engine runs it: `parallel` has one replica.

    `tokens_per_step`: budget of a prefill step of one attention rank (0 in decode). `batch_size`: sequences of an
    attention group in decode; prompts that a rank may hold in a prefill step. `overlapped`: two micro-batches hide the
    experts' communication, one choice for the whole server. `drafted`: tokens drafted a step, where that was the
    pool's own choice (None: as the scenario says).
    """

    parallel: ParallelConfig
    tokens_per_step: int = 0
    batch_size: int = 0
    overlapped: bool = False
    drafted: Annotated[
        int | None,
        Bounds(low=0),
        Key("a step, where a pool chose; else as the scenario says", unit="tokens", sparse=True),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPool:
    """`count` equal islands that serve one phase of one bucket, prompts of `start` <= tokens < `end`.

    `capacity_rps`: requests/s of the bucket's mix that one island serves within the service levels; `full_rps`: where
    nobody waits. `share`: of the bucket's requests that go to the pool. `late_share`: of the bucket's requests that may
    miss a bound on TTFT (None: bounds hold for the mean, or there is none). `context`: of engines that run already and
    take longer prompts than the bucket has (0: as the bucket needs it). `per_node`: servers smaller than a node are
    spread so that no node has more of the pool's, which is what losing a node counts on (0: as many as fit). `weight`:
    what a router that counts divides a server's count by, over that of the heaviest server of the bucket (0: routers go
    by shares).
    """

    gpu: str
    phase: Phase
    server: Annotated[ServerConfig, Key("what one of its servers is started with")]
    count: Annotated[int, Bounds(low=1), Key("servers")]
    start: Annotated[int, Bounds(low=0), Key("shortest prompt", unit="tokens")]
    end: Annotated[int, Bounds(low=1), Key("prompts are shorter", unit="tokens")]
    capacity_rps: Annotated[float, Bounds(low=0), Key("of one server, within the service levels")]
    full_rps: Annotated[float, Bounds(low=0), Key("of one server, where nobody waits")]
    share: Annotated[float, Bounds(low=0, high=1.000001), Key("of the bucket's requests")] = 1.0
    late_share: Annotated[float | None, Bounds(low=0, high=1), Key("that may miss a bound on TTFT")] = None
    island: Annotated[str, Key("id of the island that the pool is in the plan")] = ""
    context: Annotated[
        int,
        Bounds(low=0),
        Key("that its engines run with already, where its prompts need less", unit="tokens", sparse=True),
    ] = 0
    per_node: Annotated[
        int,
        Bounds(low=0),
        Key("most of its servers that share a node, where losing nodes counts on it", sparse=True),
    ] = 0
    weight: Annotated[
        float, Bounds(low=0, high=1.000001), Key("of one server to a router that counts", sparse=True)
    ] = 0.0

    def serves(self, phase: Phase) -> bool:
        """Whether the pool does a half of its bucket's requests; mixed ones do both."""
        return phase in halves_of(self.phase)

    def spread(self, host_gpus: int) -> int:
        """Most of its servers on a node of so many GPUs (0: as many as fit); servers as large as nodes fill them."""
        return self.per_node if self.server.parallel.devices < host_gpus else 0

    @property
    def gpus(self) -> int:
        """GPUs of the pool."""
        return self.count * self.server.parallel.devices


SAME_RATE = 0.005
"""Relative difference of rates that no page tells."""


class LoadPoint(StrEnum):
    """Loads that latencies are told at: the workload's own or asked for, what the plan promises, what it can do."""

    DEMAND = "demand"
    PROMISE = "promise"
    CAPACITY = "capacity"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLatency:
    """TTFT (prefill) or TPOT (decode) of the prompts of one bucket, `part` of all requests, at one rate of the mix.

    `late_ms`: at the percentile that is asked for, the mean where bounds are of the mean, P99 where nothing is bounded;
    times are None where the queue has no end. `bound_ms`: the mean of them where bounds differ by prompt.
    `kept_share`: of the bucket's requests that keep their bound on TTFT (None: no bound on it, or on the mean).
    `low_ms`, `high_ms`: P10 and P90 of what the late time will be, by measurements of such times (None: no band).
    """

    load: LoadPoint
    rate_rps: Annotated[float, Bounds(low=0), Key("of the whole mix")]
    phase: Phase
    start: Annotated[int, Bounds(low=0), Key("shortest prompt", unit="tokens")]
    end: Annotated[int, Bounds(low=1), Key("prompts are shorter", unit="tokens")]
    part: Annotated[float, Bounds(low=0, high=1.000001), Key("of all requests")]
    p50_ms: Annotated[float | None, Bounds(low=0)]
    late_ms: Annotated[float | None, Bounds(low=0), Key("at the percentile asked for, P99 without bounds, or the mean")]
    bound_ms: Annotated[float | None, Bounds(low=0), Key("on that time (null: none)")]
    kept_share: Annotated[float | None, Bounds(low=0, high=1.000001), Key("of the bucket that keeps a bound on TTFT")]
    low_ms: Annotated[float | None, Bounds(low=0), Key("P10 of the late time, by measurements", sparse=True)] = None
    high_ms: Annotated[float | None, Bounds(low=0), Key("P90 of the late time, by measurements", sparse=True)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimplerPlan:
    """What a plan of so few kinds, buckets and pools would serve."""

    kinds: Annotated[int, Bounds(low=1), Key("of servers: GPU type and configuration")]
    prefill_buckets: Annotated[int, Bounds(low=1)]
    decode_buckets: Annotated[int, Bounds(low=1)]
    pools: Annotated[int, Bounds(low=1)]
    rate_rps: Annotated[float, Bounds(low=0)]
    chosen: Annotated[bool, Key("it is the plan")] = False

    @classmethod
    def of(cls, pools: Collection[BucketPool], rate_rps: float, *, chosen: bool) -> "SimplerPlan":
        """How simple pools are that serve `rate_rps` together."""
        spans = {phase: {(pool.start, pool.end) for pool in pools if pool.serves(phase)} for phase in PHASES}
        return cls(
            kinds=len({(pool.gpu, pool.server, pool.phase) for pool in pools}),
            prefill_buckets=len(spans[Phase.PREFILL]),
            decode_buckets=len(spans[Phase.DECODE]),
            pools=len(pools),
            rate_rps=rate_rps,
            chosen=chosen,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoss:
    """What remains of the rate when a pool loses the servers of so many nodes, whatever nodes they are; nodes that it
    does not fill take servers of its bucket's other pools."""

    island: Annotated[str, Key("id of the island that is the pool")]
    nodes: Annotated[int, Bounds(low=1)]
    servers: Annotated[int, Bounds(low=1), Key("that are lost")]
    rate_rps: Annotated[float, Bounds(low=0), Key("that remains")]


@dataclass(frozen=True, slots=True, kw_only=True)
class KvTransfer:
    """What handing KV caches from prefill to decode takes of the requests that are split."""

    mean_ms: Annotated[float, Bounds(low=0), Key("of the TTFT of a mean prompt", unit="ms")]
    longest_ms: Annotated[float, Bounds(low=0), Key("of the TTFT of the longest prompt", unit="ms")]
    gb_s: Annotated[float, Bounds(low=0), Key("that the fleet hands over at the promise", unit="GB/s")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDrafts:
    """What drafts bring to a pool at its batch."""

    island: Annotated[str, Key("id of the island that is the pool")]
    tokens: Annotated[int, Bounds(low=1), Key("drafted a step")]
    tokens_per_pass: Annotated[float, Bounds(low=1), Key("that a sequence gets of a pass")]
    gain: Annotated[float, Bounds(above=0), Key("its rate over that without drafts, at the same batch")]
    carried_over: Annotated[bool, Key("chances of acceptance were measured of other models")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlan:
    """What a plan of buckets says beyond its islands and routes.

    `promise_rps`: capacity times the margin, or less where it is to be surer. `burst_rps`: the same where arrivals
    bunch as the trace's own do, laid over each other (None: the workload has no clock), all servers at work;
    `burst_left_rps`: what the worst loss leaves of their capacity then (None: no clock, or nothing has to survive).
    `least_work_rps`: what the pools would serve behind the router of policy `least_work`, where they are priced for one
    that is deployed. `unrestricted_rps`: no layout of any sizes, lengths and configurations serves more.
    """

    promise_rps: Annotated[float, Bounds(low=0)]
    burst_rps: Annotated[float | None, Bounds(low=0), Key("promise under the trace's own bursts (null: no clock)")]
    unrestricted_rps: Annotated[float | None, Bounds(low=0), Key("bound of all layouts, deployable or not")]
    survival_cost_rps: Annotated[
        float | None, Bounds(low=0), Key("what surviving costs: more of the rate without it (null: not asked for)")
    ]
    levels_set: Annotated[bool, Key("whether the scenario has service levels")]
    pools: tuple[BucketPool, ...]
    latencies: tuple[BucketLatency, ...]
    simpler: tuple[SimplerPlan, ...]
    losses: tuple[NodeLoss, ...]
    forms: Annotated[
        FormChoice | None,
        Key("what the form of its pools was chosen over (absent: the form was asked for)", sparse=True),
    ] = None
    transfer: Annotated[
        KvTransfer | None, Key("what handing over KV caches costs (absent: nothing is split)", sparse=True)
    ] = None
    burst_left_rps: Annotated[
        float | None,
        Bounds(low=0),
        Key("left after a loss under the trace's own bursts (absent: no clock, or nothing survives)", sparse=True),
    ] = None
    least_work_rps: Annotated[
        float | None,
        Bounds(low=0),
        Key("that the pools would serve behind a router that knows all (absent: it was priced so)", sparse=True),
    ] = None
    drafts: Annotated[
        tuple[PoolDrafts, ...], Key("what drafted tokens bring to each pool (absent: none are drafted)", sparse=True)
    ] = ()
    odds: Annotated[
        PromiseOdds | None, Key("how sure the promise is (absent: no band says how far speeds may be off)", sparse=True)
    ] = None
    replayed: Annotated[
        ReplayedChoice | None, Key("what replays said of it (absent: it was not chosen by replays)", sparse=True)
    ] = None
    tiers: Annotated[
        TierOutlook | None, Key("what caches below device memory bring (absent: there are none)", sparse=True)
    ] = None

    @classmethod
    def without_pools(cls, promise_rps: float, *, levels_set: bool) -> "BucketPlan":
        """Of islands that share out every range of lengths: nothing but the promise is known."""
        return cls(
            promise_rps=promise_rps,
            burst_rps=None,
            unrestricted_rps=None,
            survival_cost_rps=None,
            levels_set=levels_set,
            pools=(),
            latencies=(),
            simpler=(),
            losses=(),
        )

    def drafted_by(self, island: str) -> int:
        """Tokens that a pool drafts a step."""
        return next((row.tokens for row in self.drafts if row.island == island), 0)

    @property
    def bursts_bind(self) -> bool:
        """Whether less is promised where requests bunch as in the trace, by more than rounding."""
        return self.levels_set and self.burst_rps is not None and self.burst_rps < (1 - SAME_RATE) * self.promise_rps

    @property
    def worst_loss(self) -> NodeLoss:
        """The loss that leaves least."""
        return min(self.losses, key=lambda loss: loss.rate_rps)
