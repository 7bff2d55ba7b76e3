"""Small pools, models and requests, and what every run must keep to."""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence

from planner.studies.serving.records import (
    Action,
    Curve,
    InferenceKind,
    InferenceTimes,
    MachineType,
    ServedModel,
    ServingPool,
    ServingRequest,
)
from planner.studies.serving.simulation.log import ACTIONS, stays_of
from planner.studies.serving.simulation.run import ServingRun
from planner.studies.serving.simulation.times import Times

TYPE = "m"
TIGHT = 1e-9


def flat(*points: tuple[float, float]) -> Curve:
    return Curve(points=points)


def model(
    name: str = "a",
    seconds: float = 0.1,
    size_mb: float = 0.0512,
    *,
    kind: InferenceKind = InferenceKind.SINGLE,
    points: Sequence[tuple[float, float]] = (),
    prompt_s: float = 0.0,
    batch: int = 1,
    memory_mb: float | None = None,
    sla_s: float | None = None,
    types: Sequence[str] = (TYPE,),
) -> ServedModel:
    """A model whose load takes size_mb / 512 s at 4096 Mbit/s."""
    times = InferenceTimes(
        step=Curve(points=tuple(points) or ((1, seconds),)),
        prompt=flat((1, prompt_s)),
        most_batch=batch,
        memory_mb=memory_mb,
    )
    return ServedModel(name=name, size_mb=size_mb, kind=kind, times=dict.fromkeys(types, times), sla_s=sla_s)


def pool(*models: ServedModel, machines: int = 1, slots: int = 2, memory_mb: float | None = None) -> ServingPool:
    return ServingPool(
        types=(MachineType(name=TYPE, machines=machines, slots=slots, memory_mb=memory_mb),), models=models
    )


def requests(*rows: tuple[float, int] | tuple[float, int, int, int]) -> tuple[ServingRequest, ...]:
    """Arrival, model, and perhaps tokens of prompt and answer."""
    return tuple(
        ServingRequest(arrival_s=row[0], model=row[1], prompt_tokens=row[2], output_tokens=row[3])
        if len(row) == 4
        else ServingRequest(arrival_s=row[0], model=row[1])
        for row in rows
    )


def actions_of(run: ServingRun) -> list[tuple[int, Action, int, int, float, float, bool]]:
    """Rows of the log: machine, action, model, requests, start, end, done."""
    log = run.actions
    columns = (log.machine, log.action, log.model, log.requests, log.start_s, log.end_s, log.done)
    return [
        (row[0], ACTIONS[row[1]], row[2], row[3], row[4], row[5], bool(row[6]))
        for row in zip(*(column.tolist() for column in columns), strict=True)
    ]


def require_sound(run: ServingRun, served: ServingPool, asked: Sequence[ServingRequest]) -> None:
    """No request lost or served twice; one action at a time; no more models on a machine than it has places, or
    memory, for; every inference on a model that is loaded."""
    columns = run.requests
    assert columns.arrival_s.tolist() == [request.arrival_s for request in asked]
    assert (columns.start_s >= columns.arrival_s - TIGHT).all()
    assert (columns.finish_s >= columns.start_s - TIGHT).all()
    rows = actions_of(run)
    answered = sum(row[3] for row in rows if row[1] is Action.INFER and row[6])
    broken = sum(row[3] for row in rows if row[1] is Action.INFER and not row[6])
    assert len(asked) <= answered + broken
    if not broken:
        assert answered == len(asked)
    kinds = [place for place, kind in enumerate(served.types) for _ in range(kind.machines + kind.reserve)]
    by_machine = defaultdict(list)
    for row in rows:
        by_machine[row[0]].append(row)
    for machine, mine in by_machine.items():
        _require_machine(run, machine, mine, served, kinds[machine])
    _require_inside(run, rows)


def _require_machine(
    run: ServingRun,
    machine: int,
    rows: Sequence[tuple[int, Action, int, int, float, float, bool]],
    served: ServingPool,
    kind: int,
) -> None:
    times = Times(served)
    spans = sorted((row[4], row[5]) for row in rows if row[1] is not Action.UNLOAD)
    for (_, end_s), (start_s, _) in itertools.pairwise(spans):
        assert start_s >= end_s - TIGHT, "one action at a time"
    stays = stays_of(run.actions, machine, math.inf)
    for stay in stays:
        beside = {other.model for other in stays if other.start_s <= stay.start_s < other.end_s} | {stay.model}
        assert len(beside) <= served.types[kind].slots
        memory_mb = served.types[kind].memory_mb
        if memory_mb is not None:
            assert sum(times.memory_mb(loaded, kind) for loaded in beside) <= memory_mb + TIGHT
    for _, action, place, _, start_s, end_s, _ in rows:
        if action is Action.INFER:
            assert any(
                stay.model == place and stay.ready_s <= start_s + TIGHT and end_s <= stay.end_s + TIGHT
                for stay in stays
            )


def _require_inside(run: ServingRun, rows: Sequence[tuple[int, Action, int, int, float, float, bool]]) -> None:
    """Every request lies within an inference of its model on its machine."""
    spans = defaultdict(list)
    for machine, action, place, _, start_s, end_s, _ in rows:
        if action is Action.INFER:
            spans[machine, place].append((start_s, end_s))
    columns = run.requests
    for place, machine, start_s, finish_s in zip(
        *(column.tolist() for column in (columns.model, columns.machine, columns.start_s, columns.finish_s)),
        strict=True,
    ):
        assert any(low - TIGHT <= start_s and finish_s <= high + TIGHT for low, high in spans[machine, place]), (
            "served outside of an inference"
        )
