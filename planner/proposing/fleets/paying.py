"""Who pays for a fleet, and what more of it would be worth.

| symbol | meaning | unit |
|---|---|---|
| S, v(S) | some of the services, the least rent at which servers that can be divided meet their demands | 1, USD/hour |
| n | number of services | 1 |
| R | rent of the fleet | USD/hour |

phi_s = sum over S without s of |S|! (n - |S| - 1)! / n! (v(S + s) - v(S)): the mean, over all orders in which services
may come, of what each adds (Shapley 1953). What is charged is R phi_s / v(all): the shares sum to the rent. With more
than `MOST_EXACT` services orders are drawn, each service comes first equally often.
marginal_s = R / v(all) (v(all) - v(all - s)).
"""

import random
from collections.abc import Callable, Sequence
from itertools import combinations
from math import factorial

Worth = Callable[[frozenset[int]], float]

MOST_EXACT = 6
ORDERS = 240
"""Drawn orders: a standard error of 1 % of a service's rent or so."""


def shapley_shares(services: int, worth: Worth, seed: int) -> list[float]:
    """phi of every service; they sum to `worth` of all."""
    if services <= MOST_EXACT:
        return [_exact(s, services, worth) for s in range(services)]
    orders = list(_orders(services, random.Random(seed)))  # noqa: S311  (no secret)
    added = [0.0] * services
    for order in orders:
        before = 0.0
        for k, s in enumerate(order):
            after = worth(frozenset(order[: k + 1]))
            added[s] += after - before
            before = after
    return [total / len(orders) for total in added]


def _exact(s: int, services: int, worth: Worth) -> float:
    others = [other for other in range(services) if other != s]
    total = 0.0
    for size in range(services):
        weight = factorial(size) * factorial(services - size - 1) / factorial(services)
        for group in combinations(others, size):
            coalition = frozenset(group)
            total += weight * (worth(coalition | {s}) - worth(coalition))
    return total


def _orders(services: int, source: random.Random) -> Sequence[list[int]]:
    """Random orders, each with all its rotations: everybody is at every place equally often."""
    orders = []
    for _ in range(max(1, ORDERS // services)):
        order = list(range(services))
        source.shuffle(order)
        orders += [order[k:] + order[:k] for k in range(services)]
    return orders
