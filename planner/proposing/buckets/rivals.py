"""Fleets beside the best one: of one GPU type alone, and without a type that the best one has.

They are found with one bucket a phase and a coarser gap: what is told of them is what they cost or serve, not that
nothing of their kind is better.
"""

from collections.abc import Collection
from dataclasses import replace

from planner.assignment import best_pools
from planner.domain import ObjectiveSettings, Plan
from planner.domain.frontier import RivalFleet
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.columns import of_types
from planner.evaluation.buckets.judging import layout_of
from planner.evaluation.buckets.service import PricedPools
from planner.evaluation.evaluator import Evaluator
from planner.proposing.buckets.infeasible import stocks_of
from planner.proposing.certificate import layout_settings

GAP = 0.01
SECONDS = 2.0  # of a rival
MOST_WITHOUT = 3
RAISES = 3
MET = 1e-4


def rivals_of(plan: Plan, evaluator: Evaluator) -> tuple[RivalFleet, ...]:
    """Fleets of pools for the plan's objective, the best first."""
    used = gpus_by_rent(plan)
    every = [item.gpu.name for item in plan.scenario.inventory.items]
    without = [(f"without {gpu}", [name for name in every if name != gpu]) for gpu in used[:MOST_WITHOUT]]
    alone = [(f"{gpu} alone", [gpu]) for gpu in every if used != [gpu]]
    yard = _Yard(plan.scenario.objective, evaluator)
    rivals = [yard.rival(name_of_fleet, gpus) for name_of_fleet, gpus in (*(without if len(every) > 1 else ()), *alone)]
    return tuple(sorted((rival for rival in rivals if rival), key=lambda rival: (yard.rank(rival), rival.what)))


def gpus_by_rent(plan: Plan) -> list[str]:
    """GPU types in the plan's islands, those that cost most first."""
    rent: dict[str, float] = {}
    for island in plan.islands:
        rent[island.gpu] = rent.get(island.gpu, 0.0) + island.price_usd_per_hour
    return sorted(rent, key=lambda gpu: (-rent[gpu], gpu))


class _Yard:
    """Where fleets of some of the types are made for one objective."""

    def __init__(self, objective: ObjectiveSettings, evaluator: Evaluator) -> None:
        scenario = evaluator.question.scenario
        self.objective, self.prices = objective, evaluator.prices
        self._service = evaluator.prices.service
        limit_s = min(SECONDS, scenario.search.work_limit)
        self._settings = replace(layout_settings(scenario), gap=GAP, work_limit=limit_s)
        self._stocks = stocks_of(evaluator.question, objective)
        self._partitions = evaluator.prices.partitions[:1]
        self._offer = evaluator.prices.offer(self._stocks, self._partitions)
        self._rent = {item.gpu.name: item.rent_usd_per_gpu_hour for item in scenario.inventory.items}

    def rival(self, name: str, gpus: Collection[str]) -> RivalFleet | None:
        """The best fleet found of these types, of those that hand KV caches to each other; None: none serves."""
        families = [family & set(gpus) for family in self.prices.families]
        fleets = [self._fleet(name, family) for family in families if family]
        return min((fleet for fleet in fleets if fleet), key=self.rank, default=None)

    def rank(self, fleet: RivalFleet) -> float:
        """Lower is better."""
        return fleet.price_usd_per_hour if self.objective.minimises else -fleet.rate_rps

    def _fleet(self, name: str, gpus: Collection[str]) -> RivalFleet | None:
        """A target is met with the queues of the pools together."""
        target_rps, posed = self.objective.target_rps, self.objective
        for _ in range(RAISES):
            priced = self._pools(posed, gpus)
            if priced is None:
                return None
            if priced.rate_rps >= target_rps * (1 - MET):
                return self._rented(name, priced)
            posed = replace(posed, target_rps=posed.target_rps * target_rps / priced.rate_rps * (1 + MET))
        return None

    def _pools(self, objective: ObjectiveSettings, gpus: Collection[str]) -> PricedPools | None:
        offer = of_types(self._offer, self._stocks, gpus)
        try:
            answer = best_pools(offer, self._partitions, objective, self._settings)
        except (InfeasibleError, SolverError):
            return None
        priced = self._service.priced(self.prices.pools(answer, self._stocks))
        return priced if priced.rate_rps > 0 else None

    def _rented(self, name: str, priced: PricedPools) -> RivalFleet:
        counts = layout_of(priced.pools).gpus
        return RivalFleet(
            what=name,
            gpus=tuple(sorted(counts.items())),
            price_usd_per_hour=sum(self._rent[gpu] * count for gpu, count in counts.items()),
            rate_rps=priced.rate_rps,
        )
