"""Tails of waits: closed forms where there are any, and what must hold between arrivals and routers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.serving.waits import POISSON, Arrivals, FullRanks, WaitTail, wait_tail
from planner.domain import CountDispersion, RouterPolicy, behaviour_of
from planner.domain.serving.routers import LEAST_WORK, RANKS_IN_TURN

WINDOWS = (0.1, 1.0, 10.0, 100.0)
BURSTS = CountDispersion(windows_s=WINDOWS, dispersion=(2.0, 8.0, 30.0, 60.0))


def cell(value: float) -> np.ndarray:
    return np.array([[value]])


def behind(policy: RouterPolicy, counts: CountDispersion | None = None) -> Arrivals:
    return Arrivals.of(behaviour_of(policy).prefill, counts)


def tail_of(arrivals: Arrivals, rho: float = 0.8, *, dp: float = 4.0, servers: float = 6.0) -> WaitTail:
    """Of servers that work a request each 10 ms, prompts of 1000 tokens with a variation of 0.5."""
    ranks = FullRanks(cycle_ms=cell(80.0 * dp), tokens=cell(8192 * rho), budget=cell(8192.0), ranks=cell(dp))
    moments = (cell(1000.0), cell(1.5e6))
    return wait_tail(arrivals, cell(0.1), cell(0.1 * servers), cell(rho), moments, ranks)


@given(rho=st.floats(0.05, 0.99), variation=st.floats(0.1, 50), wait_ms=st.floats(1, 1e5))
def test_gaps_of_one_variation_have_the_tail_of_heavy_traffic(rho: float, variation: float, wait_ms: float) -> None:
    """(ca2 + cs2) / (2 X (1 - rho)), whatever the wait."""
    expected = (variation + 0.5) / (2 * 0.6 * (1 - rho))
    assert tail_of(Arrivals.varied(variation), rho).at(cell(wait_ms)) == pytest.approx(expected)


@given(rho=st.floats(0.3, 0.95), level=st.floats(0.5, 20), wait_ms=st.floats(100, 5000))
def test_the_likeliest_time_gives_the_closed_form_where_counts_vary_alike(
    rho: float, level: float, wait_ms: float
) -> None:
    """At t = y / (1 - rho), between the times that are tried."""
    nearly = CountDispersion(windows_s=(1e-6, 1e4), dispersion=(level, level * (1 + 1e-9)))
    tail = tail_of(behind(RouterPolicy.LEAST_WORK, nearly), rho).at(cell(wait_ms))
    assert tail == pytest.approx((level + 0.5) / (2 * 0.6 * (1 - rho)), rel=0.02)


def test_a_queue_that_takes_longer_to_fill_sees_longer_bursts() -> None:
    tail = tail_of(behind(RouterPolicy.LEAST_WORK, BURSTS))
    waits = [float(tail.at(cell(wait))[0, 0]) for wait in (50, 500, 5000, 20000)]
    assert waits == sorted(waits)
    poisson = float(tail_of(POISSON).at(cell(500))[0, 0])
    assert 2 * poisson < waits[1] < 60 * poisson


def test_a_bucket_of_few_requests_sees_weaker_bursts() -> None:
    bursts = behind(RouterPolicy.LEAST_WORK, BURSTS)
    assert bursts.thinned(1.0) == bursts
    assert bursts.thinned(0.25).dispersion == (1.25, 2.75, 8.25, 15.75)
    assert POISSON.thinned(0.3) == POISSON


@pytest.mark.parametrize("share", [1.0, 0.5, 0.2, 0.05])
def test_counts_of_times_below_the_first_window_are_those_of_a_process_that_switches(share: float) -> None:
    """Poisson's rate switches between two levels: I(t) = 1 + 2 v / (m r) (1 - (1 - e^-rt) / rt), r the rate of changes,
    m and v mean and variance of the level. Traces say nothing of times below their first window, which are short of
    1 / r."""
    per_s, excess = 0.02, 7.0  # r of the process, 2 v / (m r) of it

    def counts(seconds: float) -> float:
        turns = per_s * seconds
        return 1 + excess * (1 + np.expm1(-turns) / turns)

    windows = (1.0, 10.0, 100.0)
    arrivals = behind(
        RouterPolicy.LEAST_WORK,
        CountDispersion(windows_s=windows, dispersion=tuple(map(counts, windows))),
    )
    assert arrivals.at(np.array([share * 1000.0]))[0] - 1 == pytest.approx(counts(share) - 1, rel=0.02)


@pytest.mark.parametrize("policy", [RouterPolicy.RANDOM, RouterPolicy.ROUND_ROBIN])
def test_a_servers_counts_are_those_of_a_sample_sent_to_it(policy: RouterPolicy) -> None:
    """Groups of requests at Poisson's moments, sent to one of four servers by chance or in turn, and counted."""
    rng, servers, window = np.random.default_rng(5), 4, 1000.0
    moments = np.sort(rng.uniform(0, 4e6, 40_000))
    times = np.repeat(moments, rng.geometric(1 / 8, len(moments)))  # I = E[size^2] / E[size] = 15
    places = (
        np.arange(len(times)) % servers if policy is RouterPolicy.ROUND_ROBIN else rng.integers(0, servers, len(times))
    )
    counts = np.bincount((times[places == 0] / window).astype(int), minlength=4000)
    arrivals = replace(Arrivals.varied(15.0), layers=behind(policy).layers)
    share = float(arrivals.of_server(np.array([[1 / servers]])).ravel()[0])
    assert counts.var() / counts.mean() == pytest.approx(share, rel=0.08)


