"""What handing KV caches from prefill to decode costs the split pools of a plan: time of a request, traffic, and what
the network leaves of their rate.

Servers that do both phases hand nothing over. Times are those that the pools' TTFT counts: what lies on one GPU, over
its own NIC. A router chooses the servers of each phase by themselves: of the requests of a range that are split each
pool of decode takes its share from every pool of prefill.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from planner.assignment import Uplinks
from planner.cost import CostContext
from planner.cost.engine_rules import kv_backends
from planner.cost.grid import Degrees
from planner.cost.service_levels import transfer_ms
from planner.cost.serving import MixedServers
from planner.domain import PHASES, BucketPool, KvFlow, KvTransfer, LengthRange, Phase, Question, Reach, Scenario, kv_gb
from planner.domain.stocks import Stock
from planner.evaluation.buckets.partitions import PhaseBuckets
from planner.evaluation.buckets.priced import PricedBucket, phase_rps, priced_buckets
from planner.units import MS_PER_S

_HALVINGS = 40
CARRIED = 1e-6
"""Of a rate: what a NIC or an uplink carries to so little is what holds it back."""


def transfer_of(
    question: Question, pools: Iterable[BucketPool], rate_rps: float, reaches: Mapping[str, Reach] | None = None
) -> KvTransfer | None:
    """What pools hand over where the whole mix is served at `rate_rps`; None where no requests are split."""
    scenario, where = question.scenario, reaches or {}
    weight = mean_ms = longest_ms = gb_per_request = 0.0
    for bucket in priced_buckets(question, pools, None, where):
        if bucket.phase is not Phase.PREFILL:
            continue
        mix, prompts = bucket.buckets.weights[0], bucket.buckets.prompts
        longest = bucket.buckets.longest[mix > 0].max(keepdims=True)
        gb = float(mix @ np.array([kv_gb(scenario.model, tokens) for tokens in prompts.tolist()]))
        for pool in bucket.pools:
            reach = where.get(pool.island)
            context = CostContext(
                gpu=scenario.inventory.item(pool.gpu).gpu,
                model=scenario.model,
                settings=scenario.cost if reach is None else replace(scenario.cost, reach=reach),
            )
            degrees, share = Degrees.of([pool.server.parallel]), bucket.probability * pool.share
            weight += share
            mean_ms += share * float(mix @ transfer_ms(context, prompts[None], degrees)[0])
            longest_ms = max(longest_ms, float(transfer_ms(context, longest[None], degrees)[0, 0]) if share else 0.0)
            gb_per_request += share * gb
    if not weight:
        return None
    return KvTransfer(mean_ms=mean_ms / weight, longest_ms=longest_ms, gb_s=rate_rps * gb_per_request)


class _Handed(NamedTuple):
    """`share` of the requests of a range, which one pool hands to another."""

    prefill: BucketPool
    decode: BucketPool
    span: LengthRange
    share: float


def _handed(question: Question, pools: Iterable[BucketPool]) -> Iterator[_Handed]:
    every = [pool for pool in pools if pool.share > 0]
    split: dict[tuple[int, int], float] = defaultdict(float)
    for pool in every:
        if pool.phase is Phase.DECODE:
            split[pool.start, pool.end] += pool.share
    for span in question.workload.ranges:
        covering = [pool for pool in every if pool.start <= span.start and span.end <= pool.end]
        for prefill in (pool for pool in covering if pool.phase is Phase.PREFILL):
            for decode in (pool for pool in covering if pool.phase is Phase.DECODE):
                yield _Handed(prefill, decode, span, prefill.share * decode.share / split[decode.start, decode.end])


def flows_of(question: Question, pools: Iterable[BucketPool], rate_rps: float) -> tuple[KvFlow, ...]:
    """Who hands KV caches to whom where the whole mix is served at `rate_rps`; none where no network is given."""
    if question.scenario.network is None:
        return ()
    return tuple(
        KvFlow(
            prefill=handed.prefill.island,
            decode=handed.decode.island,
            range_start=handed.span.start,
            range_end=handed.span.end,
            rate_rps=rate,
            gb_s=rate * kv_gb(question.scenario.model, handed.span.mean_input_tokens),
        )
        for handed in _handed(question, pools)
        if (rate := rate_rps * handed.span.probability * handed.share)
    )


def families_of(scenario: Scenario) -> tuple[frozenset[str], ...]:
    """GPU types of an inventory that hand KV caches to each other under the engine."""
    engine, families = scenario.engine, list[frozenset[str]]()
    gpus = {item.gpu.name: item.gpu for item in scenario.inventory.items if item.count}
    for name, gpu in gpus.items():
        joined = [f for f in families if any(kv_backends(engine, gpu, gpus[other]) != () for other in f)]
        families = [f for f in families if f not in joined]
        families.append(frozenset({name}).union(*joined))
    return tuple(sorted(families, key=sorted))


def uplinks_of(
    question: Question, phases: Mapping[Phase, PhaseBuckets], stocks: Sequence[Stock], *, surely: bool = False
) -> Uplinks | None:
    """What KV caches of any buckets have to fit through where pools are of these stocks; None where all of them reach
    each other freely. `surely`: as in `Uplinks`."""
    scenario, spans = question.scenario, question.workload.ranges
    capped = {} if scenario.network is None else dict(scenario.network.switch_gb_s)
    gpus = dict.fromkeys(stock.gpu for stock in stocks)
    names = [gpu for gpu in gpus if gpu in capped]
    if not names or len(gpus) == 1:
        return None
    prefill, decode = (phases[phase].buckets for phase in PHASES)
    gb = np.array([span.probability * kv_gb(scenario.model, span.mean_input_tokens) for span in spans])
    both = prefill.members @ (gb[:, None] * decode.members.T)
    return Uplinks(
        groups=tuple(names.index(stock.gpu) if stock.gpu in capped else len(names) for stock in stocks),
        gb_s=tuple(capped[name] for name in names),
        gb={(i, k): float(amount) for (i, k), amount in np.ndenumerate(both) if amount},
        surely=surely,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UplinkLoad:
    """What crosses an uplink of `gb_s`, one cache after the other: of every request of the whole mix so many
    (`parts`, shape (ranges,)) of `gb` each. `name`: in words; `spans`: bucket of prefill that each comes from.

    | symbol | meaning | unit |
    |---|---|---|
    | s, m, m2 | time of a cache on the uplink, its mean and second moment | s |
    | rho, W | share of its time that it is busy, mean wait of an M/G/1 queue, lambda m2 / (2 (1 - rho)) | 1, s |
    | P(wait > t) | rho exp(-rho t / W) | 1 |
    """

    name: str
    gb_s: float
    parts: np.ndarray
    gb: np.ndarray
    spans: np.ndarray

    @property
    def full_rps(self) -> float:
        """The rate of the whole at which it is full."""
        return float(self.gb_s / (self.parts @ self.gb))

    def delay_ms(self, rate_rps: float, late: float | None) -> float:
        """What the uplink takes of a cache, its wait and its way, where so many requests/s of the whole mix come: the
        mean (`late` None), or what no more than the share `late` of any bucket passes; inf where it is full."""
        seconds, rate = self.gb / self.gb_s, rate_rps * float(self.parts.sum())
        mix = self.parts / self.parts.sum()
        busy = rate * float(mix @ seconds)
        if busy >= 1:
            return math.inf
        wait = rate * float(mix @ seconds**2) / (2 * (1 - busy))
        delays = []
        for span in np.unique(self.spans):
            own = self.spans == span
            weights = mix[own] / mix[own].sum()
            delays.append(
                wait + float(weights @ seconds[own])
                if late is None
                else _passed(late, busy, wait, seconds[own], weights)
            )
        return MS_PER_S * max(delays)


def _passed(late: float, busy: float, wait: float, seconds: np.ndarray, weights: np.ndarray) -> float:
    """The time (s) that wait and way pass for the share `late` of the caches."""
    low, high = 0.0, float(seconds.max()) + wait / busy * max(0.0, math.log(busy / late))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        left = np.maximum(0.0, middle - seconds)
        later = float(weights @ np.where(middle < seconds, 1.0, busy * np.exp(-busy / wait * left)))
        low, high = (middle, high) if later > late else (low, middle)
    return high


class FullUplink(NamedTuple):
    """The uplink that holds pools back first, in words, and the rate of the whole at which it does."""

    name: str = ""
    rate_rps: float = math.inf


def uplink_loads(question: Question, pools: Iterable[BucketPool]) -> list[UplinkLoad]:
    """What crosses each uplink that anything crosses, both ways."""
    network = question.scenario.network
    if network is None or not network.switch_gb_s:
        return []
    crossing: dict[tuple[str, str], list[tuple[float, float, int]]] = defaultdict(list)
    for handed in _handed(question, pools):
        if handed.prefill.gpu != handed.decode.gpu and handed.span.probability * handed.share:
            gb = kv_gb(question.scenario.model, handed.span.mean_input_tokens)
            row = handed.span.probability * handed.share, gb, handed.prefill.start
            crossing["out of", handed.prefill.gpu].append(row)
            crossing["into", handed.decode.gpu].append(row)
    return [
        UplinkLoad(name=f"uplink {way} {gpu} islands", gb_s=gb_s, parts=parts, gb=gb, spans=spans)
        for gpu, gb_s in network.switch_gb_s
        for way in ("out of", "into")
        if crossing[way, gpu]
        for parts, gb, spans in (np.array(crossing[way, gpu]).T,)
    ]


def full_nic(buckets: Sequence[PricedBucket]) -> str:
    """The NICs that keep the slowest bucket of the slower phase from serving more, in words; empty: none do."""
    rates = {phase: phase_rps(buckets, phase) for phase in PHASES}
    slower = min(PHASES, key=lambda phase: rates[phase])
    for bucket in buckets:
        together = [b for b in buckets if b.span == bucket.span and b.phase in (slower, Phase.MIXED)]
        served = sum(b.capacity_rps for b in together) / bucket.probability
        if bucket.phase is not slower or served > rates[slower] * (1 + CARRIED):
            continue
        for pool, servers in zip(bucket.pools, bucket.servers, strict=True):
            assert not isinstance(servers, MixedServers), "pools of one phase have servers of one"
            carried = float(bucket.buckets.rps_of(servers.nic_s)[0, 0])
            if pool.capacity_rps >= carried * (1 - CARRIED):
                return f"NIC of {pool.gpu} {pool.phase} islands"
    return ""
