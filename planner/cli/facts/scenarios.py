"""`planner scenarios`: the scenarios at hand."""

from typing import Annotated

import typer

from planner.cli import screen
from planner.domain import Scenario


def command(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the shipped scenarios: wherever a scenario is named, such a name will do."""
    from planner import files
    from planner.workload import summarize

    rows = [_row(files.load_scenario(path, summarize)) for path in files.shipped_scenarios().values()]
    columns = ("name", "model", "workload", "inventory", "cost", "routing")
    if json:
        screen.show_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        screen.show_table("Scenarios (planner plan NAME)", columns, rows)


def _row(scenario: Scenario) -> tuple[str, ...]:
    counts = ", ".join(f"{item.count} {item.gpu.name}" for item in scenario.inventory.items)
    mode, form = scenario.cost.mode.value, scenario.routing_form.value
    return scenario.name, scenario.model.name, scenario.workload.name, counts, mode, form
