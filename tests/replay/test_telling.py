"""What a replay can tell: intervals of shares, verdicts over levels, how long requests must come."""

import numpy as np
import pytest
from fleets import decode_pool, fleet, prefill_pool, run, table
from scipy import stats

from planner.domain import Phase
from planner.domain.serving.levels import LevelCheck, Spread, Standing, fewest_requests, standing_of
from planner.replay.measures.columns import BLOCKS, Columns, kept_share
from planner.replay.measures.results import SeedRun
from planner.replay.measures.telling import requests_to_tell


def level(kept: int, requests: int, needed: float = 0.95, *, decides: bool = True) -> LevelCheck:
    """Requests of a bucket, so many of which keep the bound, one as another."""
    who = np.arange(requests) * kept // requests != (np.arange(requests) + 1) * kept // requests
    assert who.sum() == kept
    return LevelCheck(
        phase=Phase.PREFILL,
        end=100,
        bound_ms=1000.0,
        needed=needed,
        share=kept_share([who]),
        value_ms=Spread(mean=900.0),
        requests=requests,
        decides=decides,
    )


@pytest.mark.parametrize(("kept", "requests"), [(950, 1000), (1999, 2000), (400, 400), (30, 60)])
def test_the_interval_is_wilsons(kept: int, requests: int) -> None:
    low, high = stats.binomtest(kept, requests).proportion_ci(0.99, method="wilson")
    share = level(kept, requests).share
    assert (share.low, share.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_requests_that_are_late_together_tell_less() -> None:
    """Blocks that are late as a whole are worth as many requests as there are blocks."""
    rng = np.random.default_rng(3)
    blocks = rng.random(BLOCKS) < 0.8
    together = kept_share([np.repeat(blocks, 100)])
    alone = stats.binomtest(int(blocks.sum()), BLOCKS).proportion_ci(0.99, method="wilson")
    assert (together.low, together.high) == (pytest.approx(alone[0], abs=1e-3), pytest.approx(alone[1], abs=1e-3))


def test_intervals_hold_the_truth_in_99_of_100() -> None:
    rng, inside = np.random.default_rng(5), 0
    for _ in range(1000):
        share = kept_share([rng.random(1500) < 0.95])
        inside += (share.low or 0.0) <= 0.95 <= (share.high or 0.0)
    assert stats.binomtest(inside, 1000, 0.99).pvalue > 1e-3 or inside > 990


@pytest.mark.parametrize(
    ("kept", "requests", "standing"),
    [
        (1960, 2000, Standing.HOLDS),
        (1890, 2000, Standing.UNTOLD),
        (1800, 2000, Standing.BREAKS),
        (60, 60, Standing.UNTOLD),
        (30, 60, Standing.BREAKS),
    ],
)
def test_a_level_holds_breaks_or_is_not_told(kept: int, requests: int, standing: Standing) -> None:
    assert level(kept, requests).standing is standing


@pytest.mark.parametrize("needed", [0.9, 0.95, 0.99, 0.999])
def test_with_the_fewest_requests_a_perfect_record_proves_the_share(needed: float) -> None:
    fewest = fewest_requests(needed)
    lows = [stats.binomtest(n, n).proportion_ci(0.99, method="wilson").low for n in (fewest - 1, fewest)]
    assert lows[0] < needed <= lows[1] + 1e-9


def test_so_many_requests_as_are_asked_for_would_tell() -> None:
    unclear = level(1890, 2000)
    more = unclear.requests_to_tell
    assert more > 2000
    assert level(round(0.945 * more * 1.02), round(more * 1.02)).standing is Standing.BREAKS


def test_the_verdict_is_that_of_the_worst_that_decides() -> None:
    good, unclear, bad = level(1960, 2000), level(1890, 2000), level(1800, 2000)
    assert standing_of([good]) is Standing.HOLDS
    assert standing_of([good, unclear]) is Standing.UNTOLD
    assert standing_of([good, unclear, bad]) is Standing.BREAKS
    assert standing_of([good, level(1800, 2000, decides=False)]) is Standing.HOLDS
    assert standing_of([]) is None


@pytest.mark.parametrize(("requests", "enough"), [(300, False), (6000, True)])
def test_a_fleet_that_is_still_filling_tells_nothing(requests: int, enough: bool) -> None:
    """Answers last 2 s and more; a hundred requests come a second, and all find a place."""
    of = fleet([prefill_pool(), decode_pool(batch=1000)])
    rng = np.random.default_rng(2)
    arrivals = rng.exponential(10.0, requests).cumsum().tolist()
    engine = run(of, table(arrivals, [50] * requests, [200] * requests))
    runs = [SeedRun(engine=engine, columns=Columns.of(engine, requests // 10))]
    longer = requests_to_tell(runs, [])
    assert (longer == 0) is enough
    if not enough:
        lasting = float(np.mean(runs[0].columns.end_to_end))
        assert longer == pytest.approx(3 * lasting / 10 / 0.55, rel=0.2)
