"""The form of a trace, told by its first character and its header: CSV of a usual separator, JSON lines, an array.

Whatever the form, a trace becomes a header and rows of cells, so that all else is the same for all of them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from planner.errors import InputError
from planner.files.disk.csv_rows import csv_cells
from planner.files.disk.opening import opened, packing_of, text_lines, text_pieces
from planner.files.tables.traces.json_rows import BlockIds, JsonRows

_FORMS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")
_PACKINGS = ("", ".gz", ".bz2", ".xz", ".zip", ".zst")
TRACES = (*(f"{form}{packing}" for form in _FORMS for packing in _PACKINGS), ".parquet", ".xlsx", ".zip")
"""How the names of traces end; the last three are refused, or looked into, with words of their own."""

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


class TraceRows(Protocol):
    """A header, and rows of cells."""

    @property
    def names(self) -> Sequence[str]:
        """The columns."""

    @property
    def form(self) -> str:
        """The form in words."""

    def narrowed(self, names: Sequence[str]) -> tuple[Sequence[str], Iterator[Sequence[str]]]:
        """The rows from the first on, with these columns at least, and the header that they have."""


def holds_requests(path: Path) -> bool:
    """Whether a file is a trace, by its name, not a workload file. JSON with `kind` is a workload."""
    name = path.name.lower()
    if not name.endswith(".json"):
        return name.endswith(TRACES)
    begin = next((line for line in text_pieces(path) if line.strip()), "").lstrip()
    return begin.startswith("[") or not re.match(r'\{[^{}\[\]]*"kind"\s*:', begin)


def is_trace(path: Path) -> bool:
    """Whether a file that was named is to be read as a trace: all but workload files are, whatever they are called."""
    suffix = path.suffix.lower()
    return suffix not in (".yaml", ".yml") and (suffix != ".json" or holds_requests(path))


def trace_rows(path: Path, ids: BlockIds) -> TraceRows:
    """The rows of a trace; `ids` takes those of blocks. Raises InputError where it is empty or no text."""
    begin = next((piece.lstrip() for piece in text_pieces(path) if piece.strip()), "")
    if not begin:
        raise InputError(
            f"{path}: must hold a header and one row a request; it is empty.",
            hint="Give a trace: CSV or JSON lines with arrival time, input tokens and output tokens.",
        )
    with opened(path) as stream:
        packing = packing_of(path, stream)
    packed = f", packed by {packing}" if packing else ""
    if begin[0] in "{[":
        return JsonRows.of(path, ids, packed, is_array=begin[0] == "[")
    return CsvRows.of(path, packed)


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvRows:
    """Rows of a CSV file."""

    path: Path
    names: Sequence[str]
    separator: str
    form: str

    @classmethod
    def of(cls, path: Path, packed: str) -> "CsvRows":
        """The header read; the separator is the one that it has most of."""
        head = next((line for line in text_lines(path) if line.strip()), "")
        separator = max(_SEPARATORS, key=re.sub('"[^"]*"', "", head).count)
        header = next(csv_cells(path, separator), [])
        names = [cell.strip() for cell in header]
        return cls(path=path, names=names, separator=separator, form=f"CSV, {_SEPARATORS[separator]}{packed}")

    def narrowed(self, names: Sequence[str]) -> tuple[Sequence[str], Iterator[Sequence[str]]]:
        """All columns, whatever `names`: to leave some out would take time."""
        del names
        rows = csv_cells(self.path, self.separator)
        next(rows, None)
        return self.names, rows
