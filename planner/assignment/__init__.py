"""The inner problem: a MILP that gives each island a phase and its ranges. Door: `assign`."""

from planner.assignment.inner_problem import assign

__all__ = ["assign"]
