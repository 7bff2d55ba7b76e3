"""Makes planner/cost/residuals/band_table.py anew from what fits without a point predicted of it: `left_out.csv.xz`.

After every change of that file (seconds):

    python tests/cost/make_bands.py > table.py && mv table.py planner/cost/residuals/band_table.py

A column of it is a relation: what a fit predicted that did not see the row's configuration, its engine
(with this model and GPU type), its GPU type, its model. Without model and GPU type: the residual without the model, and
what leaving out the GPU type adds. An empty cell: this was not left out. P10 and P90 are those of the next residual
(Weibull's places): of n, the 0.1 (n + 1)-th from either end, between two by its fraction, so that of few they cover as
many as of many. Engines of before 2025 are left aside.
"""

import csv
import itertools
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from planner import files
from planner.cost.benchmarks.engines import habits
from planner.cost.residuals.bands import ALL, DENSE, FIGURES, MOE, BandRow, Figure
from planner.domain import GpuSpec, Metric, ModelSpec, NamedRun, Phase, Relation
from planner.files.disk.opening import text_lines
from planner.files.tables.measurements import LEFT_OUT

FEWEST = 40
"""Residuals of a slice; of fewer, P10 and P90 tell less than those of the larger slice."""
FIRST_NEW_YEAR = 2025
TAIL = 0.1
EDGE = 0.01
COLUMNS = {
    Relation.SAME: "by_configuration",
    Relation.ENGINE: "by_engine",
    Relation.GPU: "by_gpu",
    Relation.MODEL: "by_model",
}
HEAD = '''"""How far left-out measurements were off, and what was measured. Made by tests/cost/make_bands.py.

`MEASURED`: GPU family, GPU type, model, its parameters (count: the same at every precision), engines. `ROWS`: figure,
relation, slice, P10 and P90 of ln(measured / predicted) of rates, left-out points. `TOLD`: of a relation, how far what
one run of a configuration was off tells of another's, at other lengths or with other requests in flight: correlation.
"""

from planner.domain import Relation

# fmt: off
'''


@dataclass(frozen=True, kw_only=True)
class Point:
    """A row of the record with what was measured, and where. `old`: by an engine of before 2025."""

    cells: Mapping[str, str]
    figure: Figure
    measured: float
    gpu: GpuSpec
    model: ModelSpec
    engine: str = ""
    precision: str = ""
    configuration: tuple[object, ...] = ()
    old: bool = False

    @property
    def row(self) -> tuple[str, int]:
        """File and row of the run."""
        return self.cells["file"], int(self.cells["row"])

    @property
    def logs(self) -> dict[Relation, float]:
        """ln(measured / predicted) of a rate, -ln of a time, by relation."""
        sign = -1.0 if Metric(self.cells["metric"]).is_time else 1.0
        logs = {
            relation: sign * math.log(self.measured / float(self.cells[column]))
            for relation, column in COLUMNS.items()
            if self.cells.get(column)
        }
        if {Relation.SAME, Relation.GPU, Relation.MODEL} <= set(logs):
            logs[Relation.FORMULAS] = logs[Relation.MODEL] + logs[Relation.GPU] - logs[Relation.SAME]
        return logs


@dataclass(frozen=True, kw_only=True)
class Residual:
    """How far one figure of a run was off, by relation, and what it is one of; `model`: known by its shape."""

    row: tuple[str, int]
    figure: Figure
    model: str
    kind: str
    configuration: tuple[object, ...]
    logs: Mapping[Relation, float]
    dimensions: Mapping[str, str]


def points(runs: Iterable[NamedRun]) -> list[Point]:
    """Everything that was left out once."""
    by_place = {(n.run.file.rsplit("/", 1)[-1], n.run.row): n for n in runs}
    steps = {step.row: step for step in files.load_published_measurements() if step.fitted}
    gpus, models = files.measured_records(tuple(steps.values()), "published")
    kept = csv.DictReader(text_lines(LEFT_OUT))
    rows = [row for row in kept if row["metric"] == Metric.STEP or row["kind"] in FIGURES]
    bands = []
    for row in rows:
        if row["metric"] != Metric.STEP:
            bands.append(_of_run(row, by_place[row["file"], int(row["row"])]))
        elif int(row["row"]) in steps:
            step = steps[int(row["row"])]
            place = {"gpu": gpus[step.gpu], "model": models[step.model], "configuration": ("step", step.row)}
            bands.append(Point(cells=row, figure=step.phase, measured=step.ms, **place))
    return bands


