"""Stations that jump over passes against servers that go pass by pass."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from fleets import answers, decode_pool, fleet, interval, mixed_pool, prefill_pool, room, run, table
from hypothesis import given
from hypothesis import strategies as st
from step_by_step import Moments, StepServer

from planner.domain import RouterPolicy, behaviour_of
from planner.domain.arrivals import ReplaySettings
from planner.domain.fleet import ReplayPool
from planner.replay.requests import Events, RequestLog
from planner.replay.stations.decode import DecodeServer
from planner.replay.stations.mixed import MixedServer

from cost.prefill_simulation import PrefillPool  # isort: skip

CLOSE_MS = 1e-5


def drawn(seed: int, count: int, gap_ms: float) -> tuple[list[float], list[int], list[int]]:
    """Arrivals, prompts and answers; three of ten come with the one before, to a hundredth of a ms."""
    rng = np.random.default_rng(seed)
    gaps = np.where(rng.random(count) < 0.3, 0.01, rng.exponential(gap_ms, count)) * (1 + rng.random(count) / 1e3)
    lengths = np.clip(rng.lognormal(5, 1, count), 2, 2000)
    return gaps.cumsum().tolist(), lengths.astype(int).tolist(), rng.geometric(1 / 60, count).tolist()


def same(log: RequestLog, column: str, expected: dict[int, float]) -> None:
    values = list(getattr(log, column))
    assert values == pytest.approx([expected[request] for request in range(len(values))], abs=CLOSE_MS), column


def preempted(log: RequestLog, expected: Moments) -> None:
    """The same requests lost their places as often."""
    counts = Counter(request for _, request in expected.preempted)
    assert list(log.preempted) == [counts[request] for request in range(len(log.preempted))]


SERVERS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "ranks": st.integers(1, 4),
        "places": st.integers(1, 12),
        "gap_ms": st.sampled_from([30.0, 150.0, 1500.0]),
        "room": st.sampled_from([1.2, 2.5, 1e6]),
        "context_ms": st.sampled_from([0.0, 0.003]),
        "sequence_ms": st.sampled_from([0.0, 0.7]),
    }
)


def step_server(case: dict[str, float], longest: int, **rest: Any) -> StepServer:
    return StepServer(
        ranks=int(case["ranks"]),
        places=int(case["places"]),
        free_gb=case["room"] * longest + 0.37,
        base_ms=9.3,
        sequence_ms=case["sequence_ms"],
        context_ms=case["context_ms"],
        **rest,
    )


@given(case=SERVERS, redo_ms=st.sampled_from([0.0, 0.05]))
def test_decode(case: dict[str, float], redo_ms: float) -> None:
    arrivals, prompts, tokens = drawn(int(case["seed"]), 60, case["gap_ms"])
    longest = max(map(sum, zip(prompts, tokens, strict=True)))
    server = step_server(case, longest, redo_ms=redo_ms)
    expected = server.decode(list(zip(arrivals, prompts, tokens, strict=True)))
    pool = decode_pool(
        ranks=server.ranks,
        batch=server.places,
        curve=answers(9.3, case["sequence_ms"], case["context_ms"]),
        kv=room(server.free_gb),
        redo_ms=redo_ms,
    )
    log, events = RequestLog(60), Events()
    station = DecodeServer(0, pool, table(arrivals, prompts, tokens), log, events, lambda _, __: None)
    for request, now in enumerate(arrivals):
        events.until(now)
        station.expect(1)
        station.add(now, request)
    events.until(float("inf"))
    preempted(log, expected)
    for column in ("placed", "first", "ended"):
        same(log, column, getattr(expected, column))


@given(case=SERVERS, budget=st.sampled_from([64, 300, 4000]))
def test_mixed(case: dict[str, float], budget: int) -> None:
    arrivals, prompts, tokens = drawn(int(case["seed"]), 60, case["gap_ms"])
    longest = max(map(sum, zip(prompts, tokens, strict=True)))
    server = step_server(case, longest, budget=budget, chunk_base_ms=2.0, token_ms=0.03)
    ranks = np.random.default_rng(1).integers(0, server.ranks, 60).tolist()
    expected = server.mixed(list(zip(arrivals, prompts, tokens, ranks, strict=True)))
    pool = mixed_pool(
        ranks=server.ranks,
        batch=server.places,
        budget=budget,
        curve=answers(9.3, case["sequence_ms"], case["context_ms"]),
        kv=room(server.free_gb),
        chunk_base_ms=2.0,
        ms_per_token=0.03,
    )
    log, events = RequestLog(60), Events()
    station = MixedServer(0, pool, table(arrivals, prompts, tokens), log, events, lambda _, __: None, 0)
    for request, now in enumerate(arrivals):
        events.until(now)
        station.add(now, request, ranks[request], prompts[request])
    events.until(float("inf"))
    preempted(log, expected)
    for column in ("first", "ended"):
        same(log, column, getattr(expected, column))


def test_what_a_first_token_takes_besides_delays_all_tokens_alike() -> None:
    """A server's host sends tokens later than its GPUs make them, and does not send them faster after each other."""
    of_gpus, of_host = (_one_mixed(mixed_pool(first_ms=first_ms, first_passes=2.0)) for first_ms in (0.0, 80.0))
    assert of_host.first[0] - of_gpus.first[0] == pytest.approx(80)
    assert of_host.ended[0] - of_gpus.ended[0] == pytest.approx(80)
    passes = of_gpus.first[0] - of_gpus.prefilled[0]
    assert passes == pytest.approx(2 * of_gpus.prefilled[0])


