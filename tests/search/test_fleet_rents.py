"""Who pays for a fleet: Shapley's shares by all orders, and what they must keep."""

from functools import cache
from itertools import permutations
from random import Random

import pytest

from planner.proposing.fleets.paying import MOST_EXACT, Worth, shapley_shares


def rent_of(seed: int, services: int, *, twins: tuple[int, int] = (0, 1), free: int | None = None) -> Worth:
    """Drawn rents of nodes that services need: the more together, the less each; two need alike, one needs nothing."""
    source = Random(seed)
    needs = [source.uniform(1, 9) for _ in range(services)]
    needs[twins[1]] = needs[twins[0]]
    if free is not None:
        needs[free] = 0.0

    @cache
    def worth(coalition: frozenset[int]) -> float:
        return sum(needs[s] for s in sorted(coalition)) ** 0.8

    return worth


@pytest.mark.parametrize("services", [1, 2, 3, 4, 5])
def test_the_shares_are_the_mean_over_all_orders(services: int) -> None:
    worth = rent_of(services, max(2, services))
    added = [0.0] * services
    orders = list(permutations(range(services)))
    for order in orders:
        for k, s in enumerate(order):
            added[s] += worth(frozenset(order[: k + 1])) - worth(frozenset(order[:k]))
    assert shapley_shares(services, worth, 0) == pytest.approx([total / len(orders) for total in added])


@pytest.mark.parametrize("services", [2, MOST_EXACT, MOST_EXACT + 1, 11])
def test_they_sum_to_what_all_pay(services: int) -> None:
    worth = rent_of(3, services)
    assert sum(shapley_shares(services, worth, 5)) == pytest.approx(worth(frozenset(range(services))), rel=1e-12)


@pytest.mark.parametrize("services", [3, MOST_EXACT])
def test_equals_pay_alike_and_who_costs_nothing_pays_nothing(services: int) -> None:
    shares = shapley_shares(services, rent_of(4, services, free=2), 0)
    assert shares[0] == pytest.approx(shares[1])
    assert shares[2] == pytest.approx(0.0, abs=1e-9)


def test_who_costs_nothing_pays_nothing_where_orders_are_drawn() -> None:
    shares = shapley_shares(9, rent_of(4, 9, free=2), 0)
    assert shares[2] == pytest.approx(0.0, abs=1e-9)
    assert shares[0] == pytest.approx(shares[1], rel=0.05)


def test_drawn_orders_come_again_with_their_seed_and_near_the_truth() -> None:
    worth = rent_of(8, 8)
    shares = shapley_shares(8, worth, 1)
    assert shares == shapley_shares(8, worth, 1)
    assert shares != shapley_shares(8, worth, 2)
    # of six services the truth is known exactly, and who costs nothing changes it by nothing
    without = rent_of(9, 8, free=7)
    six = shapley_shares(6, without, 0)
    drawn = shapley_shares(7, lambda c: without(c - {6}), 3)
    assert drawn[:6] == pytest.approx(six, rel=0.05)
