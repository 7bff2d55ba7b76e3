"""Fleets divided the long way: no division beats the programme's, and its bounds, prices and additions are true."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from enumerated_fleets import Divisions, best_value, divisions_of, fleet_of, promised, rates_of

from planner.assignment import Division, FleetOffer, RateLimit, ServiceTerms, cheapest_addition, divide, node_prices
from planner.domain import AssignmentSettings
from planner.domain.fleets import FleetAim
from planner.errors import InfeasibleError

SEEDS = (*range(0, 40, 2), 7, 15, 31, 39)
"""Every kind of fleet: two and three stocks, shared nodes, losses, shared pools, one place in the order or two."""
FEW = (1, 7, 10, 12, 21)
EXACT = AssignmentSettings(gap=0.0)
SLACK = 1e-5
"""Relative: shares that a place or a tidied division keeps are kept to 1e-6, a few times over."""

WITH_PRICES = [aim for aim in FleetAim if aim is not FleetAim.PRIORITY]
few_fleets = pytest.mark.parametrize("seed", FEW)
each_aim = pytest.mark.parametrize("aim", FleetAim)


@cache
def every_division(seed: int) -> Divisions:
    return divisions_of(fleet_of(seed))


@cache
def best(seed: int, aim: FleetAim) -> Division | None:
    return answer(fleet_of(seed), aim)


def answer(offer: FleetOffer, aim: FleetAim) -> Division | None:
    """None where demands or floors cannot be met."""
    try:
        return divide(offer, aim, EXACT)
    except InfeasibleError:
        return None


def value_of(offer: FleetOffer, aim: FleetAim) -> float:
    """The more the better; -inf where nothing does."""
    division = answer(offer, aim)
    if division is None:
        return -np.inf
    return -division.value if aim is FleetAim.TARGET else division.value


def require_deployable(offer: FleetOffer, division: Division) -> None:
    """Whole nodes, no more than there are, and rates that servers on them have."""
    for t, (count, host) in enumerate(zip(offer.counts, offer.hosts, strict=True)):
        shares = [gpus[t] for gpus in division.gpus]
        assert sum(shares) <= count
        assert all(n % host in (0, count % host) for n in shares)
        assert sum(n % host > 0 for n in shares) <= 1
    for deployment, gpus, rate in zip(offer.deployments, division.gpus, division.rates_rps, strict=True):
        assert rate <= rates_of(deployment, offer.counts)[gpus] * (1 + SLACK) + SLACK


@pytest.mark.parametrize("seed", SEEDS)
def test_no_division_of_whole_nodes_is_better(seed: int) -> None:
    offer = fleet_of(seed)
    for aim in FleetAim:
        truth, division = best_value(offer, aim, every_division(seed)), best(seed, aim)
        if truth is None:
            assert division is None
            continue
        assert division is not None
        assert division.proven
        assert division.value == pytest.approx(truth, rel=SLACK, abs=SLACK)
        assert division.bound == pytest.approx(truth, rel=SLACK, abs=SLACK)
        require_deployable(offer, division)


@pytest.mark.parametrize("seed", SEEDS[:20:2])
@each_aim
def test_the_division_does_what_is_said_of_it(seed: int, aim: FleetAim) -> None:
    """The value follows from the division's own GPUs: what the deployments serve of them at most, enumerated."""
    offer, division = fleet_of(seed), best(seed, aim)
    if division is None:
        return
    rates = [rates_of(d, offer.counts)[gpus] for d, gpus in zip(offer.deployments, division.gpus, strict=True)]
    chosen = Divisions(np.array([division.gpus]), np.array([rates]))
    if aim in (FleetAim.TARGET, FleetAim.WEIGHTED):  # what must be met is, but for the solver's tolerance
        offer = replace(offer, services=tuple(_easier(s) for s in offer.services))
    assert best_value(offer, aim, chosen) == pytest.approx(division.value, rel=1e-4, abs=1e-4)
    for share, terms, rps in zip(division.shares, offer.services, promised(offer, chosen)[0], strict=True):
        assert share * terms.demand_rps <= rps + 1e-4


