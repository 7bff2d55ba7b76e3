"""Tables from CSV, read strictly: errors name file, row and column."""

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from planner.errors import InputError
from planner.files.disk.budget import MOST_COLUMNS, with_few_empty
from planner.files.disk.opening import text_lines

LARGEST = 10**9


class CsvRow:
    """One row of a table by column; every fault names file, row and column."""

    def __init__(self, path: Path, place: int, cells: Mapping[str, str]) -> None:
        self.path, self.place, self.cells = path, place, cells

    def fault(self, column: str, rule: str, hint: str = "Mend or drop the row.") -> InputError:
        """What `column` must be, and what it is."""
        return InputError(
            f"{self.path}: row {self.place}, column {column} {rule}, got {self.text(column)!r:.80}.", hint=hint
        )

    def text(self, column: str) -> str:
        """The cell; empty where the table has no such column."""
        return self.cells.get(column, "")

    def name(self, column: str) -> str:
        """A text that is not empty and can be printed."""
        text = self.text(column)
        if not text or not text.isprintable():
            raise self.fault(column, "must be a name", "Give every row a name.")
        return text

    def number(self, column: str) -> float:
        """A number; NaN where the cell is none."""
        return number_of(self.text(column))

    def whole(self, column: str, *, low: int = 0, high: int = LARGEST, default: int | None = None) -> int:
        """A whole number in low..high; `default` for an empty cell."""
        if not self.text(column) and default is not None:
            return default
        number = self.number(column)
        if not number.is_integer() or not low <= number <= high:
            raise self.fault(column, f"must be a whole number, at least {low} and at most {high}")
        return int(number)


def number_of(text: str) -> float:
    """The number that a text is; NaN where it is none."""
    try:
        return float(text) if "_" not in text else math.nan  # Python alone takes 1_000 for a number
    except ValueError:
        return math.nan


def csv_cells(path: Path, separator: str = ",") -> Iterator[list[str]]:
    """The rows of a CSV file that are not blank, one at a time. InputError where it is no text or no CSV, or has more
    columns than anybody writes."""
    return _cells(text_lines(path), path, separator)


def text_cells(text: str, origin: str) -> Iterator[list[str]]:
    """As `csv_cells`, of a table in a text; `origin` names it in errors."""
    return _cells(with_few_empty(io.StringIO(text, newline=""), origin), origin, ",")


def _cells(lines: Iterable[str], origin: object, separator: str) -> Iterator[list[str]]:
    reader = csv.reader(lines, delimiter=separator)
    try:
        for row in reader:
            if len(row) > MOST_COLUMNS:
                raise InputError(
                    f"{origin}: line {reader.line_num} must have at most {MOST_COLUMNS:,} cells, has {len(row):,}.",
                    hint="Give a table with one row a line.",
                )
            if any(map(str.strip, row)):
                yield row
    except csv.Error as error:
        raise InputError(f"{origin}: line {reader.line_num} is not CSV: {error}.", hint="Mend that line.") from None


def listed(names: Iterable[str], shown_names: int = 20) -> str:
    """The first names, and how many more there are: a file may have any number of columns."""
    shown = [name if len(name) <= 60 else f"{name[:57]}..." for name in names]
    return ", ".join(shown[:shown_names]) + (
        f" and {len(shown) - shown_names} more" if len(shown) > shown_names else ""
    )


def csv_rows(path: Path, columns: Sequence[str]) -> Iterator[CsvRow]:
    """Rows with their numbers, the first below the header is 1; cells without the blanks around them.

    Raises InputError: nothing in it, one of `columns` missing, a column twice, rows of another length.
    """
    rows = csv_cells(path)
    header = [cell.strip() for cell in next(rows, [])]
    if header:
        _require_columns(path, header, columns)
    number = 0
    for number, cells in enumerate(rows, start=1):
        if len(cells) != len(header):
            raise InputError(
                f"{path}: row {number} must have {len(header)} cells like the header; it has {len(cells)}.",
                hint="Quote cells that hold commas.",
            )
        yield CsvRow(path, number, {name: cell.strip() for name, cell in zip(header, cells, strict=True)})
    if not number:
        fault_text = "only a header came" if header else "it is empty"
        raise InputError(f"{path}: must hold a header and at least one row; {fault_text}.", hint="Give a CSV file.")


def _require_columns(path: Path, header: Sequence[str], columns: Sequence[str]) -> None:
    missing = [column for column in columns if column not in header]
    twice = sorted(column for column, times in Counter(header).items() if times > 1)
    if missing or twice:
        fault = f"must have columns {', '.join(columns)}; missing: {', '.join(missing)}"
        raise InputError(
            f"{path}: {fault}." if missing else f"{path}: must have each column once; twice: {listed(twice)}.",
            hint=f"The columns found are {listed(header)}.",
        )


def require_once(path: Path, column: str, names: Sequence[str]) -> None:
    """Raises InputError where a name comes in two rows."""
    first: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        if first.setdefault(name, number) != number:
            raise InputError(
                f"{path}: row {number}, column {column} must be a name of its own, got {name!r}, as in row "
                f"{first[name]}.",
                hint="Rename or drop one of the two.",
            )
