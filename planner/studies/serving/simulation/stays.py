"""How long models stayed on a machine, from its log."""

from dataclasses import dataclass

from planner.studies.serving.records import Action
from planner.studies.serving.simulation.log import ACTIONS, ActionLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A model on a machine: loading from `start_s`, loaded from `ready_s`, gone at `end_s`."""

    model: int
    start_s: float
    ready_s: float
    end_s: float


def stays_of(actions: ActionLog, machine: int, span_s: float) -> tuple[Stay, ...]:
    """A machine's models in the order in which they went; those that never went stay until `span_s`."""
    mine = actions.machine == machine
    rows = zip(
        *(column[mine].tolist() for column in (actions.action, actions.model, actions.start_s, actions.end_s)),
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
