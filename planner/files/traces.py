"""Request traces from CSV: when each request came, and how many tokens went in and out."""

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from planner.domain import RequestTrace
from planner.errors import InputError
from planner.files.documents import read_text
from planner.files.sections import MOST_TOKENS
from planner.units import MEGA

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO_HINT = "Give ISO 8601 (2023-11-16 18:17:03.98) or seconds, the same in every row."

# letters and digits only, lower case: how column names are compared
_KNOWN_COLUMNS = {
    "arrival_s": (
        "arrivals arrival timestamp timestamps time arrivaltime arrivaltimestamp arrivedat arrivaltimes "
        "requesttime requesttimestamp starttime datetime seconds"
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


def read_trace(path: Path, columns: Mapping[str, str] | None = None) -> RequestTrace:
    """The requests of a CSV file, in order of arrival; seconds count from the first.

    `columns` names the file's columns for `arrival_s`, `input_tokens` and `output_tokens`; those left out are
    recognised by their usual names. Times are ISO 8601 or seconds; a time without a zone counts as UTC.
    InputError names file, data row (the first is 1) and column.
    """
    rows = _rows(path)
    header = next(rows, None)
    if header is None:
        raise InputError(f"{path}: must hold a header and one row a request; it is empty.", hint="Give a CSV file.")
    places = _column_places(path, header, columns or {})
    requests = [_request(path, number, row, header, places) for number, row in enumerate(rows, start=1)]
    if not requests:
        raise InputError(f"{path}: must hold at least one request; only a header came.", hint="Give a CSV file.")
    if not any(output for _, _, output in requests):
        raise InputError(
            f"{path}: column {header[places['output_tokens']]} must hold decode tokens; every row is 0.",
            hint="Give a trace with answers, or name the right column.",
        )
    return _trace(path, requests, header[places["arrival_s"]])


def _rows(path: Path) -> Iterator[list[str]]:
    reader = csv.reader(io.StringIO(read_text(path), newline=""))
    try:
        yield from (row for row in reader if any(cell.strip() for cell in row))
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num} is not CSV: {error}.", hint="Mend that line.") from None


def _column_places(path: Path, header: list[str], columns: Mapping[str, str]) -> dict[str, int]:
    for key in columns:
        if key not in _KNOWN_COLUMNS:
            raise InputError(f"{path}: columns names {key!r}.", hint=f"The columns are {', '.join(_KNOWN_COLUMNS)}.")
    return {key: _column_place(path, header, key, columns.get(key)) for key in _KNOWN_COLUMNS}


_UNITS = {
    "arrival_s": "ISO 8601 or seconds, no other unit",
    "input_tokens": "tokens of the prompt",
    "output_tokens": "tokens of the answer",
}


def _column_place(path: Path, header: list[str], key: str, given: str | None) -> int:
    names = [cell.strip() for cell in header]
    if given is not None:
        places = [i for i, name in enumerate(names) if name == given]
    else:
        places = [i for i, name in enumerate(names) if _plain(name) in _KNOWN_COLUMNS[key].split()]
    if len(places) == 1:
        return places[0]
    what = f"a column {given!r}" if given is not None else f"one column of {key}"
    came = "several do: " + ", ".join(names[i] for i in places) if places else "none does"
    raise InputError(
        f"{path}: must have {what}; {came}. The columns found are {', '.join(names)}.",
        hint=f"Give a comma-separated file with {key} ({_UNITS[key]}), or the column's name: "
        "`planner workload summarize --columns`.",
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _request(
    path: Path, number: int, row: list[str], header: list[str], places: Mapping[str, int]
) -> tuple[str, int, int]:
    if len(row) > len(header):
        raise InputError(
            f"{path}: row {number} must have {len(header)} cells like the header; it has {len(row)}.",
            hint="Quote cells that hold commas.",
        )
    cells = {key: row[place].strip() if place < len(row) else "" for key, place in places.items()}

    def tokens(key: str, low: int) -> int:
        return _tokens(cells[key], low, f"{path}: row {number}, column {header[places[key]].strip()}")

    return cells["arrival_s"], tokens("input_tokens", 1), tokens("output_tokens", 0)


def _tokens(cell: str, low: int, where: str) -> int:
    rule = f"{where} must be a whole number of tokens, at least {low} and at most {MOST_TOKENS}; "
    try:
        number = float(cell)
    except ValueError:
        raise InputError(f"{rule}came {cell!r}.", hint="Mend or drop the row.") from None
    if not math.isfinite(number) or number != math.floor(number) or not low <= number <= MOST_TOKENS:
        reason = " A prompt of no tokens is no request." if number == 0 else ""
        raise InputError(f"{rule}came {cell!r}.{reason}", hint="Mend or drop the row.")
    return int(number)


def _trace(path: Path, requests: list[tuple[str, int, int]], column: str) -> RequestTrace:
    times = _seconds([cell for cell, _, _ in requests], path, column.strip())
    ordered = sorted(zip(times, requests, strict=True), key=lambda row: row[0])
    return RequestTrace(
        name=_trace_name(path),
        arrival_s=tuple(time for time, _ in ordered),
        input_tokens=tuple(tokens for _, (_, tokens, _) in ordered),
        output_tokens=tuple(tokens for _, (_, _, tokens) in ordered),
    )


def _trace_name(path: Path) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._")[:63] or "trace"


def _seconds(cells: list[str], path: Path, column: str) -> list[float]:
    in_seconds = _number(cells[0]) is not None
    times: list[float] = []
    for row, cell in enumerate(cells, start=1):
        time = _number(cell) if in_seconds else _microseconds(cell)
        if time is None:
            kind = "a number of seconds, as in row 1" if in_seconds else "a time"
            raise InputError(f"{path}: row {row}, column {column} must be {kind}; came {cell!r}.", hint=_ISO_HINT)
        times.append(time)
    first = min(times)
    return [(time - first) / (1.0 if in_seconds else MEGA) for time in times]


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _microseconds(cell: str) -> int | None:
    try:
        time = datetime.fromisoformat(cell)
    except ValueError:
        return None
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    # whole microseconds: differences of floats of this size would lose digits
    return (aware - _EPOCH) // timedelta(microseconds=1)
