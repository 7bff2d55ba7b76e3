"""Single changes that win back what topology costs a plan of pools: every one is tried by placing again.

Moves of a pod, evictions of one, and exchanges of what two servers have of two nodes are enumerated, in the order of
pods and nodes; `limit` of each kind are tried, and how many there are is told. Another layout has the GPUs of one pool
in servers of half, a quarter or twice their size. A change is worth what the plan placed again serves more.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from planner.defragmentation import replay
from planner.domain import (
    BucketPool,
    Cluster,
    IslandClass,
    Layout,
    ObjectiveKind,
    ObjectiveSettings,
    PlacedPart,
    Pod,
    Question,
    Reach,
    Scenario,
)
from planner.domain.defragmentation import DefragmentationSettings, IslandRepair, Move, Repair, RepairKind, RepairReport
from planner.errors import InconsistentPlanError, InfeasibleError
from planner.evaluation.buckets.placing import demands_of_pools, place_pools
from planner.evaluation.buckets.service import BucketService
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.exchanges import exchange_of, swapped
from planner.evaluation.reaches import reaches_of
from planner.placement import Fleet, may_go, place_around, prices_of

FELT = 5e-4
"""Of a rate: less is no gain, nor a loss."""
NEAR = 0.01
"""What another layout may serve less before it is placed."""
OTHER_SIZES = (0.5, 0.25, 2.0)
"""Of a server of the plan."""

Rates = tuple[float, dict[str, float]]
"""Of the plan, and of each island."""
Change = Callable[[float, dict[str, float]], Repair]


@dataclass(slots=True)
class Bench:
    """A plan's pools before the nodes of a cluster, placed again and again; what lies alike is priced once."""

    pools: Sequence[BucketPool]
    question: Question
    fleet: Fleet
    priced: dict[tuple[tuple[str, Reach], ...], Rates] = field(default_factory=dict)

    def rates(self, fleet: Fleet, stays: Sequence[PlacedPart] = ()) -> Rates:
        """Of the pools on these nodes; nothing where they do not serve."""
        scenario = self.question.scenario
        gpus = [item.gpu for item in scenario.inventory.items]
        watts = {gpu.name: (gpu.idle_w, gpu.max_w) for gpu in gpus}
        demands = demands_of_pools(self.pools, self.question)
        placement = place_around(stays, demands, fleet, scenario.placement, watts)
        reaches = reaches_of(placement, demands, fleet, gpus, scenario.cost.cross_switch_bandwidth)
        key = tuple(sorted(reaches.items(), key=lambda pair: pair[0]))
        if not placement.shortfalls and key in self.priced:
            return self.priced[key]
        try:
            placed = place_pools(self.pools, self.question, fleet, advises=True, stays=stays)
        except InfeasibleError:
            return 0.0, {}
        rates = placed.placement.placed_rps, {site.island: site.rate_rps for site in placed.placement.sites}
        # pools that came out smaller may come out otherwise elsewhere, though they began alike
        if not placed.unplaced and not placed.placement.shortfalls:
            self.priced[key] = rates
        return rates


def repairs_of(
    pools: Sequence[BucketPool],
    question: Question,
    pose: Callable[[Scenario], Question],
    *,
    limit: int,
) -> RepairReport:
    """The best single change for every island of a plan that topology costs something; `limit` of each kind are tried.

    `pools`: as they were before they were placed; `question` names the cluster. The same input, the same repairs.
    """
    scenario = question.scenario
    assert scenario.cluster is not None, "a plan is placed on a cluster"
    bench = Bench(pools, question, Fleet.of(scenario.cluster))
    rate_rps, rates = bench.rates(bench.fleet)
    unplaced = BucketService(question).unbroken(pools)
    ideal = {pool.island: pool.count * pool.capacity_rps for pool in unplaced.pools}
    losers = [island for island in ideal if rates.get(island, 0.0) < ideal[island] * (1 - FELT)]
    repairs: list[Repair] = []
    tried: list[tuple[RepairKind, int, int]] = []
    for kind, changes in _KINDS.items():
        every = list(changes(bench, losers)) if losers else []
        tried.append((kind, min(limit, len(every)), len(every)))
        repairs += filter(None, (change(bench, pose) for change in every[:limit]))
    return RepairReport(
        cluster=scenario.cluster.name,
        rate_rps=rate_rps,
        unplaced_rps=unplaced.rate_rps,
        islands=tuple(_best(island, rates.get(island, 0.0), ideal[island], rate_rps, repairs) for island in losers),
        tried=tuple(tried),
    )


