"""What every deployable server does of every bucket that a plan may have: prices of the programme of buckets.

Cut points are quantiles of work (prompt tokens of prefill, cached tokens of decode), so that every bucket between two
of them has something to do. Under a percentile that counts over all requests, a partition has two ways to part what may
miss the bound: evenly, or half of an even share for all buckets but that of the longest prompts, which gets the rest.

| symbol | meaning | unit |
|---|---|---|
| m | share of all requests that may miss the bound on TTFT | 1 |
| X | full rate of all servers of a bucket together: lambda P(B), lambda of the relaxation without queues | requests/s |
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np

from planner.assignment import BucketAnswer, BucketOffer, BucketOption, Partition, relaxed_values, undominated
from planner.cost import CostContext
from planner.cost.engine_rules import greatest_batch, kv_backends, may_overlap, prefill_budgets, refusals
from planner.cost.serving import (
    Buckets,
    DecodeServers,
    Interval,
    Levels,
    PrefillServers,
    every_size,
    node_sizes,
    server_shapes,
)
from planner.domain import (
    BucketPool,
    GpuSpec,
    Inventory,
    Layout,
    ObjectiveSettings,
    ParallelConfig,
    Phase,
    Question,
    Scenario,
    ServerConfig,
    SizeSet,
    SloScope,
    SloSettings,
)

PREFILL_CUTS = 10  # more gain less than 0.2 % on the shipped workloads
DECODE_CUTS = 3
ROOM = 1.25  # X is above what the relaxation serves: no pool is full, and a bound must not count on too few
SHORTLIST = 4  # partitions that a searched layout is judged by, beside that of single buckets


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """Units that servers are made of: GPUs of a type (`size` 1), or islands of one class (`size` GPUs each)."""

    gpu: str
    count: int
    size: int = 1
    charge: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBuckets:
    """Buckets that a phase may have: `intervals` of ranges, with the share of their requests that may miss."""

    buckets: Buckets
    levels: Levels
    partitions: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Rates of one GPU type in one phase, by server and bucket: within the levels and without queues (requests/s)."""

    servers: PrefillServers | DecodeServers | None
    batches: np.ndarray | None
    capped: np.ndarray
    full: np.ndarray

    def config(self, row: int, bucket: int) -> ServerConfig:
        """The server of a row, started for a bucket."""
        if isinstance(self.servers, PrefillServers):
            return self.servers.configs[row]
        assert isinstance(self.servers, DecodeServers), "a row is of servers"
        assert self.batches is not None, "decode has batches"
        return self.servers.config(row, int(self.batches[row, bucket]))


