"""Request traces from CSV or JSON lines: when each request came, and how many tokens went in and out.

A trace may have any number of rows: it is read in blocks; kept are 16 bytes a request and 8 for each id of a block.
"""

import math
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.domain import BLOCK_TOKENS, RequestTrace
from planner.errors import InputError
from planner.files.disk.csv_rows import csv_cells, listed, number_of
from planner.files.sections import MOST_TOKENS
from planner.files.tables.json_traces import BlockIds, is_json_trace, json_cells
from planner.files.tables.trace_clocks import EPOCH, Times, TimeUnit, column_stem, read_clock, require_span
from planner.units import MEGA

_ISO_HINT = "Give ISO 8601 (2023-11-16 18:17:03.98) or numbers of one unit, the same in every row."
_BLOCK = 65_536

# letters and digits only, lower case: how column names are compared
_KNOWN_COLUMNS = {
    "arrival_s": (
        "arrivals arrival timestamp timestamps time arrivaltime arrivaltimestamp arrivedat arrivaltimes "
        "requesttime requesttimestamp starttime datetime seconds createdat"
    ),
    "input_tokens": (
        "contexttokens inputtokens prompttokens requesttokens inputlength inputlen promptlength promptlen "
        "numinputtokens numprompttokens numprefilltokens contextlength"
    ),
    "output_tokens": (
        "generatedtokens outputtokens completiontokens responsetokens decodetokens outputlength outputlen "
        "generatedlength numoutputtokens numgeneratedtokens numdecodetokens"
    ),
}
_CAME = {
    "arrival_s": "ISO 8601 or a number in s, ms, us or ns",
    "input_tokens": "tokens of the prompt",
    "output_tokens": "tokens of the answer",
}


def read_trace(
    path: Path,
    columns: Mapping[str, str] | None = None,
    time_unit: TimeUnit | str | None = None,
    block_tokens: int = BLOCK_TOKENS,
) -> RequestTrace:
    """The requests of a CSV file or of JSON lines, in order of arrival; seconds count from the first.

    `columns` names the file's columns for `arrival_s`, `input_tokens` and `output_tokens`; those left out are
    recognised by their usual names. Times are ISO 8601 (without a zone: UTC) or numbers in `time_unit` (s, ms, us, ns);
    None: told by the column's name or the numbers' size, and asked for where the trace would be implausible so.
    `clock` of the trace says which. JSON lines may have `hash_ids`, an id for each block of `block_tokens` tokens of
    the prompt. InputError names file, data row (the first is 1) and column.
    """
    ids = BlockIds(path)
    rows = json_cells(path, ids) if is_json_trace(path) else csv_cells(path)
    header = next(rows, None)
    if header is None:
        raise InputError(f"{path}: must hold a header and one row a request; it is empty.", hint="Give a CSV file.")
    names = [cell.strip() for cell in header]
    reader = _Reader(path, names, _column_places(path, names, columns or {}))
    while block := list(islice(rows, _BLOCK)):
        reader.take(block)
    trace, order = reader.trace(None if time_unit is None else TimeUnit(time_unit))
    return replace(trace, blocks=ids.blocks(reader.inputs, order, block_tokens))


def _column_places(path: Path, names: Sequence[str], columns: Mapping[str, str]) -> dict[str, int]:
    for key in columns:
        if key not in _KNOWN_COLUMNS:
            raise InputError(f"{path}: columns names {key!r}.", hint=f"The columns are {', '.join(_KNOWN_COLUMNS)}.")
    return {key: _column_place(path, names, key, columns.get(key)) for key in _KNOWN_COLUMNS}


def _column_place(path: Path, names: Sequence[str], key: str, column: str | None) -> int:
    places = [i for i, name in enumerate(names) if (name == column if column is not None else _is_usual(name, key))]
    if len(places) == 1:
        return places[0]
    wanted = f"a column {column!r}" if column is not None else f"one column of {key}"
    came = "several do: " + listed(names[i] for i in places) if places else "none does"
    raise InputError(
        f"{path}: must have {wanted}; {came}. The columns found are {listed(names)}.",
        hint=f"Give a comma-separated file with {key} ({_CAME[key]}), or the column's name: "
        "`planner workload summarize --columns`.",
    )


def _is_usual(name: str, key: str) -> bool:
    usual = _KNOWN_COLUMNS[key].split()
    return _plain(name) in usual or (key == "arrival_s" and _plain(column_stem(name)) in usual)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@dataclass(slots=True)
