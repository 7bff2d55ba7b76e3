"""Watches never flap, whatever the feeds say; what they lose by not changing is counted against hindsight."""

import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watched_feeds import CHANGE_USD, LADDER, STOCK, cheapest, loads, observed, watched

from planner.domain.watching import DAY_S, Cause, Decision, Fleet, Verdict, WatchSettings, WatchStep
from planner.replanning.watches.hindsight import most_in_a_day, tally
from planner.replanning.watches.watching import WatchState, advance, after, decide

DAYS = 3
MINUTES = 1440


def changes(steps: list[WatchStep]) -> list[tuple[float, Cause]]:
    return [
        (step.observation.at_s, step.decision.cause)
        for step in steps
        if step.decision.fleet is not None and step.decision.cause not in (None, Cause.START)
    ]


def require_bound(steps: list[WatchStep], limits: WatchSettings) -> None:
    """Counted anew, over the 24 hours before each change."""
    rows = changes(steps)
    for at_s, _ in rows:
        day = Counter(cause for other_s, cause in rows if at_s - DAY_S < other_s <= at_s)
        assert day[Cause.SAVING] <= limits.most_savings
        assert day[Cause.LOAD] <= limits.most_rises
        assert day[Cause.LOST] <= limits.most_losses


def summary(steps: list[WatchStep]) -> tuple[float, float, int]:
    result = tally(steps, WatchSettings(), lambda *_: CHANGE_USD, last_s=60)
    return result.regret, result.unserved, result.most_in_a_day


def diurnal(noise: float, rng: random.Random, swing: float = 3.0) -> list[float]:
    """`swing`: the highest load over the lowest."""
    half = (swing - 1) / (swing + 1)
    return [
        100 * (1 - half * math.cos(2 * math.pi * k / MINUTES)) * (1 + rng.gauss(0, noise))
        for k in range(DAYS * MINUTES)
    ]


def walk(rng: random.Random) -> list[float]:
    rate, rates = 60.0, []
    for _ in range(DAYS * MINUTES):
        rate = min(300.0, max(10.0, rate * math.exp(rng.gauss(0, 0.02))))
        rates.append(rate)
    return rates


