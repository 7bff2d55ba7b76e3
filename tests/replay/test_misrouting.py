"""Routers that tell a prompt's length by its bytes: how many come to the wrong bucket, and what becomes of them."""

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from fleets import LONGEST, decode_pool, fleet, prefill_pool, run, table

from planner.domain import Endpoints, Rule, one_layer
from planner.domain.arrivals import ReplaySettings
from planner.domain.fleet import Interval, PoolShare
from planner.domain.serving.routers import LEAST_WORK
from planner.replay.engine import Engine
from planner.replay.measures.columns import Columns
from planner.replay.measures.results import SeedRun, misroutes_of

CUT, SPREAD, COUNT = 500, 0.2, 4000


def replayed(prompts: list[int], spread: float, context: int = 0) -> Engine:
    pools = [
        prefill_pool(servers=8, island="short"),
        prefill_pool(servers=8, island="long"),
        decode_pool(batch=500, servers=2),
    ]
    decode = (PoolShare(pool=2, share=1.0),)
    intervals = [
        Interval(start=0, end=CUT, prefill=(PoolShare(pool=0, share=1.0),), decode=decode, context=context),
        Interval(start=CUT, end=LONGEST + 1, prefill=(PoolShare(pool=1, share=1.0),), decode=decode),
    ]
    requests = table((np.arange(len(prompts)) * 10.0).tolist(), prompts, [2] * len(prompts))
    return run(fleet(pools, intervals), requests, replace(ReplaySettings(), length_spread=spread))


def shares(engine: Engine) -> tuple[float, float]:
    return misroutes_of([SeedRun(engine=engine, columns=Columns.of(engine, 0))], engine.fleet)


@pytest.mark.parametrize("length", [300, 400, 499, 500, 600, 800])
def test_as_many_come_to_the_wrong_bucket_as_the_error_of_the_measure_says(length: int) -> None:
    """ln(measured / true) is normal, so a prompt of L tokens crosses the cut c with chance Phi(-|ln(c / L)| / s)."""
    misrouted, _ = shares(replayed([length] * COUNT, SPREAD))
    expected = NormalDist().cdf(-abs(np.log(CUT / length)) / SPREAD)
    assert misrouted == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / COUNT) + 0.002)


def test_who_counts_tokens_misroutes_nobody() -> None:
    prompts = np.random.default_rng(1).integers(1, LONGEST, COUNT).tolist()
    engine = replayed(prompts, 0.0)
    assert shares(engine) == (0.0, 0.0)
    assert [pool == 1 for pool in engine.log.prefill] == [prompt >= CUT for prompt in prompts]


def test_no_engine_answers_what_is_longer_than_its_context() -> None:
    """Of prompts of 600 tokens and answers of 2, those that come to the short servers are refused below 602."""
    for context, refused in ((601, True), (602, False)):
        misrouted, share = shares(replayed([600] * COUNT, SPREAD, context))
        assert share == (misrouted if refused else 0.0)
        assert misrouted > 0.1


@pytest.mark.parametrize("rule", [Rule.RANDOM, Rule.IN_TURN])
def test_who_is_blind_to_speed_gives_every_server_as_much(rule: Rule) -> None:
    """One server of 3/4 of the share beside three of 1/12 each: a quarter of the requests for each of them."""
    pools = [prefill_pool(servers=1, island="fast"), prefill_pool(servers=3, island="slow"), decode_pool(batch=500)]
    rows = (PoolShare(pool=0, share=0.75), PoolShare(pool=1, share=0.25))
    every = Interval(start=0, end=LONGEST + 1, prefill=rows, decode=(PoolShare(pool=2, share=1.0),))
    requests = table((np.arange(COUNT) * 10.0).tolist(), [100] * COUNT, [2] * COUNT)
    for by_speed, share in ((True, 0.75), (False, 0.25)):
        router = replace(LEAST_WORK, prefill=one_layer(Endpoints.SERVER, rule, by_speed=by_speed))
        engine = run(fleet(pools, [every]), requests, ReplaySettings(router=router))
        assert engine.log.prefill.count(0) / COUNT == pytest.approx(share, abs=0.03)


def test_a_request_is_measured_once() -> None:
    """Prefill and decode see the same bucket, and lengths beyond the last one go to the last."""
    engine = replayed([LONGEST] * 200, 0.3)
    assert set(engine.sent_to) == {1}
