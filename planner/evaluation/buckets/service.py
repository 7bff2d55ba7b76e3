"""Pools as they are deployed: the rate that they reach together, and the times that requests see.

Everything follows from the pools themselves (GPU types, server configurations, counts, buckets): the programme that
chose them is not asked.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from planner.domain import (
    PHASES,
    BucketLatency,
    BucketPool,
    CountDispersion,
    LoadPoint,
    NodeLoss,
    Phase,
    Question,
    Reach,
)
from planner.evaluation.buckets.latencies import JudgedTimes, first_step_ms, latencies_at
from planner.evaluation.buckets.priced import PricedBucket, PricedKey, phase_rps, priced_buckets, serves
from planner.evaluation.buckets.spreads import lost_servers, spread
from planner.evaluation.buckets.transfer import FullUplink, full_nic, uplink_loads

HELD_BACK = 1e-6
"""Of a rate: a loss that costs no more does not hold it back."""

UNFELT = 1e-5  # of a bound on TTFT: what so wide an uplink takes of it changes no rate
_HALVINGS = 12  # of a rate, whose uplinks' delays are known then to a part in 4,000
BEYOND = 1.03
"""Of the rate that is reached where the first decode step takes the whole bound on TPOT; more is reached where it does
not, by less than this on the shipped scenarios."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPools:
    """Pools with their capacities and shares, and what they serve together (requests/s of the whole mix).
    `network_bottleneck`: the part of the network that holds them back, `crosses`: it is an uplink."""

    pools: tuple[BucketPool, ...]
    prefill_rps: float
    decode_rps: float
    network_bottleneck: str = ""
    crosses: bool = False

    def phase_rps(self, phase: Phase) -> float:
        """What one phase could serve."""
        return self.prefill_rps if phase is Phase.PREFILL else self.decode_rps

    @property
    def rate_rps(self) -> float:
        """The lower of both phases."""
        return min(self.prefill_rps, self.decode_rps)

    def used(self, parts: Mapping[Phase, float]) -> "PricedPools":
        """The pools of each phase used so far."""
        used = replace(
            self,
            pools=tuple(replace(pool, capacity_rps=parts[pool.phase] * pool.capacity_rps) for pool in self.pools),
            prefill_rps=parts[Phase.PREFILL] * self.prefill_rps,
            decode_rps=parts[Phase.DECODE] * self.decode_rps,
        )
        held_back = used.rate_rps < self.rate_rps * (1 - HELD_BACK)
        return replace(used, network_bottleneck="", crosses=False) if held_back else used

    def through(self, uplink: FullUplink) -> "PricedPools":
        """As far as what crosses between GPU types fits through the uplink that is full first."""
        if uplink.rate_rps >= self.rate_rps:
            return self
        parts = {phase: uplink.rate_rps / self.phase_rps(phase) for phase in PHASES}
        if any(pool.phase is Phase.MIXED for pool in self.pools):  # which are used alike in both
            parts = dict.fromkeys(Phase, max(parts.values()))
        return replace(self.used(parts), network_bottleneck=uplink.name, crosses=True)


