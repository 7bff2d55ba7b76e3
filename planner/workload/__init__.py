"""Workloads: requests summarised into a length profile, and a profile cut into ranges."""

from planner.workload.ranges import divide, question_of
from planner.workload.summary import summarize

__all__ = ["divide", "question_of", "summarize"]
