"""Workloads: requests summarised into a length profile, and a profile cut into ranges.

From Python `planner.workload("requests.csv.gz")`, or of a data frame, reads one to look at and to plan for;
`planner.api.workloads.workload` says how.
"""

from planner.doors import make_callable
from planner.workload.mixing import mixed_profile
from planner.workload.prefix_reuse import prefix_reuse
from planner.workload.summary import (
    describe,
    divide,
    draw_stretches,
    lengths_of,
    profile_and_summary,
    question_of,
    summarize,
    take_stretches,
    tally_requests,
)
from planner.workload.tallies import count_dispersion

__all__ = [
    "count_dispersion",
    "describe",
    "divide",
    "draw_stretches",
    "lengths_of",
    "mixed_profile",
    "prefix_reuse",
    "profile_and_summary",
    "question_of",
    "summarize",
    "take_stretches",
    "tally_requests",
]


make_callable(__name__, "planner.api.workloads")
