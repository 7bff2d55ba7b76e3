"""Stations against the theory of queues.

A decode server of c places, whose passes take the same time whatever they carry, is a queue of c servers; answers of
geometric length with a mean of many passes are nearly exponential. A prefill rank whose prompts fill its budget exactly
has services of one length. The same requests go through the recursion of the queue itself and must wait as long, to a
pass; that recursion takes many more requests than the engine in the same time, so it tells how far the sample is off
the long run, and the engine's mean is corrected by it (a ratio estimate). The studies do without it.

| symbol | meaning |
|---|---|
| W | mean wait |
| a, s, m2 | mean gap, mean service, mean squared service |
| M/G/1 | W = m2 / a / (2 (1 - s / a)) (Pollaczek-Khinchine); M/D/1: m2 = s^2 |
| M/M/c | W = C(c, s / a) s / (c - s / a), C of Erlang |
"""

import heapq
from dataclasses import replace
from math import factorial

import numpy as np
import pytest
from fleets import decode_pool, prefill_pool, table

from planner.domain.fleet import ReplayPool
from planner.replay.requests import Events, RequestLog
from planner.replay.stations.decode import DecodeServer
from planner.replay.stations.prefill import PrefillServer

PASS_MS = 10.0
PASSES = 200  # of a mean answer
REQUESTS = 15_000
LONG = 1_000_000
BUDGET = 1000
WITHIN = 0.02
POOL = prefill_pool(budget=BUDGET, base_ms=5.0, ms_per_token=0.1)


def gaps_ms(mean_ms: float, seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).exponential(mean_ms, count)


def waits_of_answers(arrival_ms: np.ndarray, answers: np.ndarray, places: int) -> np.ndarray:
    pool = decode_pool(batch=places)
    requests = table(arrival_ms.tolist(), [1] * len(answers), answers.tolist())
    log, events = RequestLog(len(answers)), Events()
    server = DecodeServer(0, pool, requests, log, events, lambda _, __: None)
    for request, now in enumerate(requests.arrival_ms):
        events.until(now)
        server.expect(1)
        server.add(now, request)
    events.until(float("inf"))
    return np.asarray(np.array(log.placed) - arrival_ms)


def waits_of_prompts(arrival_ms: np.ndarray, pool: ReplayPool) -> np.ndarray:
    requests = table(arrival_ms.tolist(), [BUDGET] * len(arrival_ms), [1] * len(arrival_ms))
    log, events = RequestLog(len(arrival_ms)), Events()
    server = PrefillServer(0, pool, requests, log, events, lambda *_: None, 0)
    for request, now in enumerate(requests.arrival_ms):
        events.until(now)
        server.add(now, request, 0, BUDGET)
    events.until(float("inf"))
    return np.asarray(np.array(log.started) - arrival_ms)


def waits_by_recursion(arrival_ms: np.ndarray, service_ms: np.ndarray, servers: int) -> np.ndarray:
    """First come, first served by whoever is free first (Kiefer and Wolfowitz)."""
    free, waits = [0.0] * servers, np.empty(len(arrival_ms))
    for k, (now, service) in enumerate(zip(arrival_ms.tolist(), service_ms.tolist(), strict=True)):
        start = max(now, free[0])
        heapq.heapreplace(free, start + service)
        waits[k] = start - now
    return waits


def erlang_wait(gap_ms: float, service_ms: float, servers: int) -> float:
    load = service_ms / gap_ms
    full = load**servers / factorial(servers) * servers / (servers - load)
    chance = full / (sum(load**k / factorial(k) for k in range(servers)) + full)
    return chance * service_ms / (servers - load)


def pollaczek_wait(gap_ms: float, service_ms: np.ndarray) -> float:
    return float((service_ms**2).mean() / gap_ms / (2 * (1 - service_ms.mean() / gap_ms)))


def check(gap_ms: float, services_ms: np.ndarray, servers: int, stepped: bool, wait_ms: float, count: int) -> None:
    """The first `count` requests through a station, all of them through the recursion."""
    arrivals = gaps_ms(gap_ms, 1, len(services_ms)).cumsum()
    by_recursion = waits_by_recursion(arrivals, services_ms, servers)
    arrivals, services = arrivals[:count], services_ms[:count]
    if stepped:
        waits, close_ms = waits_of_prompts(arrivals, POOL), 1e-3
        assert waits == pytest.approx(by_recursion[:count], abs=close_ms)
    else:
        # who comes while passes run begins with the next one: no more than a pass later than without passes
        waits = waits_of_answers(arrivals, np.round(services / PASS_MS).astype(int), servers)
        assert abs((waits - by_recursion[:count]).mean()) <= PASS_MS
    corrected = waits.mean() * by_recursion.mean() / by_recursion[:count].mean()
    assert corrected == pytest.approx(wait_ms, rel=WITHIN)


COUNTS = [REQUESTS, pytest.param(LONG, marks=pytest.mark.study)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (4, 0.7)])
def test_exponential_services(servers: int, load: float, count: int) -> None:
    services = np.random.default_rng(100).geometric(1 / PASSES, LONG) * PASS_MS
    gap_ms = PASS_MS * PASSES / servers / load
    check(gap_ms, services, servers, False, erlang_wait(gap_ms, PASS_MS * PASSES, servers), count)


@pytest.mark.parametrize("count", COUNTS)
def test_services_of_any_kind(count: int) -> None:
    """One answer in ten is four times as long as the others."""
    services = np.where(np.random.default_rng(7).random(LONG) < 0.1, 4 * PASSES, PASSES) * PASS_MS
    gap_ms = 1.3 * PASSES * PASS_MS / 0.6
    lengths = np.repeat([4.0, 1.0], [1, 9]) * PASSES * PASS_MS
    check(gap_ms, services, 1, False, pollaczek_wait(gap_ms, lengths), count)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("load", [0.8])
def test_services_of_one_length(load: float, count: int) -> None:
    service_ms = 5.0 + 0.1 * BUDGET
    gap_ms = service_ms / load
    services = np.full(LONG, service_ms)
    check(gap_ms, services, 1, True, pollaczek_wait(gap_ms, services[:1]), count)


def test_steps_in_a_pipeline_start_at_its_pace() -> None:
    """Stages and pace shorten the time between two starts, as if services were shorter, and not the step itself."""
    pool = replace(POOL, stages=2, pace=0.8)
    between_ms = (5.0 + 0.1 * BUDGET) / 2 / 0.8
    arrivals = gaps_ms(between_ms / 0.7, 5, REQUESTS).cumsum()
    waits = waits_of_prompts(arrivals, pool)
    assert waits == pytest.approx(waits_by_recursion(arrivals, np.full(REQUESTS, between_ms), 1), abs=1e-3)
