"""A plan in draws of what is doubted. Its pools stay as they are deployed; requests are routed anew (`odds`)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from planner.cost.arrays import Array
from planner.cost.residuals.pace_draws import normal_scores, pace_dimensions, pace_draws, uniform_draws
from planner.domain import BucketPool, Phase, Plan, Question, Scenario
from planner.domain.fleets import on_gpus
from planner.domain.serving.doubt import DoubtedPlan, DoubtSettings, KnownBetter, PromiseSettings
from planner.errors import InputError
from planner.evaluation.buckets.spreads import lost_servers
from planner.evaluation.doubts.drawn import at_paces
from planner.evaluation.doubts.odds import PromisedPools

Paces = Mapping[tuple[str, Phase], Array]
PlanOne = Callable[[Scenario], Plan]
Ask = Callable[[Scenario], Question]
Progress = Callable[[float], None]


def doubted(plan: Plan, settings: DoubtSettings, ask: Ask, progress: Progress = lambda _: None) -> DoubtedPlan:
    """The plan in every draw. `ask`: the question that a scenario poses. Raises InputError where nothing is doubted, or
    the plan has no pools behind buckets."""
    _require(plan, settings)
    draws = _Draws(plan, settings)
    promised = PromisedPools(ask(plan.scenario), plan.outlook.pools, plan.throughput_rps)
    rates = []
    for number in range(settings.draws):
        remaining = draws.remaining(number, promised.pools)
        serves = _serves_all(promised.pools, remaining)
        rates.append(promised.rate_rps(draws.paces(number), remaining) if serves else 0.0)
        progress((number + 1) / settings.draws)
    return DoubtedPlan(
        name=plan.scenario.name,
        rate_rps=plan.throughput_rps,
        promise_rps=plan.outlook.promise_rps,
        rates_rps=tuple(rates),
        demands_rps=tuple(float(rate) for rate in draws.demands_rps),
        rents=tuple(float(rent) for rent in draws.rents),
    )


def known_better(
    plan: Plan, doubtful: DoubtedPlan, settings: DoubtSettings, count: int, plan_one: PlanOne
) -> DoubtedPlan:
    """With what plans would serve that had been made knowing, in `count` draws from bad to good ones."""
    draws, order = _Draws(plan, settings), np.argsort(doubtful.rates_rps, kind="stable")
    rows = []
    for place in range(count):
        number = int(order[int((place + 0.5) / count * len(order))])
        best = plan_one(at_paces(_unsure(draws.with_nodes(number)), draws.paces(number)))
        rate = doubtful.rates_rps[number]
        knowing = best.throughput_rps * plan.scenario.routing.margin
        # what a plan made knowing serves is no less than what this one does: the search's gap may say otherwise
        rows.append(KnownBetter(draw=number, rate_rps=rate, knowing_rps=max(rate, knowing)))
    return replace(doubtful, known_better=tuple(rows))


def _unsure(scenario: Scenario) -> Scenario:
    """The scenario planned for as predicted: what is known needs no odds."""
    return replace(scenario, promise=PromiseSettings())


def _require(plan: Plan, settings: DoubtSettings) -> None:
    name = plan.scenario.name
    if not plan.outlook.pools:
        raise InputError(
            f"plan {name}: doubt: must be of pools behind buckets, got {plan.scenario.beyond_buckets or 'none'}.",
            hint="Plan it with routing.form buckets.",
        )
    banded = settings.speeds and any(estimate.band for estimate in plan.provenance.estimates)
    if settings.nothing or not (banded or settings.demand or settings.prices or settings.unavailable):
        raise InputError(
            f"plan {name}: doubt: must doubt something, got nothing: "
            + ("its speeds have no band." if settings.speeds else "all of it is 0."),
            hint="Doubt the demand, prices or nodes, as --demand 0.2.",
        )


class _Draws:
    """Everything that is doubted, number by number."""

    def __init__(self, plan: Plan, settings: DoubtSettings) -> None:
        self.plan, self._settings = plan, settings
        used = {(pool.gpu, pool.phase) for pool in plan.outlook.pools}
        every = {(row.gpu, row.phase): row.band for row in plan.provenance.estimates if (row.gpu, row.phase) in used}
        bands = {key: band for key, band in every.items() if band is not None} if settings.speeds else {}
        self._types = sorted({pool.gpu for pool in plan.outlook.pools})
        columns = pace_dimensions(list(bands))  # what else is doubted comes after: paces are the same without it
        cube = uniform_draws(settings.draws, columns + 1 + 2 * len(self._types), plan.scenario.search.seed)
        self._paces, points = pace_draws(bands, cube[:, :columns]), cube[:, columns:]
        self.demands_rps = self._demand_rps * np.exp(settings.demand * normal_scores(points[:, 0]))
        priced, self._away = np.split(points[:, 1:], 2, axis=1)
        rents = np.array([self._rent(gpu) for gpu in self._types])
        self.rents = np.exp(settings.prices * normal_scores(priced)) @ rents

    @property
    def _demand_rps(self) -> float:
        """What is asked: the objective's demand, else what is promised."""
        return self.plan.scenario.objective.demand_rps or self.plan.outlook.promise_rps

    def _rent(self, gpu: str) -> float:
        item = self.plan.scenario.inventory.item(gpu)
        return item.price_usd_per_gpu_hour * sum(
            pool.count * pool.server.parallel.devices for pool in self.plan.outlook.pools if pool.gpu == gpu
        )

    def paces(self, number: int) -> dict[tuple[str, Phase], float]:
        """Of every GPU type and phase."""
        return {key: float(values[number]) for key, values in self._paces.items()}

    def remaining(self, number: int, pools: Sequence[BucketPool]) -> tuple[BucketPool, ...]:
        """The pools without the servers on nodes that are away."""
        if not self._settings.unavailable:
            return tuple(pools)
        for column, gpu in enumerate(self._types):
            pools = self._without(pools, gpu, self._nodes_away(gpu, float(self._away[number, column])), number)
        return tuple(pools)

    def with_nodes(self, number: int) -> Scenario:
        """The plan's scenario without the nodes that are away."""
        scenario = self.plan.scenario
        if not self._settings.unavailable:
            return scenario
        counts = dict(scenario.inventory.counts)
        for column, gpu in enumerate(self._types):
            host = scenario.inventory.item(gpu).gpu.gpus_per_host
            counts[gpu] -= host * self._nodes_away(gpu, float(self._away[number, column]))
        return on_gpus(scenario, {gpu: max(0, count) for gpu, count in counts.items()})

    def _nodes_away(self, gpu: str, chance: float) -> int:
        """How many nodes of a type are away, by its place in the binomial distribution."""
        host = self.plan.scenario.inventory.item(gpu).gpu.gpus_per_host
        gpus = sum(p.count * p.server.parallel.devices for p in self.plan.outlook.pools if p.gpu == gpu)
        nodes, away = math.ceil(gpus / host), 0
        sure = (1 - self._settings.unavailable) ** nodes
        below = sure
        while below < chance and away < nodes:
            away += 1
            odds = self._settings.unavailable / (1 - self._settings.unavailable)
            sure *= (nodes - away + 1) / away * odds
            below += sure
        return away

    def _without(self, pools: Sequence[BucketPool], gpu: str, nodes: int, number: int) -> tuple[BucketPool, ...]:
        """Nodes are lost one at a time, each of a pool drawn by its GPUs."""
        hosts = {item.gpu.name: item.gpu.gpus_per_host for item in self.plan.scenario.inventory.items}
        luck = np.random.default_rng([self.plan.scenario.search.seed, number])
        for _ in range(nodes):
            weights = np.array([p.count * p.server.parallel.devices * (p.gpu == gpu) for p in pools], dtype=float)
            if not weights.any():
                break
            first = int(luck.choice(len(pools), p=weights / weights.sum()))
            lost = lost_servers(pools, hosts, first, 1)
            reduced = (replace(pool, count=pool.count - lost.get(k, 0)) for k, pool in enumerate(pools))
            pools = [pool for pool in reduced if pool.count > 0]
        return tuple(pools)


def _serves_all(pools: Sequence[BucketPool], remaining: Sequence[BucketPool]) -> bool:
    """Whether every bucket still has a pool."""
    every, still = ({(pool.phase, pool.start, pool.end) for pool in some} for some in (pools, remaining))
    return every == still
