"""The solvers: HiGHS by default, CBC where it is missing or asked for."""

import pulp

from planner.domain import AssignmentSettings
from planner.errors import InfeasibleError, SolverError

SOLVERS = {"highs": "HiGHS", "cbc": "PULP_CBC_CMD"}


def available_solver(wanted: str) -> str:
    """`wanted`, or the other one where it cannot run here. Raises SolverError where neither can."""
    order = [wanted, *(name for name in SOLVERS if name != wanted)]
    for name in order:
        if pulp.getSolver(SOLVERS[name], msg=False).available():
            return name
    raise SolverError(
        f"assignment.solver: none of {', '.join(SOLVERS)} runs here.",
        hint="Install highspy (`pip install highspy`).",
    )


def solve(model: pulp.LpProblem, settings: AssignmentSettings) -> tuple[bool, str]:
    """Solve in place; (proven within the gap, solver's name). One thread: equal inputs give equal answers.

    Raises InfeasibleError where no solution exists and SolverError where none was found in time.
    """
    name = available_solver(settings.solver)
    solver = pulp.getSolver(SOLVERS[name], msg=False, timeLimit=settings.time_limit_s, gapRel=settings.gap, threads=1)
    status = model.solve(solver)
    in_time = model.solutionTime < settings.time_limit_s  # CBC calls a problem infeasible when it is stopped early
    if in_time and status in (pulp.LpStatusInfeasible, pulp.LpStatusUnbounded):
        raise InfeasibleError(
            "assignment: no assignment satisfies the constraints.",
            hint="Loosen assignment.tau, or add GPUs.",
        )
    if model.sol_status == pulp.LpSolutionOptimal:
        return True, name
    if model.sol_status == pulp.LpSolutionIntegerFeasible:
        return False, name
    raise SolverError(
        f"assignment: {name} found no solution within {settings.time_limit_s:g} s.",
        hint="Raise assignment.time_limit_s or assignment.gap.",
    )
