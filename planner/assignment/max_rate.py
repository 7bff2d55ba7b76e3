"""The default formulation: the highest rate at which the whole mix is served.

maximise lambda subject to
  serve_<phase>_<j>     sum_c b[c, phase, j] x[c, phase, j] >= lambda p[j]
  capacity_<phase>_<c>  sum_j x[c, phase, j] <= islands of the class in the phase
  queue_<phase>_<c>     sum_j u x <= share of the class times its islands, where one is given
"""

import pulp

from planner.assignment.variables import Problem
from planner.domain import PHASES


def maximise_rate(problem: Problem) -> pulp.LpVariable:
    """Add objective and constraints; returns lambda (requests/s)."""
    rate = pulp.LpVariable("rate", lowBound=0)
    problem.model.setObjective(1 * rate)
    serve_the_mix(problem, rate)
    keep_capacity(problem)
    return rate


def serve_the_mix(problem: Problem, rate: pulp.LpVariable) -> None:
    """serve: each range gets its share of the rate in both phases (row divided by p[j], to scale well)."""
    for phase in PHASES:
        for j, p in enumerate(problem.probabilities):
            problem.require(problem.rate(phase, j) * (1 / p) - rate >= 0, f"serve_{phase}_{j}")


def keep_capacity(problem: Problem) -> None:
    """capacity: a class has no more time than islands; queue: nor works more of it than its queue admits."""
    for index in range(len(problem.rows)):
        for phase in PHASES:
            spent = problem.busy(index, phase) - problem.islands(index, phase)
            problem.require(spent <= 0, f"capacity_{phase}_{index}")
    for (index, phase), share in problem.shares.items():
        worked = problem.worked(index, phase) - share * problem.islands(index, phase)
        problem.require(worked <= 0, f"queue_{phase}_{index}")
