"""Servers that run already, beside those that may be started: priced as they run, on every bucket that they can take.

A deployed server keeps its configuration: its batch, its token budget, its overlap, and the context that its engine was
started for, which no prompt of its bucket with the longest answer may pass. Rates are those of the programme's other
servers: X is what no pools exceed, so that bounds remain bounds.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.assignment import BucketAnswer, BucketOffer, BucketOption, ChangeTerms, DeployedServers, Partition, Place
from planner.assignment import undominated as without_dominated
from planner.cost.serving import Arrivals, DecodeServers, PrefillServers
from planner.domain import BucketPool, ParallelConfig, Phase, Question, Scenario, ServerConfig
from planner.domain.stocks import Stock
from planner.evaluation.buckets.columns import Column, hash_of, of_types
from planner.evaluation.buckets.priced import servers_of
from planner.evaluation.buckets.prices import BucketPrices

StartUsd = Callable[[str, ParallelConfig], float]  # USD of starting a server of a GPU type and shape


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedPool:
    """A pool that runs. `context`: tokens that its engines are started for; `stop_usd`: what stopping one server
    costs. Its capacity and bucket do not count."""

    pool: BucketPool
    context: int
    stop_usd: float = 0.0


class DeployedPrices(BucketPrices):
    """Prices of a question where servers run. `start_usd`: what starting a server of a GPU type and shape costs, where
    that counts; `turns_only`: only shapes that run are offered."""

    def __init__(
        self,
        question: Question,
        deployed: Sequence[DeployedPool],
        *,
        start_usd: StartUsd | None = None,
        turns_only: bool = False,
    ) -> None:
        self.deployed = tuple(deployed)
        self._start_usd, self._turns_only = start_usd, turns_only
        super().__init__(question, edges=self._edges(question))
        self._rates: dict[int, Column] = {}

    def _edges(self, question: Question) -> Collection[int]:
        """Lengths that buckets of the deployed pools end at, and up to which their engines take prompts."""
        longest = question.scenario.workload.max_output_tokens
        ends = {group.pool.end for group in self.deployed} | {group.pool.start for group in self.deployed}
        return ends | {group.context - longest + 1 for group in self.deployed}

    def changed_offers(
        self, stocks: Sequence[Stock], partitions: Sequence[Partition], terms: ChangeTerms
    ) -> tuple[BucketOffer, ...]:
        """What the programme may choose from, with the servers that run, one offer for each family of GPU types."""
        offer = self.offer(stocks, partitions)
        numbers = {stock.gpu: t for t, stock in enumerate(stocks)}
        options = {
            place: (*of_place, *self._running(place, stocks, numbers)) for place, of_place in offer.options.items()
        }
        every = replace(
            offer,
            options=options,
            deployed=tuple(self._group(group, numbers) for group in self.deployed),
            terms=terms,
        )
        gpus = {stock.gpu for stock in stocks}
        families = (of_types(every, stocks, family) for family in self.families if gpus & family)
        return tuple(offer for family in families for offer in family.by_drafts())

    def _group(self, group: DeployedPool, numbers: Mapping[str, int]) -> DeployedServers:
        pool = group.pool
        return DeployedServers(
            stock=numbers.get(pool.gpu, -1),
            use=pool.server.parallel.devices,
            count=pool.count,
            phase=pool.phase,
            shape=shape_number(pool.server.parallel),
            stop_usd=group.stop_usd,
        )

    def _running(self, place: Place, stocks: Sequence[Stock], numbers: Mapping[str, int]) -> list[BucketOption]:
        """Servers that run on a bucket, where their engines take its prompts."""
        phase, bucket = place
        end = self.question.workload.ranges[self.phases[phase].buckets.intervals[bucket][1] - 1].end
        options = []
        for number, group in enumerate(self.deployed):
            pool = group.pool
            if pool.phase is not phase or pool.gpu not in numbers or self._context(end) > group.context:
                continue
            rate = float(self.rates(number).capped[0, bucket])
            if rate > 0:
                devices, stock = pool.server.parallel.devices, stocks[numbers[pool.gpu]]
                host = self._scenario.inventory.item(pool.gpu).gpu.gpus_per_host
                options.append(
                    BucketOption(
                        stock=numbers[pool.gpu],
                        use=devices,
                        server=number,
                        kind=hash_of(pool.server, mixed=phase is Phase.MIXED),
                        rate_rps=rate,
                        nodes=stock.nodes_for(devices, host),
                        shared=devices < host,
                        shape=shape_number(pool.server.parallel),
                        deployed=number,
                        drafts=bool(pool.server.drafted) if phase is Phase.DECODE else None,
                    )
                )
        return options

    def _context(self, end: int) -> int:
        """Tokens that an engine for prompts shorter than `end` needs."""
        scenario = self._scenario
        return min(end - 1 + scenario.workload.max_output_tokens, scenario.model.max_context)

    def rates(self, number: int) -> Column:
        """Rates of a deployed pool's server, computed at most once."""
        if number not in self._rates:
            self._rates[number] = self._rates_of(self.deployed[number].pool)
        return self._rates[number]

    def _rates_of(self, pool: BucketPool) -> Column:
        half, batch = self.phases[pool.phase], pool.server.batch_size
        servers = servers_of(self.question, pool, half.buckets)
        arrivals = Arrivals.of(self._scenario.router.layers(pool.phase))
        together = self.served_rps * half.buckets.probabilities
        if isinstance(servers, PrefillServers):
            full = servers.full_rps(half.buckets)
            capped = servers.capped_rps(half.buckets, half.levels, together, arrivals, served=True)
        else:
            _, capped, full = servers.capped_rps(half.buckets, half.levels, together, batch, arrivals, served=True)
        return Column(servers=servers, batches=None, capped=capped, full=full)

    def pools(self, answer: BucketAnswer, stocks: Sequence[Stock]) -> tuple[BucketPool, ...]:
        """The pools of an answer; servers that start join those of their configuration which run on their bucket."""
        fresh = [chosen for chosen in answer.pools if chosen.option.deployed is None]
        pools = [
            self._deployed_pool(chosen.option.deployed, chosen.place, chosen.count)
            for chosen in answer.pools
            if chosen.option.deployed is not None
        ]
        for pool in super().pools(replace(answer, pools=tuple(fresh)), stocks):
            alike = [n for n, other in enumerate(pools) if _stands_for(other) == _stands_for(pool)]
            if alike:
                pools[alike[0]] = replace(pools[alike[0]], count=pools[alike[0]].count + pool.count)
            else:
                pools.append(pool)
        return tuple(pools)

    def _deployed_pool(self, number: int, place: Place, count: int) -> BucketPool:
        ranges, (phase, bucket) = self.question.workload.ranges, place
        first, after = self.phases[phase].buckets.intervals[bucket]
        pool = replace(
            self.deployed[number].pool,
            count=count,
            start=ranges[first].start,
            end=ranges[after - 1].end,
            capacity_rps=float(self.rates(number).capped[0, bucket]),
            full_rps=float(self.rates(number).full[0, bucket]),
            late_share=self._late_share(phase, bucket),
            share=1.0,
            island="",
        )
        return running_with(pool, self.deployed[number].context, self._scenario)

    def best_per_gpu(self, gpu: str, phase: Phase, column: Column) -> np.ndarray:
        """As of any prices; servers that run count where none of their shape may be started."""
        best, offered = super().best_per_gpu(gpu, phase, column), set(self.shapes(gpu, phase))
        for group in self.deployed:
            pool = group.pool
            if (pool.gpu, pool.phase) == (gpu, phase) and pool.server.parallel not in offered:
                full = self._full_rates(pool) / pool.server.parallel.devices
                best = np.maximum(best, full)
        return best

    def _full_rates(self, pool: BucketPool) -> np.ndarray:
        half, batch = self.phases[pool.phase], pool.server.batch_size
        servers = servers_of(self.question, pool, half.buckets)
        if isinstance(servers, PrefillServers):
            return np.asarray(servers.full_rps(half.buckets)[0])
        if isinstance(servers, DecodeServers):
            return np.asarray(servers.batches(half.buckets, half.levels, batch)[1][0])
        return np.asarray(servers.full_rps(half.buckets, half.levels, batch)[1][0])

    def shapes(self, gpu: str, phase: Phase, drafted: int | None = None) -> list[ParallelConfig]:
        """As of any prices; of those that run alone, where servers only turn."""
        every = super().shapes(gpu, phase, drafted)
        if not self._turns_only:
            return every
        running = {group.pool.server.parallel for group in self.deployed if group.pool.gpu == gpu}
        return [shape for shape in every if shape in running]

    def start_usd(self, gpu: str, shape: ParallelConfig) -> float:
        """What starting a server costs, where that counts."""
        return 0.0 if self._start_usd is None else self._start_usd(gpu, shape)

    def pruned(self, options: Sequence[BucketOption]) -> tuple[BucketOption, ...]:
        """Where servers only turn, a shape stands for itself."""
        if not self._turns_only:
            return super().pruned(options)
        shapes = dict.fromkeys(option.shape for option in options)
        return tuple(best for shape in shapes for best in without_dominated(o for o in options if o.shape == shape))


def running_with(pool: BucketPool, context: int, scenario: Scenario) -> BucketPool:
    """A pool whose engines were started for `context` tokens, which is told where its prompts need less."""
    needed = min(pool.end - 1 + scenario.workload.max_output_tokens, scenario.model.max_context)
    return replace(pool, context=context if context > needed else 0)


def _stands_for(pool: BucketPool) -> tuple[object, ...]:
    """What tells pools apart but for their counts and the context of their engines."""
    return pool.gpu, pool.phase, pool.server, pool.start, pool.end


def shape_number(shape: ParallelConfig) -> int:
    """A number for a shape, the same in every process."""
    return hash_of(ServerConfig(parallel=shape))
