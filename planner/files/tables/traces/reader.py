"""Request traces read whole, from a file or a data frame: when each request came, how many tokens in and out.

A trace may have any number of rows: it is read in blocks; kept are 16 bytes a request, 8 for its row where there are
ids of blocks or sessions, 8 for each id, and 8 for what else a row tells of its session.
"""

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.domain import BLOCK_TOKENS, RequestTrace
from planner.domain.workload import TraceReading
from planner.errors import InputError
from planner.files.tables.traces.arrivals import Clock, clock_of, require_stretch, times_with, wanted_times
from planner.files.tables.traces.clocks import Times, TimeUnit
from planner.files.tables.traces.forms import TRACES, TraceRows, trace_rows
from planner.files.tables.traces.json_rows import BLOCK_KEYS, IDS, BlockIds
from planner.files.tables.traces.options import (
    ARRIVAL,
    COLUMNS,
    OUTPUT,
    TraceOptions,
    column_places,
    named_place,
    trace_options,
)
from planner.files.tables.traces.row_reader import RequestBlock, RowReader
from planner.files.tables.traces.turns import TurnRows, turn_places

if TYPE_CHECKING:
    import pandas as pd


_BLOCK = 65_536


@dataclass(slots=True)
class OpenTrace:
    """A trace that is being read: its rows from the first on, and what is known of them so far."""

    origin: Path | str
    rows: TraceRows
    ids: BlockIds
    turns: TurnRows
    options: TraceOptions
    reader: RowReader
    arrivals: Times
    used: tuple[str, ...]

    @classmethod
    def of(cls, origin: Path | str, rows: TraceRows, ids: BlockIds, options: TraceOptions) -> "OpenTrace":
        """Raises InputError where columns are missing or ambiguous."""
        names = rows.names
        places = column_places(origin, names, options.columns)
        told = turn_places(origin, names, options.columns)
        filters = {named_place(origin, names, name, "where"): values for name, values in options.where.items()}
        used = tuple(names[place] for place in (*places.values(), *told.values(), *filters))
        header, _ = rows.narrowed(used)
        column = {
            place: place if header is names else header.index(names[place])
            for place in (*places.values(), *told.values(), *filters)
        }
        reader = RowReader(
            origin=origin,
            header=header,
            places={key: column[place] for key, place in places.items()},
            wanted=[(column[place], frozenset(values)) for place, values in filters.items()],
            drop=options.drop,
            most_tokens=options.most_tokens,
        )
        arrivals = Times(path=origin, column=names[places[ARRIVAL]])
        turns = TurnRows(
            origin=origin,
            names={key: names[place] for key, place in told.items()},
            places={key: column[place] for key, place in told.items()},
            arrival=column[places[ARRIVAL]],
            arrival_name=arrivals.column,
            time_unit=options.time_unit,
        )
        return cls(origin, rows, ids, turns, options, reader, arrivals, used)

    def blocks(self) -> Iterator[RequestBlock]:
        """The requests in the order of their rows."""
        _, rows = self.rows.narrowed(self.used)
        cells = iter(rows)
        while block := list(islice(cells, _BLOCK)):
            requests = self.reader.read(self.turns.take(block))
            self.arrivals = times_with(self.arrivals, requests)
            yield requests
        self.reader.require_requests()

    def clock(self) -> Clock:
        """The clock, once all is read."""
        return clock_of(self.arrivals, self.options, numbers=self.reader.numbers)

    def reading(self, clock: Clock, *, began: float, outside: int, unanswered: int, in_order: bool) -> TraceReading:
        """How the trace was understood, once all is read."""
        dropped = {**self.reader.dropped, "outside the stretch of time": outside}
        return TraceReading(
            form=self.rows.form,
            columns=tuple(zip((*COLUMNS, *self.turns.names, *self.options.where), self.used, strict=False)),
            rows=self.reader.rows,
            dropped=tuple((reason, rows) for reason, rows in dropped.items() if rows),
            clock=clock.words or "ISO 8601",
            began=clock.began(began),
            unanswered=unanswered,
            in_order=in_order,
            parts=self.ids.parts,
            pauses=self.turns.pauses,
        )


