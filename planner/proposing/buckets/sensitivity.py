"""What binds a plan of buckets and what would change it: its buckets planned anew, and prices of their relaxation.

With a node more or less a small fleet is planned anew, whatever its buckets and form become. Of a larger one the best
pools behind the plan's buckets are solved for: servers are chosen anew, buckets and form stay. What limits a phase and
what a range has to spare follows from the relaxation.

| symbol | meaning |
|---|---|
| y[phase, B], w[t] | prices of the relaxation: of capacity on a bucket, of a GPU |
| P(B), lambda | probability of a bucket, best possible rate |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planner.assignment import BucketAnswer, BucketOffer, Partition, RelaxedBuckets, best_pools, relaxed_buckets
from planner.domain import (
    PHASES,
    AssignmentSettings,
    BucketPool,
    GpuWorth,
    ObjectiveSettings,
    Phase,
    PhaseWorth,
    Plan,
    Question,
    Sensitivity,
)
from planner.domain.stocks import Stock, inventory_stocks
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.columns import of_types
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.buckets.service import BucketService
from planner.evaluation.evaluator import Evaluator
from planner.proposing.buckets.pools import solve_buckets
from planner.proposing.certificate import layout_settings
from planner.proposing.sensitivity import FASTER, Balance, drop_first, headrooms

_RATE = ObjectiveSettings()
ROUNDING = 1e-9
SMALL = 24  # GPUs up to which planning anew is cheap: so few may need another form or other buckets for a node more
WORK = 1.5  # of a node more of every type, and as much of a node less: a unit is about a CPU-second


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """The best pools found for other counts of GPUs, and what they serve; none pass `most_rps`, of the same buckets and
    form where the fleet is not small."""

    pools: tuple[BucketPool, ...]
    rate_rps: float
    most_rps: float


class Neighbours:
    """The plan's buckets for other counts of GPUs, or a faster phase: planned anew, or relaxed."""

    def __init__(self, plan: Plan, prices: BucketPrices, settings: AssignmentSettings) -> None:
        self._settings, self._prices = settings, prices
        self.partition = partition_of(plan, prices)
        self.stocks = inventory_stocks(plan.scenario.inventory)
        self.counts = {stock.gpu: plan.fleet[stock.gpu] for stock in self.stocks}
        gpus = {island.gpu for island in plan.islands}
        self._family = next((family for family in prices.families if gpus & family), None)
        # where all pools are aggregated, split ones are no worth of it
        self._aggregated = all(island.phase in (Phase.MIXED, None) for island in plan.islands)
        self.offer = self._offer(self.stocks)

    def _offer(self, stocks: Sequence[Stock]) -> BucketOffer:
        offer = self._prices.offer(stocks, [self.partition])
        offer = offer if self._family is None else of_types(offer, stocks, self._family)
        return offer.of_phases((Phase.MIXED,)) if self._aggregated else offer

    def planned(self, counts: Mapping[str, int]) -> Neighbour:
        """The best pools of so many GPUs, as they serve together: any where these are few, else those behind the plan's
        buckets, within a small limit of work."""
        if sum(counts.values()) <= SMALL:
            return self._anew(counts)
        stocks = tuple(replace(stock, units=counts[stock.gpu]) for stock in self.stocks)
        limits = replace(self._settings, work_limit=min(WORK / len(stocks), self._settings.work_limit))
        offer = self._offer(stocks)
        try:
            answer = best_pools(offer, [self.partition], _RATE, limits)
        except InfeasibleError:
            return Neighbour(pools=(), rate_rps=0.0, most_rps=0.0)
        except SolverError:
            relaxed = self.relaxed(counts)
            return Neighbour(pools=(), rate_rps=0.0, most_rps=0.0 if relaxed is None else relaxed.rate_rps)
        service, pools = self._service(counts), self._prices.pools(answer, stocks)
        # looking at every loss costs several times as much, and is for nothing where none keeps the rate down
        priced = service.priced(pools) if answer.rate_rps < _unbroken_rps(offer, answer) else service.unbroken(pools)
        return Neighbour(pools=priced.pools, rate_rps=priced.rate_rps, most_rps=max(answer.bound, priced.rate_rps))

    def _anew(self, counts: Mapping[str, int]) -> Neighbour:
        """What planning so many GPUs from scratch makes of them."""
        if not any(counts.values()):
            return Neighbour(pools=(), rate_rps=0.0, most_rps=0.0)
        question = self._question(counts)
        try:
            choice = solve_buckets(Evaluator(question))
        except (InfeasibleError, SolverError):
            return Neighbour(pools=(), rate_rps=0.0, most_rps=0.0)
        rate_rps = choice.priced.rate_rps
        return Neighbour(pools=choice.priced.pools, rate_rps=rate_rps, most_rps=max(choice.bound_of_form, rate_rps))

    def _service(self, counts: Mapping[str, int]) -> BucketService:
        """Of the plan's question with so many GPUs."""
        return self._prices.service.of_counts(self._question(counts))

    def _question(self, counts: Mapping[str, int]) -> Question:
        """The plan's question with so many GPUs, all at hand, and the most that they serve wanted of them."""
        question = self._prices.question
        items = tuple(
            replace(item, count=counts.get(item.gpu.name, item.count)) for item in question.scenario.inventory.items
        )
        inventory = replace(question.scenario.inventory, items=tuple(item for item in items if item.count))
        return replace(question, scenario=replace(question.scenario, inventory=inventory, objective=_RATE))

    def relaxed(self, counts: Mapping[str, int], faster: Phase | None = None) -> RelaxedBuckets | None:
        """The relaxation of so many GPUs of each stock, with one phase faster by a tenth; None where nothing serves."""
        offer: BucketOffer = replace(self.offer, counts=tuple(counts[stock.gpu] for stock in self.stocks))
        if faster is not None:
            options = {
                place: tuple(replace(o, rate_rps=o.rate_rps * FASTER) for o in choices)
                if place[0] is faster
                else choices
                for place, choices in offer.options.items()
            }
            offer = replace(offer, options=options)
        return relaxed_buckets(offer, self.partition, _RATE, self._settings)


