"""Pods that come one by one, and the policies that choose their nodes.

Doors: `simulate` (a trace of pods that stay) and `simulate_departures` (pods that leave, and a queue).
"""

from planner.studies.policies.online.arrivals import arrivals_in_order, draw_arrivals, draw_tie_order
from planner.studies.policies.online.departures import lengthened, simulate_departures
from planner.studies.policies.online.policies import parse_policy
from planner.studies.policies.online.simulation import simulate

__all__ = [
    "arrivals_in_order",
    "draw_arrivals",
    "draw_tie_order",
    "lengthened",
    "parse_policy",
    "simulate",
    "simulate_departures",
]
