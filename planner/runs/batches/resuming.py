"""How the search in a folder resumes: with which scenario, and which evaluations are repeated."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from planner import files
from planner.domain import Scenario, Trial
from planner.errors import InputError, PlannerError


def require_same_search(folder: Path, begun: Scenario, came: Scenario) -> None:
    """InputError where `came` would evaluate otherwise, or something else, than the search in `folder`."""
    differing = files.deciding_differences(begun, came)
    if differing:
        raise InputError(
            f"{folder}: its search is of another scenario: {'; '.join(differing)}.",
            hint="Put back what differs, leave out the scenario and --seed to resume the search as it is, or plan into "
            "another folder.",
        )


def require_same_plan(folder: Path, finished: Scenario, came: Scenario) -> None:
    """InputError where `came` asks for another plan than the finished one in `folder`."""
    differing = files.all_differences(finished, came)
    if differing:
        raise InputError(
            f"{folder}: is finished, and its plan is of another scenario: {'; '.join(differing)}.",
            hint=f"Plan into another folder; `search.warm_start: [{folder}]` begins with its best layouts.",
        )


def evaluations_to_repeat(begun: Scenario, came: Scenario, rounds: Sequence[Sequence[Trial]]) -> tuple[int, ...]:
    """Indices of failed evaluations to repeat: all where the limits are others now, or where the search would end
    because of them again.

    None where the search would have continued past them, so that a killed search ends as an undisturbed one does.
    """
    trials = [trial for judged in rounds for trial in judged]
    failed = tuple(trial.index for trial in trials if trial.failed)
    other_limit = begun.assignment.work_limit != came.assignment.work_limit
    over = len(rounds) >= came.search.iterations and not any(trial.throughput_rps > 0 for trial in trials)
    return failed if other_limit or over or _gave_up(came, rounds) else ()


def _gave_up(scenario: Scenario, rounds: Sequence[Sequence[Trial]]) -> bool:
    judged = failed = 0
    for trials in rounds:
        judged, failed = judged + len(trials), failed + sum(trial.failed for trial in trials)
        if scenario.search.too_many_failures(failed, judged):
            return True
    return False


def with_way_on(error: PlannerError, journal: files.Journal, command: Sequence[str]) -> PlannerError:
    """The error of a search that has been evaluated in part; its hint says what is kept, and how to resume."""
    if not journal.evaluations:
        return error
    way = (
        f"Its {journal.evaluations} evaluations are kept: after a change that leaves them valid, resume with "
        f"`{shlex.join(command)}`."
    )
    return type(error)(error.message, hint=f"{error.hint} {way}".strip())
