"""The solvers: HiGHS by default, CBC where it is missing or asked for."""

import math

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

    Where the chosen solver breaks down, the other one is asked. Raises InfeasibleError where no solution exists and
    SolverError where none was found.
    """
    first = available_solver(settings.solver)
    others = [name for name in SOLVERS if name != first and _solver(name, settings).available()]
    for name in (first, *others):
        try:
            status = model.solve(_solver(name, settings))
        except (pulp.PulpSolverError, IndexError, ValueError):  # how pulp's adapters show a solver that gave no answer
            continue
        verdict = _verdict(name, model, status, settings)
        if verdict is not None:
            return verdict, name
    raise SolverError(
        f"assignment: {' and '.join((first, *others))} broke down on the programme.",
        hint="Look for extreme numbers in the scenario, in assignment above all.",
    )


def _solver(name: str, settings: AssignmentSettings) -> pulp.LpSolver:
    return pulp.getSolver(SOLVERS[name], msg=False, timeLimit=settings.time_limit_s, gapRel=settings.gap, threads=1)


def _verdict(name: str, model: pulp.LpProblem, status: int, settings: AssignmentSettings) -> bool | None:
    """True: proven within the gap, False: the best in the time given, None: the solver broke down."""
    if model.sol_status == pulp.LpSolutionOptimal:
        return True
    if model.sol_status == pulp.LpSolutionIntegerFeasible:
        return False
    if model.solutionTime >= settings.time_limit_s:  # CBC calls a problem infeasible when it is stopped early
        raise SolverError(
            f"assignment: {name} found no solution within {settings.time_limit_s:g} s.",
            hint="Raise assignment.time_limit_s or assignment.gap.",
        )
    if status in (pulp.LpStatusInfeasible, pulp.LpStatusUnbounded):
        raise InfeasibleError(
            "assignment: no assignment satisfies the constraints.",
            hint="Loosen assignment.tau, or add GPUs.",
        )
    return None


def dual_bound(model: pulp.LpProblem, proven: float | None) -> float | None:
    """What the solver has proven that the programme cannot pass; `proven` (or None) where it does not say."""
    highs = getattr(model, "solverModel", None)
    info = getattr(highs, "getInfo", None)
    if info is None:
        return proven
    bound = float(info().mip_dual_bound)
    sign = -1.0 if model.sense == pulp.LpMaximize else 1.0  # PuLP has HiGHS minimise the negative
    return sign * bound if math.isfinite(bound) else proven