def test_a_ranks_counts_are_those_of_every_nth_request_of_its_server() -> None:
    """Groups of requests at Poisson's moments, dealt out to the four ranks of one server in turn, and counted."""
    rng, ranks, window = np.random.default_rng(6), 4, 1000.0
    moments = np.sort(rng.uniform(0, 4e6, 40_000))
    times = np.repeat(moments, rng.geometric(1 / 8, len(moments)))[::ranks]  # I = 15 of all
    counts = np.bincount((times / window).astype(int), minlength=4000)
    tail = tail_of(
        replace(Arrivals.varied(15.0), layers=behind(RouterPolicy.RANDOM).layers), dp=float(ranks), servers=1.0
    )
    assert counts.var() / counts.mean() == pytest.approx(float(tail.counts.ravel()[0]), rel=0.08)


def test_one_server_behind_any_router_is_one_queue() -> None:
    """Drawn or balanced: with one server of one rank there is nothing to choose."""
    drawn = tail_of(behind(RouterPolicy.RANDOM), dp=1.0, servers=1.0)
    balanced = tail_of(POISSON, dp=1.0, servers=1.0)
    # a full step of 8192 tokens in 80 ms is 0.1024 requests a ms
    assert drawn.at(cell(100)) == pytest.approx(balanced.at(cell(100)) * 0.1 / 0.1024)


@pytest.mark.parametrize("counts", [None, BURSTS])
def test_the_less_a_router_sees_the_longer_the_wait(counts: CountDispersion | None) -> None:
    ranks_in_turn = (LEAST_WORK.prefill[0], RANKS_IN_TURN)
    order = (LEAST_WORK.prefill, ranks_in_turn, behaviour_of(RouterPolicy.RANDOM).prefill)
    waits = [float(tail_of(Arrivals.of(layers, counts)).at(cell(1000))[0, 0]) for layers in order]
    assert waits == sorted(waits)
    assert float(tail_of(behind(RouterPolicy.ROUND_ROBIN, counts)).at(cell(1000))[0, 0]) <= waits[-1]


def test_policies_that_rank_servers_by_work_share_a_tail() -> None:
    for policy in (RouterPolicy.OVERFLOW, RouterPolicy.PREFIX_AWARE):
        assert tail_of(behind(policy)).at(cell(1000)) == tail_of(POISSON).at(cell(1000))
