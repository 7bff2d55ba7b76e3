"""Tables: one list of columns, from which frames, CSV, JSON, Markdown, pages and terminals are written."""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from planner.report.kit import markdown
from planner.report.kit.quantities import whole
from planner.report.kit.tree import Cell, DataTable

if TYPE_CHECKING:
    import pandas as pd

_FORMULA = re.compile(r"[=+@\t\r-].")
_SUSPICIOUS = re.compile(r'(?:^|,)"?[=+@\t\r-]', re.MULTILINE)


def csv_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A header and its rows, lines ending in a newline; floats to ten digits, None as an empty cell.

    A text that begins with `=`, `+`, `-` or `@` is a formula to Excel and LibreOffice: it gets an apostrophe before it,
    which they take for "this is text". Names of nodes come from clusters, and anybody may call one `=HYPERLINK(...)`.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_csv_cell, header))
    writer.writerows([_csv_cell(value) for value in row] for row in rows)
    return text.getvalue().encode()


def frame_csv(frame: Any, *, float_format: str | None = None) -> bytes:
    """A data frame as CSV, without its index."""
    text: str = frame.to_csv(index=False, lineterminator="\n", float_format=float_format)
    if not _SUSPICIOUS.search(text):
        return text.encode()
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    return csv_table(header, rows)


def _csv_cell(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.10g}"
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) and not _is_number(value) else value


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text.removesuffix("%")))
    except ValueError:
        return False


Frame: TypeAlias = "pd.DataFrame"
"""A table; a name for annotations that costs no import of pandas."""