class BucketPrices:
    """Prices of one question. `most`: buckets of a phase."""

    def __init__(self, question: Question, most: int | None = None) -> None:
        self.question = question
        self.most = question.scenario.routing.most if most is None else most
        self.phases = {phase: _phase_buckets(question, phase, self.most) for phase in Phase}
        self._columns: dict[tuple[str, Phase], Column] = {}

    @property
    def _scenario(self) -> Scenario:
        return self.question.scenario

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        """Every pair of a prefill and a decode partition, fewest buckets first."""
        pairs = (
            (prefill, decode)
            for prefill in self.phases[Phase.PREFILL].partitions
            for decode in self.phases[Phase.DECODE].partitions
        )
        return tuple(sorted(pairs, key=lambda pair: len(pair[0]) + len(pair[1])))

    @cached_property
    def together_rps(self) -> float:
        """Rate of the whole that the inventory cannot exceed where nothing waits: what X is taken from."""
        stocks = inventory_stocks(self._scenario.inventory)
        whole: Partition = (self.phases[Phase.PREFILL].partitions[0], self.phases[Phase.DECODE].partitions[0])
        offer = self._offer(stocks, [whole], full=True)
        values = relaxed_values(offer, [whole], ObjectiveSettings(), self._scenario.assignment)
        return ROOM * max(values.values(), default=1.0)

    @cached_property
    def shortlist(self) -> tuple[Partition, ...]:
        """The partitions that a searched layout is judged by: no bucketing, and the best of the inventory's own."""
        stocks, simplest = inventory_stocks(self._scenario.inventory), self.partitions[0]
        values = relaxed_values(
            self.offer(stocks, self.partitions), self.partitions, ObjectiveSettings(), self._scenario.assignment
        )
        best = sorted(values, key=lambda partition: -values[partition])
        return tuple(dict.fromkeys((simplest, *best[:SHORTLIST])))

    def unserved(self) -> bool:
        """Whether nothing of the inventory serves every bucket of even one partition."""
        stocks = inventory_stocks(self._scenario.inventory)
        return not relaxed_values(
            self.offer(stocks, self.partitions[:1]), self.partitions[:1], ObjectiveSettings(), self._scenario.assignment
        )

    @cached_property
    def families(self) -> tuple[frozenset[str], ...]:
        """GPU types that hand KV caches to each other under the engine; a plan's pools are all of one family."""
        engine, families = self._scenario.engine, list[frozenset[str]]()
        gpus = {item.gpu.name: item.gpu for item in self._scenario.inventory.items if item.count}
        for name, gpu in gpus.items():
            joined = [f for f in families if any(kv_backends(engine, gpu, gpus[other]) != () for other in f)]
            families = [f for f in families if f not in joined]
            families.append(frozenset({name}).union(*joined))
        return tuple(sorted(families, key=sorted))

    def offers(self, stocks: Sequence[Stock], partitions: Sequence[Partition]) -> tuple[BucketOffer, ...]:
        """What the programme may choose from, one offer for each family that the stocks have anything of."""
        gpus = {stock.gpu for stock in stocks}
        return tuple(self.offer(stocks, partitions, family) for family in self.families if gpus & family)

    def offer(
        self, stocks: Sequence[Stock], partitions: Iterable[Partition], family: frozenset[str] | None = None
    ) -> BucketOffer:
        """What the programme may choose from: servers of `stocks`, or of a family, on the buckets of `partitions`."""
        whole = self._offer(stocks, partitions, full=False)
        if family is None:
            return whole
        kept = {t for t, stock in enumerate(stocks) if stock.gpu in family}
        options = {place: tuple(o for o in mine if o.stock in kept) for place, mine in whole.options.items()}
        return replace(whole, options=options)

    def _offer(self, stocks: Sequence[Stock], partitions: Iterable[Partition], *, full: bool) -> BucketOffer:
        places = {
            (phase, bucket)
            for pair in partitions
            for phase, chosen in zip(Phase, pair, strict=True)
            for bucket in chosen
        }
        return BucketOffer(
            counts=tuple(stock.count for stock in stocks),
            charges=tuple(stock.charge for stock in stocks),
            options={
                place: tuple(
                    option for t, stock in enumerate(stocks) for option in self._options(t, stock, *place, full=full)
                )
                for place in sorted(places)
            },
            probabilities={
                (phase, bucket): float(self.phases[phase].buckets.probabilities[bucket]) for phase, bucket in places
            },
            survive=self._scenario.survive.share,
        )

    def _options(self, t: int, stock: Stock, phase: Phase, bucket: int, *, full: bool) -> tuple[BucketOption, ...]:
        column = self._full_column(stock.gpu, phase) if full else self.column(stock.gpu, phase)
        rates = (column.full if full else column.capped)[:, bucket]
        host = self._scenario.inventory.item(stock.gpu).gpu.gpus_per_host
        options = []
        for row in np.flatnonzero(rates > 0).tolist():
            config = column.config(row, bucket)
            devices = config.parallel.devices
            if stock.size > 1 and stock.size % devices:
                continue
            copies = stock.size // devices if stock.size > 1 else 1
            options.append(
                BucketOption(
                    stock=t,
                    use=1 if stock.size > 1 else devices,
                    server=row,
                    kind=hash_of(config),
                    rate_rps=float(rates[row]) * copies,
                    lost=self._scenario.survive.nodes * max(1, host // (devices * copies)),
                )
            )
        return undominated(options)

    def column(self, gpu: str, phase: Phase) -> Column:
        """Rates of a GPU type in a phase, computed at most once."""
        if (gpu, phase) not in self._columns:
            self._columns[gpu, phase] = self._capped(self._full_column(gpu, phase), phase)
        return self._columns[gpu, phase]

    def _capped(self, column: Column, phase: Phase) -> Column:
        mine = self.phases[phase]
        together = self.together_rps * mine.buckets.probabilities
        if isinstance(column.servers, PrefillServers):
            return replace(column, capped=column.servers.capped_rps(mine.buckets, mine.levels, together))
        if column.servers is None:
            return column
        batches, capped, full = column.servers.capped_rps(mine.buckets, mine.levels, together)
        return replace(column, batches=batches, capped=capped, full=full)

    def _full_column(self, gpu: str, phase: Phase) -> Column:
        key = (gpu, phase)
        if key not in self._full:
            self._full[key] = self._priced(gpu, phase)
        return self._full[key]

    @cached_property
    def _full(self) -> dict[tuple[str, Phase], Column]:
        return {}

    def context(self, gpu: str) -> CostContext:
        """The model on a GPU type."""
        scenario = self._scenario
        return CostContext(gpu=scenario.inventory.item(gpu).gpu, model=scenario.model, settings=scenario.cost)

    def shapes(self, gpu: str, phase: Phase) -> list[ParallelConfig]:
        """Copies of the model that the engine accepts on parts of a node, and on whole nodes."""
        context, engine = self.context(gpu), self._scenario.engine
        return server_shapes(
            context, self.sizes(context.gpu), lambda shape: not refusals(context, phase, shape, engine)
        )

    def _priced(self, gpu: str, phase: Phase) -> Column:
        context, mine, engine = self.context(gpu), self.phases[phase], self._scenario.engine
        ways = [
            (shape, overlapped)
            for shape in self.shapes(gpu, phase)
            for overlapped in (False, True)
            if not overlapped or self.may_overlap(gpu, phase, shape)
        ]
        nothing = np.zeros((0, len(mine.buckets.intervals)))
        if not ways:
            return Column(servers=None, batches=None, capped=nothing, full=nothing)
        if phase is Phase.PREFILL:
            options = [(shape, budget, overlapped) for shape, overlapped in ways for budget in self.budgets()]
            prefill = PrefillServers.of(context, options, mine.buckets)
            full = prefill.full_rps(mine.buckets)
            return Column(servers=prefill, batches=None, capped=full, full=full)
        most = [greatest_batch(context, phase, shape, engine) for shape, _ in ways]
        decode = DecodeServers.of(context, ways, mine.buckets, self.question.workload.max_output_tokens, most)
        batches, full = decode.batches(mine.buckets, mine.levels)
        return Column(servers=decode, batches=batches, capped=full, full=full)

    def sizes(self, gpu: GpuSpec) -> Iterator[int]:
        """GPUs of a copy that the scenario admits."""
        sizes, count = self._scenario.search.sizes, self._scenario.inventory.item(gpu.name).count
        if isinstance(sizes, tuple):
            yield from (size for size in sizes if size <= count)
        elif sizes is SizeSet.WHOLE_NODES:
            yield from node_sizes(gpu, count)
        else:
            every = sizes is SizeSet.ALL
            yield from (size for size in every_size(gpu, count) if every or size & (size - 1) == 0)

    def may_overlap(self, gpu: str, phase: Phase, shape: ParallelConfig) -> bool:
        """Whether a server of the shape may hide its communication."""
        allowed = self._scenario.cost.two_micro_batches
        return allowed and may_overlap(self.context(gpu), phase, shape, self._scenario.engine)

    def budgets(self) -> tuple[int, ...]:
        """Token budgets of a rank and prefill step: the engine's, up to what the scenario allows, and that."""
        most = self._scenario.cost.max_tokens_per_step
        return (*(budget for budget in prefill_budgets(self._scenario.engine) if budget < most), most)

    def pools(self, answer: BucketAnswer, stocks: Sequence[Stock]) -> tuple[BucketPool, ...]:
        """The pools of an answer, as the programme priced them."""
        ranges = self.question.workload.ranges
        pools = []
        for chosen in answer.pools:
            phase, bucket = chosen.place
            stock, row = stocks[chosen.option.stock], chosen.option.server
            column = self.column(stock.gpu, phase)
            config = column.config(row, bucket)
            first, after = self.phases[phase].buckets.intervals[bucket]
            copies = stock.size // config.parallel.devices if stock.size > 1 else 1
            pools.append(
                BucketPool(
                    gpu=stock.gpu,
                    phase=phase,
                    server=config,
                    count=chosen.count * copies,
                    start=ranges[first].start,
                    end=ranges[after - 1].end,
                    capacity_rps=float(column.capped[row, bucket]),
                    full_rps=float(column.full[row, bucket]),
                    late_share=self._late_share(phase, bucket),
                )
            )
        return tuple(pools)

    def _late_share(self, phase: Phase, bucket: int) -> float | None:
        levels = self.phases[phase].levels
        return None if levels.misses is None else float(levels.misses[bucket])


def hash_of(config: ServerConfig) -> int:
    """A number for a configuration, the same in every process."""
    shape = config.parallel
    digits = (shape.tp, shape.dp, shape.pp, config.tokens_per_step, config.batch_size, int(config.overlapped))
    number = 0
    for digit in digits:
        number = number * 100_003 + digit
    return number


def inventory_stocks(inventory: Inventory, charges: Sequence[float] = ()) -> tuple[Stock, ...]:
    """Every GPU type with all its GPUs."""
    paid = charges or (0.0,) * len(inventory.items)
    return tuple(
        Stock(gpu=item.gpu.name, count=item.count, charge=charge)
        for item, charge in zip(inventory.items, paid, strict=True)
        if item.count
    )


def island_stocks(layout: Layout) -> tuple[Stock, ...]:
    """Every class of islands with its islands."""
    return tuple(Stock(gpu=island.gpu, count=count, size=island.size) for island, count in layout.counts)


def _phase_buckets(question: Question, phase: Phase, most: int) -> PhaseBuckets:
    workload, slo = question.workload, question.scenario.slo
    rate = question.scenario.cost.kv_cache_rate
    cuts = _cut_points(question, phase, PREFILL_CUTS if phase is Phase.PREFILL else DECODE_CUTS) if most > 1 else []
    n = len(workload.ranges)
    edges = [(0, *inner, n) for count in range(min(most, len(cuts) + 1)) for inner in combinations(cuts, count)]
    rows: dict[tuple[Interval, float], int] = {}
    partitions: list[tuple[int, ...]] = []
    chances = np.array([span.probability for span in workload.ranges])
    for ends in edges:
        intervals = list(pairwise(ends))
        for misses in _ways_to_miss(slo, phase, [float(chances[a:b].sum()) for a, b in intervals]):
            partitions.append(tuple(rows.setdefault(key, len(rows)) for key in zip(intervals, misses, strict=True)))
    buckets = Buckets.of(workload, [interval for interval, _ in rows], rate)
    levels = Levels.of(slo, workload, np.array([share for _, share in rows]))
    return PhaseBuckets(buckets=buckets, levels=levels, partitions=tuple(partitions))


def _ways_to_miss(slo: SloSettings, phase: Phase, chances: Sequence[float]) -> Iterator[tuple[float, ...]]:
    """Shares of each bucket's requests that may miss: evenly, or the longest prompts more than the others."""
    missed = 0.0 if slo.percentile is None else 1 - slo.percentile / 100
    yield (missed,) * len(chances)
    uneven = slo.scope is SloScope.OVERALL and slo.percentile is not None and phase is Phase.PREFILL
    bounded = slo.ttft_ms is not None or any(limits.ttft_ms is not None for limits in slo.ranges)
    if uneven and bounded and len(chances) > 1:
        last = (missed - missed / 2 * (1 - chances[-1])) / chances[-1]
        yield (*((missed / 2,) * (len(chances) - 1)), min(last, 1.0))


def _cut_points(question: Question, phase: Phase, count: int) -> list[int]:
    """Starts of ranges at quantiles of work, and at every prompt length where a bound changes."""
    spans = question.workload.ranges
    answers = [span.mean_output_tokens or question.workload.mean_output_tokens for span in spans]
    if phase is Phase.PREFILL:
        work = np.array([span.probability * max(1.0, span.mean_input_tokens) for span in spans])
    else:
        work = np.array([s.probability * n * (s.mean_input_tokens + n) for s, n in zip(spans, answers, strict=True)])
    done = np.cumsum(work) / work.sum()
    marks = [(k + 1) / (count + 1) for k in range(count)]
    cuts = {int(np.searchsorted(done, mark)) + 1 for mark in marks}
    return sorted(cut for cut in cuts if 0 < cut < len(spans))
