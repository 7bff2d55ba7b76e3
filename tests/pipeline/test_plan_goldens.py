"""Plans of every form come to what they came to before, whichever way they are found."""

from pathlib import Path

import pytest
from pipeline_scenarios import require_whole
from plan_goldens import SCENARIOS, golden_of, goldens
from planned import plan


def test_every_scenario_has_a_golden() -> None:
    assert list(goldens()) == list(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_plan_is_the_one_that_it_was(name: str, tmp_path: Path) -> None:
    made = plan(SCENARIOS[name]())
    assert golden_of(name, made) == goldens()[name]
    require_whole(made, tmp_path)
