"""Spot capacity over time: guaranteed jobs that come, lend out and take back, and spot jobs that give way.

Doors: `simulate_spot` (jobs on nodes under a policy), `draw_jobs` (a workload made up), `parse_spot_policy`.
"""

from planner.placement.spot.checker import SpotChecker
from planner.placement.spot.policies import RANDOM, SPOTGPU, parse_spot_policy
from planner.placement.spot.runs import simulate_spot
from planner.placement.spot.workload import draw_jobs

__all__ = ["RANDOM", "SPOTGPU", "SpotChecker", "draw_jobs", "parse_spot_policy", "simulate_spot"]
