"""M/G/c: published values, closed forms, and queues by discrete events."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_simulations import arrivals, waits_before_servers, waits_before_steps

from planner.cost.queueing import Queue, erlang_c, largest_share, mean_wait, predicted_wait, wait_quantile

MISSES = 0.01
REQUESTS = 40_000


def queue(
    places: list[float], interval_ms: list[float], shares: list[float], *, in_steps: bool = True, variation: float = 0.0
) -> Queue:
    return Queue(
        places=np.array(places),
        interval_ms=np.array(interval_ms),
        shares=np.array(shares),
        in_steps=in_steps,
        variation=variation,
    )


def exact_erlang_c(servers: int, load: Fraction) -> Fraction:
    """The textbook sum, in whole numbers."""
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(load**k / math.factorial(k) for k in range(servers)) + last)


@pytest.mark.parametrize(
    ("servers", "load", "published"), [(1, 0.5, 0.5), (2, 1.0, 1 / 3), (5, 4.0, 0.5541), (10, 8.0, 0.4092)]
)
def test_erlang_c_of_published_tables(servers: int, load: float, published: float) -> None:
    assert float(erlang_c(servers, load / servers)) == pytest.approx(published, abs=5e-5)


@given(servers=st.integers(1, 120), percent=st.integers(1, 99))
def test_erlang_c_is_the_textbook_sum(servers: int, percent: int) -> None:
    exact = exact_erlang_c(servers, Fraction(servers * percent, 100))
    assert float(erlang_c(servers, percent / 100)) == pytest.approx(float(exact), rel=1e-9, abs=1e-300)


def test_erlang_c_of_many_servers_is_finite_and_grows_with_the_load() -> None:
    found = erlang_c(100_000, np.linspace(0, 1, 101))
    assert np.isfinite(found).all()
    assert (np.diff(found) >= 0).all()
    assert (found[0], found[-1]) == (0, 1)


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
def test_single_servers_are_pollaczek_khinchine(rho: float) -> None:
    assert float(mean_wait(1, rho, 20.0)) == pytest.approx(rho * 20 / (2 * (1 - rho)))
    assert float(mean_wait(1, rho, 20.0, service_variation=1)) == pytest.approx(rho * 20 / (1 - rho))
    quantile = float(wait_quantile(1, rho, 20.0, service_variation=1, misses=MISSES))
    assert quantile == pytest.approx(20 / (1 - rho) * math.log(rho / MISSES))


def test_two_exponential_servers_are_the_closed_form() -> None:
    rho = 0.7
    assert float(mean_wait(2, rho, 10.0, service_variation=1)) == pytest.approx(10 * rho**2 / (1 - rho**2))


def test_a_full_server_keeps_all_waiting_for_ever() -> None:
    assert np.isinf(mean_wait(3, 1.0, 10.0))
    assert np.isinf(wait_quantile(3, 1.0, 10.0, misses=MISSES))
    assert float(wait_quantile(50, 0.1, 10.0, misses=MISSES)) == 0


@pytest.mark.parametrize("servers", [1, 4, 16])
@pytest.mark.parametrize("rho", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("law", ["fixed", "exponential"])
def test_simulated_servers_wait_as_predicted(servers: int, rho: float, law: str) -> None:
    times = arrivals(servers * rho / 100, REQUESTS, seed=7)
    random = np.random.default_rng(8)
    services = np.full(REQUESTS, 100.0) if law == "fixed" else random.exponential(100, REQUESTS)
    waits = waits_before_servers(times, services, servers)
    variation = 0.0 if law == "fixed" else 1.0
    predicted = float(mean_wait(servers, rho, 100, service_variation=variation))
    assert waits.mean() == pytest.approx(predicted, rel=0.25, abs=2)
    quantile = float(wait_quantile(servers, rho, 100, service_variation=variation, misses=MISSES))
    assert np.quantile(waits, 1 - MISSES) <= 1.15 * quantile + 5


@pytest.mark.parametrize("places", [1, 8, 64, 512])
@pytest.mark.parametrize("rho", [0.05, 0.4, 0.8, 0.95])
def test_simulated_steps_wait_no_longer_than_promised(places: int, rho: float) -> None:
    one = queue([places], [100.0], [1.0])
    waits = waits_before_steps(arrivals(places * rho / 100, REQUESTS, seed=3), places, [100.0] * places)
    mean, quantile = predicted_wait(one, rho, MISSES)
    assert quantile is not None
    assert np.quantile(waits, 1 - MISSES) <= 1.05 * quantile + 1
    assert waits.mean() <= 1.1 * mean + 1
    assert np.quantile(waits, 1 - MISSES) >= 0.35 * quantile - 1  # a promise, not a scare


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.85])
@pytest.mark.parametrize(("rare", "short", "long"), [(0.25, 40.0, 600.0), (0.01, 100.0, 3000.0), (0.5, 100.0, 200.0)])
@pytest.mark.parametrize("servers", [1, 8])
def test_long_prompts_delay_short_ones_as_promised(
    servers: int, rho: float, rare: float, short: float, long: float
) -> None:
    services = np.where(np.random.default_rng(5).random(REQUESTS) < rare, long, short)
    waits = waits_before_servers(arrivals(servers * rho / services.mean(), REQUESTS, seed=6), services, servers)
    time = np.array([(1 - rare) * short, rare * long])
    one = queue([servers, servers], [short, long], (time / time.sum()).tolist())
    mean, quantile = predicted_wait(one, rho, MISSES)
    assert quantile is not None
    assert waits.mean() <= 1.15 * mean
    assert np.quantile(waits, 1 - MISSES) <= 1.05 * quantile
    if servers == 1:
        assert waits.mean() == pytest.approx(mean, rel=0.15)


@pytest.mark.parametrize("misses", [None, 0.05, 0.005])
@pytest.mark.parametrize("places", [1, 16])
def test_the_largest_utilisation_just_meets_the_slack(places: int, misses: float | None) -> None:
    one, slack = queue([places], [100.0], [1.0]), np.array(180.0)
    most = one.largest_utilisation(slack, misses)
    assert 0 < float(most) < 1
    assert bool(one.meets(most, slack, misses))
    assert not bool(one.meets(most + 1e-3, slack, misses))
    assert largest_share(one, float(most) / 2, 180.0, misses) == 1.0
    assert largest_share(one, 2 * float(most), 180.0, misses) == pytest.approx(0.5)


def test_no_slack_admits_nothing_and_no_bound_admits_all() -> None:
    one = queue([4], [100.0], [1.0])
    assert float(one.largest_utilisation(np.array(-1.0), MISSES)) == 0
    assert float(one.largest_utilisation(np.array(np.inf), MISSES)) == 1
