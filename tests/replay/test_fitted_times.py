"""How much slower servers are, found from what requests took before them: the truth is a replay of other step times."""

from dataclasses import replace

import numpy as np
import pytest
from fleets import decode_pool, fleet, mixed_pool, prefill_pool

from planner.domain.arrivals import ReplaySettings
from planner.domain.fleet import ReplayFleet
from planner.domain.layout import Phase
from planner.evaluation.replay.paces import FittedTime, fit_times, half_of, slowed
from planner.replay.measures.columns import Columns
from planner.replay.simulate import played

SPLIT = fleet([prefill_pool(servers=2, sent_ms=1.0), decode_pool(servers=2, batch=64)])
BOTH = fleet([mixed_pool(servers=2, batch=64)])


class Stream:
    """Requests at random: times from 0 on (ms), tokens."""

    blocks = turns = None

    def __init__(self, count: int, gap_ms: float, seed: int) -> None:
        draw = np.random.default_rng(seed)
        self.arrival_ms = np.cumsum(draw.exponential(gap_ms, count)).tolist()
        self.prompt_tokens = draw.integers(100, 1500, count).tolist()
        self.answer_tokens = draw.integers(10, 60, count).tolist()


def columns_of(of: ReplayFleet, stream: Stream, seed: int = 0) -> Columns:
    settings = ReplaySettings(seeds=(seed,), requests=len(stream.arrival_ms))
    (run,) = played(of, settings, 1.0, lambda _rate, _seed: stream)
    return run.columns


def found(of: ReplayFleet, prefill: float, decode: float, stream: Stream) -> tuple[FittedTime, ...]:
    factors = {Phase.PREFILL: prefill, Phase.DECODE: decode}
    truth = columns_of(slowed(of, lambda pool: factors[half_of(pool)]), stream, seed=9)
    return fit_times(of, lambda fleet: columns_of(fleet, stream), truth)


@pytest.mark.parametrize("gap_ms", [200.0, 60.0, 48.0])
@pytest.mark.parametrize(("prefill", "decode"), [(1.0, 1.0), (1.15, 1.15), (0.8, 1.4), (2.5, 0.5)])
def test_both_halves_are_told_apart_whatever_waits(gap_ms: float, prefill: float, decode: float) -> None:
    if gap_ms == 48.0 and prefill > 1:
        gap_ms *= prefill  # else they are beyond what they serve
    fitted = found(SPLIT, prefill, decode, Stream(400, gap_ms, 1))
    assert [row.phase for row in fitted] == [Phase.PREFILL, Phase.DECODE]
    assert [row.factor for row in fitted] == pytest.approx([prefill, decode], rel=0.01)
    assert all(row.low <= row.factor <= row.high < 1.1 * row.factor for row in fitted)


def test_servers_of_both_phases_have_one_factor() -> None:
    (fitted,) = found(BOTH, 7.0, 1.15, Stream(400, 120.0, 2))
    assert fitted.phase is Phase.DECODE
    assert fitted.factor == pytest.approx(1.15, rel=0.01)


def test_too_few_requests_tell_nothing() -> None:
    assert found(SPLIT, 1.15, 1.15, Stream(20, 200.0, 1)) == ()
    assert len(found(SPLIT, 1.15, 1.15, Stream(24, 200.0, 1))) == 2


def test_what_no_steps_explain_is_told_as_nothing() -> None:
    stream = Stream(200, 200.0, 3)
    truth = columns_of(slowed(SPLIT, lambda _pool: 60.0), stream)
    assert fit_times(SPLIT, lambda fleet: columns_of(fleet, stream), truth) == ()


def test_requests_without_an_answer_do_not_count() -> None:
    stream = Stream(300, 120.0, 4)
    truth = columns_of(slowed(SPLIT, lambda _pool: 1.2), stream)
    truth.ttft[::3], truth.tpot[::3] = np.inf, np.inf
    fitted = fit_times(SPLIT, lambda fleet: columns_of(fleet, stream), truth)
    assert [row.requests for row in fitted] == [180, 180]
    assert [row.factor for row in fitted] == pytest.approx([1.2, 1.2], rel=0.01)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    stream, draw = Stream(120, 400.0, 5), np.random.default_rng(6)
    truth, inside, widths = columns_of(SPLIT, stream), 0, []
    for _ in range(60):
        noise = [np.exp(draw.normal(0.0, 0.2, len(truth.ttft))) for _ in range(2)]
        seen = replace(truth, ttft=truth.ttft * noise[0], tpot=truth.tpot * noise[1])
        for row in fit_times(SPLIT, lambda fleet: columns_of(fleet, stream), seen):
            inside += row.low <= 1.0 <= row.high
            widths.append(row.high - row.low)
    assert 0.88 <= inside / len(widths) <= 0.99
    assert 0.02 < float(np.mean(widths)) < 0.2
