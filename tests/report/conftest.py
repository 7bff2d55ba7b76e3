"""The plans of hand_made_plan.py and bucketed_plans.py as fixtures."""

from collections.abc import Callable

import pytest
from bucketed_plans import bucketed
from hand_made_plan import VARIANTS, build_crowded_plan, build_plan

from planner.domain import (
    Plan,
)


@pytest.fixture(params=VARIANTS)
def variant(request) -> Plan:
    """Plans at the edges of what can be drawn."""
    return VARIANTS[request.param]()


@pytest.fixture(scope="session")
def plan_named() -> Callable[[str], Plan]:
    """Any of them by its name."""
    return lambda name: VARIANTS[name]()


@pytest.fixture
def make_plan() -> Callable[..., Plan]:
    """The factory: `make_plan(field=value, …)`."""
    return build_plan


@pytest.fixture
def plan() -> Plan:
    """The plan as it stands."""
    return build_plan()


@pytest.fixture
def pools_plan() -> Plan:
    """A plan of buckets."""
    return bucketed(build_plan())


@pytest.fixture
def crowded_plan() -> Plan:
    """The densest plan."""
    return build_crowded_plan()