class _Reader:
    """Takes in blocks of rows; its columns hold times as numbers, or as microseconds since 1970 where they are ISO."""

    path: Path
    header: Sequence[str]
    places: Mapping[str, int]
    times: "array[float]" = field(default_factory=lambda: array("d"))
    inputs: "array[int]" = field(default_factory=lambda: array("i"))
    outputs: "array[int]" = field(default_factory=lambda: array("i"))
    numbers: bool = True

    def take(self, block: Sequence[Sequence[str]]) -> None:
        """Read a block, all at once where all is well, else row by row to name the first that is not."""
        if not self.times:
            self.numbers = math.isfinite(number_of(_cell(block[0], self.places["arrival_s"])))
        columns = self._at_once(block) or self._row_by_row(block)
        self.times.extend(columns[0])
        self.inputs.extend(columns[1])
        self.outputs.extend(columns[2])

    def _at_once(self, block: Sequence[Sequence[str]]) -> tuple[list[float], list[int], list[int]] | None:
        """The columns; None where a row is faulty."""
        places = [self.places[key] for key in _KNOWN_COLUMNS]
        if max(map(len, block)) > len(self.header) or min(map(len, block)) <= max(places):
            return None
        arrivals, inputs, outputs = ([row[place] for row in block] for place in places)
        times = self._times(arrivals)
        tokens = _all_tokens(inputs, low=1), _all_tokens(outputs, low=0)
        return None if times is None or tokens[0] is None or tokens[1] is None else (times, tokens[0], tokens[1])

    def _times(self, cells: Sequence[str]) -> list[float] | None:
        times = _numbers(cells) if self.numbers else list(map(_microseconds, cells))
        return times if times is not None and all(map(math.isfinite, times)) else None

    def _row_by_row(self, block: Sequence[Sequence[str]]) -> tuple[list[float], list[int], list[int]]:
        rows = [self._request(number, row) for number, row in enumerate(block, start=len(self.times) + 1)]
        return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]

    def _request(self, number: int, row: Sequence[str]) -> tuple[float, int, int]:
        if len(row) > len(self.header):
            raise InputError(
                f"{self.path}: row {number} must have {len(self.header)} cells like the header; it has {len(row)}.",
                hint="Quote cells that hold commas.",
            )
        cells = {key: _cell(row, place) for key, place in self.places.items()}
        where = {key: f"{self.path}: row {number}, column {self.header[place]}" for key, place in self.places.items()}
        tokens = [_tokens(cells[key], low, where[key]) for key, low in (("input_tokens", 1), ("output_tokens", 0))]
        time = number_of(cells["arrival_s"]) if self.numbers else _microseconds(cells["arrival_s"])
        if not math.isfinite(time):
            kind = (
                "a number (of seconds, say), as in row 1"
                if self.numbers
                else "a time: ISO 8601, or a number in s, ms, us or ns"
            )
            raise InputError(f"{where['arrival_s']} must be {kind}, got {cells['arrival_s']!r:.80}.", hint=_ISO_HINT)
        return time, tokens[0], tokens[1]

    def trace(self, time_unit: TimeUnit | None) -> tuple[RequestTrace, NDArray[np.intp] | None]:
        """What was read, in order of arrival; and that order, where the rows had another."""
        if not self.times:
            raise InputError(
                f"{self.path}: must hold at least one request; only a header came.", hint="Give a CSV file."
            )
        if not any(self.outputs):
            raise InputError(
                f"{self.path}: column {self.header[self.places['output_tokens']]} must hold decode tokens; every row "
                "is 0.",
                hint="Give a trace with answers, or name the right column.",
            )
        per_second, clock = self._clock(time_unit)
        times = np.frombuffer(self.times)
        order = None if (times[1:] >= times[:-1]).all() else np.argsort(times, kind="stable")
        rows = slice(None) if order is None else order
        seconds = (times[rows] - times.min()) / per_second
        trace = RequestTrace(
            name=_trace_name(self.path),
            arrival_s=array("d", seconds.tobytes()),
            input_tokens=array("i", np.frombuffer(self.inputs, dtype=np.intc)[rows].tobytes()),
            output_tokens=array("i", np.frombuffer(self.outputs, dtype=np.intc)[rows].tobytes()),
            clock=clock,
        )
        return trace, order

    def _clock(self, time_unit: TimeUnit | None) -> tuple[float, str]:
        """Numbers in a second, and how the unit was found; nothing was to be found where times are ISO 8601."""
        times = np.frombuffer(self.times)
        first, last = int(times.argmin()), int(times.argmax())
        column = Times(
            path=self.path,
            column=self.header[self.places["arrival_s"]],
            count=len(times),
            least=float(times[first]),
            greatest=float(times[last]),
            least_row=first + 1,
            greatest_row=last + 1,
        )
        if self.numbers:
            unit, clock = read_clock(column, time_unit)
            return unit.per_second, clock
        if time_unit is not None:
            raise InputError(
                f"{self.path}: column {column.column} must hold numbers where their unit is stated; it has ISO 8601.",
                hint="Leave the time unit out.",
            )
        require_span(column, (column.greatest - column.least) / MEGA)
        return MEGA, ""


def _cell(row: Sequence[str], place: int) -> str:
    return row[place].strip() if place < len(row) else ""


def _numbers(cells: Sequence[str]) -> list[float] | None:
    try:
        return None if "_" in "".join(cells) else list(map(float, cells))
    except ValueError:
        return None


def _all_tokens(cells: Sequence[str], *, low: int) -> list[int] | None:
    numbers = _numbers(cells)
    if numbers is None:
        return None
    tokens = np.array(numbers)
    sound = (tokens >= low) & (tokens <= MOST_TOKENS) & (tokens == np.floor(tokens))
    return list(map(int, numbers)) if sound.all() else None


def _tokens(cell: str, low: int, where: str) -> int:
    number = number_of(cell)
    if not number.is_integer() or not low <= number <= MOST_TOKENS:
        reason = " A prompt of no tokens is no request." if number == 0 else ""
        raise InputError(
            f"{where} must be a whole number of tokens, at least {low} and at most {MOST_TOKENS}, got {cell!r:.80}."
            f"{reason}",
            hint="Mend or drop the row.",
        )
    return int(number)


def _trace_name(path: Path) -> str:
    stem = path.stem.removesuffix(".jsonl").removesuffix(".csv")  # of a packed file
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:63] or "trace"


def _microseconds(cell: str) -> float:
    """Since 1970; NaN where it is no time."""
    try:
        time = datetime.fromisoformat(cell.strip())
        aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        # whole microseconds, which a float holds exactly up to the year 2255
        return float((aware - EPOCH) // timedelta(microseconds=1))
    except (ValueError, OverflowError):
        return math.nan