def _easier(service: ServiceTerms) -> ServiceTerms:
    return replace(service, demand_rps=service.demand_rps * (1 - SLACK), floor=service.floor * (1 - SLACK))


@few_fleets
@each_aim
def test_one_more_node_never_hurts(seed: int, aim: FleetAim) -> None:
    offer = fleet_of(seed)
    before = value_of(offer, aim)
    for t in range(len(offer.counts)):
        counts = tuple(n + offer.hosts[t] * (u == t) for u, n in enumerate(offer.counts))
        assert value_of(_with_counts(offer, counts), aim) >= before - SLACK * max(1.0, abs(before))


def _with_counts(offer: FleetOffer, counts: Sequence[int]) -> FleetOffer:
    """The fleet with so many GPUs, and servers of all of them."""
    deployments = tuple(
        replace(d, alternatives=tuple((replace(o, counts=tuple(counts)), p) for o, p in d.alternatives))
        for d in offer.deployments
    )
    return replace(offer, counts=tuple(counts), deployments=deployments)


@few_fleets
def test_twice_the_demands_have_half_the_multiple(seed: int) -> None:
    offer, once = fleet_of(seed), best(seed, FleetAim.MULTIPLE)
    doubled = replace(offer, services=tuple(replace(s, demand_rps=2 * s.demand_rps) for s in offer.services))
    twice = answer(doubled, FleetAim.MULTIPLE)
    assert once is not None
    assert twice is not None
    assert twice.value == pytest.approx(once.value / 2, rel=SLACK, abs=SLACK)


@few_fleets
@each_aim
def test_services_in_another_order_have_the_same(seed: int, aim: FleetAim) -> None:
    offer = fleet_of(seed)
    last = len(offer.services) - 1
    turned = replace(
        offer,
        services=offer.services[::-1],
        deployments=tuple(
            replace(d, serves={last - s: b for s, b in d.serves.items()}) for d in offer.deployments[::-1]
        ),
    )
    before = value_of(offer, aim)
    assert value_of(turned, aim) == pytest.approx(before, rel=SLACK, abs=SLACK)


@few_fleets
@each_aim
def test_shared_nodes_are_never_worse(seed: int, aim: FleetAim) -> None:
    offer = fleet_of(seed, share_nodes=False, survive=0.0)
    shared = replace(offer, hosts=(1,) * len(offer.hosts))
    before = value_of(offer, aim)
    assert value_of(shared, aim) >= before - SLACK * max(1.0, abs(before))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("aim", WITH_PRICES)
def test_the_relaxation_is_a_bound(seed: int, aim: FleetAim) -> None:
    truth = best_value(fleet_of(seed), aim, every_division(seed))
    if truth is None:
        return
    relaxed = node_prices(fleet_of(seed), aim, EXACT).value
    sign = -1.0 if aim is FleetAim.TARGET else 1.0
    assert sign * relaxed >= sign * truth * (1 - sign * SLACK)


@few_fleets
@pytest.mark.parametrize("aim", WITH_PRICES)
def test_no_node_is_worth_more_than_its_price_nor_less_than_taking_it(seed: int, aim: FleetAim) -> None:
    """The relaxation's value is concave in its GPUs: its prices lie between what one more node adds, and what the last
    one added."""
    offer = fleet_of(seed, survive=0.0)
    sign = -1.0 if aim is FleetAim.TARGET else 1.0

    def relaxed(counts: Sequence[int]) -> float:
        try:
            return sign * node_prices(_with_counts(offer, counts), aim, EXACT).value
        except InfeasibleError:
            return -np.inf

    at = relaxed(offer.counts)
    if not np.isfinite(at):
        return
    prices = node_prices(offer, aim, EXACT)
    for t, (price, host) in enumerate(zip(prices.gpus, offer.hosts, strict=True)):
        step = [host * (u == t) for u in range(len(offer.counts))]
        more, less = np.add(offer.counts, step).tolist(), np.subtract(offer.counts, step).tolist()
        assert relaxed(more) - at <= price * host + SLACK
        if less[t] >= 0:
            assert at - relaxed(less) >= price * host - SLACK


