"""Makes planner/cost/band_table.py anew from what fits without a point predicted of it: `left_out.csv`.

After every change of that file (seconds):

    python tests/cost/make_bands.py > table.py && mv table.py planner/cost/band_table.py

A column of `left_out.csv` is a relation: what a fit predicted that did not see the row's configuration, its engine
(with this model and GPU type), its GPU type, its model. Without model and GPU type: the residual without the model, and
what leaving out the GPU type adds. An empty cell: this was not left out. P10 and P90 are those of the next residual:
of n, the ceil(0.9 (n + 1))-th from either end. Engines of before 2025 are left aside.
"""

import csv
import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from planner import files
from planner.cost.bands import ALL, DENSE, FIGURES, MOE, BandRow, Figure
from planner.cost.benchmarks.engines import habits
from planner.domain import GpuSpec, Metric, ModelSpec, NamedRun, Phase, Relation
from planner.files.tables.measurements import LEFT_OUT

FEWEST = 40
"""Residuals of a slice; of fewer, P10 and P90 tell less than those of the larger slice."""
FIRST_NEW_YEAR = 2025
TAIL = 0.9
COLUMNS = {
    Relation.SAME: "by_configuration",
    Relation.ENGINE: "by_engine",
    Relation.GPU: "by_gpu",
    Relation.MODEL: "by_model",
}
HEAD = '''"""How far left-out measurements were off, and what was measured. Made by tests/cost/make_bands.py.

`MEASURED`: GPU family, GPU type, model, its parameters (count: the same at every precision), engines. `ROWS`: figure,
relation, slice, P10 and P90 of ln(measured / predicted) of rates, left-out points.
"""

# fmt: off
'''


