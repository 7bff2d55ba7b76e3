"""A fleet's nodes divided anew, near the old division: as few nodes as will do change hands.

| symbol | meaning |
|---|---|
| s_0, s* | the old division on the nodes that there are, the best one |
| V(s) | what plans of deployments on the shares of s reach together |
| d(s) | nodes that change hands: sum over types of the larger of what is given and what is taken |

Wanted is the s of least d(s) whose V is within `ENOUGH` of V(s*), and of those the best. Divisions are looked at in
layers of equal d: from each of a layer the next is a node away. Layers are whole where divisions are few; of more the
best are followed, and where nodes are many none but moves towards s*. So it ends at s* at the latest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from planner.domain.fleets import Deployment, FleetScenario
from planner.domain.stocks import Stock, inventory_stocks
from planner.proposing.fleets.dividing import (
    SMALL,
    DividedFleet,
    Gpus,
    SharePlans,
    Tell,
    rent_of_shares,
    worth_of_rates,
)
from planner.proposing.fleets.planning import best_division

ENOUGH = 0.01
"""Of the best division's value, that fewer moved nodes may cost: as simple plans may (`simplicity`)."""
FOLLOWED = 300
"""Divisions of a layer that the next is made from."""

Shares = tuple[Gpus, ...]
Worth = tuple[tuple[float, ...], float]
"""What is compared, place by place, and the objective's value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearDivision:
    """A division near the old one, beside the best. `moved`, `best_moved`: GPUs of nodes that change hands, by type.
    `best_worth`: what the best reaches."""

    division: DividedFleet
    best: DividedFleet
    best_worth: Worth
    moved: tuple[tuple[str, int], ...]
    best_moved: tuple[tuple[str, int], ...]


def near_division(
    fleet: FleetScenario,
    deployments: Sequence[Deployment],
    standing: Mapping[str, Mapping[str, int]],
    kept_rps: Mapping[str, float],
    tell: Tell,
) -> NearDivision:
    """The division near that of the fleet that runs. `standing`: GPUs by deployment that are still there; `kept_rps`:
    rates of deployments that keep their plan while they keep these. Raises as `best_division` does."""
    plans = SharePlans(deployments)
    best = best_division(fleet, deployments, tell, plans)
    stocks = inventory_stocks(fleet.inventory, [item.rent_usd_per_gpu_hour for item in fleet.inventory.items])
    start, goal = (
        tuple(tuple(shares.get(stock.gpu, 0) for stock in stocks) for shares in rows)
        for rows in ([standing.get(d.name, {}) for d in deployments], best.gpus)
    )
    tell("looking for fewer nodes that move")
    walk = _Walk(fleet, deployments, stocks, plans, start, goal, kept_rps)
    best_worth = worth_of_rates(fleet, deployments, best.rates_rps, rent_of_shares(stocks, goal))
    shares, value = walk.nearest(best_worth)
    rates = walk.rates(shares)
    division = replace(
        best,
        gpus=tuple(
            {stock.gpu: n for stock, n in zip(stocks, gpus, strict=True) if n and rate}
            for gpus, rate in zip(shares, rates, strict=True)
        ),
        rates_rps=rates,
        value=value,
    )
    moved, best_moved = (
        tuple((stock.gpu, n) for stock, n in zip(stocks, _moved(start, row), strict=True)) for row in (shares, goal)
    )
    return NearDivision(division=division, best=best, best_worth=best_worth, moved=moved, best_moved=best_moved)


def near_enough(worth: Worth, best: Worth) -> bool:
    """Whether a division is worth what the best is but for `ENOUGH`, where services go first in every place."""
    pairs = zip(worth[0], best[0], strict=True)
    return isfinite(worth[1]) and all(rank >= top - ENOUGH * abs(top) for rank, top in pairs)


class _Walk:
    """Divisions layer by layer, away from the old one."""

    def __init__(
        self,
        fleet: FleetScenario,
        deployments: Sequence[Deployment],
        stocks: Sequence[Stock],
        plans: SharePlans,
        start: Shares,
        goal: Shares,
        kept_rps: Mapping[str, float],
    ) -> None:
        self._fleet, self._deployments, self._stocks, self._plans = fleet, deployments, stocks, plans
        self._start, self._goal, self._kept_rps = start, goal, kept_rps
        self._hosts = [fleet.host(stock.gpu) for stock in stocks]
        nodes = sum(stock.units // host for stock, host in zip(stocks, self._hosts, strict=True))
        self._anywhere = nodes <= SMALL

    def rates(self, shares: Shares) -> tuple[float, ...]:
        """What plans serve on their shares; those that are kept serve what they do."""
        return tuple(self._rate(j, gpus) for j, gpus in enumerate(shares))

    def _rate(self, j: int, gpus: Gpus) -> float:
        name = self._deployments[j].name
        if gpus == self._start[j] and name in self._kept_rps:
            return self._kept_rps[name]
        return self._plans.rate(j, self._stocks, gpus)[0]

    def nearest(self, best: Worth) -> tuple[Shares, float]:
        """The division of fewest moved nodes that comes near to the best, and its value."""
        layer, seen = [self._start], {self._start}
        for _ in range(self._distance(self._goal)):
            worths = {shares: self._worth(shares) for shares in layer}
            order = sorted(layer, key=lambda shares: (worths[shares], shares), reverse=True)
            enough = [shares for shares in order if near_enough(worths[shares], best)]
            if enough:
                return enough[0], worths[enough[0]][1]
            layer = list(dict.fromkeys(s for shares in order[:FOLLOWED] for s in self._steps(shares) if s not in seen))
            seen.update(layer)
        return self._goal, self._worth(self._goal)[1]

    def _worth(self, shares: Shares) -> Worth:
        rent = rent_of_shares(self._stocks, shares)
        return worth_of_rates(self._fleet, self._deployments, self.rates(shares), rent)

    def _distance(self, shares: Shares) -> int:
        return sum(n // host for n, host in zip(_moved(self._start, shares), self._hosts, strict=True))

    def _steps(self, shares: Shares) -> Iterator[Shares]:
        """Divisions one node further away. Who gives has the type; nobody's nodes are those that are left."""
        everybody = range(len(shares))
        for t, (stock, host) in enumerate(zip(self._stocks, self._hosts, strict=True)):
            spare = stock.units - sum(gpus[t] for gpus in shares)
            givers = [j for j in everybody if shares[j][t] >= host and self._towards(shares, j, t, -1)]
            takers = [j for j in everybody if self._towards(shares, j, t, 1)]
            for giver in (*givers, *([None] if spare >= host else [])):
                for taker in (*takers, None):
                    if giver != taker:
                        further = _with(_with(shares, giver, t, -host), taker, t, host)
                        if self._anywhere or self._distance(further) > self._distance(shares):
                            yield further

    def _towards(self, shares: Shares, j: int, t: int, sign: int) -> bool:
        return self._anywhere or sign * (self._goal[j][t] - shares[j][t]) > 0


def _with(shares: Shares, j: int | None, t: int, more: int) -> Shares:
    """The shares with so many more GPUs of a type for a deployment (None: for nobody)."""
    if j is None:
        return shares
    gpus = (*shares[j][:t], shares[j][t] + more, *shares[j][t + 1 :])
    return (*shares[:j], gpus, *shares[j + 1 :])


def _moved(start: Shares, shares: Shares) -> list[int]:
    """GPUs by type that change hands: the larger of what is given and what is taken."""
    counts = []
    for old, new in zip(zip(*start, strict=True), zip(*shares, strict=True), strict=True):
        more = [b - a for a, b in zip(old, new, strict=True)]
        counts.append(max(sum(n for n in more if n > 0), -sum(n for n in more if n < 0)))
    return counts
