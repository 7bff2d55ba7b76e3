"""At its promise a plan keeps the percentile in every bucket, by an interval of 99 % over at least 2,000 requests."""

import pytest
from twelve_plans import LEAST, PLANS, replayed_promise

from planner.domain.serving.levels import Standing

CHEAP = [name for name, asked in PLANS.items() if asked.cheap]


def check(name: str) -> None:
    result = replayed_promise(PLANS[name].planned())
    assert min(level.requests for level in result.levels) >= LEAST
    broken = [level for level in result.levels if level.standing is Standing.BREAKS]
    assert not broken, broken
    assert result.standing is not Standing.BREAKS


@pytest.mark.parametrize("name", CHEAP)
def test_a_small_fleet_keeps_its_promise_in_every_bucket(name: str) -> None:
    check(name)


@pytest.mark.study
@pytest.mark.parametrize("name", [name for name in PLANS if name not in CHEAP])
def test_a_fleet_keeps_its_promise_in_every_bucket(name: str) -> None:
    check(name)
