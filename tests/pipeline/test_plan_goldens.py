"""Plans of every form come to what they came to before, whichever way they are found."""

import pytest
from plan_goldens import SCENARIOS, golden_of, goldens


def test_every_scenario_has_a_golden() -> None:
    assert list(goldens()) == list(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_plan_is_the_one_that_it_was(name: str) -> None:
    assert golden_of(name) == goldens()[name]
