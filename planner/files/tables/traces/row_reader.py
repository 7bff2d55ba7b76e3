"""Rows of cells become columns of numbers, a block at a time; the first faulty row is named."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.files.disk.csv_rows import number_of
from planner.files.sections import MOST_TOKENS
from planner.files.tables.traces.clocks import ISO_HINT, iso_microseconds, numbers_of, time_number, times_of
from planner.files.tables.traces.options import ARRIVAL, COLUMNS, INPUT, OUTPUT, Drop

_MOST_VALUES = 12
_MOST_FAULTY = 50_000
"""If most of so many rows are no requests, the file is another."""
_Row = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBlock:
    """Requests in the order of their rows: times as their column has them (microseconds since 1970 where they are ISO),
    tokens of prompt and answer, and the data rows they stand in (the first is 1)."""

    times: NDArray[np.float64]
    inputs: NDArray[np.int32]
    outputs: NDArray[np.int32]
    rows: NDArray[np.int64]


@dataclass(slots=True)
class RowReader:
    """Reads blocks of rows of `origin`; `wanted`: places of columns, and the values that a row may have there."""

    origin: object
    header: Sequence[str]
    places: Mapping[str, int]
    wanted: Sequence[tuple[int, frozenset[str]]] = ()
    drop: frozenset[Drop] = frozenset()
    most_tokens: int | None = None
    rows: int = 0
    requests: int = 0
    numbers: bool = True
    dropped: Counter[str] = field(default_factory=Counter)
    first_fault: InputError | None = None
    _values: set[str] = field(default_factory=set)

    def read(self, block: Sequence[_Row]) -> RequestBlock:
        """The requests of a block, all at once where all is well, else row by row to name the first that is not."""
        numbered: Sequence[int] = range(self.rows + 1, self.rows + len(block) + 1)
        self.rows += len(block)
        if self.wanted:
            numbered, block = self._matching(numbered, block)
        if block and not self.requests:
            self.numbers = self._holds_numbers(block)
        columns = (self._at_once(block) if block else ((), (), ())) or None
        if columns is None:
            numbered, columns = self._row_by_row(numbered, block)
        return self._answered(
            RequestBlock(
                times=np.array(columns[0], dtype=np.float64),
                inputs=np.array(columns[1], dtype=np.int32),
                outputs=np.array(columns[2], dtype=np.int32),
                rows=np.array(numbered, dtype=np.int64),
            )
        )

    def require_requests(self) -> None:
        """InputError where no row became a request, or most were faulty."""
        self._require_few_faulty(self.rows)
        if not self.requests and self.rows and self.dropped["where"] == self.rows:
            shown = ", ".join(sorted(self._values)[:_MOST_VALUES]) or "nothing"
            raise InputError(
                f"{self.origin}: where must choose at least one row of {self.rows}; these columns hold: {shown}.",
                hint="Write a value as the file has it.",
            )
        if not self.requests:
            shown = f"all {self.rows} rows were dropped" if self.rows else "only a header came"
            raise InputError(
                f"{self.origin}: must hold at least one request; {shown}.", hint="Give a trace with requests."
            )

    def _require_few_faulty(self, rows: int) -> None:
        """InputError where most of the first `rows` rows are faulty."""
        if self.first_fault is not None and 2 * self._faulty() > rows:
            raise InputError(
                f"{self.origin}: most rows must be requests; {self._faulty()} of {rows} are faulty, the first: "
                f"{self.first_fault}",
                hint="Name the right columns, or mend the file.",
            )

    def _faulty(self) -> int:
        return sum(rows for reason, rows in self.dropped.items() if reason.startswith("faulty"))

    def _matching(self, numbered: Sequence[int], block: Sequence[_Row]) -> tuple[Sequence[int], Sequence[_Row]]:
        """The rows with one of the wanted values."""
        for place, _ in self.wanted:
            if len(self._values) < _MOST_VALUES:
                self._values.update(_cell(row, place)[:60] for row in block[:1000])
        match = [all(_cell(row, place) in values for place, values in self.wanted) for row in block]
        self.dropped["where"] += match.count(False)
        return (
            [number for number, is_match in zip(numbered, match, strict=True) if is_match],
            [row for row, is_match in zip(block, match, strict=True) if is_match],
        )

    def _answered(self, block: RequestBlock) -> RequestBlock:
        """The block without what is not wanted of its requests."""
        self.requests += len(block.rows)
        if Drop.UNANSWERED in self.drop:
            block = self._only(block, block.outputs > 0, "no answer")
        if self.most_tokens is not None:
            # an answer has a token at least: a prompt that fills a context leaves no room for it
            tokens = block.inputs.astype(np.int64) + np.maximum(block.outputs, 1)
            block = self._only(block, tokens <= self.most_tokens, f"over {self.most_tokens:,} tokens")
        return block

    def _only(self, block: RequestBlock, is_wanted: NDArray[np.bool_], reason: str) -> RequestBlock:
        left_out = int(len(is_wanted) - is_wanted.sum())
        if not left_out:
            return block
        self.dropped[reason] += left_out
        self.requests -= left_out
        return RequestBlock(
            times=block.times[is_wanted],
            inputs=block.inputs[is_wanted],
            outputs=block.outputs[is_wanted],
            rows=block.rows[is_wanted],
        )

    def _at_once(self, block: Sequence[_Row]) -> tuple[Sequence[float], Sequence[float], Sequence[float]] | None:
        """The columns; None where a row is faulty."""
        places = [self.places[key] for key in COLUMNS]
        if max(map(len, block)) > len(self.header) or min(map(len, block)) <= max(places):
            return None
        arrivals, inputs, outputs = ([row[place] for row in block] for place in places)
        times = times_of(arrivals, numbers=self.numbers)
        tokens = _all_tokens(inputs, low=1), _all_tokens(outputs, low=0)
        return None if times is None or tokens[0] is None or tokens[1] is None else (times, tokens[0], tokens[1])

    def _holds_numbers(self, block: Sequence[_Row]) -> bool:
        """Whether times are numbers, by the first row; by the first that has a time, where faulty ones are left out."""
        for row in block if Drop.FAULTY in self.drop else block[:1]:
            cell = _cell(row, self.places[ARRIVAL])
            if math.isfinite(time_number(cell)):
                return True
            if math.isfinite(iso_microseconds(cell)):
                return False
        return False

    def _row_by_row(
        self, numbered: Sequence[int], block: Sequence[_Row]
    ) -> tuple[list[int], tuple[list[float], list[int], list[int]]]:
        numbers, times, inputs, outputs = [], [], [], []
        for number, row in zip(numbered, block, strict=True):
            try:
                request = self._request(number, row)
            except InputError as fault:
                if Drop.FAULTY not in self.drop:
                    raise
                self.first_fault = self.first_fault or fault
                self.dropped["faulty"] += 1
                if self._faulty() > max(_MOST_FAULTY, number / 2):
                    self._require_few_faulty(number)
                continue
            numbers.append(number)
            times.append(request[0])
            inputs.append(request[1])
            outputs.append(request[2])
        return numbers, (times, inputs, outputs)

    def _request(self, number: int, row: _Row) -> tuple[float, int, int]:
        if len(row) > len(self.header):
            raise InputError(
                f"{self.origin}: row {number} must have {len(self.header)} cells like the header; it has {len(row)}.",
                hint="Quote cells that hold commas.",
            )
        cells = {key: _cell(row, place) for key, place in self.places.items()}
        where = {key: f"{self.origin}: row {number}, column {self.header[place]}" for key, place in self.places.items()}
        tokens = [_tokens(cells[key], low, where[key]) for key, low in ((INPUT, 1), (OUTPUT, 0))]
        time = time_number(cells[ARRIVAL]) if self.numbers else iso_microseconds(cells[ARRIVAL])
        if not math.isfinite(time):
            kind = (
                "a number (of seconds, say), as in row 1"
                if self.numbers
                else "a time: ISO 8601, or a number in s, ms, us or ns"
            )
            raise InputError(f"{where[ARRIVAL]} must be {kind}, got {cells[ARRIVAL]!r:.80}.", hint=ISO_HINT)
        return time, tokens[0], tokens[1]


def _cell(row: _Row, place: int) -> str:
    return row[place].strip() if place < len(row) else ""


def _all_tokens(cells: Sequence[str], *, low: int) -> list[float] | None:
    numbers = numbers_of(cells)
    if numbers is None:
        return None
    tokens = np.array(numbers)
    sound = (tokens >= low) & (tokens <= MOST_TOKENS) & (tokens == np.floor(tokens))
    return numbers if sound.all() else None


def _tokens(cell: str, low: int, where: str) -> int:
    number = number_of(cell)
    if not number.is_integer() or not low <= number <= MOST_TOKENS:
        reason = " A prompt of no tokens is no request." if number == 0 else ""
        raise InputError(
            f"{where} must be a whole number of tokens, at least {low} and at most {MOST_TOKENS}, got {cell!r:.80}."
            f"{reason}",
            hint="Mend or drop the row; `planner workload summarize FILE --drop faulty --out NAME.yaml`, in a scenario "
            "`drop: [faulty]`, in Python `drop=['faulty']`, leaves such rows out and counts them.",
        )
    return int(number)