def read_trace(
    path: Path,
    columns: Mapping[str, str] | None = None,
    time_unit: TimeUnit | str | None = None,
    block_tokens: int = BLOCK_TOKENS,
    *,
    where: Mapping[str, object] | None = None,
    drop: Iterable[str] = (),
    first: str = "",
    end: str = "",
    last: str = "",
) -> RequestTrace:
    """The requests of a file, in order of arrival; seconds count from the first.

    CSV of any usual separator, JSON lines or a JSON array, packed or not. `columns` names the file's columns for
    `arrival_s`, `input_tokens` and `output_tokens`, perhaps `session`, `turn`, `pause`, `duration` and `end` (`none`:
    passed over, see `turns.py`); those left out are recognised by their usual names. Times are ISO
    8601 (without a zone: UTC) or numbers in `time_unit` (s, ms, us, ns); None: told by the column's name or the
    numbers' size, and asked for where the trace would be implausible so. `clock` of the trace says which. JSON may have
    `hash_ids`, an id for each block of `block_tokens` tokens of the prompt.

    `where`: only rows with these values ({column: value or values}). `drop`: unanswered (no token of answer), faulty
    (rows that would be refused), over:TOKENS (prompt and answer together). `first`, `end`: a stretch of time, dates or
    durations since the first arrival; `last`: the last such duration. `reading` of the trace says what became of all
    rows. InputError names file, data row (the first is 1) and column.
    """
    options = trace_options(
        path, columns=columns, time_unit=time_unit, block_tokens=block_tokens, where=where, drop=drop, first=first,
        end=end, last=last,
    )  # fmt: skip
    return read_with(path, options)


def read_with(path: Path, options: TraceOptions) -> RequestTrace:
    """As `read_trace`."""
    ids = BlockIds(path)
    return collected(OpenTrace.of(path, trace_rows(path, ids), ids, options), trace_name(path))


def collected(source: OpenTrace, name: str) -> RequestTrace:
    """All requests of an open trace, in order of arrival."""
    times, inputs, outputs, row_numbers = array("d"), array("i"), array("i"), array("q")
    for block in source.blocks():
        times.frombytes(block.times.tobytes())
        inputs.frombytes(block.inputs.tobytes())
        outputs.frombytes(block.outputs.tobytes())
        if source.ids.any or source.turns.any:
            row_numbers.frombytes(block.rows.tobytes())
    clock = source.clock()
    return _trace(source, name, clock, (times, inputs, outputs, row_numbers))


def _trace(
    source: OpenTrace,
    name: str,
    clock: Clock,
    columns: "tuple[array[float], array[int], array[int], array[int]]",
) -> RequestTrace:
    times = np.frombuffer(columns[0])
    inputs, outputs = (np.frombuffer(column, dtype=np.intc) for column in columns[1:3])
    in_order = bool((times[1:] >= times[:-1]).all())
    order = np.arange(len(times)) if in_order else np.argsort(times, kind="stable")
    arrivals = source.arrivals
    if source.options.cuts_time:
        is_wanted = wanted_times(source.origin, source.options, clock, arrivals.least, arrivals.greatest)
        order = order[is_wanted(times[order])]
        require_stretch(arrivals, clock, len(order))
    times, inputs, outputs = times[order], inputs[order], outputs[order]
    require_answers(source, bool(outputs.any()))
    blocks = sessions = None
    if columns[3]:
        rows = np.frombuffer(columns[3], dtype=np.int64)[order]
        blocks = source.ids.blocks(inputs, rows, source.options.block_tokens)  # type: ignore[arg-type]
        sessions = source.turns.sessions(rows, times, clock.per_second, numbers=source.reader.numbers)
    unanswered = int(len(outputs) - np.count_nonzero(outputs))
    return RequestTrace(
        name=name,
        arrival_s=array("d", ((times - times[0]) / clock.per_second).tobytes()),
        input_tokens=array("i", inputs.tobytes()),
        output_tokens=array("i", outputs.tobytes()),
        clock=clock.words,
        blocks=blocks,
        sessions=sessions,
        reading=source.reading(
            clock,
            began=float(times[0]),
            outside=len(columns[0]) - len(order),
            unanswered=unanswered,
            in_order=in_order,
        ),
    )


