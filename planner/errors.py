"""Every error a user can meet, each with the exit status that the command line gives it.

A message names, in this order: where (file or object), which key, what must hold, what came; `hint` says what to do.
"""

import re

EXIT_DONE = 0
EXIT_FAILURE = 1
EXIT_BAD_INPUT = 2
EXIT_INFEASIBLE = 3
EXIT_INTERRUPTED = 130


MOST_OF_INPUT = 200
"""Characters of one piece of input, a word or what stands in quotes, that a message repeats at most."""

_HEAD, _TAIL = 100, 60
_LONG_PIECE = re.compile(
    rf"\S{{{MOST_OF_INPUT + 1},}}"
    rf"|(?<![^\s(\[=:,])'[^'\n]{{{MOST_OF_INPUT},}}'(?=[\s.,:;)\]]|$)"
    rf'|(?<![^\s(\[=:,])"[^"\n]{{{MOST_OF_INPUT},}}"(?=[\s.,:;)\]]|$)'
)

_LONG_NAME = re.compile(rf"^(?:(?! must )[^\n:]){{{MOST_OF_INPUT + 1},}}(?=: )")  # of a file, with spaces in it


def shortened(text: str) -> str:
    """The text with the middle of what is too long in it left out."""
    if len(text) <= MOST_OF_INPUT:
        return text
    for pattern in (_LONG_PIECE, _LONG_NAME):
        text = pattern.sub(lambda piece: f"{piece[0][:_HEAD]}...{piece[0][-_TAIL:]}", text)
    return text


class PlannerError(Exception):
    """Root of the planner's errors. `hint` is the remedy, a sentence; `where` the line of a file, where it is known;
    `exit_status` is the process's."""

    exit_status = EXIT_FAILURE
    where = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        message = shortened(message)
        super().__init__(message)
        self.message = message
        self.hint = shortened(hint)

    def __str__(self) -> str:
        between = "\n" if "\n" in self.message else " "  # a remedy is not part of a list's last line
        place = f" See {self.where}." if self.where else ""
        return f"{self.message}{between}{self.hint}".strip() + place

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows in place of a traceback through our modules: the message, then what to do."""
        return [f"{type(self).__name__}: {self.message}", *([self.hint] if self.hint else [])]

    def __reduce__(self) -> tuple[object, ...]:
        # the hint is keyword-only: without this the error would not survive the way back from a worker process
        return (_rebuild, (type(self), self.message, self.hint, self.where))


def _rebuild(kind: type[PlannerError], message: str, hint: str, where: str) -> PlannerError:
    error = kind(message, hint=hint)
    error.where = where
    return error


class InputError(PlannerError):
    """What the user gave cannot be used: a file, a key, a value, a flag."""

    exit_status = EXIT_BAD_INPUT


ABSENT: object = object()
"""Stands in for a faulty value: the key as if it were not there."""


class FaultyKeyError(InputError):
    """A key of a document that cannot be used: `key` of the section `section_path` (empty: the top level).

    `by_itself`: whatever else the document says. `stand_in`: a value with which the rest can be read nevertheless.
    `missing`: it must be there and is not. `unknown`: it is there and should not be.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        section_path: str = "",
        key: str = "",
        by_itself: bool = False,
        stand_in: object = ABSENT,
        missing: bool = False,
        unknown: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.missing = missing
        self.unknown = unknown
        self.section_path = section_path
        self.key = key
        self.by_itself = by_itself
        self.stand_in = stand_in


class SeveralMistakesError(InputError):
    """All that is wrong with a document, `mistakes` in the order of its lines."""

    def __init__(self, message: str, *, hint: str = "", mistakes: tuple[PlannerError, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.mistakes = mistakes


class InfeasibleError(PlannerError):
    """The question is well put and has no answer: no layout of this inventory serves the workload."""

    exit_status = EXIT_INFEASIBLE


class SolverError(PlannerError):
    """The solver is missing, stopped early without a solution, or answered something impossible."""


class OutOfWorkError(SolverError):
    """A solver was stopped at its work limit before it had any solution."""


class InconsistentPlanError(PlannerError):
    """A plan or its manifests break an invariant (GPUs, shares, rates); nothing of it leaves the program."""


class ExportError(PlannerError):
    """The chosen target cannot express this plan; nothing was written."""

    exit_status = EXIT_INFEASIBLE