def _unbroken_rps(offer: BucketOffer, answer: BucketAnswer) -> float:
    """What the pools would serve if nothing had to survive, but for rounding, as the programme counts it."""
    places = [(phase, bucket) for phase in PHASES for bucket in answer.partition.of(phase)]
    rates = (
        sum(pool.count * pool.option.rate_rps for pool in answer.pools if place in offer.served_by(pool.place))
        / offer.probabilities[place]
        for place in places
    )
    return min(rates) * (1 - ROUNDING)


def bucketed_sensitivity(plan: Plan, prices: BucketPrices) -> Sensitivity | None:
    """What would change the plan's rate; GPUs are those that the plan has, rented or given."""
    neighbours = Neighbours(plan, prices, layout_settings(plan.scenario))
    counts = neighbours.counts
    relaxed = neighbours.relaxed(counts)
    if relaxed is None:
        return None
    balance = Balance.of(plan)
    apart = Phase.MIXED not in plan.phases  # one phase alone does not get faster where passes do both
    phases = tuple(_phase_worth(phase, neighbours, counts, relaxed) for phase in PHASES if apart)
    pressed = balance.binding or (max(phases, key=lambda worth: worth.worth_share).phase if phases else None)
    relieved = neighbours.relaxed(counts, pressed) if pressed else None
    tolls = dict(zip((stock.gpu for stock in neighbours.stocks), (relieved or relaxed).toll, strict=True))
    gpus = tuple(_gpu_worth(plan, item.gpu.name, neighbours, counts, relaxed) for item in plan.scenario.inventory.items)

    def worth(phase: Phase, number: int, probability: float) -> float:
        return min(1.0, probability * relaxed.worth[phase, neighbours.partition.of(phase)[number]])

    return Sensitivity(
        bound_rps=relaxed.rate_rps,
        binding=balance.binding,
        headroom=balance.headroom,
        next_rps=balance.next_rps,
        next_gpu=max((g for g in counts if counts[g]), key=lambda gpu: tolls[gpu] * counts[gpu]),
        drop_first=drop_first(gpus),
        gpus=gpus,
        phases=phases,
        ranges=tuple(headrooms(plan, worth)),
    )


def prices_of(plan: Plan, question: Question) -> BucketPrices:
    """Prices of the plan's question; its buckets may be cut where those of a plan before it were."""
    prices = BucketPrices(question)
    if _partition(plan, prices) is not None:
        return prices
    return BucketPrices(question, edges={edge for pool in plan.outlook.pools for edge in (pool.start, pool.end)})


def partition_of(plan: Plan, prices: BucketPrices) -> Partition:
    """The plan's buckets by their numbers."""
    partition = _partition(plan, prices)
    assert partition is not None, "prices know the plan's buckets"
    return partition


def _partition(plan: Plan, prices: BucketPrices) -> Partition | None:
    ranges, phases = prices.question.workload.ranges, prices.phases
    spans = {
        phase: sorted({(route.range_start, route.range_end) for route in plan.routing if route.phase is phase})
        for phase in PHASES
    }

    def cut_so(partition: Partition, phase: Phase) -> bool:
        intervals = phases[phase].intervals(partition.of(phase))
        return [(ranges[a].start, ranges[b - 1].end) for a, b in intervals] == spans[phase]

    return next((p for p in prices.partitions if all(cut_so(p, phase) for phase in PHASES)), None)


def _gpu_worth(
    plan: Plan, gpu: str, neighbours: Neighbours, counts: dict[str, int], relaxed: RelaxedBuckets
) -> GpuWorth:
    item, count = plan.scenario.inventory.item(gpu), plan.fleet[gpu]
    node = item.gpu.gpus_per_host
    lost = min(node, count)
    before_rps = plan.throughput_rps if plan.placement is None else plan.placement.unplaced_rps

    def changes(by: int) -> tuple[float, float]:
        """By what the best plan found with `by` more GPUs serves more than this one, and by how much any may."""
        if gpu not in counts or not by:
            return 0.0, 0.0
        neighbour = neighbours.planned(counts | {gpu: count + by})
        return neighbour.rate_rps - before_rps, neighbour.most_rps - before_rps

    more, less = changes(node), changes(-lost)
    tolls = dict(zip((stock.gpu for stock in neighbours.stocks), relaxed.toll, strict=True))
    return GpuWorth(
        gpu=gpu,
        gpus_per_node=node,
        gpus_lost=lost,
        price_usd_per_gpu_hour=item.rent_usd_per_gpu_hour,
        dual_rps=tolls.get(gpu, 0.0),
        more_node_rps=max(0.0, more[0]),  # the plan's own pools are among those of more GPUs
        more_node_most_rps=max(0.0, more[1]),
        less_node_rps=min(0.0, less[0]) if count else None,
        less_node_most_rps=min(0.0, less[1]) if count else None,
    )


def _phase_worth(phase: Phase, neighbours: Neighbours, counts: dict[str, int], relaxed: RelaxedBuckets) -> PhaseWorth:
    share = sum(
        neighbours.offer.probabilities[place] * worth for place, worth in relaxed.worth.items() if place[0] is phase
    )
    faster = neighbours.relaxed(counts, phase)
    gain = (faster.rate_rps if faster else relaxed.rate_rps) - relaxed.rate_rps
    return PhaseWorth(phase=phase, worth_share=min(1.0, share), faster_rps=max(0.0, gain))