def square(minutes: int) -> list[float]:
    return [60.0 if (k // minutes) % 2 else 120.0 for k in range(DAYS * MINUTES)]


@pytest.mark.parametrize(
    ("rates", "most_changes", "most_regret"),
    [
        pytest.param([100 * (1 + random.Random(k).gauss(0, 0.1)) for k in range(4320)], 0, 0.01, id="noise"),
        pytest.param(diurnal(0.1, random.Random(1), swing=8.0), 10, 0.4, id="day-of-large-swing"),
        pytest.param(walk(random.Random(1)), 10, 0.25, id="walk"),
        pytest.param(square(10), 0, 0.01, id="square-10min"),
        pytest.param(square(150), 10, 0.25, id="square-2.5h"),
        pytest.param(square(720), 4, 0.05, id="square-12h"),
    ],
)
def test_noisy_loads_change_little_and_lose_little(rates: list[float], most_changes: int, most_regret: float) -> None:
    steps = watched(loads(rates))
    require_bound(steps, WatchSettings())
    regret, unserved, in_a_day = summary(steps)
    assert in_a_day <= most_changes
    assert -1e-9 <= regret <= most_regret
    assert unserved <= 0.02


def test_an_adversary_who_sees_the_plan_does_not_make_it_flap() -> None:
    """Load just above the promise until it rises, then just so low that a smaller plan pays."""
    limits = WatchSettings()
    state, steps = WatchState(settings=limits), []
    for minute in range(4 * MINUTES):
        promise = state.standing.promise_rps if state.standing else 10.0
        count = STOCK if minute % 240 < 120 else STOCK // 4
        rising = state.standing is None or state.now.at_s - state.since_s > 2 * limits.dwell_s
        state = advance(state, observed(minute * 60.0, promise * (1.01 if rising else 0.3), count=count))
        decision = decide(state, cheapest)
        steps.append(WatchStep(observation=state.now.raw, decision=decision))
        state = after(state, decision)
    require_bound(steps, limits)
    assert 6 <= most_in_a_day([at_s for at_s, _ in changes(steps)]) <= limits.most_changes


@given(st.data())
def test_no_feed_passes_the_bound(data: st.DataObject) -> None:
    limits = WatchSettings(most_savings=2, most_rises=2, most_losses=1)
    row = st.tuples(
        st.sampled_from([1.0, 20.0, 60.0, 200.0]), st.sampled_from([1.0, 2.0, 4.0]), st.sampled_from([30, 220])
    )
    rows = data.draw(st.lists(row, min_size=20, max_size=80))
    feeds = [observed(k * 2400.0, rate, price, count) for k, (rate, price, count) in enumerate(rows)]
    require_bound(watched(feeds, limits), limits)


def test_a_day_by_hand() -> None:
    """Load of 50, a step to 100 that lasts, then 40: a rise after the median has moved, and one saving after the dwell
    time."""
    steps = watched(loads([50.0] * 120 + [100.0] * 300 + [40.0] * 300))
    rows = [(step.observation.at_s / 60, step.decision) for step in steps if step.decision.fleet is not None]
    assert [(minute, decision.cause) for minute, decision in rows] == [
        (0, Cause.START),
        (122, Cause.LOAD),  # 3 of the last 5 minutes are at 100
        (482, Cause.SAVING),  # the hour before has no median above 40
    ]
    promises = [decision.fleet.promise_rps for _, decision in rows if decision.fleet]
    assert promises == [pytest.approx(10 * 1.1**step) for step in (20, 27, 18)]  # 62.5, 125 and 50 on rungs of 5 %


def test_gpus_that_flicker_are_relied_on_no_more_that_day() -> None:
    counts = [STOCK] * 60 + ([10] * 30 + [STOCK] * 30) * 6
    steps = watched([observed(k * 60.0, 50.0, count=count) for k, count in enumerate(counts)])
    lost = [step for step in steps if step.decision.cause is Cause.LOST and step.decision.fleet is not None]
    assert len(lost) == 1
    assert dict(lost[0].decision.fleet.gpus)["A"] <= 10


def test_a_need_that_cannot_be_met_is_told() -> None:
    steps = watched([observed(k * 60.0, 50.0 if k < 30 else 5000.0) for k in range(60)])
    assert steps[-1].decision.verdict is Verdict.SHORT
    assert steps[-1].decision.cause is Cause.LOAD
    largest = max(fleet.promise_rps for fleet in LADDER if dict(fleet.gpus)["A"] <= STOCK)
    assert [step.decision.fleet.promise_rps for step in steps if step.decision.fleet][-1] == largest


def test_hindsight_by_hand() -> None:
    """Two plans, four hours: 30 USD/hour carry 100 requests/s, 10 USD/hour carry 20."""
    small = Fleet(plan="small", promise_rps=20.0, gpus=(("A", 5),))
    large = Fleet(plan="large", promise_rps=100.0, gpus=(("A", 15),), change_usd=4.0)

    def step(hour: int, load_rps: float, fleet: Fleet | None, cause: Cause | None) -> WatchStep:
        return WatchStep(observation=observed(hour * 3600.0, load_rps), decision=_decision(fleet, cause))

    steps = [
        step(0, 15.0, small, Cause.START),
        step(1, 90.0, large, Cause.LOAD),
        step(2, 15.0, None, None),
        step(3, 15.0, None, None),
    ]
    result = tally(steps, WatchSettings(), lambda *_: 4.0, last_s=3600.0)
    assert result.usd == 10 + 34 + 30 + 30
    assert result.hindsight_usd == 10 + 34 + 14 + 10
    assert result.free_usd == 10 + 30 + 10 + 10
    assert result.static_usd == 120
    assert dict(result.changes) == {"load": 1, "lost": 0, "saving": 0}
    later = tally(steps, WatchSettings(), lambda *_: 400.0, last_s=3600.0)  # prices have risen since it changed
    assert later.hindsight_usd == later.usd == 104


def _decision(fleet: Fleet | None, cause: Cause | None) -> Decision:
    verdict = Verdict.KEEP if fleet is None else Verdict.REPLAN
    return Decision(verdict=verdict, reason="by hand", cause=cause, fleet=fleet)


def test_observations_do_not_mind_their_number() -> None:
    """The state keeps what decisions need, not all that was observed."""
    state = WatchState(settings=WatchSettings())
    for minute in range(3 * MINUTES):
        state = after(advance(state, observed(minute * 60.0, 50.0)), _decision(None, None))
    assert len(state.moments) <= 62
    assert len(state.highs) == 1