def _best(island: str, rate_rps: float, ideal_rps: float, plan_rps: float, repairs: Sequence[Repair]) -> IslandRepair:
    """The change that the plan gains most by, of those the one that the island does, of those the one that disturbs
    least. One after which the plan serves less is none."""

    def of_island(repair: Repair) -> float:
        # another layout has other islands: it is judged by the plan
        served = dict(repair.rates_rps).get(island, 0.0)
        return rate_rps if repair.kind is RepairKind.LAYOUT else served

    def helps(repair: Repair) -> bool:
        plan_gains = repair.rate_rps > plan_rps * (1 + FELT)
        return repair.rate_rps >= plan_rps * (1 - FELT) and (
            (plan_gains and of_island(repair) >= rate_rps * (1 - FELT))
            or of_island(repair) > max(rate_rps * (1 + FELT), FELT * ideal_rps)
        )

    def rank(repair: Repair) -> tuple[float, float, int, float]:
        disturbed, lost = repair.disturbs
        return round(repair.rate_rps, 6), round(of_island(repair), 6), -disturbed, -lost

    best = max(filter(helps, repairs), key=rank, default=None)
    return IslandRepair(
        island=island,
        rate_rps=rate_rps,
        ideal_rps=ideal_rps,
        repair=best,
        repaired_rps=rate_rps if best is None else of_island(best),
    )


Trial = Callable[[Bench, Callable[[Scenario], Question]], Repair | None]


def _moves(bench: Bench, _losers: Sequence[str]) -> Iterator[Trial]:
    """Every pod with whole GPUs of the plan's types on every other node that has room for its copy."""
    cluster, types = bench.question.scenario.cluster, {pool.gpu for pool in bench.pools}
    assert cluster is not None, "a plan is placed on a cluster"
    gpu_of = {node.name: node.gpu for node in cluster.nodes}
    overlap = DefragmentationSettings().overlap_hours
    for pod in cluster.pods:
        if not pod.gpu_count or pod.locked or not pod.gpus_known or gpu_of[pod.node] not in types:
            continue
        for node in cluster.nodes:
            number = bench.fleet.number[node.name]
            if node.gpu != gpu_of[pod.node] or node.name == pod.node or not bench.fleet.open[number]:
                continue
            held = {index for other in bench.fleet.pods_of.get(number, ()) for index in other.gpus}
            free = [gpu.index for gpu in node.gpus if gpu.index not in held]
            if len(free) >= pod.gpu_count:
                move = Move(
                    order=1,
                    wave=1,
                    step=1,
                    pod=pod.key,
                    source=pod.node,
                    target=node.name,
                    gpus=pod.gpu_count,
                    gpu_indices=tuple(sorted(free)[: pod.gpu_count]),
                    gpu_hours=overlap * pod.gpu_count,
                )
                if (after := _moved(cluster, move)) is not None:
                    yield _move_trial(move, after)


def _moved(cluster: Cluster, move: Move) -> Cluster | None:
    """The cluster after a move; None where it would not be safe."""
    try:
        return replay(cluster, (move,))
    except InconsistentPlanError:
        return None


def _move_trial(move: Move, after: Cluster) -> Trial:
    def trial(bench: Bench, _pose: Callable[[Scenario], Question]) -> Repair:
        rate, rates = bench.rates(Fleet.of(after))
        return Repair(kind=RepairKind.MOVE, rate_rps=rate, rates_rps=tuple(rates.items()), move=move)

    return trial


