"""Workloads: requests summarised into a length profile, and a profile cut into ranges."""

from typing import TYPE_CHECKING

from planner.doors import door
from planner.workload.prefix_reuse import prefix_reuse

if TYPE_CHECKING:
    from planner.workload.dispersion import count_dispersion
    from planner.workload.ranges import divide, question_of
    from planner.workload.summary import summarize

__all__ = ["count_dispersion", "divide", "prefix_reuse", "question_of", "summarize"]

__getattr__, __dir__ = door(__name__)
