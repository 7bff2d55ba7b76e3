"""Every error a user can meet, each with the exit status that the command line gives it.

A message names, in this order: where (file or object), which key, what must hold, what came; `hint` says what to do.
"""

EXIT_DONE = 0
EXIT_FAILURE = 1
EXIT_BAD_INPUT = 2
EXIT_INFEASIBLE = 3
EXIT_INTERRUPTED = 130


class PlannerError(Exception):
    """Root of the planner's errors. `hint` is the remedy, a sentence; `exit_status` is the process's."""

    exit_status = EXIT_FAILURE

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        between = "\n" if "\n" in self.message else " "  # a remedy is not part of a list's last line
        return f"{self.message}{between}{self.hint}".strip()

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows in place of a traceback through our modules: the message, then what to do."""
        return [f"{type(self).__name__}: {self.message}", *([self.hint] if self.hint else [])]

    def __reduce__(self) -> tuple[object, ...]:
        # the hint is keyword-only: without this the error would not survive the way back from a worker process
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[PlannerError], message: str, hint: str) -> PlannerError:
    return kind(message, hint=hint)


class InputError(PlannerError):
    """What the user gave cannot be used: a file, a key, a value, a flag."""

    exit_status = EXIT_BAD_INPUT


class InfeasibleError(PlannerError):
    """The question is well put and has no answer: no layout of this inventory serves the workload."""

    exit_status = EXIT_INFEASIBLE


class SolverError(PlannerError):
    """The solver is missing, stopped early without a solution, or answered something impossible."""


class InconsistentPlanError(PlannerError):
    """A plan or its manifests break an invariant (GPUs, shares, rates); nothing of it leaves the program."""


class ExportError(PlannerError):
    """The chosen target cannot express this plan; nothing was written."""

    exit_status = EXIT_INFEASIBLE
