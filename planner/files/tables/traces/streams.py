"""A trace as it passes by, in order of arrival: memory does not grow with its length.

Logs are nearly in order: rows are put in order among the `ROWS_HELD` last ones. Where a row comes later than that, or
the last hours are wanted and the end is not known yet, a first reading looks for what is missing; a trace in no order
at all is sorted in memory (16 bytes a request), and `reading` says so.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.domain import RequestTrace
from planner.domain.workload import TraceReading
from planner.errors import InputError
from planner.files.tables.traces.arrivals import Clock, likely_clock, require_stretch, wanted_times
from planner.files.tables.traces.forms import trace_rows
from planner.files.tables.traces.json_rows import BlockIds
from planner.files.tables.traces.options import TraceOptions
from planner.files.tables.traces.reader import OpenTrace, read_with, require_answers, trace_name
from planner.files.tables.traces.row_reader import RequestBlock

ROWS_HELD = 131_072
_UNORDERED = "Rows must be nearly in order of arrival to be counted as they pass by."
Requests = tuple[NDArray[np.float64], NDArray[np.integer], NDArray[np.integer]]


class UnorderedError(InputError):
    """A row came later than the `ROWS_HELD` rows before it allow, or ids of blocks or turns of
    sessions have to be put in order, too."""


class TraceStream:
    """The requests of a file in blocks. `reading` and `clock` tell once all have passed; `trace` is the whole trace,
    where it had to be read whole (ids of blocks, sessions, rows in no order), else None."""

    def __init__(self, path: Path, options: TraceOptions) -> None:
        self.path, self.name, self._options = path, trace_name(path), options
        self.reading: TraceReading | None = None
        self.clock = ""
        self._taken, self._unanswered, self._answered = 0, 0, False

    def read_whole(self) -> RequestTrace:
        """All requests in memory."""
        return read_with(self.path, self._options)

    def blocks(self) -> Iterator[Requests]:
        """Seconds since the first arrival (ascending), tokens in and out. Raises InputError as `read_trace` does, and
        `UnorderedError`."""
        source = self._open()
        greatest = self._greatest() if self._options.last_s is not None else np.inf
        self._taken, self._unanswered, self._answered = 0, 0, False
        clock: Clock | None = None
        first, start, is_wanted = 0.0, None, None
        for block in _in_order(_alone(source)):
            if clock is None:
                clock, first = (
                    likely_clock(source.arrivals, self._options, numbers=source.reader.numbers),
                    block.times[0],
                )
                is_wanted = wanted_times(self.path, self._options, clock, float(first), greatest)
            chosen = _chosen(block, is_wanted(block.times)) if is_wanted and self._options.cuts_time else block
            if not len(chosen.times):
                continue
            start = chosen.times[0] if start is None else start
            yield self._counted(chosen, (chosen.times - start) / clock.per_second)
        self._finish(source, float(first if start is None else start))

    def _open(self) -> OpenTrace:
        ids = BlockIds(self.path)
        return OpenTrace.of(self.path, trace_rows(self.path, ids), ids, self._options)

    def _greatest(self) -> float:
        """The last time, by a reading of its own."""
        source = self._open()
        for _ in source.blocks():
            pass
        return source.arrivals.greatest

    def _counted(self, block: RequestBlock, seconds: NDArray[np.float64]) -> Requests:
        answered = int(np.count_nonzero(block.outputs))
        self._taken += len(block.outputs)
        self._unanswered += len(block.outputs) - answered
        self._answered |= answered > 0
        return seconds, block.inputs, block.outputs

    def _finish(self, source: OpenTrace, start: float) -> None:
        clock = source.clock()
        if self._options.cuts_time:
            require_stretch(source.arrivals, clock, self._taken)
        require_answers(source, self._answered)
        self.clock = clock.words
        self.reading = source.reading(
            clock,
            began=start,
            outside=source.reader.requests - self._taken,
            unanswered=self._unanswered,
            in_order=True,
        )


def _alone(source: OpenTrace) -> Iterator[RequestBlock]:
    """The requests of a trace that tells nothing of how they hang together."""
    for block in source.blocks():
        if source.ids.any or source.turns.any:
            raise UnorderedError(_UNORDERED, hint="Read the trace whole.")
        yield block


def _chosen(block: RequestBlock, chosen: NDArray[np.bool_]) -> RequestBlock:
    return _joined([block], np.flatnonzero(chosen))


def _joined(blocks: list[RequestBlock], order: NDArray[np.int64] | slice) -> RequestBlock:
    return RequestBlock(
        times=np.concatenate([block.times for block in blocks])[order],
        inputs=np.concatenate([block.inputs for block in blocks])[order],
        outputs=np.concatenate([block.outputs for block in blocks])[order],
        rows=np.concatenate([block.rows for block in blocks])[order],
    )


def _in_order(blocks: Iterator[RequestBlock]) -> Iterator[RequestBlock]:
    """The requests in order of arrival, those of one time in the order of their rows."""
    pending: RequestBlock | None = None
    latest = -np.inf
    for block in blocks:
        if not len(block.times):
            continue
        both = block if pending is None else _joined([pending, block], slice(None))
        if (both.times[1:] < both.times[:-1]).any():
            both = _joined([both], np.argsort(both.times, kind="stable"))
        if both.times[0] < latest:
            raise UnorderedError(_UNORDERED, hint="Read the trace whole.")
        ready = max(0, len(both.times) - ROWS_HELD)
        if ready:
            latest = float(both.times[ready - 1])
            yield _joined([both], slice(0, ready))
        pending = _joined([both], slice(ready, None))
    if pending is not None:
        yield pending
