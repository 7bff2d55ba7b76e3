"""The guide of fleets tells what its own fleet comes to."""

from pathlib import Path

import pytest
import yaml
from documentation import FENCE, TEXTS

import planner
from planner import pipeline
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, ReplaySettings
from planner.replanning.fleets.ladders import plan_of_level

pytestmark = pytest.mark.usefixtures("all_draws")

GUIDE = TEXTS["fleets"]
WORDS = " ".join(GUIDE.split())
DOCUMENT = yaml.safe_load(next(match[2] for match in FENCE.finditer(GUIDE) if match[1] == "text"))


@pytest.fixture(scope="module")
def fleet() -> "planner.PlannedFleet":
    """The company's."""
    return planner.plan(**DOCUMENT)


@pytest.fixture(scope="module")
def week(fleet: "planner.PlannedFleet") -> "planner.FleetWeek":
    """Its first week."""
    return fleet.schedule(days=7)


def test_the_fleet_is_as_told(fleet: "planner.PlannedFleet") -> None:
    assert f"promise the highest rates of all curves {fleet.value:.2f} times; no node is left over" in WORDS
    assert fleet.record.idle == ()


def test_the_week_is_as_told(week: "planner.FleetWeek") -> None:
    record = week.record
    gpu_hours = 24 * sum(item.count for item in record.plan.fleet.inventory.items)
    assert f"{week.gained_tokens_a_day / 1e9:.1f} billion tokens a day on lent nodes" in WORDS
    assert f"That is {record.lent_gpu_hours_a_day:.0f} of {gpu_hours:,} GPU-hours a day" in WORDS
    assert f"change their level {week.switches} times, and {record.starts} blocks of nodes load" in WORDS
    assert record.short == ()


def test_bursts_are_as_told(fleet: "planner.PlannedFleet", week: "planner.FleetWeek") -> None:
    replayed = week.replay(burstiness=2.0, requests=400)
    assert set(replayed["within_levels"]) == {1.0}
    for terms, holds in ((week, False), (fleet.schedule(days=7, headroom=1.5), True)):
        fewest = max(window.levels[0] for window in terms.record.windows)
        assert (_burst(terms, fewest) >= 0.95) is holds


def _burst(week: "planner.FleetWeek", number: int) -> float:
    """Of the requests of `large` at a level, those within its bounds, in bursts twice as strong again."""
    ladder, part = week.record.ladders[0], week.record.plan.parts[0]
    rate_rps = max(window.rates_rps[0] for window in week.record.windows if window.levels[0] == number)
    plan = plan_of_level(part, ladder.levels[number])
    arrivals = ArrivalSettings(process=ArrivalProcess.GAMMA, variation=4.0**2)
    settings = ReplaySettings(arrivals=arrivals, seeds=(0,), requests=3000, warm_up=0.4)
    return pipeline.replay(plan, plan.scenario.workload, settings, rate_rps).total.within_levels.mean


def test_a_change_is_as_told(fleet: "planner.PlannedFleet") -> None:
    changed = fleet.replan(settings={"services.mid.demand": 200})
    assert changed.moved_gpus == {"H20": 16, "H200": 0}
    assert [name for name, _ in changed.record.steps[0].nodes] == ["large", "mid", "small"]
    running = f"{changed.running_on_share:.0%} of the servers run on".replace("%", " %")
    assert f"{running}, and the new demands are promised {changed.fleet.value:.2f} times" in WORDS
    assert changed.reached_share >= 1 - 1e-9


def test_the_guide_names_every_term() -> None:
    names = Path(planner.__file__).parent / "domain/serving/fleets/lending.py"
    for term in ("headroom", "least_windows", "floor"):
        assert f"`{term}`" in GUIDE
        assert f"    {term}: " in names.read_text(encoding="utf-8")
