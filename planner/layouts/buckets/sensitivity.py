"""What binds a plan of buckets and what would change it: prices of the relaxation of its own buckets.

The worth of GPUs is that of the best pools behind the plan's buckets: servers may be chosen anew when the count
changes, the buckets stay.

| symbol | meaning |
|---|---|
| y[phase, B], w[t] | prices of the relaxation: of capacity on a bucket, of a GPU |
| P(B), lambda | probability of a bucket, best possible rate |
"""

from collections.abc import Iterator
from dataclasses import replace

from planner.assignment import BucketOffer, Partition, RelaxedBuckets, relaxed_buckets
from planner.domain import (
    PHASES,
    AssignmentSettings,
    GpuWorth,
    ObjectiveSettings,
    Phase,
    PhaseWorth,
    Plan,
    Question,
    RangeHeadroom,
    Sensitivity,
)
from planner.evaluation.buckets.columns import of_types
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.buckets.stocks import inventory_stocks
from planner.layouts.sensitivity import BALANCED, DIGITS, FASTER, drop_first

_RATE = ObjectiveSettings()


class Relaxer:
    """The relaxation of the plan's buckets for other counts of GPUs, or a faster phase."""

    def __init__(self, plan: Plan, prices: BucketPrices, settings: AssignmentSettings) -> None:
        self._settings = settings
        self.partition = partition_of(plan, prices)
        self.stocks = inventory_stocks(plan.scenario.inventory)
        gpus = {island.gpu for island in plan.islands}
        family = next((family for family in prices.families if gpus & family), None)
        of_all = prices.offer(self.stocks, [self.partition])
        of_family = of_all if family is None else of_types(of_all, self.stocks, family)
        aggregated = all(
            island.phase in (Phase.MIXED, None) for island in plan.islands
        )  # split ones are no worth of it
        self.offer = of_family.of_phases((Phase.MIXED,)) if aggregated else of_family

    def relaxed(self, counts: dict[str, int], faster: Phase | None = None) -> RelaxedBuckets | None:
        """The relaxation of so many GPUs of each stock, with one phase faster by a tenth; None where nothing serves."""
        offer: BucketOffer = replace(self.offer, counts=tuple(counts[stock.gpu] for stock in self.stocks))
        if faster is not None:
            options = {
                place: tuple(replace(o, rate_rps=o.rate_rps * FASTER) for o in mine) if place[0] is faster else mine
                for place, mine in offer.options.items()
            }
            offer = replace(offer, options=options)
        return relaxed_buckets(offer, self.partition, _RATE, self._settings)


def bucketed_sensitivity(plan: Plan, prices: BucketPrices) -> Sensitivity | None:
    """What would change the plan's rate; GPUs are those that the plan has, rented or given."""
    relaxer = Relaxer(plan, prices, plan.scenario.assignment)
    counts = {stock.gpu: plan.fleet[stock.gpu] for stock in relaxer.stocks}
    relaxed = relaxer.relaxed(counts)
    if relaxed is None:
        return None
    slow, fast = sorted((plan.prefill_rps, plan.decode_rps))
    headroom = fast / slow - 1
    slower = Phase.PREFILL if plan.prefill_rps < plan.decode_rps else Phase.DECODE
    binding = slower if headroom >= BALANCED else None
    apart = Phase.MIXED not in plan.phases  # one phase alone does not get faster where passes do both
    phases = tuple(_phase_worth(phase, relaxer, counts, relaxed) for phase in PHASES if apart)
    pressed = binding or (max(phases, key=lambda worth: worth.worth_share).phase if phases else None)
    relieved = relaxer.relaxed(counts, pressed) if pressed else None
    tolls = dict(zip((stock.gpu for stock in relaxer.stocks), (relieved or relaxed).toll, strict=True))
    gpus = tuple(_gpu_worth(plan, item.gpu.name, relaxer, counts, relaxed) for item in plan.scenario.inventory.items)
    return Sensitivity(
        bound_rps=relaxed.rate_rps,
        binding=binding,
        headroom=headroom,
        next_rps=fast,
        next_gpu=max((g for g in counts if counts[g]), key=lambda gpu: tolls[gpu] * counts[gpu]),
        drop_first=drop_first(gpus),
        gpus=gpus,
        phases=phases,
        ranges=tuple(_headrooms(plan, relaxer.partition, relaxed)),
    )


def prices_of(plan: Plan, question: Question) -> BucketPrices:
    """Prices of the plan's question; its buckets may be cut where those of a plan before it were."""
    prices = BucketPrices(question)
    if plan.buckets is None or _partition(plan, prices) is not None:
        return prices
    return BucketPrices(question, edges={edge for pool in plan.buckets.pools for edge in (pool.start, pool.end)})


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


def _gpu_worth(plan: Plan, gpu: str, relaxer: Relaxer, counts: dict[str, int], relaxed: RelaxedBuckets) -> GpuWorth:
    item, count = plan.scenario.inventory.item(gpu), plan.fleet[gpu]
    node = item.gpu.gpus_per_host
    lost = min(node, count)

    def change(by: int) -> float:
        """Best possible rate with `by` more GPUs, less that of the fleet."""
        if gpu not in counts:
            return 0.0
        changed = relaxer.relaxed(counts | {gpu: count + by})
        return (changed.rate_rps if changed else 0.0) - relaxed.rate_rps

    tolls = dict(zip((stock.gpu for stock in relaxer.stocks), relaxed.toll, strict=True))
    return GpuWorth(
        gpu=gpu,
        gpus_per_node=node,
        gpus_lost=lost,
        price_usd_per_gpu_hour=item.price_usd_per_gpu_hour,
        dual_rps=tolls.get(gpu, 0.0),
        more_gpu_rps=max(0.0, change(1)),
        more_node_rps=max(0.0, change(node)),
        less_node_rps=min(0.0, change(-lost)) if count else None,
    )


def _phase_worth(phase: Phase, relaxer: Relaxer, counts: dict[str, int], relaxed: RelaxedBuckets) -> PhaseWorth:
    share = sum(
        relaxer.offer.probabilities[place] * worth for place, worth in relaxed.worth.items() if place[0] is phase
    )
    faster = relaxer.relaxed(counts, phase)
    gain = (faster.rate_rps if faster else relaxed.rate_rps) - relaxed.rate_rps
    return PhaseWorth(phase=phase, worth_share=min(1.0, share), faster_rps=max(0.0, gain))


def _headrooms(plan: Plan, partition: Partition, relaxed: RelaxedBuckets) -> Iterator[RangeHeadroom]:
    """A row for each phase and bucket."""
    spare = {island.id: max(0.0, 1 - island.utilisation) for island in plan.islands}
    for phase in PHASES:
        mine = [route for route in plan.routing if route.phase is phase]
        spans = sorted({(route.range_start, route.range_end, route.probability) for route in mine})
        for bucket, (start, end, probability) in zip(partition.of(phase), spans, strict=True):
            idle = sum(spare[r.island] * r.capacity_rps for r in mine if r.range_start == start)
            yield RangeHeadroom(
                phase=phase,
                range_start=start,
                range_end=end,
                headroom=round(idle / (probability * plan.throughput_rps), DIGITS),
                worth_share=min(1.0, probability * relaxed.worth[phase, bucket]),
            )
