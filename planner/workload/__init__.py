"""Workloads: requests summarised into a length profile, and a profile cut into ranges."""

from planner.workload.prefix_reuse import prefix_reuse
from planner.workload.ranges import divide, question_of
from planner.workload.summary import summarize

__all__ = ["divide", "prefix_reuse", "question_of", "summarize"]
