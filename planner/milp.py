"""Mixed-integer programmes solved within an amount of work: HiGHS by default, CBC where it is missing or asked for.

| symbol | meaning | unit |
|---|---|---|
| c | looks that HiGHS takes at its limits: rounds of cuts, nodes, dives | 1 |
| a | coefficients of the programme | 1 |
| work | c a / `STEPS`: about the seconds of one core of 2024, whatever else the machine does | 1 |

The clock limits nothing: equal programmes end at the same node with the same answer on an idle and on a busy machine.
"""

import math
from dataclasses import dataclass
from typing import Any

import pulp

from planner.domain import AssignmentSettings
from planner.errors import InfeasibleError, OutOfWorkError, SolverError

SOLVERS = {"highs": "HiGHS", "cbc": "PULP_CBC_CMD"}
STEPS = 400_000
"""c a of a unit of work: 120,000 to 1,500,000 a second were measured, from programmes of 4,000 columns to 40."""

SMALL = 5_000
"""Coefficients below which presolving takes longer than it saves: programmes of pools end 1.3 to 3 times as fast."""

CBC_NODES = 2_000
"""Nodes of a unit of work where CBC solves, whose looks are not to be counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """How a solve ended: `proven` within the gap or stopped by its limit, and by which solver."""

    proven: bool
    solver: str


class Meter:
    """The work of several solves, those that find nothing among them; `limit`: what they may take together."""

    def __init__(self, limit: float = math.inf) -> None:
        self.limit = limit
        self.done = 0.0

    @property
    def remaining(self) -> float:
        """What is left of the limit."""
        return self.limit - self.done


def available_solver(preferred: str) -> str:
    """`preferred`, or the other one where it cannot run here. Raises SolverError where neither can."""
    order = [preferred, *(name for name in SOLVERS if name != preferred)]
    for name in order:
        if pulp.getSolver(SOLVERS[name], msg=False).available():
            return name
    raise SolverError(
        f"assignment.solver: none of {', '.join(SOLVERS)} runs here.",
        hint="Install highspy (`pip install highspy`).",
    )


def solve(model: pulp.LpProblem, settings: AssignmentSettings, meter: Meter | None = None) -> Solved:
    """Solve in place, to `settings.gap` or within `settings.work_limit`; `meter` hears the work. One thread: equal
    inputs give equal answers.

    Where the chosen solver breaks down, the other one is asked. Raises InfeasibleError where no solution exists,
    OutOfWorkError where none was found within the limit, and SolverError where every solver broke down.
    """
    first = available_solver(settings.solver)
    others = [name for name in SOLVERS if name != first and pulp.getSolver(SOLVERS[name], msg=False).available()]
    for name in (first, *others):
        work = _Work(_coefficients(model), settings.work_limit, meter or Meter())
        try:
            status = model.solve(_solver(name, settings, work))
        except (pulp.PulpSolverError, IndexError, ValueError):  # how pulp's adapters show a solver that gave no answer
            continue
        proven = _proven(name, model, status, settings)
        if proven is not None:
            return Solved(proven=proven, solver=name)
    raise SolverError(
        f"assignment: {' and '.join((first, *others))} broke down on the programme.",
        hint="Look for extreme numbers in the scenario, in assignment above all.",
    )


def _coefficients(model: pulp.LpProblem) -> int:
    return sum(len(row) for row in model.constraints.values())


class _Work:
    """Counts what HiGHS does, and stops it at the limit."""

    def __init__(self, coefficients: int, limit: float, meter: Meter) -> None:
        self.small = coefficients < SMALL
        self._a_look = max(1, coefficients) / STEPS
        self._meter = meter
        self._end = meter.done + limit

    def look(self, _kind: object, _message: str, _state: object, reply: Any, _data: object) -> None:
        """HiGHS calls this whenever it looks at its limits."""
        self._meter.done += self._a_look
        if self._meter.done > self._end:
            reply.user_interrupt = True


def _solver(name: str, settings: AssignmentSettings, work: _Work) -> pulp.LpSolver:
    if name == "cbc":
        nodes = max(1, round(CBC_NODES * min(settings.work_limit, 1e5)))
        return pulp.PULP_CBC_CMD(msg=False, gapRel=settings.gap, threads=1, maxNodes=nodes)
    import highspy  # noqa: PLC0415  (it is there: `available_solver` has looked)

    return _Highs(
        msg=False,
        gapRel=settings.gap,
        threads=1,
        callbackTuple=(work.look, None),
        callbacksToActivate=[highspy.cb.HighsCallbackType.kCallbackMipInterrupt],
        presolve="off" if work.small else "choose",
    )


class _Highs(pulp.HiGHS):  # type: ignore[misc]  # the library is not typed
    """PuLP's HiGHS, told at once which columns are whole: each telling looks at all columns."""

    def buildSolverModel(self, programme: pulp.LpProblem) -> None:  # noqa: N802  (PuLP's name)
        """Hands the programme over."""
        import highspy  # noqa: PLC0415  (as above)

        self.mip = False  # PuLP tells of no column, then
        super().buildSolverModel(programme)
        integers = [variable.index for variable in programme.variables() if variable.cat == pulp.LpInteger]
        programme.solverModel.changeColsIntegrality(
            len(integers), integers, [highspy.HighsVarType.kInteger] * len(integers)
        )


def _proven(name: str, model: pulp.LpProblem, status: int, settings: AssignmentSettings) -> bool | None:
    """True: within the gap, False: the best before the limit, None: the solver broke down."""
    if model.sol_status == pulp.LpSolutionOptimal:
        return True
    if model.sol_status == pulp.LpSolutionIntegerFeasible and _has_solution(model):
        return False
    if status in (pulp.LpStatusInfeasible, pulp.LpStatusUnbounded):
        raise InfeasibleError(
            "assignment: no assignment satisfies the constraints.",
            hint="Loosen assignment.tau, or add GPUs.",
        )
    if model.sol_status == pulp.LpSolutionIntegerFeasible or (name == "cbc" and status == pulp.LpStatusNotSolved):
        raise OutOfWorkError(
            f"assignment: {name} found no solution within {settings.work_limit:g} units of work.",
            hint="Raise assignment.work_limit or assignment.gap.",
        )
    return None


def _has_solution(model: pulp.LpProblem) -> bool:
    """Whether the solver was stopped with a solution: PuLP has one word for both where HiGHS is interrupted."""
    highs = getattr(model, "solverModel", None)
    info = getattr(highs, "getInfo", None)
    if info is None:
        return True
    return math.isfinite(float(info().objective_function_value)) and int(info().primal_solution_status) == _FEASIBLE


_FEASIBLE = 2  # HiGHS's word for a primal solution that keeps all rows


def dual_bound(model: pulp.LpProblem, proven: float | None) -> float | None:
    """What the solver has proven that the programme cannot pass; `proven` (or None) where it does not say."""
    highs = getattr(model, "solverModel", None)
    info = getattr(highs, "getInfo", None)
    if info is None:
        return proven
    bound = float(info().mip_dual_bound)
    sign = -1.0 if model.sense == pulp.LpMaximize else 1.0  # PuLP has HiGHS minimise the negative
    return sign * bound if math.isfinite(bound) else proven