def frame_of(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> Frame:
    """The rows as a data frame; `columns` name them where there are none."""
    listed = list(rows)
    return tabled(listed, None if listed else list(columns))


def tabled(data: Any, columns: list[str] | None = None) -> Frame:
    """As `pandas.DataFrame` takes them; whoever queries a column that is not there is told which are."""
    from planner.report.kit.queried import Table  # noqa: PLC0415  # pandas takes half a second to load

    return Table(data, columns=columns)


Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """What a table tells of each row.

    `value` is exact, for programs and to sort by; `text` writes it for people, in Markdown, and is not asked of None.
    Without it numbers are written as each writer does, under a heading that names their `unit`; `%` of a share of 1.
    `title`: heading where it is not `name`. `right`: where the cells stand; to the right where there is a `text`,
    unless told.
    """

    name: str
    value: Callable[[Row], Any]
    text: Callable[[Any], str] | None = None
    title: str = ""
    right: bool | None = None
    unit: str = ""

    @property
    def heading(self) -> str:
        """As people read it."""
        return self.title or self.name

    @property
    def align(self) -> str:
        """`l` or `r`."""
        return "r" if (self.text is not None if self.right is None else self.right) else "l"

    def cell(self, row: Row) -> tuple[Cell, str]:
        """The exact cell in `unit`, words where it is no number; and how it is written, "" where as any other."""
        value = self.value(row)
        if value is None:
            return None, ""
        if self.text is not None:
            text = self.text(value)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return value if number else markdown.plain(text), text
        if isinstance(value, bool):
            return "yes" if value else "no", ""
        if isinstance(value, int | float):
            return 100 * value if self.unit == "%" else value, ""
        return str(value), ""


def fields(*names: str) -> tuple[Column[Any], ...]:
    """Columns of what rows hold: `gpu`, `server.parallel.tp` under its last name, `servers=count` under another."""
    pairs = [name.rpartition("=") for name in names]
    return tuple(Column(name or path.rpartition(".")[2], _reader(path)) for name, _, path in pairs)


def counts(*names: str) -> tuple[Column[Any], ...]:
    """The same of whole numbers, thousands apart."""
    return tuple(replace(column, text=whole) for column in fields(*names))


def _reader(path: str) -> Callable[[Any], Any]:
    """The exact value; of kinds their word."""
    read = attrgetter(path)

    def value(row: Any) -> Any:
        cell = read(row)
        return cell.value if isinstance(cell, Enum) else cell

    return value


def record(columns: Iterable[Column[Row]], row: Row, *, headed: bool = False) -> dict[str, Any]:
    """The exact values of a row by name, or by heading."""
    return {column.heading if headed else column.name: column.value(row) for column in columns}


def of_part(part: Callable[[Row], Any], columns: Iterable[Column[Any]], prefix: str = "") -> tuple[Column[Row], ...]:
    """Columns of a part of each row; None throughout where a row has no such part."""

    def of_row(column: Column[Any]) -> Column[Row]:
        def value(row: Row) -> Any:
            owner = part(row)
            return None if owner is None else column.value(owner)

        return replace(column, name=prefix + column.name, value=value)

    return tuple(of_row(column) for column in columns)


def entries(
    pairs: Callable[[Row], Iterable[tuple[str, Any]]], rows: Iterable[Row], prefix: str = ""
) -> tuple[Column[Row], ...]:
    """A column a name that any row has an entry of, in their order; None where a row has none."""

    def entry(name: str) -> Column[Row]:
        return Column(prefix + name, lambda row: dict(pairs(row)).get(name))

    return tuple(entry(name) for name in dict.fromkeys(name for row in rows for name, _ in pairs(row)))


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """Rows under columns, and what is made of them."""

    columns: tuple[Column[Row], ...]
    rows: tuple[Row, ...]

    def only(self, *names: str) -> "Table[Row]":
        """Some of the columns."""
        return Table(tuple(column for column in self.columns if column.name in names), self.rows)

    def records(self, *, headed: bool = False) -> list[dict[str, Any]]:
        """The exact values of each row by name, or by heading."""
        return [record(self.columns, row, headed=headed) for row in self.rows]

    def frame(self, types: Mapping[str, Any] | None = None, *, headed: bool = False) -> Frame:
        """The exact values as a data frame; `types` of columns that may be empty."""
        frame = tabled(self.records(headed=headed), list(self.headings if headed else self.names))
        return frame.astype(dict(types)) if types else frame

    def csv(self) -> bytes:
        """The exact values as CSV."""
        return csv_table(self.names, self.values)

    def markdown(self) -> str:
        """A pipe table."""
        return markdown.table_text(self.block())

    def block(self, caption: str = "", rest_file: str = "") -> DataTable:
        """As it stands in a report."""
        cells = [[column.cell(row) for column in self.columns] for row in self.rows]
        return DataTable(
            columns=tuple(
                f"{column.heading} ({column.unit})" if column.unit and column.text is None else column.heading
                for column in self.columns
            ),
            rows=tuple(tuple(cell for cell, _ in row) for row in cells),
            texts=tuple(tuple(text for _, text in row) for row in cells),
            align="".join(column.align for column in self.columns),
            caption=caption,
            rest=rest_file,
        )

    def words(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Headings and cells as a terminal shows them: what Markdown says, without its marks."""
        return self.headings, [tuple(map(markdown.plain, cells)) for cells in markdown.cells(self.block())]

    @property
    def names(self) -> tuple[str, ...]:
        """As programs know them."""
        return tuple(column.name for column in self.columns)

    @property
    def headings(self) -> tuple[str, ...]:
        """As people read them."""
        return tuple(column.heading for column in self.columns)

    @property
    def values(self) -> tuple[tuple[Any, ...], ...]:
        """The exact values, row by row."""
        return tuple(tuple(column.value(row) for column in self.columns) for row in self.rows)


def matrix(
    names: Sequence[str], rows: Iterable[tuple[str, Sequence[Any]]], head: str = ""
) -> Table[tuple[str, Sequence[Any]]]:
    """Rows of a label, below `head`, and a cell under each of `names`."""

    def cells(place: int) -> Column[tuple[str, Sequence[Any]]]:
        return Column(names[place], lambda row: row[1][place], right=True)

    return table_of((Column(head, lambda row: row[0]), *map(cells, range(len(names)))), rows)


def table_of(columns: Iterable[Column[Row]], rows: Iterable[Row]) -> Table[Row]:
    """The table; rows in their order."""
    return Table(tuple(columns), tuple(rows))
