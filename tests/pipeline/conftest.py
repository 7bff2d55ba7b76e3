"""One plan for all tests that look at a plan."""

import pytest
from pipeline_scenarios import shipped, short
from planned import plan

from planner.domain import Plan, Workload
from planner.plans.router_grid import RouterGrid, grid_of
from planner.workload import divide


@pytest.fixture(scope="session")
def example() -> Plan:
    """The shipped mixed fleet in default mode, after a short search."""
    return plan(short(shipped("azure-code-512usd")))


@pytest.fixture(scope="session")
def grid(example: Plan) -> RouterGrid:
    """The example on 32 cells, a programme of seconds."""
    return grid_of(example, 32)


@pytest.fixture(scope="session")
def workload(example: Plan) -> Workload:
    """What the example serves."""
    return divide(example.scenario.workload, example.scenario.ranges.width)