@dataclass(frozen=True, kw_only=True)
class Residual:
    """ln(measured / predicted) of a rate, -ln of a time, by relation, and what the point is one of. `row`: of which file
    and run."""

    row: tuple[str, int]
    figure: Figure
    model: str
    kind: str
    configuration: tuple[object, ...]
    logs: Mapping[Relation, float]
    dimensions: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where something was measured."""

    gpu: GpuSpec
    model: ModelSpec
    engine: str


def recorded() -> Iterator[dict[str, str]]:
    with Path(LEFT_OUT).open(encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream)


def residuals(runs: Iterable[NamedRun]) -> list[Residual]:
    """Of every left-out prediction by new engines."""
    by_place = {(n.run.file.rsplit("/", 1)[-1], n.run.row): n for n in runs}
    names = names_by_shape(place.model for place in places(runs))
    steps = {step.row: step for step in files.load_published_measurements()}
    gpus, models = files.measured_records(tuple(steps.values()), "published")
    known = []
    for row in recorded():
        metric, number = Metric(row["metric"]), int(row["row"])
        if metric is Metric.STEP:
            step = steps[number]
            if not step.fitted:
                continue
            figure, measured, model, gpu = step.phase, step.ms, models[step.model], gpus[step.gpu].name
            configuration: tuple[object, ...] = ("step", step.row)
            engine, precision = "", ""
        else:
            named = by_place[row["file"], number]
            assert named.model is not None
            run = named.run
            if run.year is not None and run.year < FIRST_NEW_YEAR:
                continue
            figure, measured, model, gpu = FIGURES[row["kind"]], dict(run.measured)[metric], named.model, run.gpu
            configuration = (run.file, gpu, run.model, run.engine, run.precision, run.prefill, run.decode)
            engine, precision = habits(run.engine).name, run.precision.text
        sign = -1.0 if metric.is_time else 1.0
        logs = {
            relation: sign * math.log(measured / float(row[column]))
            for relation, column in COLUMNS.items()
            if row.get(column)
        }
        if {Relation.SAME, Relation.GPU, Relation.MODEL} <= set(logs):
            logs[Relation.FORMULAS] = logs[Relation.MODEL] + logs[Relation.GPU] - logs[Relation.SAME]
        kind = MOE if model.routed_experts else DENSE
        dimensions = {"kind": row["kind"], "GPU": gpu, "model": names[model.parameters], "engine": engine}
        dimensions |= {"precision": precision, "model kind": kind, "file": row["file"]}
        known.append(
            Residual(
                row=(row["file"], number),
                figure=figure,
                model=names[model.parameters],
                kind=kind,
                configuration=configuration,
                logs=logs,
                dimensions=dimensions,
            )
        )
    return known


def places(runs: Iterable[NamedRun]) -> list[Place]:
    """Where the recorded figures were measured."""
    by_place = {(n.run.file.rsplit("/", 1)[-1], n.run.row): n for n in runs}
    steps = {step.row: step for step in files.load_published_measurements()}
    gpus, models = files.measured_records(tuple(steps.values()), "published")
    found = []
    for row in recorded():
        if row["metric"] == Metric.STEP:
            step = steps[int(row["row"])]
            found.append(Place(gpu=gpus[step.gpu], model=models[step.model], engine=""))
        else:
            named = by_place[row["file"], int(row["row"])]
            assert named.gpu is not None
            assert named.model is not None
            engine = habits(named.run.engine).name if named.run.engine else ""
            found.append(Place(gpu=named.gpu, model=named.model, engine=engine))
    return found


def names_by_shape(models: Iterable[ModelSpec]) -> dict[int, str]:
    """The first name of all models of so many parameters."""
    names: dict[int, str] = {}
    for model in sorted(models, key=lambda model: model.name):
        names.setdefault(model.parameters, model.name)
    return names


def quantiles(logs: Iterable[float]) -> tuple[float, float]:
    """P10 and P90 of the next one of so many."""
    ordered = sorted(logs)
    place = min(len(ordered), math.ceil(TAIL * (len(ordered) + 1)))
    return ordered[-place], ordered[place - 1]


def table(known: Iterable[Residual]) -> list[BandRow]:
    """A row for every figure and relation, and for its slices of enough residuals; models where nothing of them was
    left out but the configuration."""
    slices: dict[tuple[Figure, Relation, str], list[float]] = {}
    for residual in known:
        for relation, log in residual.logs.items():
            of = [ALL, residual.kind, *([residual.model] if relation is Relation.SAME else [])]
            for name in of:
                slices.setdefault((residual.figure, relation, name), []).append(log)
    rows = []
    for (figure, relation, name), logs in slices.items():
        # A slice that is all there is says nothing of its own.
        if name == ALL or FEWEST <= len(logs) < len(slices[figure, relation, ALL]):
            low, high = quantiles(logs)
            row = BandRow(
                figure=figure,
                relation=relation,
                slice=name,
                log_low=round(low, 3),
                log_high=round(high, 3),
                points=len(logs),
            )
            rows.append(row)
    order = list(itertools.product((*Phase, Metric.TTFT), Relation))
    return sorted(rows, key=lambda row: (order.index((row.figure, row.relation)), row.slice))


def measured(found: Iterable[Place]) -> list[tuple[str, str, str, int, str]]:
    """The rows of MEASURED."""
    listed = list(found)
    names = names_by_shape(place.model for place in listed)
    engines: dict[tuple[str, str, str, int], set[str]] = {}
    for place in listed:
        shape = place.model.parameters
        engines.setdefault((place.gpu.family, place.gpu.name, names[shape], shape), set()).add(place.engine)
    return [(*place, " ".join(sorted(of - {""}))) for place, of in sorted(engines.items())]


def text(known: Iterable[Residual], found: Iterable[Place]) -> str:
    """The module."""
    lines = [HEAD, "MEASURED: tuple[tuple[str, str, str, int, str], ...] = ("]
    lines += [f'    ("{family}", "{gpu}", "{model}", {shape}, "{engines}"),' for family, gpu, model, shape, engines in
              measured(found)]  # fmt: skip
    lines += [")", "ROWS: tuple[tuple[str, str, str, float, float, int], ...] = ("]
    lines += [
        f'    ("{row.figure}", "{row.relation}", "{row.slice}", {row.log_low:g}, {row.log_high:g}, {row.points}),'
        for row in table(known)
    ]
    return "\n".join([*lines, ")", ""])


def main() -> None:
    runs = files.resolve_names(files.load_given_benchmarks())
    sys.stdout.write(text(residuals(runs), places(runs)))


if __name__ == "__main__":
    main()
