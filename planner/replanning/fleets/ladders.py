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
from planner.domain.fleets import FleetPart
from planner.domain.serving.lending import FleetLadder, FleetLevel
from planner.evaluation.buckets.service import BucketService
from planner.evaluation.evaluator import open_evaluator
from planner.plans.finishing import finished_plan
from planner.proposing.buckets.proposals import some_pools
from planner.proposing.feasibility import posed

Worths = Mapping[str, float]
"""Of a GPU in a whole node, by type."""


class LadderBook:
    """Prices of some of the servers of a part's plan. `hosts`: GPUs of a node, by type."""

    def __init__(self, part: FleetPart, hosts: Mapping[str, int]) -> None:
        self.part, self.hosts = part, hosts
        self.pools = tuple(replace(pool, share=1.0) for pool in part.plan.outlook.pools)
        scenario = replace(part.plan.scenario, objective=ObjectiveSettings())
        self.question = posed(scenario)
        self._service = BucketService(self.question)
        self._promises: dict[tuple[int, ...], float] = {}

    @property
    def counts(self) -> tuple[int, ...]:
        """Of all servers."""
        return tuple(pool.count for pool in self.pools)

    def with_counts(self, counts: Sequence[int]) -> tuple[BucketPool, ...]:
        """Pools of so many servers; none of no servers."""
        pairs = zip(self.pools, counts, strict=True)
        return tuple(replace(pool, count=count) for pool, count in pairs if count)

    def promise_rps(self, counts: tuple[int, ...]) -> float:
        """That so many servers promise, 0 where they do not serve all prompts."""
        if counts not in self._promises:
            pools = self.with_counts(counts)
            served = {(pool.phase, pool.start, pool.end) for pool in pools}
            every = {(pool.phase, pool.start, pool.end) for pool in self.pools}
            rate = self._service.priced(pools).rate_rps if served == every else 0.0
            self._promises[counts] = rate * self.part.deployment.promised
        return self._promises[counts]

    def after_loss_rps(self, counts: tuple[int, ...], gpu: str) -> float:
        """What the worst loss of one node of a type leaves of the promise."""
        pools = self.with_counts(counts)
        losses = zip(pools, self._service.losses(pools, 1), strict=True)
        return min(loss.rate_rps for pool, loss in losses if pool.gpu == gpu) * self.part.deployment.promised

    def gpus(self, counts: Sequence[int]) -> dict[str, int]:
        """Whole nodes that so many servers lie on: where a loss is to be survived, spread as the plan spreads them."""
        used: dict[str, int] = {}
        apart: dict[str, int] = {}
        for pool, count in zip(self.pools, counts, strict=True):
            host = self.hosts[pool.gpu]
            used[pool.gpu] = used.get(pool.gpu, 0) + count * pool.server.parallel.devices
            if per_node := pool.spread(host):
                apart[pool.gpu] = max(apart.get(pool.gpu, 0), -(-count // per_node))
        most_gpus = dict(self.part.gpus)
        nodes = {gpu: max(-(-count // self.hosts[gpu]), apart.get(gpu, 0)) for gpu, count in used.items()}
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
    """The plan that stands at a level: those servers, with the routes and times of so many."""
    scenario = replace(part.plan.scenario, objective=ObjectiveSettings())
    pairs = zip(part.plan.outlook.pools, level.counts, strict=True)
    pools = [replace(pool, count=count) for pool, count in pairs if count]
    with open_evaluator(posed(scenario)) as evaluator:
        return finished_plan(evaluator, some_pools(evaluator, part.plan, pools))
