"""Single changes that win back what topology costs a plan of pools: every one is tried by placing again.

Moves of a pod, evictions of one, and exchanges of what two servers have of two nodes are counted; `limit` of each kind
are tried, moves of pods that lie near islands that lose first. Another layout has the GPUs of one pool in servers of
half, a quarter or twice their size. A change is worth what the plan placed again serves more.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice

from planner.defragmentation import replay
from planner.domain import (
    BucketPool,
    Cluster,
    ClusterNode,
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
from planner.placement import Allowance, Fleet, place_around, prices_of

FELT = 5e-4
"""Of a rate: less is no gain, nor a loss."""
NEAR = 0.01
"""What another layout may serve less before it is placed."""
OTHER_SIZES = (0.5, 0.25, 2.0)
"""Of a server of the plan."""

Rates = tuple[float, dict[str, float]]
"""Of the plan, and of each island."""


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
        number, trials = changes(bench, losers) if losers else (0, ())
        tried.append((kind, min(limit, number), number))
        repairs += filter(None, (trial(bench, pose) for trial in islice(trials, limit)))
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

    def rank(repair: Repair) -> tuple[float, float, int, int]:
        disturbed, turn = repair.disturbs
        return round(repair.rate_rps, 6), round(of_island(repair), 6), -disturbed, -turn

    best = max(filter(helps, repairs), key=rank, default=None)
    return IslandRepair(
        island=island,
        rate_rps=rate_rps,
        ideal_rps=ideal_rps,
        repair=best,
        repaired_rps=rate_rps if best is None else of_island(best),
    )


Trial = Callable[[Bench, Callable[[Scenario], Question]], Repair | None]
Changes = tuple[int, Iterable[Trial]]
"""How many there are, and each, made when it is tried."""


def _parts_of(bench: Bench) -> Sequence[PlacedPart]:
    """Where the pools lie; nowhere where they cannot be placed."""
    try:
        return place_pools(bench.pools, bench.question, bench.fleet).placement.parts
    except InfeasibleError:
        return ()


def _moves(bench: Bench, losers: Sequence[str]) -> Changes:
    """Every pod with whole GPUs of the plan's types on every other node that has GPUs for its copy: each pod in turn,
    those on nodes and under switches of the losers first, to nodes under other switches first."""
    cluster, types = bench.question.scenario.cluster, {pool.gpu for pool in bench.pools}
    assert cluster is not None, "a plan is placed on a cluster"
    node_of = {node.name: node for node in cluster.nodes}
    near = {part.node for part in _parts_of(bench) if part.island in losers}
    switches = {node_of[name].asw for name in near}

    def far(pod: Pod) -> tuple[bool, bool]:
        return pod.node not in near, node_of[pod.node].asw not in switches

    pods = [
        pod
        for pod in sorted(cluster.pods, key=far)
        if pod.gpu_count and not pod.locked and pod.gpus_known and node_of[pod.node].gpu in types
    ]
    free = {node.name: _free(bench, node) for node in sorted(cluster.nodes, key=lambda node: node.asw in switches)}
    targets: dict[tuple[str, int], list[str]] = {}
    for gpu, count in {(node_of[pod.node].gpu, pod.gpu_count) for pod in pods}:
        targets[gpu, count] = [name for name in free if node_of[name].gpu == gpu and len(free[name]) >= count]

    def each() -> Iterator[Trial]:
        for turn in range(max(map(len, targets.values()), default=0)):
            for pod in pods:
                names = targets[node_of[pod.node].gpu, pod.gpu_count]
                if turn < len(names) and names[turn] != pod.node:
                    yield _move_trial(cluster, pod, names[turn], free[names[turn]][: pod.gpu_count])

    able = {key: frozenset(names) for key, names in targets.items()}
    keys = [(pod.node, (node_of[pod.node].gpu, pod.gpu_count)) for pod in pods]
    return sum(len(able[key]) - (node in able[key]) for node, key in keys), each()


def _free(bench: Bench, node: ClusterNode) -> tuple[int, ...]:
    """GPUs of a node that nobody holds; none of a node that takes no pods."""
    number = bench.fleet.number[node.name]
    held = {index for pod in bench.fleet.pods_of.get(number, ()) for index in pod.gpus}
    return tuple(sorted({gpu.index for gpu in node.gpus} - held)) if bench.fleet.open[number] else ()


def _move_trial(cluster: Cluster, pod: Pod, target: str, gpu_indices: tuple[int, ...]) -> Trial:
    def trial(bench: Bench, _pose: Callable[[Scenario], Question]) -> Repair | None:
        move = Move(
            order=1,
            wave=1,
            step=1,
            pod=pod.key,
            source=pod.node,
            target=target,
            gpus=pod.gpu_count,
            gpu_indices=gpu_indices,
            gpu_hours=DefragmentationSettings().overlap_hours * pod.gpu_count,
        )
        try:
            after = replay(cluster, (move,))
        except InconsistentPlanError:  # it would not be safe
            return None
        rate, rates = bench.rates(Fleet.of(after))
        return Repair(kind=RepairKind.MOVE, rate_rps=rate, rates_rps=tuple(rates.items()), move=move)

    return trial


def _evictions(bench: Bench, _losers: Sequence[str]) -> Changes:
    """Every pod that the scenario's limits let go for the islands, in the order of its rule."""
    cluster, settings = bench.question.scenario.cluster, bench.question.scenario.placement
    assert cluster is not None, "a plan is placed on a cluster"
    types = {pool.gpu for pool in bench.pools}
    gpu_of = {node.name: node.gpu for node in cluster.nodes}
    allowance = Allowance.of(cluster, settings)
    able = [pod for pod in cluster.pods if allowance.may_go(pod) and pod.gpu_count and gpu_of[pod.node] in types]
    prices = prices_of(able, settings, settings.victim_rule)
    ordered = sorted(able, key=lambda pod: (prices[pod.key], pod.key))
    return len(able), (_eviction_trial(cluster, pod, turn) for turn, pod in enumerate(ordered))


