"""What every deployable server does of every bucket that a plan may have: prices of the programme.

| symbol | meaning | unit |
|---|---|---|
| m | share of all requests that may miss the bound on TTFT | 1 |
| X | full rate of all servers of a bucket together: lambda P(B) over the share of it that is used | requests/s |

X must be known before the servers are. lambda is what no pools exceed where nothing waits; with the caps that follow
from it no pools exceed less, which is lambda for the next pass: caps are too high by little, so the bound remains one.
"""

import copy
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import product

import numpy as np

from planner.assignment import (
    BucketAnswer,
    BucketOffer,
    BucketOption,
    Halves,
    Partition,
    Place,
    relaxed_values,
    undominated,
)
from planner.cost import CostContext
from planner.cost.engine_rules import may_overlap, prefill_budgets, refusals
from planner.cost.serving import HALVINGS, Arrivals, every_size, node_sizes, server_shapes
from planner.domain import (
    PHASES,
    BucketPool,
    CostSource,
    GpuSpec,
    ObjectiveKind,
    ObjectiveSettings,
    ParallelConfig,
    Phase,
    Question,
    Scenario,
    ServerConfig,
    ServingForm,
    SizeSet,
)
from planner.domain.stocks import Stock, inventory_stocks
from planner.evaluation.buckets.columns import Column, decode_column, hash_of, mixed_column, of_types, prefill_column
from planner.evaluation.buckets.partitions import bucket_space
from planner.evaluation.buckets.service import BucketService
from planner.evaluation.buckets.transfer import families_of, uplinks_of

ROOM = 1.02  # X is above what the relaxation serves: whole servers serve more, and a bound must not count on too few
LESS_ROOM = 1.01  # above a bound of whole servers
PASSES = 3
ROUGHLY = 9  # halvings: to 0.2 % of the full rate
RESTS = 0.005
WORTH_PRICING = 0.002  # of X: less changes caps by next to nothing
_UNLIMITED = 10_000_000  # GPUs of a type
FAR = 4.0  # times the target, without queues: the inventory serves the target with them, too, so its most matters not
SHORTLIST = 4  # partitions that a searched layout is judged by, beside that of single buckets


