"""Pools, models and arrivals of a serving study from CSV, read strictly: errors name file, row and column."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from planner.errors import InputError
from planner.files.disk.csv_rows import CsvRow, csv_rows, number_of, require_once
from planner.studies.serving.priced_models import LlmLengths, machine_memory_mb, priced_llm
from planner.studies.serving.records import (
    Curve,
    InferenceKind,
    InferenceTimes,
    MachineType,
    Outage,
    ServedModel,
    ServingRequest,
)

MACHINE_COLUMNS = ("machine", "count")
MODEL_COLUMNS = ("model", "kind")
REQUEST_COLUMNS = ("arrival_s", "model")
MINUTE_COLUMNS = ("minute", "model", "requests")
OUTAGE_COLUMNS = ("machine", "start_s", "end_s")
LARGEST = 1e12
LATEST_S = 1e7
MOST_MINUTES, MOST_REQUESTS, MOST_COUNT = 100_000, 1_000_000, 1000
MOST_SLOTS, MOST_BATCH, MOST_TOKENS = 64, 100_000, 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTable:
    """Models of a file, and how many requests of each its column `requests` asks for (none: 0)."""

    models: tuple[ServedModel, ...]
    totals: dict[str, float]


def read_machines(path: Path) -> tuple[MachineType, ...]:
    """Machine types: columns machine and count, and perhaps slots, memory_mb, load_mbit_s, reserve, gpu, gpus."""
    kinds = [_machine(row) for row in csv_rows(path, MACHINE_COLUMNS)]
    require_once(path, "machine", [kind.name for kind in kinds])
    return tuple(kinds)


def _machine(row: CsvRow) -> MachineType:
    memory_mb = _positive(row, "memory_mb") if row.text("memory_mb") else None
    kind = MachineType(
        name=row.name("machine"),
        machines=row.whole("count", high=MOST_COUNT),
        slots=row.whole("slots", low=1, high=MOST_SLOTS, default=2),
        memory_mb=memory_mb,
        reserve=row.whole("reserve", high=MOST_COUNT, default=0),
        gpu=row.text("gpu"),
        gpus=row.whole("gpus", low=1, high=1024, default=1),
    )
    if row.text("load_mbit_s"):
        kind = replace(kind, load_mbit_s=_positive(row, "load_mbit_s"))
    try:
        return replace(kind, memory_mb=machine_memory_mb(kind))
    except InputError as error:
        raise InputError(f"{row.path}: row {row.place}, column gpu: {error.message}", hint=error.hint) from None


def read_models(path: Path, machines: Sequence[MachineType], lengths: LlmLengths) -> ModelTable:
    """Models: columns model and kind, a row a machine type that can run it.

    With times of its own: machine, size_mb, step_s (seconds, or over the batch as 1:0.01;8:0.04), perhaps prompt_s
    (seconds over tokens, likewise), most_batch, memory_mb. Priced by the cost model instead: llm, a shipped model, on
    all machine types with a gpu. Perhaps sla_s, and requests (in all, for drawn arrivals).
    """
    by_name: dict[str, list[CsvRow]] = {}
    for row in csv_rows(path, MODEL_COLUMNS):
        by_name.setdefault(row.name("model"), []).append(row)
    models = tuple(_model(name, rows, machines, lengths) for name, rows in by_name.items())
    totals = {name: float(_total(rows)) for name, rows in by_name.items()}
    return ModelTable(models=models, totals=totals)


def _total(rows: Sequence[CsvRow]) -> int:
    return sum(row.whole("requests", high=MOST_REQUESTS, default=0) for row in rows)


def _model(name: str, rows: Sequence[CsvRow], machines: Sequence[MachineType], lengths: LlmLengths) -> ServedModel:
    first = rows[0]
    kind = _kind(first)
    sla_s = _positive(first, "sla_s") if first.text("sla_s") else None
    if first.text("llm"):
        if len(rows) > 1:
            raise rows[1].fault("model", "must come once where llm prices it on all machine types")
        try:
            return priced_llm(name, first.text("llm"), machines, kind=kind, lengths=lengths, sla_s=sla_s)
        except InputError as error:
            raise InputError(f"{first.path}: row {first.place}: {error.message}", hint=error.hint) from None
    names = {row.name for row in machines}
    times: dict[str, InferenceTimes] = {}
    for row in rows:
        machine = row.text("machine")
        if machine not in names or machine in times:
            raise row.fault("machine", f"must be one of {', '.join(sorted(names))}, once for each model")
        for column in ("kind", "size_mb"):
            if row.text(column) != first.text(column):
                raise row.fault(column, "must be the same in all rows of a model")
        times[machine] = _times(row, kind)
    return ServedModel(name=name, size_mb=_positive(first, "size_mb"), kind=kind, times=times, sla_s=sla_s)


def _kind(row: CsvRow) -> InferenceKind:
    word = row.text("kind").lower()
    if word not in {kind.value for kind in InferenceKind}:
        raise row.fault("kind", f"must be one of {', '.join(InferenceKind)}")
    return InferenceKind(word)


def _times(row: CsvRow, kind: InferenceKind) -> InferenceTimes:
    most_batch = row.whole("most_batch", low=1, high=MOST_BATCH, default=1)
    return InferenceTimes(
        step=_curve(row, "step_s", zero=False),
        prompt=_curve(row, "prompt_s", zero=True) if kind.by_token and row.text("prompt_s") else None,
        most_batch=most_batch if kind.in_batches else 1,
        memory_mb=_positive(row, "memory_mb") if row.text("memory_mb") else None,
    )


def _curve(row: CsvRow, column: str, *, zero: bool) -> Curve:
    """`0.01`, or `1:0.01;8:0.04`: counts from 1 upwards, seconds that do not fall; `zero`: they may be 0."""
    text = row.text(column)
    points = []
    for part in text.split(";"):
        count, colon, seconds = part.rpartition(":")
        points.append((number_of(count) if colon else 1.0, number_of(seconds)))
    counts, seconds_of = [count for count, _ in points], [seconds for _, seconds in points]
    sound = all(1 <= count <= LARGEST for count in counts) and all(
        0 <= value <= LATEST_S and (value or zero) for value in seconds_of
    )
    if not sound or counts != sorted(set(counts)) or seconds_of != sorted(seconds_of):
        raise row.fault(column, "must be seconds, or count:seconds;count:seconds upwards, as 1:0.01;8:0.04")
    return Curve(points=tuple(points))


def read_requests(path: Path, models: Sequence[ServedModel]) -> tuple[ServingRequest, ...]:
    """Requests of a trace: columns arrival_s and model, and perhaps prompt_tokens and output_tokens; in any order."""
    places = {model.name: place for place, model in enumerate(models)}
    requests = [
        ServingRequest(
            arrival_s=_from_zero(row, "arrival_s"),
            model=_model_place(row, places),
            prompt_tokens=row.whole("prompt_tokens", high=MOST_TOKENS, default=0),
            output_tokens=row.whole("output_tokens", high=MOST_TOKENS, default=1),
        )
        for row in csv_rows(path, REQUEST_COLUMNS)
    ]
    return tuple(sorted(requests, key=lambda request: request.arrival_s))


def read_minutes(path: Path, models: Sequence[ServedModel]) -> dict[str, list[int]]:
    """Counts by minute: columns minute (from 0), model, requests; what is left out is 0."""
    places = {model.name: place for place, model in enumerate(models)}
    counts = Counter[tuple[str, int]]()
    for row in csv_rows(path, MINUTE_COLUMNS):
        name = models[_model_place(row, places)].name
        minute = row.whole("minute", high=MOST_MINUTES)
        if (name, minute) in counts:
            raise row.fault("minute", f"must come once for {name}")
        counts[name, minute] = row.whole("requests", high=MOST_REQUESTS)
    last = max(minute for _, minute in counts)
    return {model.name: [counts[model.name, minute] for minute in range(last + 1)] for model in models}


def read_outages(path: Path) -> tuple[Outage, ...]:
    """Crashes: columns machine (a number from 0), start_s, end_s (empty: for good)."""
    return tuple(
        Outage(
            machine=row.whole("machine"),
            start_s=_from_zero(row, "start_s"),
            end_s=_positive(row, "end_s") if row.text("end_s") else None,
        )
        for row in csv_rows(path, OUTAGE_COLUMNS)
    )


def _model_place(row: CsvRow, places: dict[str, int]) -> int:
    place = places.get(row.text("model"))
    if place is None:
        raise row.fault("model", f"must be one of {', '.join(places)[:400]}")
    return place


def _positive(row: CsvRow, column: str) -> float:
    number = row.number(column)
    if not 0 < number <= LARGEST or not math.isfinite(number):
        raise row.fault(column, f"must be a number above 0 and at most {LARGEST:g}")
    return number


def _from_zero(row: CsvRow, column: str) -> float:
    number = row.number(column)
    if not 0 <= number <= LATEST_S:
        raise row.fault(column, f"must be seconds from 0 to {LATEST_S:g}")
    return number
