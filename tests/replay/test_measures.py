"""Figures of results against numpy and scipy, on requests whose times are known."""

import numpy as np
import pytest
from fleets import LONGEST, decode_pool, fleet, interval, prefill_pool, run, table
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from planner.domain.arrivals import ReplaySettings
from planner.domain.fleet import ReplayFleet
from planner.domain.serving.levels import LevelCheck, Standing
from planner.domain.slo import RangeSlo, SloScope, SloSettings
from planner.replay.engine import Engine
from planner.replay.measures.columns import Columns, quantiles, spread
from planner.replay.measures.results import SeedRun, groups_of, islands_of, levels_of, moments_of

POOLS = [prefill_pool(servers=2), decode_pool(servers=2, batch=20)]
INTERVALS = [interval(POOLS, 0, 200), interval(POOLS, 200, LONGEST + 1)]


def runs(seeds: int = 3, gap_ms: float = 40.0) -> tuple[ReplayFleet, list[SeedRun]]:
    of = fleet(POOLS, INTERVALS)
    finished = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        arrivals = rng.exponential(gap_ms, 500).cumsum()
        requests = table(arrivals.tolist(), rng.integers(1, 500, 500).tolist(), rng.geometric(0.05, 500).tolist())
        engine = Engine(of, requests, ReplaySettings(), seed)
        engine.count_usage(requests.arrival_ms[50], requests.arrival_ms[-1])
        engine.run()
        finished.append(SeedRun(engine=engine, columns=Columns.of(engine, 50)))
    return of, finished


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=60))
def test_confidence_intervals_are_students(values: list[float]) -> None:
    interval_of = spread(values)
    mean, error = np.mean(values), stats.sem(values)
    assert interval_of.mean == pytest.approx(mean, abs=1e-9)
    if error > 1e-9:
        low, high = stats.t.interval(0.95, len(values) - 1, loc=mean, scale=error)
        assert interval_of.low is not None
        assert interval_of.high is not None
        assert interval_of.high - interval_of.low == pytest.approx(high - low, rel=5e-4)
        assert (interval_of.low + interval_of.high) / 2 == pytest.approx(mean, abs=1e-6)


def test_one_seed_has_no_interval() -> None:
    assert spread([3.0]).low is None
    assert spread([3.0, float("inf")]).mean == float("inf")


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
def test_quantiles_are_values_that_so_many_keep(values: list[float]) -> None:
    row = quantiles(np.array(values))
    assert row[0] == pytest.approx(np.mean(values))
    for quantile, value in zip((0.5, 0.9, 0.95, 0.99), row[1:], strict=True):
        assert value in values
        assert np.mean(np.array(values) <= value) >= quantile - 1e-12
        assert np.mean(np.array(values) < value) < quantile


def test_groups() -> None:
    of, finished = runs()
    slo = SloSettings(ttft_ms=60.0, tpot_ms=10.5)
    total, buckets = groups_of(finished, of, slo)
    assert total.requests == 3 * 450 == sum(bucket.requests for bucket in buckets)
    assert [(bucket.start, bucket.end) for bucket in buckets] == [(0, 200), (200, LONGEST + 1)]
    good, ttft99, slow = [], [], []
    for one in finished:
        log, requests = one.engine.log, one.engine.requests
        ttft = (np.array(log.first) - requests.arrival_ms)[50:]
        answer = np.array(requests.answer)[50:]
        several = answer > 1
        tpot = (np.array(log.ended) - np.array(log.first))[50:][several] / (answer[several] - 1)
        kept = ttft <= 60
        kept[several] &= tpot <= 10.5
        seconds = (requests.arrival_ms[-1] - requests.arrival_ms[50]) / 1000
        good.append(kept.sum() / seconds)
        ttft99.append(np.quantile(ttft, 0.99, method="inverted_cdf"))
        slow.append(np.quantile(1000 / tpot, 0.05, method="inverted_cdf"))
    assert total.goodput_rps.mean == pytest.approx(np.mean(good))
    assert 0.05 < total.within_levels.mean < 0.95
    assert total.ttft_ms.p99.mean == pytest.approx(np.mean(ttft99))
    assert total.tokens_per_s_p05.mean == pytest.approx(np.mean(slow), rel=0.01)


def test_islands_are_busy_for_no_more_than_their_time() -> None:
    """Utilisation is that between the first request that counts and the last arrival, however long answers go on."""
    of, finished = runs(gap_ms=4.0)
    for island, pool in zip(islands_of(finished, of), of.pools, strict=True):
        assert 0.5 < island.utilisation.mean <= 1 + 1e-9
        for one in finished:
            usages = one.engine.usages[of.pools.index(pool)]
            for usage in usages:
                assert usage.busy_ms <= (usage.until - usage.since) * (1 + 1e-9)


def test_utilisation_of_prefill_is_the_share_of_time_with_a_step() -> None:
    """A step of 15 ms every 60 ms, in a window that begins and ends in the midst of steps."""
    pools = [prefill_pool(base_ms=5.0, ms_per_token=0.1), decode_pool(batch=100)]
    requests = table([60.0 * k for k in range(100)], [100] * 100, [1] * 100)
    engine = Engine(fleet(pools), requests, ReplaySettings(), 0)
    engine.count_usage(67.5, 67.5 + 60 * 50)
    engine.run()
    (usage,) = engine.usages[0]
    assert usage.busy_ms == pytest.approx(15.0 * 50)


