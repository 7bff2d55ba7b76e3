"""Rows of measured points: cells read with their bounds, the faults of several rows told at once."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from planner.domain import BenchmarkRun, Metric
from planner.errors import InputError
from planner.files.benchmarks.precisions import Precision, parse_precision
from planner.files.disk.csv_rows import MOST, CsvRow, csv_rows

MOST_POINTS = 100_000
MOST_FAULTS = 5
IN_FLIGHT_TOLERANCE = 0.05  # medians stand for means: of 315 runs of InferenceX the farthest is 4.1 % beyond
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
Point = TypeVar("Point")


class PointRow(CsvRow):
    """One row of measured points; every fault names file, row and column."""

    def positive(self, column: str) -> float:
        """A number above 0."""
        number = self.number(column)
        if not 0 < number <= MOST:
            raise self.fault(column, f"must be a number above 0 and at most {MOST:g}")
        return number

    def positive_or_none(self, column: str) -> float | None:
        """A number above 0; None for an empty cell."""
        return self.positive(column) if self.text(column) else None

    def count(self, column: str) -> int:
        """A whole number of at least 1."""
        return self.whole(column, low=1)

    def flag(self, column: str) -> bool:
        """True or False."""
        text = self.text(column).lower()
        if text not in _FLAGS:
            raise self.fault(column, "must be True or False")
        return _FLAGS[text]

    def precision(self, column: str, text: str | None = None) -> Precision:
        """What the cell (or `text`, which stands for it) says of bytes per element; else a doubt."""
        try:
            return parse_precision(self.text(column) if text is None else text)
        except InputError as error:
            if not self.text(column):
                place = f"{self.path}: row {self.place}, column {column}"
                raise InputError(f"{place} {error.message}", hint=error.hint) from None
            return Precision(weight_bytes=1.0, expert_bytes=1.0, kv_bytes=1.0, doubt=f"{column} {error.message}")

    def year(self, column: str) -> int | None:
        """The year of a date like 2026-06-11; None for an empty cell."""
        if not self.text(column):
            return None
        date = re.fullmatch(r"(20\d\d)-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", self.text(column))
        if not date:
            raise self.fault(column, "must be a date like 2026-06-11, or empty")
        return int(date[1])


def read_points(path: Path, columns: Sequence[str], read: Callable[[PointRow], Point]) -> tuple[Point, ...]:
    """What `read` makes of each row. InputError names the first five faulty rows of all."""
    points, faults = [], []
    for row in csv_rows(path, columns):
        if row.place > MOST_POINTS:
            raise InputError(f"{path}: must have at most {MOST_POINTS} rows, has more.", hint="Split the file.")
        try:
            points.append(read(PointRow(row.path, row.place, row.cells)))
        except InputError as fault:
            faults.append(fault)
    if faults:
        raise joined_faults(path, faults)
    return tuple(points)


def joined_faults(path: Path, faults: Sequence[InputError]) -> InputError:
    """One error of all: the file once, then the first five."""
    messages = " ".join(fault.message.removeprefix(f"{path}: ") for fault in faults[:MOST_FAULTS])
    more = f" And {len(faults) - MOST_FAULTS} more rows." if len(faults) > MOST_FAULTS else ""
    return InputError(f"{path}: {messages}{more}", hint=faults[0].hint)


def excess_in_flight(run: BenchmarkRun, *, tolerance: float = IN_FLIGHT_TOLERANCE) -> str:
    """What Little's law says against the run, as a sentence without its place; empty where nothing.

    Tokens/s of all GPUs times seconds a token are the requests in decode, at most `concurrency` and a share
    `tolerance` more.
    """
    measured = dict(run.measured)
    rate, tpot_ms = measured.get(Metric.OUTPUT_RATE), measured.get(Metric.TPOT)
    in_flight = run.concurrency
    if in_flight is None and run.batch_per_rank is not None:
        in_flight = run.batch_per_rank * run.decode.dp * run.decode.workers
    if in_flight is None or rate is None or tpot_ms is None:
        return ""
    decoding = rate * run.decode.gpus * tpot_ms / 1000
    if decoding <= in_flight * (1 + tolerance):
        return ""
    return (
        f"the requests in decode must be at most the {in_flight:g} in flight, got {decoding:.4g}: {rate:g} "
        f"output tokens/s per GPU x {run.decode.gpus} GPUs x {tpot_ms:g} ms a token."
    )
