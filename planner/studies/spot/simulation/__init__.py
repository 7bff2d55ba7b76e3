"""Spot capacity over time: guaranteed jobs that come, lend out and take back, and spot jobs that give way.

Doors: `simulate_spot` (jobs on nodes under a policy), `draw_jobs` (a workload made up), `parse_spot_policy`.
"""

from planner.studies.spot.simulation.checks import SpotChecker
from planner.studies.spot.simulation.policies import RANDOM, SPOTGPU, parse_spot_policy
from planner.studies.spot.simulation.runs import simulate_spot
from planner.studies.spot.workload import draw_jobs

__all__ = ["RANDOM", "SPOTGPU", "SpotChecker", "draw_jobs", "parse_spot_policy", "simulate_spot"]