class BucketService:
    """Prices of pools, for one question. `reaches`: where the islands of placed pools lie, by island."""

    def __init__(self, question: Question, reaches: Mapping[str, Reach] | None = None) -> None:
        self.question = question
        self._reaches = reaches or {}
        self._known: dict[PricedKey, PricedBucket] = {}

    def of_counts(self, question: Question) -> "BucketService":
        """For a question that differs in numbers of GPUs and the objective alone: its buckets have the same prices."""
        service = BucketService(question, self._reaches)
        service._known = self._known
        return service

    def priced(self, pools: Iterable[BucketPool], counts: CountDispersion | None = None) -> PricedPools:
        """The pools at work together; `counts`: how arrivals bunch, Poisson where it is not said.

        Where a share of the rate has to survive the loss of nodes, the servers of a pool are spread over nodes, and
        used as far as the others can stand in.
        """
        share = self.question.scenario.survive.share
        spread_pools = spread(pools, self.question.scenario.inventory) if share else tuple(pools)
        unbroken = self.unbroken(spread_pools, counts)
        if not share or not unbroken.rate_rps:
            return unbroken
        after_losses = [self._without(spread_pools, number, counts)[1] for number in range(len(spread_pools))]
        used = {
            phase: min(1.0, *(after.phase_rps(phase) / share / unbroken.phase_rps(phase) for after in after_losses))
            for phase in PHASES
        }
        if any(pool.phase is Phase.MIXED for pool in spread_pools):  # which are used alike in both
            used = dict.fromkeys(Phase, min(used.values()))
        return unbroken.used(used)

    def unbroken(self, pools: Iterable[BucketPool], counts: CountDispersion | None = None) -> PricedPools:
        """The pools at work together, where nothing has to survive."""
        buckets, uplink = self._buckets(pools, counts)
        together = PricedPools(
            pools=tuple(pool for bucket in buckets for pool in bucket.pools),
            prefill_rps=phase_rps(buckets, Phase.PREFILL),
            decode_rps=phase_rps(buckets, Phase.DECODE),
            network_bottleneck=full_nic(buckets),
        )
        return together.through(uplink)

    def _buckets(
        self, pools: Iterable[BucketPool], counts: CountDispersion | None = None
    ) -> tuple[list[PricedBucket], FullUplink]:
        """The pools by bucket, and the uplink that holds them back. The first token of a split request takes a decode
        step: at first as long as the bound on TPOT, then as the pools take at the rate that is known to be reached so,
        and a little beyond."""
        every, judged = tuple(pools), JudgedTimes.of(self.question)

        def priced(first_ms: float | None) -> list[PricedBucket]:
            return priced_buckets(self.question, every, counts, self._reaches, first_ms, self._known)

        buckets, first_ms = priced(None), float(judged.levels.first_step_ms.max())
        # the weights of servers are chosen once, so that what is priced again is priced alike
        every = tuple(pool for bucket in buckets for pool in bucket.pools)
        rates = [phase_rps(buckets, phase) for phase in PHASES]
        if self.question.scenario.slo.ttft_ms is None or all(pool.phase is not Phase.PREFILL for pool in every):
            return buckets, self._full_uplink(buckets)
        if 0 < rates[0] < rates[1]:
            first_ms = first_step_ms(buckets, min(BEYOND * rates[0], rates[1]), judged)
            buckets = priced(first_ms)
        full = self._full_uplink(buckets)
        return self._within_delays(priced, buckets, full, first_ms) if full.name else (buckets, full)

    def _full_uplink(self, buckets: Sequence[PricedBucket]) -> FullUplink:
        loads = uplink_loads(self.question, [pool for bucket in buckets for pool in bucket.pools])
        return min((FullUplink(load.name, load.full_rps) for load in loads), key=itemgetter(1), default=FullUplink())

    def _within_delays(
        self,
        priced: Callable[[float], list[PricedBucket]],
        buckets: list[PricedBucket],
        full: FullUplink,
        first_ms: float,
    ) -> tuple[list[PricedBucket], FullUplink]:
        """What uplinks take of a TTFT grows with the rate: the pools at the rate that leaves enough of the bound."""
        slo = self.question.scenario.slo
        loads = uplink_loads(self.question, [pool for bucket in buckets for pool in bucket.pools])

        def delay_ms(rate: float) -> float:
            return max(load.delay_ms(rate, slo.late_share) for load in loads)

        reached, within = 0.0, buckets
        beyond = min(full.rate_rps, *(phase_rps(buckets, phase) for phase in PHASES))
        if delay_ms(beyond) <= UNFELT * (slo.ttft_ms or 0.0):
            return buckets, full
        for _ in range(_HALVINGS):
            rate = (reached + beyond) / 2
            slower = priced(first_ms + delay_ms(rate))
            if min(phase_rps(slower, phase) for phase in PHASES) >= rate:
                reached, within = rate, slower
            else:
                beyond = rate
        return within, FullUplink(full.name, reached)

    def _without(
        self, pools: Sequence[BucketPool], number: int, counts: CountDispersion | None = None, nodes: int | None = None
    ) -> tuple[int, PricedPools]:
        """(servers that one pool loses with its nodes, what all serve without them and what else lies there)."""
        scenario = self.question.scenario
        hosts = {item.gpu.name: item.gpu.gpus_per_host for item in scenario.inventory.items}
        lost = lost_servers(pools, hosts, number, nodes or scenario.survive.nodes)
        reduced = [replace(other, count=other.count - lost.get(k, 0)) for k, other in enumerate(pools)]
        remaining = [other for other in reduced if other.count]
        after = self.unbroken(remaining, counts)
        served = frozenset().union(*map(serves, remaining))
        unserved = {phase for phase, _ in frozenset().union(*map(serves, pools)) - served}
        if Phase.PREFILL in unserved:
            after = replace(after, prefill_rps=0.0)
        if Phase.DECODE in unserved:
            after = replace(after, decode_rps=0.0)
        return lost[number], after

    def latencies(self, pools: Sequence[BucketPool], rates: Mapping[LoadPoint, float]) -> tuple[BucketLatency, ...]:
        """TTFT of every prefill bucket and TPOT of every decode bucket at these rates of the whole mix."""
        buckets, _ = self._buckets(pools)
        judged, crossing = JudgedTimes.of(self.question), uplink_loads(self.question, pools)
        return tuple(row for load, rate in rates.items() for row in latencies_at(load, rate, buckets, judged, crossing))

    def losses(
        self, pools: Sequence[BucketPool], nodes: int, counts: CountDispersion | None = None
    ) -> Iterator[NodeLoss]:
        """What remains when one pool loses the servers of so many nodes."""
        for number, pool in enumerate(pools):
            lost, after = self._without(pools, number, counts, nodes)
            yield NodeLoss(island=pool.island, nodes=nodes, servers=lost, rate_rps=after.rate_rps)
