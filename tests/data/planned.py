"""Plans that several tests look at: equal scenarios have equal plans, so a process plans each once.

What holds of planning itself (the same bytes again, interrupts, journals) is asked of `planner.pipeline.plan`.
"""

from functools import cache

from planner import pipeline
from planner.domain import Plan, Scenario


@cache
def plan(scenario: Scenario) -> Plan:
    """The plan of a scenario."""
    return pipeline.plan(scenario)
