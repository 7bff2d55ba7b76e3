"""What happened to requests and machines, as columns, and how long models stayed on a machine."""

from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.studies.serving.records import Action
from planner.studies.serving.simulation.cluster import Machine, RequestBook

ACTIONS = tuple(Action)
"""Actions by the numbers that stand for them in a log."""

Reals = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRequests:
    """Requests in order of arrival, a column each. `start_s`: when a machine began with it; `machine`: which one."""

    model: Places
    arrival_s: Reals
    deadline_s: Reals
    start_s: Reals
    finish_s: Reals
    machine: Places


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLog:
    """Actions in the order of their ends. `action`: a place in ACTIONS; `requests`: how many an inference served.

    `model` -1: of no model. `done` 0: broken off by a crash, or not over when the last request was answered.
    """

    machine: Places
    action: Places
    model: Places
    requests: Places
    start_s: Reals
    end_s: Reals
    done: Places


class Log:
    """Columns that grow with a run."""

    def __init__(self, book: RequestBook) -> None:
        count = len(book.models)
        self._book = book
        self.start_s = array("d", [-1.0]) * count
        self.finish_s = array("d", [-1.0]) * count
        self.machine = array("q", [-1]) * count
        self._wholes = [array("q") for _ in range(5)]
        self._reals = [array("d") for _ in range(2)]

    def act(self, machine: Machine, action: Action, start_s: float, end_s: float, *, done: bool = True) -> None:
        """An action on the machine's place, with its requests, has ended."""
        model = -1 if machine.place is None else machine.place.model
        row = (machine.number, _PLACES[action], model, len(machine.requests), int(done))
        for column, whole_number in zip(self._wholes, row, strict=True):
            column.append(whole_number)
        for instants, seconds in zip(self._reals, (start_s, end_s), strict=True):
            instants.append(seconds)

    def unload(self, machine: Machine, model: int, now: float) -> None:
        """A model went from a machine."""
        for column, whole_number in zip(
            self._wholes, (machine.number, _PLACES[Action.UNLOAD], model, 0, 1), strict=True
        ):
            column.append(whole_number)
        for instants in self._reals:
            instants.append(now)

    def served(self) -> ServedRequests:
        """The requests' columns."""
        return ServedRequests(
            model=np.array(self._book.models, dtype=np.int64),
            arrival_s=np.array(self._book.arrival_s),
            deadline_s=np.array(self._book.deadline_s),
            start_s=np.array(self.start_s),
            finish_s=np.array(self.finish_s),
            machine=np.array(self.machine, dtype=np.int64),
        )

    def actions(self) -> ActionLog:
        """The actions' columns."""
        machine, action, model, requests, done = (np.array(column, dtype=np.int64) for column in self._wholes)
        start_s, end_s = (np.array(column, dtype=np.float64) for column in self._reals)
        return ActionLog(
            machine=machine, action=action, model=model, requests=requests, start_s=start_s, end_s=end_s, done=done
        )


_PLACES = {action: place for place, action in enumerate(ACTIONS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A model on a machine: loading from `start_s`, loaded from `ready_s`, gone at `end_s`."""

    model: int
    start_s: float
    ready_s: float
    end_s: float


def stays_of(actions: ActionLog, machine: int, span_s: float) -> tuple[Stay, ...]:
    """A machine's models in the order in which they went; those that never went stay until `span_s`."""
    of_machine = actions.machine == machine
    rows = zip(
        *(column[of_machine].tolist() for column in (actions.action, actions.model, actions.start_s, actions.end_s)),
        strict=True,
    )
    here: dict[int, tuple[float, float]] = {}
    stays: list[Stay] = []
    for action, model, start_s, end_s in rows:
        if ACTIONS[action] is Action.LOAD:
            here[model] = (start_s, end_s)
        elif ACTIONS[action] is Action.UNLOAD:
            begin_s, ready_s = here.pop(model)
            stays.append(Stay(model=model, start_s=begin_s, ready_s=ready_s, end_s=end_s))
    stays += [
        Stay(model=model, start_s=begin_s, ready_s=ready_s, end_s=max(ready_s, span_s))
        for model, (begin_s, ready_s) in here.items()
    ]
    return tuple(stays)
