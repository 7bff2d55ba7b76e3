"""Levels of a deployment: fewer and fewer of the servers of its plan, node by node.

Each level has some of the servers of the one before, behind the same buckets: going from one to another starts or stops
servers, and restarts none. What a level promises is priced anew, with the queues of so few servers, and with the loss
of nodes that is to be survived. From a level the next is the one that gives up fewest requests for the worth of the
nodes that become free:

    least (P(n) - P(n')) / (w(n) - w(n'))    over n' = n less servers of one pool that free a node or a stride of them

| symbol | meaning | unit |
|---|---|---|
| n | servers of every pool | 1 |
| P | promise | requests/s |
| w | worth of the nodes that the servers lie on: tokens of work that waits, or rent | tokens/s, USD/hour |
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from planner.cost.serving.loading import load_s
from planner.domain import BucketPool, ObjectiveSettings, Plan
from planner.domain.fleets import FleetPart, on_gpus
from planner.domain.serving.fleets.lending import FleetLadder, FleetLevel
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.evaluator import open_evaluator
from planner.plans.finishing import finished_plan
from planner.proposing.buckets.proposals import some_pools
from planner.proposing.feasibility import posed

Worths = Mapping[str, float]
"""Of a GPU in a whole node, by type."""


class LadderBook:
    """Prices of some of the servers of a part's plan, on as few nodes. `hosts`: GPUs of a node, by type."""

    def __init__(self, part: FleetPart, hosts: Mapping[str, int]) -> None:
        self.part, self.hosts = part, hosts
        self.pools = tuple(replace(pool, share=1.0) for pool in part.plan.outlook.pools)
        self.question = posed(replace(part.plan.scenario, objective=ObjectiveSettings()))
        self._service = BucketService(self.question)
        self._priced: dict[tuple[int, ...], PricedPools] = {}

    @property
    def counts(self) -> tuple[int, ...]:
        """Of all servers."""
        return tuple(pool.count for pool in self.pools)

    def promise_rps(self, counts: tuple[int, ...]) -> float:
        """That so many servers promise, 0 where they do not serve all prompts."""
        pools = self._with_counts(counts)
        served = {(pool.phase, pool.start, pool.end) for pool in pools}
        if served != {(pool.phase, pool.start, pool.end) for pool in self.pools}:
            return 0.0
        if counts not in self._priced:
            self._priced[counts] = self._on_nodes(counts).priced(pools)
        return self._priced[counts].rate_rps * self.part.deployment.promised

    def after_loss_rps(self, counts: tuple[int, ...], gpu: str) -> float:
        """What the worst loss of one node of a type leaves of the promise."""
        self.promise_rps(counts)
        pools = self._priced[counts].pools
        losses = zip(pools, self._on_nodes(counts).losses(pools, 1), strict=True)
        return min(loss.rate_rps for pool, loss in losses if pool.gpu == gpu) * self.part.deployment.promised

    def _with_counts(self, counts: Sequence[int]) -> tuple[BucketPool, ...]:
        pairs = zip(self.pools, counts, strict=True)
        return tuple(replace(pool, count=count) for pool, count in pairs if count)

    def _on_nodes(self, counts: Sequence[int]) -> BucketService:
        """Prices where there are those nodes alone, over which servers are spread that are to survive a loss."""
        scenario = on_gpus(self.question.scenario, self.gpus(counts))
        return self._service.of_counts(replace(self.question, scenario=scenario))

    def gpus(self, counts: Sequence[int]) -> dict[str, int]:
        """The fewest whole nodes that so many servers lie on; all servers have all nodes where a loss is to be
        survived."""
        most_gpus = dict(self.part.gpus)
        if self.question.scenario.survive.share and tuple(counts) == self.counts:
            return most_gpus
        used: dict[str, int] = {}
        for pool, count in zip(self.pools, counts, strict=True):
            used[pool.gpu] = used.get(pool.gpu, 0) + count * pool.server.parallel.devices
        nodes = {gpu: -(-count // self.hosts[gpu]) for gpu, count in used.items()}
        return {gpu: min(n * self.hosts[gpu], most_gpus[gpu]) for gpu, n in nodes.items()}

    def level(self, counts: tuple[int, ...]) -> FleetLevel:
        """So many servers as a level."""
        gpus = tuple(sorted((gpu, n) for gpu, n in self.gpus(counts).items() if n))
        return FleetLevel(counts=counts, gpus=gpus, promise_rps=self.promise_rps(counts))

    def fewer(self, counts: tuple[int, ...], strides: Mapping[str, int]) -> Iterator[tuple[int, ...]]:
        """So many servers less those of one pool that free nodes, a stride of them where there are enough."""
        before = self.gpus(counts)
        for k, pool in enumerate(self.pools):
            freed = {strides[pool.gpu], self.hosts[pool.gpu]}
            for goal in sorted(freed, reverse=True):
                lower = next((c for c in _less(counts, k) if before[pool.gpu] - self.gpus(c)[pool.gpu] >= goal), None)
                if lower is not None:
                    yield lower
                    break

    def load_s(self) -> float:
        """What the slowest of its servers takes to load."""
        scenario = self.question.scenario
        return max(
            load_s(scenario, scenario.changes.times, scenario.inventory.item(p.gpu).gpu, p.server.parallel)
            for p in self.pools
        )


def _less(counts: tuple[int, ...], k: int) -> Iterator[tuple[int, ...]]:
    return ((*counts[:k], n, *counts[k + 1 :]) for n in range(counts[k] - 1, -1, -1))


def ladder_of(book: LadderBook, worths: Worths, lowest_rps: float, most_steps: int) -> FleetLadder:
    """Levels down to the last that promises `lowest_rps`."""
    gpus = book.gpus(book.counts)
    strides = {gpu: _stride(n, book.hosts[gpu], sum(gpus.values()), most_steps) for gpu, n in gpus.items()}
    levels = [book.level(book.counts)]
    while lower := _next_counts(book, levels[-1].counts, worths, lowest_rps, strides):
        levels.append(book.level(lower))
    scenario = book.question.scenario
    drain_s = scenario.changes.times.drain_s
    return FleetLadder(deployment=book.part.name, levels=tuple(levels), drain_s=drain_s, load_s=book.load_s())


def _stride(gpus: int, host: int, all_gpus: int, most_steps: int) -> int:
    """GPUs of a type that a step frees at best: a node, more where that made too many steps."""
    nodes = math.ceil(all_gpus / host / most_steps)
    return host * max(1, min(nodes, gpus // host))


def _next_counts(
    book: LadderBook, counts: tuple[int, ...], worths: Worths, lowest_rps: float, strides: Mapping[str, int]
) -> tuple[int, ...] | None:
    """The next level's servers; None where every further one promises too little."""
    promise, worth = book.promise_rps(counts), _worth(book, counts, worths)
    best: tuple[float, tuple[int, ...]] | None = None
    for lower in book.fewer(counts, strides):
        if book.promise_rps(lower) < lowest_rps:
            continue
        lost = (promise - book.promise_rps(lower)) / (worth - _worth(book, lower, worths))
        if best is None or lost < best[0]:
            best = lost, lower
    return None if best is None else best[1]


def _worth(book: LadderBook, counts: Sequence[int], worths: Worths) -> float:
    return sum(worths[gpu] * n for gpu, n in book.gpus(counts).items())


def plan_of_level(part: FleetPart, level: FleetLevel) -> Plan:
    """The plan that stands at a level: those servers on those nodes, with the routes and times of so many."""
    scenario = on_gpus(replace(part.plan.scenario, objective=ObjectiveSettings()), dict(level.gpus))
    pairs = zip(part.plan.outlook.pools, level.counts, strict=True)
    pools = [replace(pool, count=count) for pool, count in pairs if count]
    with open_evaluator(posed(scenario)) as evaluator:
        return finished_plan(evaluator, some_pools(evaluator, part.plan, pools))