def require_answers(source: OpenTrace, answered: bool) -> None:
    """InputError where no request has an answer."""
    if not answered:
        raise InputError(
            f"{source.origin}: column {source.used[COLUMNS.index(OUTPUT)]} must hold decode tokens; every row is 0.",
            hint="Give a trace with answers, or name the right column.",
        )


def trace_name(path: Path) -> str:
    """The name of a trace: its file's, without the ends that say form and packing."""
    stem = path.name
    while stem.lower().endswith(TRACES):
        stem = stem[: stem.rindex(".")]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:63] or "trace"


ORIGIN = "the data frame"
_SLICE = 65_536


def read_frame(frame: "pd.DataFrame", options: TraceOptions, name: str = "trace") -> RequestTrace:
    """The requests of a data frame, a row each; an index of times counts as a column.

    Times: datetime64 (without a zone: UTC), timedelta, or what files may have. Raises InputError as `read_trace` does.
    """
    if not len(frame):
        raise InputError(
            f"{ORIGIN}: must hold at least one request; it is empty.", hint="Give a frame with a row a request."
        )
    ids = BlockIds(ORIGIN)
    rows = FrameRows.of(frame, ids)
    source = OpenTrace.of(ORIGIN, rows, ids, options)
    if rows.is_duration(source.arrivals.column) and options.time_unit is None:
        source.options = replace(options, time_unit=TimeUnit.SECONDS)
    return collected(source, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRows:
    """Rows of a data frame, its index among them where it holds times."""

    columns: "Mapping[str, pd.Series[Any]]"
    length: int
    ids: BlockIds
    form: str = "a data frame"

    @classmethod
    def of(cls, frame: "pd.DataFrame", ids: BlockIds) -> "FrameRows":
        """Raises InputError where two columns have one name."""
        names = [str(name) for name in frame.columns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{ORIGIN}: must have each column once, got {twice!r} twice.", hint="Rename one of them.")
        columns = {name: frame.iloc[:, place] for place, name in enumerate(names)}
        if frame.index.dtype.kind in "mM":
            columns.setdefault(str(frame.index.name or "timestamp"), frame.index.to_series())
        return cls(columns=columns, length=len(frame), ids=ids)

    @property
    def names(self) -> Sequence[str]:
        """The columns."""
        return list(self.columns)

    def is_duration(self, name: str) -> bool:
        """Whether a column holds durations since a start."""
        return self.columns[name].dtype.kind == "m"

    def narrowed(self, names: Sequence[str]) -> tuple[Sequence[str], Iterator[Sequence[str]]]:
        """The cells of these columns."""
        return names, self._rows([self.columns[name] for name in names])

    def _rows(self, columns: "Sequence[pd.Series[Any]]") -> Iterator[Sequence[str]]:
        self.ids.restart()
        told = next((self.columns[key] for key in BLOCK_KEYS if key in self.columns), repeat(None))
        for number, (ids, block_tokens) in enumerate(zip(self.columns.get(IDS, ()), told, strict=False), start=1):
            self.ids.take(number, list(ids) if isinstance(ids, tuple | np.ndarray) else ids, block_tokens)
        for start in range(0, self.length, _SLICE):
            parts = [_cells(column.iloc[start : start + _SLICE]) for column in columns]
            yield from map(list, zip(*parts, strict=True))


def _cells(column: "pd.Series[Any]") -> list[str]:
    """As a file would have them; what is missing is empty."""
    kind = column.dtype.kind
    if kind == "M":
        times = column.dt.tz_convert("UTC").dt.tz_localize(None) if column.dt.tz is not None else column
        texts = np.datetime_as_string(times.to_numpy(dtype="datetime64[us]")).tolist()
        return ["" if text == "NaT" else text for text in texts]
    if kind == "m":
        column = column.dt.total_seconds()
    values = column.tolist()
    return ["" if missing else str(value) for value, missing in zip(values, column.isna().tolist(), strict=True)]
