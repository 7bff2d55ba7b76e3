"""Requests of a pandas data frame, read as those of a file: the same columns, clocks, choices and refusals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.domain import RequestTrace
from planner.errors import InputError
from planner.files.tables.traces.block_ids import IDS, BlockIds
from planner.files.tables.traces.clocks import TimeUnit
from planner.files.tables.traces.options import TraceOptions
from planner.files.tables.traces.reader import OpenTrace, collected

if TYPE_CHECKING:
    import pandas as pd

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
        for number, ids in enumerate(self.columns.get(IDS, ()), start=1):
            self.ids.take(number, list(ids) if isinstance(ids, tuple | np.ndarray) else ids)
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
