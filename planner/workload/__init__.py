"""Workloads: requests summarised into a length profile, and a profile cut into ranges."""

from planner.workload.dispersion import count_dispersion
from planner.workload.prefix_reuse import prefix_reuse
from planner.workload.ranges import divide, question_of
from planner.workload.summary import summarize

__all__ = ["count_dispersion", "divide", "prefix_reuse", "question_of", "summarize"]