@few_fleets
@pytest.mark.parametrize("aim", [FleetAim.MULTIPLE, FleetAim.TARGET])
def test_a_promised_request_costs_what_its_price_says(seed: int, aim: FleetAim) -> None:
    """A little more of one service: of the multiple that is the price times the multiple, since its demand is."""
    offer, step = fleet_of(seed, survive=0.0), 1e-4
    try:
        prices = node_prices(offer, aim, EXACT)
    except InfeasibleError:
        return
    for s, price in enumerate(prices.demands):
        services = [replace(t, demand_rps=t.demand_rps + step * (u == s)) for u, t in enumerate(offer.services)]
        after = node_prices(replace(offer, services=tuple(services)), aim, EXACT).value
        change = abs(after - prices.value) / step
        expected = price * (prices.value if aim is FleetAim.MULTIPLE else 1.0)
        assert change == pytest.approx(expected, rel=1e-2, abs=1e-3)


@pytest.mark.parametrize("seed", [1, 4, 6, 9, 13, 14])
def test_what_was_worked_out_binds_shares_that_have_no_more(seed: int) -> None:
    offer, first = fleet_of(seed), best(seed, FleetAim.MULTIPLE)
    assert first is not None
    limits = [
        RateLimit(deployment=j, gpus=gpus, rate_rps=0.6 * rate)
        for j, (gpus, rate) in enumerate(zip(first.gpus, first.rates_rps, strict=True))
        if any(gpus)
    ]
    limited = replace(offer, limits=tuple(limits))
    second = answer(limited, FleetAim.MULTIPLE)
    assert second is not None
    assert second.value == pytest.approx(best_value(limited, FleetAim.MULTIPLE), rel=SLACK, abs=SLACK)
    assert second.value <= first.value * (1 + SLACK)


@pytest.mark.parametrize("seed", [1, 4, 12, 38])
@pytest.mark.parametrize("times", [1.3, 1.8])
def test_the_cheapest_addition_does_and_nothing_cheaper_would(seed: int, times: float) -> None:
    offer = fleet_of(seed, survive=0.0)
    offer = replace(offer, deployments=tuple(replace(d, most_rps=1000.0) for d in offer.deployments))
    most = value_of(offer, FleetAim.MULTIPLE)
    offer = replace(offer, services=tuple(replace(s, demand_rps=times * most * s.demand_rps) for s in offer.services))
    added = cheapest_addition(offer, EXACT)
    assert all(n % host == 0 for n, host in zip(added, offer.hosts, strict=True))
    cost = float(np.dot(added, offer.charges))
    assert cost > 0
    assert _meets(offer, added)
    for nodes in product(range(4), repeat=len(offer.counts)):
        extra = [n * host for n, host in zip(nodes, offer.hosts, strict=True)]
        if np.dot(extra, offer.charges) < cost * (1 - SLACK):
            assert not _meets(offer, extra)


def _meets(offer: FleetOffer, extra: Sequence[int]) -> bool:
    grown = _with_counts(offer, np.add(offer.counts, extra).tolist())
    return best_value(grown, FleetAim.TARGET) is not None


@pytest.mark.parametrize("aim", [FleetAim.WEIGHTED, FleetAim.TARGET, FleetAim.PRIORITY])
def test_what_cannot_be_met_is_refused(aim: FleetAim) -> None:
    offer = fleet_of(1)
    asked = tuple(replace(s, demand_rps=1000 * s.demand_rps, floor=1.0) for s in offer.services)
    with pytest.raises(InfeasibleError):
        divide(replace(offer, services=asked), aim, EXACT)