def _eviction_trial(cluster: Cluster, pod: Pod, turn: int) -> Trial:
    def trial(bench: Bench, _pose: Callable[[Scenario], Question]) -> Repair:
        after = replace(cluster, pods=tuple(other for other in cluster.pods if other is not pod))
        rate, rates = bench.rates(Fleet.of(after))
        return Repair(
            kind=RepairKind.EVICTION,
            rate_rps=rate,
            rates_rps=tuple(rates.items()),
            pod=pod.key,
            node=pod.node,
            lost_gpu_hours=bench.question.scenario.placement.lost_gpu_hours(pod),
            turn=turn,
        )

    return trial


def _exchanges(bench: Bench, losers: Sequence[str]) -> Changes:
    """Every pair of servers' parts of two nodes that are alike, one of them of an island that loses; none where layouts
    are compared on nodes, whose servers have other names."""
    if bench.question.scenario.objective.kind.row.placed:
        return 0, ()
    parts = _parts_of(bench)
    pairs = [
        (word, first, second)
        for first, second in combinations(parts, 2)
        if {first.island, second.island} & set(losers) and (word := exchange_of(first, second, bench.fleet))
    ]
    return len(pairs), (_exchange_trial(word, parts, first, second) for word, first, second in pairs)


def _exchange_trial(word: str, parts: Sequence[PlacedPart], first: PlacedPart, second: PlacedPart) -> Trial:
    def trial(bench: Bench, _pose: Callable[[Scenario], Question]) -> Repair:
        rate, rates = bench.rates(bench.fleet, swapped(parts, first, second))
        return Repair(kind=RepairKind.EXCHANGE, rate_rps=rate, rates_rps=tuple(rates.items()), exchange=word)

    return trial


def layouts_beside(bench: Bench, losers: Sequence[str]) -> Changes:
    """Layouts with the GPUs of one pool that loses in servers of another size; none where pools are chosen in draws,
    which a search on nodes does not look at."""
    if bench.question.scenario.chosen_in_draws:
        return 0, ()
    rows = [(pool.gpu, pool.server.parallel.devices, pool.count) for pool in bench.pools]
    layouts = set[Layout]()
    for number, pool in enumerate(bench.pools):
        for factor in OTHER_SIZES if pool.island in losers else ():
            size = pool.server.parallel.devices * factor
            count = int(pool.gpus // size) if size >= 1 and size == int(size) else 0
            if count:
                changed = [*rows[:number], (pool.gpu, int(size), count), *rows[number + 1 :]]
                layouts.add(Layout.of(IslandClass(gpu=g, size=s) for g, s, n in changed for _ in range(n)))
    ordered = sorted(layouts, key=lambda layout: layout.label)
    return len(ordered), map(_layout_trial, ordered)


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


_KINDS: dict[RepairKind, Callable[[Bench, Sequence[str]], Changes]] = {
    RepairKind.EXCHANGE: _exchanges,
    RepairKind.MOVE: _moves,
    RepairKind.EVICTION: _evictions,
    RepairKind.LAYOUT: layouts_beside,
}
