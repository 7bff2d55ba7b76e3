"""What changes of a schedule cost under every tariff, counted by hand."""

import pytest
from small_schedules import small_fleet, small_schedule

from planner.domain import Plan, Scenario
from planner.domain.changes import ChangeSettings
from planner.domain.schedules import Tariff, TariffKind
from planner.replanning.changes import changes_between
from planner.replanning.schedules.levels import LevelBook


def planned_again(scenario: Scenario) -> Plan:
    """The smallest plan of the small schedule for a target."""
    levels = small_schedule().levels
    target = scenario.objective.target_rps * (1 - 1e-6)
    return next((level.plan for level in levels if level.plan.throughput_rps >= target), levels[-1].plan)


@pytest.mark.parametrize(("kind", "usd_per_hour"), [("hourly", 1.0), ("reserved", 1.0), ("owned", 0.3)])
def test_gpus_that_load_cost_what_the_tariff_says(kind: str, usd_per_hour: float) -> None:
    """A rented GPU its price of 1 USD/hour; an owned one what spot would pay for it, 0.3 of that: its power is paid for
    in either case."""
    book = LevelBook(small_fleet(), ChangeSettings(), planned_again, tariff=Tariff(kind=TariffKind(kind)))
    for level in small_schedule().levels:
        scenario = level.plan.scenario
        book.add(scenario.objective.target_rps * scenario.routing.margin)
    levels = book.all()
    first, last = levels.levels[0].plan, levels.levels[-1].plan
    gpu_hours = changes_between(first, last, ChangeSettings()).gpu_seconds / 3600
    assert gpu_hours > 0
    assert levels.change_usd[0][-1] == pytest.approx(gpu_hours * usd_per_hour)