SHORT = "TTFT of 0-199 tokens"


def check(slo: SloSettings, gap_ms: float = 40.0) -> dict[str, LevelCheck]:
    of, finished = runs(gap_ms=gap_ms)
    return {level.name: level for level in levels_of(finished, of, slo)}


def test_levels_with_a_percentile() -> None:
    of, finished = runs()
    every = np.concatenate([one.columns.ttft for one in finished])
    bound = float(np.quantile(every, 0.9))
    for percentile, holds in ((85, True), (95, False)):
        slo = SloSettings(ttft_ms=bound, percentile=percentile, scope=SloScope.OVERALL)
        (level,) = levels_of(finished, of, slo)
        assert level.standing is (Standing.HOLDS if holds else Standing.BREAKS)
        assert level.needed == percentile / 100
        assert level.share.mean == pytest.approx(0.9, abs=0.01)
        assert level.bound_ms == bound


def test_levels_of_every_bucket() -> None:
    levels = check(SloSettings(ttft_ms=45.0, percentile=50, scope=SloScope.EVERY_BUCKET))
    assert list(levels) == ["TTFT of 0-199 tokens", f"TTFT of 200-{LONGEST} tokens"]
    assert levels["TTFT of 0-199 tokens"].standing is Standing.HOLDS
    assert levels[f"TTFT of 200-{LONGEST} tokens"].standing is Standing.BREAKS


def test_levels_of_the_mean() -> None:
    of, finished = runs()
    mean = float(np.mean([one.columns.ttft.mean() for one in finished]))

    def of_all(ttft_ms: float) -> LevelCheck:
        return levels_of(finished, of, SloSettings(ttft_ms=ttft_ms, scope=SloScope.OVERALL))[0]

    assert of_all(mean + 0.01).standing is Standing.HOLDS
    assert of_all(mean - 0.01).standing is Standing.UNTOLD
    assert of_all(mean / 2).standing is Standing.BREAKS
    short, long = levels_of(finished, of, SloSettings(ttft_ms=mean))
    assert short.value_ms.mean < mean < long.value_ms.mean


def test_a_bound_of_some_prompts_holds_for_them_alone() -> None:
    """No general bound: the mean of short prompts is held against theirs, and nobody's against 0."""
    levels = check(SloSettings(ranges=(RangeSlo(start=0, end=100, ttft_ms=200.0),)))
    assert list(levels) == [SHORT]
    assert levels[SHORT].bound_ms == 200.0
    assert levels[SHORT].standing is Standing.HOLDS
    tight = check(SloSettings(ranges=(RangeSlo(start=0, end=100, ttft_ms=5.0),)))
    assert tight[SHORT].standing is Standing.BREAKS


def test_a_bound_that_grows_with_the_prompt_grows_for_means_too() -> None:
    tight = check(SloSettings(ttft_ms=15.0, scope=SloScope.OVERALL))["TTFT"]
    grown = check(SloSettings(ttft_ms=15.0, ttft_ms_per_1k_tokens=400.0, scope=SloScope.OVERALL))["TTFT"]
    assert tight.standing is Standing.BREAKS
    assert grown.standing is Standing.HOLDS
    assert grown.bound_ms == pytest.approx(15 + 0.4 * 250, rel=0.05)


def test_moments_add_up() -> None:
    _, finished = runs()
    moments = moments_of(finished[0], SloSettings(), 20)
    columns = finished[0].columns
    assert sum(moment.arrived for moment in moments) == 450
    assert moments[0].start_s == pytest.approx(columns.arrival[0] / 1000)
    span_s = finished[0].span_s
    assert sum(moment.seconds for moment in moments) == pytest.approx(span_s)
    last = columns.arrival[-1]
    waiting = (np.minimum(columns.started, last) - columns.arrival).sum() / 1000
    answering = (np.minimum(columns.ended, last) - np.minimum(columns.placed, last)).sum() / 1000
    assert sum(moment.waiting * moment.seconds for moment in moments) == pytest.approx(waiting)
    assert sum(moment.answering * moment.seconds for moment in moments) == pytest.approx(answering)
    assert sum(moment.finished for moment in moments) == (columns.ended <= last).sum()


@pytest.mark.parametrize(("share", "grows"), [(0.5, False), (0.8, False), (1.1, True), (1.5, True)])
def test_whether_a_fleet_keeps_up(share: float, grows: bool) -> None:
    """One place, answers of ten passes of 10 ms: ten requests a second."""
    pools = [prefill_pool(), decode_pool(batch=1)]
    rng = np.random.default_rng(6)
    requests = table(rng.exponential(100 / share, 4000).cumsum().tolist(), [50] * 4000, [10] * 4000)
    columns = Columns.of(run(fleet(pools), requests), 400)
    assert (columns.more_in_flight > 0) is grows