def _evictions(bench: Bench, _losers: Sequence[str]) -> Iterator[Trial]:
    """Every pod that may go for the islands, in the order of the scenario's rule."""
    cluster, settings = bench.question.scenario.cluster, bench.question.scenario.placement
    assert cluster is not None, "a plan is placed on a cluster"
    types = {pool.gpu for pool in bench.pools}
    gpu_of = {node.name: node.gpu for node in cluster.nodes}
    used_up = {budget.name for budget in cluster.disruption_budgets if not budget.allowed}
    able = [
        pod
        for pod in cluster.pods
        if may_go(pod, settings.priority)
        and pod.gpu_count
        and gpu_of[pod.node] in types
        and pod.disruption_budget not in used_up
    ]
    prices = prices_of(able, settings, settings.victim_rule)
    for pod in sorted(able, key=lambda pod: (prices[pod.key], pod.key)):
        yield _eviction_trial(pod, replace(cluster, pods=tuple(other for other in cluster.pods if other is not pod)))


def _eviction_trial(pod: Pod, after: Cluster) -> Trial:
    def trial(bench: Bench, _pose: Callable[[Scenario], Question]) -> Repair:
        rate, rates = bench.rates(Fleet.of(after))
        return Repair(
            kind=RepairKind.EVICTION,
            rate_rps=rate,
            rates_rps=tuple(rates.items()),
            pod=pod.key,
            node=pod.node,
            lost_gpu_hours=bench.question.scenario.placement.lost_gpu_hours(pod),
        )

    return trial


def _exchanges(bench: Bench, losers: Sequence[str]) -> Iterator[Trial]:
    """Every pair of servers' parts of two nodes that are alike, one of them of an island that loses; none where layouts
    are compared on nodes, whose servers have other names."""
    if bench.question.scenario.objective.kind.row.placed:
        return
    try:
        parts = place_pools(bench.pools, bench.question, bench.fleet).placement.parts
    except InfeasibleError:
        return
    for first, second in combinations(parts, 2):
        if {first.island, second.island} & set(losers) and (word := exchange_of(first, second, bench.fleet)):
            yield _exchange_trial(word, swapped(parts, first, second))


def _exchange_trial(word: str, stays: Sequence[PlacedPart]) -> Trial:
    def trial(bench: Bench, _pose: Callable[[Scenario], Question]) -> Repair:
        rate, rates = bench.rates(bench.fleet, stays)
        return Repair(kind=RepairKind.EXCHANGE, rate_rps=rate, rates_rps=tuple(rates.items()), exchange=word)

    return trial


def layouts_beside(bench: Bench, losers: Sequence[str]) -> Iterator[Trial]:
    """Layouts with the GPUs of one pool that loses in servers of another size."""
    rows = [(pool.gpu, pool.server.parallel.devices, pool.count) for pool in bench.pools]
    layouts = set[Layout]()
    for number, pool in enumerate(bench.pools):
        for factor in OTHER_SIZES if pool.island in losers else ():
            size = pool.server.parallel.devices * factor
            count = int(pool.gpus // size) if size >= 1 and size == int(size) else 0
            if count:
                changed = [*rows[:number], (pool.gpu, int(size), count), *rows[number + 1 :]]
                layouts.add(Layout.of(IslandClass(gpu=g, size=s) for g, s, n in changed for _ in range(n)))
    yield from (_layout_trial(layout) for layout in sorted(layouts, key=lambda layout: layout.label))


def _layout_trial(layout: Layout) -> Trial:
    def trial(bench: Bench, pose: Callable[[Scenario], Question]) -> Repair | None:
        scenario = bench.question.scenario
        rate = replace(scenario, cluster=None, objective=ObjectiveSettings(kind=ObjectiveKind.RATE))
        on_nodes = replace(scenario, objective=ObjectiveSettings(kind=ObjectiveKind.PLACED))
        least = BucketService(bench.question).priced(bench.pools).rate_rps * (1 - NEAR)
        if Evaluator(pose(rate)).evaluate(layout).throughput_rps < least:
            return None
        placed = Evaluator(pose(on_nodes)).evaluate(layout).throughput_rps
        return Repair(kind=RepairKind.LAYOUT, rate_rps=placed, rates_rps=(), layout=layout)

    return trial


_KINDS: dict[RepairKind, Callable[[Bench, Sequence[str]], Iterator[Trial]]] = {
    RepairKind.EXCHANGE: _exchanges,
    RepairKind.MOVE: _moves,
    RepairKind.EVICTION: _evictions,
    RepairKind.LAYOUT: layouts_beside,
}
