"""What must not make a plan worse does not: more GPUs and types, looser levels, copies, dearer money, another order.

A sample here; `make study` draws 2,000 checks.
"""

import pytest
from metamorphic import CHANGES, Check, checks

SAMPLE = (0, 1, 2, 4)
MANY = range(175)


def worse(made: list[Check]) -> list[str]:
    """The checks that do not hold, in words."""
    return [
        f"{check.name}: {check.better.value:.4f} (bound {check.better.bound:.4f}) for {check.least:.4f} of {check.draw}"
        for check in made
        if not check.holds
    ]


@pytest.mark.parametrize("seed", SAMPLE)
def test_nothing_is_worse_beyond_the_gap(seed: int) -> None:
    assert worse(list(checks(seed))) == []


@pytest.mark.study
def test_of_two_thousand_checks_none_is_worse_beyond_the_gap() -> None:
    made = [check for seed in MANY for check in checks(seed)]
    assert len(made) >= 2000
    assert {check.name for check in made} >= {*CHANGES, "two fleets together"}
    assert sum(check.better.value > check.least > 0 for check in made) >= 1000  # most of them change something
    assert worse(made) == []