def _one_mixed(pool: ReplayPool) -> RequestLog:
    return run(fleet([pool]), table([0.0], [100], [50])).log


@pytest.mark.parametrize(("servers", "ranks", "pace"), [(1, 1, 1.0), (1, 4, 0.9), (3, 2, 1.0), (2, 8, 0.7)])
def test_prefill_equals_the_simulation_of_its_cap(servers: int, ranks: int, pace: float) -> None:
    arrivals = (np.cumsum(np.random.default_rng(9).exponential(25 / servers / ranks, 2000))).tolist()
    prompts = np.random.default_rng(10).integers(1, 2500, 2000).tolist()
    simulated = PrefillPool(
        islands=servers, ranks=ranks, budget=1000.0, pace=pace, step_ms=lambda tokens: 3.0 + 0.013 * tokens
    )
    pools = [
        prefill_pool(servers=servers, ranks=ranks, budget=1000, base_ms=3.0, ms_per_token=0.013, pace=pace),
        decode_pool(batch=1000),
    ]
    settings_of = ReplaySettings(router=behaviour_of(RouterPolicy.LEAST_WORK))
    engine = run(fleet(pools, [interval(pools)]), table(arrivals, prompts, [1] * 2000), settings_of)
    assert list(engine.log.prefilled) == pytest.approx(simulated.finished_ms(arrivals, prompts).tolist(), abs=CLOSE_MS)


def test_curves_with_kinks_differ_little() -> None:
    """Where times bend, a jump takes the slope where it begins: of 256 passes that is a few thousandths."""
    bent = answers(10.0)
    curve = type(bent)(
        contexts=(1.0, 500.0, 1500.0, 8000.0),
        batches=(1.0, 1000.0),
        pass_ms=((10.0, 10.0), (10.4, 10.4), (13.0, 13.0), (20.0, 20.0)),
    )
    log = run(fleet([prefill_pool(), decode_pool(curve=curve)]), table([0.0], [300], [3000])).log
    contexts = np.arange(300.0, 3300.0)
    assert log.ended[0] - log.placed[0] == pytest.approx(
        float(np.interp(contexts, curve.contexts, [row[0] for row in curve.pass_ms]).sum()), rel=0.005
    )
