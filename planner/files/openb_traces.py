"""Nodes, pods and orders of Alibaba's openb traces from CSV, read strictly: errors name file, row and column."""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from planner.domain import MOST_GPUS_OF_A_NODE, WHOLE_GPU, TraceNode, TracePod
from planner.errors import InputError
from planner.files.documents import read_text

MOST = 10**9
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


class _Row:
    """One row of a table by column; every fault names file, row and column."""

    def __init__(self, path: Path, number: int, cells: Mapping[str, str]) -> None:
        self.path, self.number, self.cells = path, number, cells

    def fault(self, column: str, rule: str, hint: str) -> InputError:
        came = self.cells.get(column, "")
        return InputError(f"{self.path}: row {self.number}, column {column} {rule}; came {came!r}.", hint=hint)

    def text(self, column: str) -> str:
        return self.cells.get(column, "").strip()

    def name(self, column: str) -> str:
        found = self.text(column)
        if not found or not found.isprintable():
            raise self.fault(column, "must be a name", "Give every row a name.")
        return found

    def whole(self, column: str, *, low: int = 0, high: int = MOST, default: int | None = None) -> int:
        cell = self.text(column)
        if not cell and default is not None:
            return default
        try:
            number = float(cell)
        except ValueError:
            number = math.nan
        if not number.is_integer() or not low <= number <= high:
            raise self.fault(
                column, f"must be a whole number, at least {low} and at most {high}", "Mend or drop the row."
            )
        return int(number)

    def seconds(self, column: str) -> float | None:
        cell = self.text(column)
        if not cell:
            return None
        try:
            number = float(cell)
        except ValueError:
            number = math.nan
        if not abs(number) <= LONGEST_S:
            raise self.fault(column, f"must be seconds, at most {LONGEST_S:g} either way", "Mend or drop the row.")
        return number


LONGEST_S = 1e12
"""Thirty thousand years: beyond, sums over time lose their meaning."""


def read_trace_nodes(path: Path) -> tuple[TraceNode, ...]:
    """Nodes, in the file's order: columns sn, cpu_milli, memory_mib, gpu, model, and perhaps cpu_model.

    A `model` is needed where there are GPUs.
    """
    nodes: list[TraceNode] = []
    for row in _rows(path, _NODE_COLUMNS):
        gpus = row.whole("gpu", high=MOST_GPUS_OF_A_NODE)
        if gpus and not row.text("model"):
            raise row.fault("model", "must name the type of its GPUs", "Add the model.")
        nodes.append(
            TraceNode(
                name=row.name("sn"),
                cpu_milli=row.whole("cpu_milli", low=1),
                memory_mib=row.whole("memory_mib", low=1),
                gpus=gpus,
                gpu_model=row.text("model"),
                cpu_model=row.text("cpu_model"),
            )
        )
    _require_once(path, "sn", [node.name for node in nodes])
    return tuple(nodes)


def read_trace_pods(path: Path, models: Sequence[str] | None = None) -> tuple[TracePod, ...]:
    """Pods, in the file's order: columns name, cpu_milli, memory_mib, num_gpu, gpu_milli, and perhaps gpu_spec,
    creation_time and deletion_time.

    `gpu_milli` above 1000 counts as 1000, and without GPUs it does not count. Several GPUs must be whole ones.
    `models`: types of GPU that `gpu_spec` may name (None: any).
    """
    pods = [_pod(row, models) for row in _rows(path, _POD_COLUMNS)]
    _require_once(path, "name", [pod.name for pod in pods])
    return tuple(pods)


def _pod(row: _Row, models: Sequence[str] | None) -> TracePod:
    gpus = row.whole("num_gpu", high=MOST_GPUS_OF_A_NODE)
    milli = min(row.whole("gpu_milli", default=0), WHOLE_GPU) if gpus else 0
    if gpus and not milli:
        raise row.fault("gpu_milli", "must be above 0 where num_gpu is", "Give 1000 for whole GPUs.")
    if gpus > 1 and milli != WHOLE_GPU:
        raise row.fault("gpu_milli", "must be 1000 where several GPUs are asked for", "Ask for whole GPUs, or for one.")
    created, deleted = row.seconds("creation_time"), row.seconds("deletion_time")
    if created is not None and deleted is not None and deleted < created:
        raise row.fault("deletion_time", f"must not be before creation_time ({created:g})", "Mend or drop the row.")
    return TracePod(
        name=row.name("name"),
        cpu_milli=row.whole("cpu_milli"),
        memory_mib=row.whole("memory_mib"),
        gpus=gpus,
        gpu_milli=milli,
        gpu_spec=_spec(row, models),
        creation_s=created,
        deletion_s=deleted,
    )


def _spec(row: _Row, models: Sequence[str] | None) -> str:
    spec = row.text("gpu_spec")
    for model in spec.split("|") if spec else ():
        if not model or (models is not None and model not in models):
            known = f"must name GPU models of the nodes ({', '.join(sorted(set(models or ())))}), joined by |"
            raise row.fault("gpu_spec", known if models is not None else "must be models joined by |", "Mend the row.")
    return spec


def read_order(path: Path, column: str) -> tuple[str, ...]:
    """Names in the file's order, from its column `pod` (arrivals) or `node` (tie order)."""
    return tuple(row.name(column) for row in _rows(path, (column,)))


def _rows(path: Path, columns: Sequence[str]) -> Iterator[_Row]:
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
    twice = sorted({column for column in header if header.count(column) > 1})
    if missing or twice:
        fault = f"must have columns {', '.join(columns)}; missing: {', '.join(missing)}"
        raise InputError(
            f"{path}: {fault}." if missing else f"{path}: must have each column once; twice: {', '.join(twice)}.",
            hint=f"The columns found are {', '.join(header)}.",
        )
    for number, cells in enumerate(listed[1:], start=1):
        if len(cells) != len(header):
            raise InputError(
                f"{path}: row {number} must have {len(header)} cells like the header; it has {len(cells)}.",
                hint="Quote cells that hold commas.",
            )
        yield _Row(path, number, dict(zip(header, cells, strict=True)))


def _require_once(path: Path, column: str, names: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        if first.setdefault(name, number) != number:
            raise InputError(
                f"{path}: row {number}, column {column} must be a name of its own; came {name!r}, as in row "
                f"{first[name]}.",
                hint="Rename or drop one of the two.",
            )
