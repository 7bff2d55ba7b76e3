"""Nodes and jobs of a spot study from CSV, read strictly: errors name file, row and column."""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from planner.domain import MOST_GPUS_OF_A_NODE, JobClass, SpotJob, SpotNode, StandbyWindow
from planner.errors import InputError
from planner.files.documents import read_text

NODE_COLUMNS = ("gpu_model", "gpu_capacity_num", "cpu_num", "node_name")
JOB_COLUMNS = ("job", "class", "submit_s", "pods", "gpus", "cpus", "duration_s", "checkpoint_s")
MOST = 10**9
LONGEST_S = 1e10


class _Cells:
    """One row of a table by column; every fault names file, row and column."""

    def __init__(self, path: Path, number: int, cells: Mapping[str, str]) -> None:
        self.path, self.number, self.cells = path, number, cells

    def fault(self, column: str, rule: str) -> InputError:
        came = self.text(column)
        return InputError(
            f"{self.path}: row {self.number}, column {column} must be {rule}; came {came!r}.",
            hint="Mend or drop the row.",
        )

    def text(self, column: str) -> str:
        return self.cells.get(column, "")

    def name(self, column: str) -> str:
        found = self.text(column)
        if not found or not found.isprintable():
            raise self.fault(column, "a name")
        return found

    def whole(self, column: str, low: int, high: int = MOST) -> int:
        try:
            number = float(self.text(column))
        except ValueError:
            number = math.nan
        if not number.is_integer() or not low <= number <= high:
            raise self.fault(column, f"a whole number, at least {low} and at most {high}")
        return int(number)

    def seconds(self, column: str, *, zero: bool = False) -> float:
        found = _number(self.text(column))
        if not (found >= 0 if zero else found > 0) or found > LONGEST_S:
            raise self.fault(column, f"seconds, {'0 or more' if zero else 'above 0'} and at most {LONGEST_S:g}")
        return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def read_spot_nodes(path: Path) -> tuple[SpotNode, ...]:
    """Nodes, in the file's order: columns gpu_model, gpu_capacity_num, cpu_num, node_name, as in Alibaba's list."""
    nodes = [
        SpotNode(
            name=row.name("node_name"),
            gpus=row.whole("gpu_capacity_num", 1, MOST_GPUS_OF_A_NODE),
            cpus=row.whole("cpu_num", 0),
            gpu_model=row.text("gpu_model"),
        )
        for row in _rows(path, NODE_COLUMNS)
    ]
    _require_once(path, "node_name", [node.name for node in nodes])
    return tuple(nodes)


def read_spot_jobs(path: Path) -> tuple[SpotJob, ...]:
    """Jobs, in the file's order: columns job, class (hp or spot), submit_s, pods, gpus, cpus (the two of a pod),
    duration_s, checkpoint_s (empty for hp), and perhaps gpu_model and standby.

    `standby`: windows in seconds of the job's own clock, as 3600-7200;10800-14400.
    """
    jobs = [_job(row) for row in _rows(path, JOB_COLUMNS)]
    _require_once(path, "job", [job.name for job in jobs])
    return tuple(jobs)


def _job(row: _Cells) -> SpotJob:
    word = row.text("class").lower()
    if word not in {kind.value for kind in JobClass}:
        raise row.fault("class", "hp or spot")
    kind = JobClass(word)
    saves = kind is JobClass.SPOT or bool(row.text("checkpoint_s"))
    return SpotJob(
        name=row.name("job"),
        kind=kind,
        submit_s=row.seconds("submit_s", zero=True),
        pods=row.whole("pods", 1),
        gpus=row.whole("gpus", 1, MOST_GPUS_OF_A_NODE),
        cpus=row.whole("cpus", 0),
        duration_s=row.seconds("duration_s"),
        checkpoint_s=row.seconds("checkpoint_s") if saves else None,
        gpu_model=row.text("gpu_model"),
        standby=_windows(row),
    )


def _windows(row: _Cells) -> tuple[StandbyWindow, ...]:
    """Windows as they are written; whether they lie in the job, apart from each other, is looked at with the job."""
    found = []
    for part in row.text("standby").split(";") if row.text("standby") else ():
        begin, dash, end = part.partition("-")
        window = StandbyWindow(start_s=_number(begin), end_s=_number(end))
        if not dash or math.isnan(window.start_s) or math.isnan(window.end_s):
            raise row.fault("standby", "windows in seconds, as 3600-7200;10800-14400")
        found.append(window)
    return tuple(found)


def _rows(path: Path, columns: Sequence[str]) -> Iterator[_Cells]:
    """Rows with their numbers, the first below the header is 1; InputError: nothing in it, or a column missing."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""))
    try:
        listed = [[cell.strip() for cell in row] for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num} is not CSV: {error}.", hint="Mend that line.") from None
    if len(listed) < 2:
        came = "only a header came" if listed else "it is empty"
        raise InputError(f"{path}: must hold a header and at least one row; {came}.", hint="Give a CSV file.")
    header = listed[0]
    missing = [column for column in columns if column not in header]
    if missing or len(set(header)) < len(header):
        raise InputError(
            f"{path}: must have columns {', '.join(columns)}, each once; missing: {', '.join(missing) or 'none'}.",
            hint=f"The columns found are {', '.join(header)}.",
        )
    for number, cells in enumerate(listed[1:], start=1):
        if len(cells) != len(header):
            raise InputError(
                f"{path}: row {number} must have {len(header)} cells like the header; it has {len(cells)}.",
                hint="Quote cells that hold commas.",
            )
        yield _Cells(path, number, dict(zip(header, cells, strict=True)))


def _require_once(path: Path, column: str, names: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        if first.setdefault(name, number) != number:
            raise InputError(
                f"{path}: row {number}, column {column} must be a name of its own; came {name!r}, as in row "
                f"{first[name]}.",
                hint="Rename or drop one of the two.",
            )