class BucketPrices:
    """Prices of one question. `most_buckets`: buckets of a phase; `edges`: lengths that may be cut at, too (tokens)."""

    def __init__(self, question: Question, most_buckets: int | None = None, edges: Collection[int] = ()) -> None:
        self.question = question
        self.most = question.scenario.most_buckets if most_buckets is None else most_buckets
        self.space = bucket_space(question, self.most, edges)
        self.phases = self.space.phases
        self._further_edges = edges
        self._columns: dict[tuple[str, Phase], Column] = {}
        self._left: dict[tuple[str, Phase], Column] = {}
        self._full: dict[tuple[str, Phase], Column] = {}
        self._most_rps = math.inf
        self._surely = False
        self.service = BucketService(question)

    def below(self, bound_rps: float) -> "BucketPrices | None":
        """The same servers priced for less: no pools serve more than this. None where that changes next to nothing."""
        bounded = self.phases[Phase.PREFILL].levels.bounds_ttft
        if not bounded or LESS_ROOM * bound_rps >= self.served_rps * (1 - WORTH_PRICING):
            return None
        return self.priced_for(LESS_ROOM * bound_rps)

    def priced_for(self, most_rps: float) -> "BucketPrices":
        """The same servers, their queues priced for so much of the whole (requests/s)."""
        other = copy.copy(self)
        other._columns, other._left, other._most_rps = {}, {}, most_rps
        for cached in {"served_rps", "shortlist", "aggregated"} & vars(other).keys():
            del vars(other)[cached]
        return other

    def divisible(self, served_rps: float | None = None) -> BucketOffer:
        """The best rate of each GPU on each bucket; to 0.2 % where so much is served (inf: as if nothing waited)."""
        if served_rps is None:
            return self._divisible(self.column)
        if math.isinf(served_rps) or not self.phases[Phase.PREFILL].levels.bounds_ttft:
            return self._divisible(self._full_column)
        return self._divisible(partial(self._capped, served_rps=served_rps, halvings=ROUGHLY))

    @property
    def surely(self) -> "BucketPrices | None":
        """The same where what crosses uplinks must fit however servers are paired; None where it does, or has none."""
        network = self._scenario.network
        if self._surely or network is None or not network.switch_gb_s:
            return None
        other = copy.copy(self)
        other._surely = True
        return other

    @property
    def _scenario(self) -> Scenario:
        return self.question.scenario

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """What the scenario's lengths may be cut into, fewest buckets first."""
        return self.space.partitions

    @cached_property
    def aggregated(self) -> "BucketPrices":
        """Prices of aggregated pools alone, where pools may have both forms: X is what these serve without others."""
        scenario = replace(self._scenario, serving=ServingForm.AGGREGATED)
        alone = BucketPrices(replace(self.question, scenario=scenario), self.most, self._further_edges)
        alone._full = self._full  # the buckets are the same, and so are the servers
        alone.service = self.service.of_counts(alone.question)
        return alone

    @cached_property
    def served_rps(self) -> float:
        """Rate of the whole that no pools of the inventory exceed, nor of a budget: what X is taken from.

        Where a target is far below what the inventory serves, nothing tighter than the target is needed.
        """
        if math.isfinite(self._most_rps):
            return self._most_rps
        objective = self._scenario.objective
        bound = ROOM * self._relaxed_rps(self._full_column)
        if objective.minimises and bound >= FAR * objective.target_rps:
            return ROOM * objective.target_rps
        if not self.phases[Phase.PREFILL].levels.bounds_ttft:
            return bound
        for _ in range(PASSES):
            before = bound
            bound = min(bound, ROOM * self._relaxed_rps(partial(self._capped, served_rps=before, halvings=ROUGHLY)))
            if bound >= before * (1 - RESTS):
                break
        return min(bound, ROOM * objective.target_rps) if objective.minimises else bound

    def _relaxed_rps(self, column_of: Callable[[str, Phase], Column]) -> float:
        """The most of any partition where servers are divisible, for the budget where there is one; a rate too low for
        any plan where none serves."""
        objective = self._scenario.objective
        offer = self._divisible(column_of)
        most_of = objective if objective.kind.row.budgeted else ObjectiveSettings()
        values = relaxed_values(offer, self.partitions, most_of, self._scenario.assignment)
        return max(values.values(), default=1.0)

    def least_rent(self, target_rps: float) -> float | None:
        """USD/hour below which no number of these GPUs serves so much, as if nothing waited; None: none does."""
        offer = self.divisible(math.inf)
        objective = ObjectiveSettings(kind=ObjectiveKind.TARGET, target_rps=target_rps)
        unlimited = replace(offer, counts=(_UNLIMITED,) * len(offer.counts))
        values = relaxed_values(unlimited, self.partitions, objective, self._scenario.assignment)
        return min(values.values(), default=None)

    def _divisible(self, column_of: Callable[[str, Phase], Column]) -> BucketOffer:
        """The best rate of each GPU on each bucket, as if servers could be divided."""
        inventory = self._scenario.inventory
        stocks = inventory_stocks(inventory, [item.rent_usd_per_gpu_hour for item in inventory.items])
        options: dict[Place, tuple[BucketOption, ...]] = {}
        for phase in self.space.serving:
            best = np.array([self.best_per_gpu(stock.gpu, phase, column_of(stock.gpu, phase)) for stock in stocks])
            for bucket, rates in enumerate(best.T):
                options[phase, bucket] = tuple(
                    BucketOption(stock=t, use=1, server=0, kind=0, rate_rps=float(rate))
                    for t, rate in enumerate(rates)
                    if rate > 0
                )
        return BucketOffer(
            counts=tuple(stock.units for stock in stocks),
            charges=tuple(stock.charge for stock in stocks),
            options=options,
            probabilities={
                (p, n): float(c) for p in PHASES for n, c in enumerate(self.phases[p].buckets.probabilities)
            },
            halves=self._halves,
        )

    def best_per_gpu(self, _gpu: str, _phase: Phase, column: Column) -> np.ndarray:
        """The best rate of one GPU of a type on each bucket, of any server."""
        return column.best_per_gpu()

    @cached_property
    def shortlist(self) -> tuple[Partition, ...]:
        """The partitions that a searched layout is judged by: no bucketing, and the best of the inventory's own."""
        stocks, simplest = inventory_stocks(self._scenario.inventory), self.partitions[0]
        values = relaxed_values(
            self.offer(stocks, self.partitions), self.partitions, ObjectiveSettings(), self._scenario.assignment
        )
        best = sorted(values, key=lambda partition: -values[partition])
        return tuple(dict.fromkeys((simplest, *best[:SHORTLIST])))

    @cached_property
    def families(self) -> tuple[frozenset[str], ...]:
        """GPU types that hand KV caches to each other under the engine; a plan's pools are all of one family."""
        return families_of(self._scenario)

    def offers(self, stocks: Sequence[Stock], partitions: Sequence[Partition]) -> tuple[BucketOffer, ...]:
        """What the programme may choose from, one offer for each family that the stocks have anything of."""
        families = [family for family in self.families if any(stock.gpu in family for stock in stocks)]
        every = self.offer(stocks, partitions)
        return tuple(offer for family in families for offer in of_types(every, stocks, family).by_drafts())

    def offer(self, stocks: Sequence[Stock], partitions: Iterable[Partition]) -> BucketOffer:
        """What the programme may choose from: servers of `stocks` on the buckets of `partitions`."""
        chosen = {(phase, bucket) for partition in partitions for phase in Phase for bucket in partition.of(phase)}
        places = sorted(chosen)
        kinds = product(dict.fromkeys(stock.gpu for stock in stocks), self.space.serving)
        columns = {(gpu, phase): (self.column(gpu, phase), self.column_left(gpu, phase)) for gpu, phase in kinds}
        return BucketOffer(
            counts=tuple(stock.units for stock in stocks),
            charges=tuple(stock.charge for stock in stocks),
            options={
                place: tuple(
                    option for t, stock in enumerate(stocks) for option in self._options(t, stock, place, columns)
                )
                for place in places
            },
            probabilities={(p, n): float(self.phases[p].buckets.probabilities[n]) for p, n in places},
            halves=self._halves,
            survive=self._scenario.survive.share,
            lost_nodes=self._scenario.survive.nodes,
            uplinks=uplinks_of(self.question, self.phases, stocks, surely=self._surely),
        )

    @cached_property
    def _halves(self) -> dict[Place, Halves]:
        return {(Phase.MIXED, bucket): halves for bucket, halves in self.space.halves.items()}

    def _options(
        self, t: int, stock: Stock, place: tuple[Phase, int], columns: Mapping[tuple[str, Phase], tuple[Column, Column]]
    ) -> tuple[BucketOption, ...]:
        phase, bucket = place
        if phase not in self.space.serving:
            return ()
        column, after = columns[stock.gpu, phase]
        rates, after_loss = column.capped[:, bucket], after.capped[:, bucket]
        options, host = [], self._scenario.inventory.item(stock.gpu).gpu.gpus_per_host
        for row in dict.fromkeys((*column.fastest(bucket), *column.fastest(bucket, after_loss))):
            config = column.config(row, bucket)
            devices = config.parallel.devices
            if stock.unit > 1 and stock.unit % devices:
                continue
            copies = stock.unit // devices if stock.unit > 1 else 1
            options.append(
                BucketOption(
                    stock=t,
                    use=1 if stock.unit > 1 else devices,
                    server=row,
                    kind=hash_of(config, mixed=phase is Phase.MIXED),
                    rate_rps=float(rates[row]) * copies,
                    left_rps=float(after_loss[row]) * copies if self._scenario.survive.share else None,
                    nodes=stock.nodes_for(devices * copies, host),
                    shared=devices * copies < host,
                    shape=hash_of(ServerConfig(parallel=config.parallel)),
                    start_usd=self.start_usd(stock.gpu, config.parallel),
                    drafts=column.drafts(row) if phase is Phase.DECODE else None,
                )
            )
        return self.pruned(options)

    def start_usd(self, _gpu: str, _shape: ParallelConfig) -> float:
        """What starting a server counts in an objective: nothing, where nothing runs yet."""
        return 0.0

    def pruned(self, options: Sequence[BucketOption]) -> tuple[BucketOption, ...]:
        """What is offered of the servers of a stock for a bucket."""
        return undominated(options)

    def column(self, gpu: str, phase: Phase) -> Column:
        """Rates of a GPU type in a phase, computed at most once."""
        if (gpu, phase) not in self._columns:
            self._columns[gpu, phase] = self._capped(gpu, phase, self.served_rps)
        return self._columns[gpu, phase]

    def column_left(self, gpu: str, phase: Phase) -> Column:
        """The same servers where a loss leaves no more to serve than must survive it."""
        if not (share := self._scenario.survive.share):
            return self.column(gpu, phase)
        if (gpu, phase) not in self._left:
            self._left[gpu, phase] = self._capped(gpu, phase, share * self.served_rps)
        return self._left[gpu, phase]

    def _capped(self, gpu: str, phase: Phase, served_rps: float, halvings: int = HALVINGS) -> Column:
        """Rates within the levels where so much of the whole is served."""
        of_phase = self.phases[phase]
        levels = replace(of_phase.levels, first_ms=self.least_step_ms) if phase is Phase.PREFILL else of_phase.levels
        arrivals = Arrivals.of(self._scenario.router.layers(phase))
        served = served_rps * of_phase.buckets.probabilities
        return self._full_column(gpu, phase).within(of_phase.buckets, levels, served, arrivals, halvings)

    @cached_property
    def least_step_ms(self) -> float:
        """No decode step of any server is shorter: what the first one takes of a TTFT at least."""
        return min(self._full_column(i.gpu.name, Phase.DECODE).least_step_ms for i in self._scenario.inventory.items)

    def _full_column(self, gpu: str, phase: Phase) -> Column:
        if (gpu, phase) not in self._full:
            choices = (None,) if phase is Phase.PREFILL else self._scenario.cost.drafting.choices
            self._full[gpu, phase] = Column.joined([self._priced(gpu, phase, drafted) for drafted in choices])
        return self._full[gpu, phase]

    def context(self, gpu: str, drafted: int | None = None) -> CostContext:
        """The model on a GPU type; `drafted`: by servers that chose to."""
        scenario, settings = self._scenario, self._scenario.cost.with_drafted(drafted)
        item = scenario.inventory.item(gpu)
        return CostContext(gpu=item.gpu, model=scenario.model, settings=settings, network=scenario.network)

    def shapes(self, gpu: str, phase: Phase, drafted: int | None = None) -> list[ParallelConfig]:
        """Copies of the model that the engine accepts on parts of a node, and on whole nodes. Mixed servers: what it
        accepts in both phases, without pipeline stages."""
        context, engine = self.context(gpu, drafted), self._scenario.engine
        if phase is not Phase.MIXED:
            sizes = self.sizes(context.gpu)
            return server_shapes(context, sizes, lambda shape: not refusals(context, phase, shape, engine))
        both = [self.shapes(gpu, half, drafted) for half in PHASES]
        return [shape for shape in both[0] if shape in both[1] and shape.pp == 1]

    def _priced(self, gpu: str, phase: Phase, drafted: int | None) -> Column:
        cuts, shapes, context = self.phases[phase], self.shapes(gpu, phase, drafted), self.context(gpu)
        engine, longest = self._scenario.engine, self.question.workload.max_output_tokens
        if phase is Phase.MIXED:
            options = [(shape, budget) for shape in shapes for budget in self.budgets()]
            return mixed_column(context, engine, options, cuts.buckets, cuts.levels, longest, drafted)
        ways = [(shape, flag) for shape in shapes for flag in self._ways(gpu, phase, shape, drafted)]
        if phase is Phase.PREFILL:
            chunked = [(shape, budget, overlapped) for shape, overlapped in ways for budget in self.budgets()]
            return prefill_column(context, chunked, cuts.buckets)
        return decode_column(context, engine, ways, cuts.buckets, cuts.levels, longest, drafted)

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

    def _ways(self, gpu: str, phase: Phase, shape: ParallelConfig, drafted: int | None) -> tuple[bool, ...]:
        """Whether servers of a shape hide their communication: either way where they may; as a profile was measured."""
        may, measured = self.may_overlap(gpu, phase, shape, drafted), self._scenario.cost.source is CostSource.TABULATED
        return (may,) if measured or not may else (False, True)

    def may_overlap(self, gpu: str, phase: Phase, shape: ParallelConfig, drafted: int | None = None) -> bool:
        """Whether a server of the shape may hide its communication."""
        context = self.context(gpu, drafted)
        return context.settings.two_micro_batches and may_overlap(context, phase, shape, self._scenario.engine)

    def budgets(self) -> tuple[int, ...]:
        """Token budgets of a rank and prefill step: the engine's, up to what the scenario allows, and that."""
        largest = self._scenario.cost.max_tokens_per_step
        return (*(budget for budget in prefill_budgets(self._scenario.engine) if budget < largest), largest)

    def pools(self, answer: BucketAnswer, stocks: Sequence[Stock]) -> tuple[BucketPool, ...]:
        """The pools of an answer, as the programme priced them."""
        pools = []
        for chosen in answer.pools:
            stock, (phase, bucket) = stocks[chosen.option.stock], chosen.place
            pool = self.pool(stock.gpu, phase, bucket, chosen.option.server, chosen.count)
            copies = stock.unit // pool.server.parallel.devices if stock.unit > 1 else 1
            pools.append(replace(pool, count=pool.count * copies))
        return tuple(pools)

    def pool(self, gpu: str, phase: Phase, bucket: int, row: int, count: int) -> BucketPool:
        """`count` servers of a row behind a bucket."""
        ranges, column = self.question.workload.ranges, self.column(gpu, phase)
        first, after = self.phases[phase].buckets.intervals[bucket]
        return BucketPool(
            gpu=gpu,
            phase=phase,
            server=column.config(row, bucket),
            count=count,
            start=ranges[first].start,
            end=ranges[after - 1].end,
            capacity_rps=float(column.capped[row, bucket]),
            full_rps=float(column.full[row, bucket]),
            late_share=self._late_share(phase, bucket),
        )

    def _late_share(self, phase: Phase, bucket: int) -> float | None:
        levels = self.phases[phase].levels
        return None if levels.misses is None else float(levels.misses[bucket])