def _of_run(row: Mapping[str, str], named: NamedRun) -> Point:
    run = named.run
    assert named.gpu is not None
    assert named.model is not None
    return Point(
        cells=row,
        figure=FIGURES[row["kind"]],
        measured=dict(run.measured)[Metric(row["metric"])],
        gpu=named.gpu,
        model=named.model,
        engine=habits(run.engine).name if run.engine else "",
        precision=run.precision.text,
        configuration=(run.file, run.gpu, run.model, run.engine, run.precision, run.prefill, run.decode),
        old=run.year is not None and run.year < FIRST_NEW_YEAR,
    )


def residuals(found: Iterable[Point]) -> list[Residual]:
    """Of every left-out prediction by new engines."""
    listed = list(found)
    names = names_by_shape(point.model for point in listed)
    residuals = []
    for point in listed:
        if not point.old:
            kind, name = MOE if point.model.routed_experts else DENSE, names[point.model.parameters]
            residuals.append(
                Residual(
                    row=point.row,
                    figure=point.figure,
                    model=name,
                    kind=kind,
                    configuration=point.configuration,
                    logs=point.logs,
                    dimensions={
                        **{"file": point.row[0], "kind": point.cells["kind"], "GPU": point.gpu.name, "model": name},
                        **{"engine": point.engine, "precision": point.precision, "model kind": kind},
                    },
                )
            )
    return residuals


def names_by_shape(models: Iterable[ModelSpec]) -> dict[int, str]:
    """The first name of all models of so many parameters."""
    names: dict[int, str] = {}
    for model in sorted(models, key=lambda model: model.name):
        names.setdefault(model.parameters, model.name)
    return names


def quantiles(logs: Iterable[float]) -> tuple[float, float]:
    """P10 and P90 of the next one of so many."""
    low, high = np.quantile(list(logs), [TAIL, 1 - TAIL], method="weibull").tolist()
    return low, high


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


def measured(found: Iterable[Point]) -> list[tuple[str, str, str, int, str]]:
    """The rows of MEASURED."""
    listed = list(found)
    names = names_by_shape(point.model for point in listed)
    engines: dict[tuple[str, str, str, int], set[str]] = {}
    for point in listed:
        shape = point.model.parameters
        engines.setdefault((point.gpu.family, point.gpu.name, names[shape], shape), set()).add(point.engine)
    return [(*place, " ".join(sorted(of - {""}))) for place, of in sorted(engines.items())]


def text(found: Iterable[Point]) -> str:
    """The module."""
    listed = list(found)
    lines = [HEAD, "MEASURED: tuple[tuple[str, str, str, int, str], ...] = ("]
    lines += [
        f'    ("{family}", "{gpu}", "{model}", {shape}, "{engines}"),'
        for family, gpu, model, shape, engines in measured(listed)
    ]
    lines += [")", "ROWS: tuple[tuple[str, str, str, float, float, int], ...] = ("]
    lines += [
        f'    ("{row.figure}", "{row.relation}", "{row.slice}", {row.log_low:g}, {row.log_high:g}, {row.points}),'
        for row in table(residuals(listed))
    ]
    lines += [")", "TOLD: dict[Relation, float] = {"]
    lines += [
        f"    Relation.{relation.name}: {told:.2f}," for relation, told in told_by_runs(residuals(listed)).items()
    ]
    return "\n".join([*lines, "}", ""])


def told_by_runs(known: Iterable[Residual]) -> dict[Relation, float]:
    """Correlation of what two runs of one configuration are off in decode and aggregated serving, each configuration of
    two or more runs counted once; of prefill there are too few. The outermost hundredth of residuals counts as its
    edge, so that no single run decides."""
    listed, told = list(known), {}
    for relation in Relation:
        together = alone = 0.0
        for figure in (Phase.DECODE, Phase.MIXED):
            of_figure = [r for r in listed if r.figure is figure and relation in r.logs]
            if not of_figure:
                continue
            logs = np.array([residual.logs[relation] for residual in of_figure])
            inside = np.clip(logs, *np.quantile(logs, [EDGE, 1 - EDGE])) - np.median(logs)
            configurations: dict[tuple[object, ...], list[float]] = {}
            for residual, log in zip(of_figure, inside.tolist(), strict=True):
                configurations.setdefault(residual.configuration, []).append(log)
            for row in configurations.values():
                count, squares = len(row), sum(log**2 for log in row)
                if count > 1:
                    together += (sum(row) ** 2 - squares) / (count * (count - 1))
                    alone += squares / count
        if alone:
            told[relation] = round(together / alone, 2)
    return told


def main() -> None:
    sys.stdout.write(text(points(files.resolve_names(files.load_given_benchmarks()))))


if __name__ == "__main__":
    main()
