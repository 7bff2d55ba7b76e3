"""Tables of measured points: which of the two forms a CSV file has, and the tables that come with the planner."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from planner.domain import BenchmarkRun
from planner.errors import InputError
from planner.files.benchmarks.published_points import PUBLISHED_COLUMNS, read_published_points
from planner.files.benchmarks.serving_points import SERVING_COLUMNS, read_serving_points
from planner.files.disk.csv_rows import csv_cells, listed

_FOLDER = Path(__file__).resolve().parents[1] / "measurement_sets"
GIVEN_POINTS = (_FOLDER / "published_points.csv", _FOLDER / "serving_points.csv")
SERVING_SOURCE = "InferenceX (SemiAnalysis), public results, read November 2026"
# a column that one form alone has -> all that the form needs, and its reader
_FORMS: dict[str, tuple[Sequence[str], Callable[[Path], tuple[BenchmarkRun, ...]]]] = {
    "phase_or_metric": (PUBLISHED_COLUMNS, read_published_points),
    "disaggregated": (SERVING_COLUMNS, read_serving_points),
}


def load_given_benchmarks() -> tuple[BenchmarkRun, ...]:
    """The runs that come with the planner, each with its source: published points, then runs under load."""
    runs = (run for path in GIVEN_POINTS for run in read_point_table(path))
    return tuple(run if run.source else replace(run, source=SERVING_SOURCE) for run in runs)


def is_point_table(header: str) -> bool:
    """Whether a first line is the header of a CSV table: two names at least, GPU and model or a form's own column."""
    cells = {cell.strip(' \t\r"') for cell in header.split(",")}
    return {"gpu", "model"} <= cells or bool(cells & _FORMS.keys())


def read_point_table(path: Path) -> tuple[BenchmarkRun, ...]:
    """The runs of a CSV file in one of the two forms, which its header tells. InputError as their readers."""
    header = [cell.strip() for cell in next(csv_cells(path), [])]
    forms = [form for column, form in _FORMS.items() if column in header]
    if len(forms) != 1:
        rules = " or ".join(f"{', '.join(columns)} (points with {name})" for name, (columns, _) in _FORMS.items())
        raise InputError(
            f"{path}: the header must name the columns of one form of measured points, got {listed(header)}.",
            hint=f"Name {rules}.",
        )
    return forms[0][1](path)
