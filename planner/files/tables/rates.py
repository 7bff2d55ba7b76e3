"""Rates over a day or a week: curves that come with the planner, and CSV files of monitoring, a row a window.

    name: servegen-m-large
    span_s: 1209600              # after which the curve repeats
    licence, citation, source
    rates: |
      start_s,requests_per_s
      0,242.6

A rate holds from its start to the next one's. Only how rates compare counts: a stream is asked for at a mean rate.

    pool,window_start_s,requests_per_s,arrival_cv
    chat,0,14.86,1.63
    chat,600,18.40,1.31

| column | names that are understood | holds |
|---|---|---|
| time | window_start, start, time, timestamp, date, seconds, with a unit or without | start of the window |
| rate | requests_per_s, requests_per_second, rate_rps, rps, qps, rate | requests/s in it, at least 0 |
| pool, if any | pool, name, service | whose rate it is, where a file holds several |
| burstiness, if any | arrival_cv, arrival_cv_weighted, burstiness, cv | variation of the gaps between requests |

Times are seconds (or ms, us, ns by the column's name or their size), or ISO 8601, UTC without a zone. An empty rate is
a window that is missing, an empty burstiness one that is not told.
Windows are as long as most starts are apart. A day begins at midnight UTC, or at second 0 where times are no dates.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from planner.domain.arrivals import RateCurve
from planner.domain.schedules import DAY_S, GapRule, RateSeries, RateWindow
from planner.errors import InputError
from planner.files.disk.csv_rows import CsvRow, csv_rows, listed, number_of, text_cells
from planner.files.disk.documents import read_yaml
from planner.files.disk.names import is_path, resolve, shipped_rate_curves
from planner.files.sections import Section, nearest_hint
from planner.files.tables.traces.clocks import (
    Times,
    column_stem,
    epoch_unit,
    iso_microseconds,
    iso_text,
    named_unit,
    require_span,
)

_HEADER = ("start_s", "requests_per_s")
_LONGEST_S = 10 * 365.25 * 86_400.0  # as no trace spans ten years


def load_rate_curve(name_or_path: str, base: Path | None = None) -> RateCurve:
    """A shipped curve by name, or one of your own by the path of its file (.yaml), relative to `base`."""
    if is_path(name_or_path, ".yaml", ".yml"):
        return rate_curve_from_document(read_yaml(resolve(name_or_path, base)))
    shipped = shipped_rate_curves()
    if name_or_path not in shipped:
        raise InputError(
            f"There is no rate curve {name_or_path!r}.",
            hint=nearest_hint(name_or_path, shipped, noun="shipped rate curves")
            + " For your own give the path of its file (.yaml).",
        )
    return rate_curve_from_document(read_yaml(shipped[name_or_path]))


def rate_curve_from_document(document: Section) -> RateCurve:
    """The curve that a document describes. InputError names file, key and row."""
    document.allow_only("name", "span_s", "licence", "citation", "source", "rates")
    rows = [[cell.strip() for cell in row] for row in text_cells(document.text("rates"), f"{document.file}: rates")]
    if not rows or tuple(rows[0]) != _HEADER:
        raise _fault(document, f"begin with {','.join(_HEADER)}", ",".join(rows[0]) if rows else "nothing")
    pairs = [_pair(document, number, row) for number, row in enumerate(rows[1:], start=1)]
    starts = tuple(start for start, _ in pairs)
    span_s = document.number("span_s", above=0, high=_LONGEST_S)
    if not starts or starts[0] != 0:
        raise _fault(document, "begin at second 0", f"{starts[0]:g}" if starts else "only a header")
    for number, (before, after) in enumerate(zip(starts, (*starts[1:], span_s), strict=True), start=1):
        if after <= before:
            following = "span_s" if number == len(starts) else f"row {number + 1}"
            raise _fault(document, f"have starts that ascend to span_s: row {number} before {following}", f"{after:g}")
    if not any(rate for _, rate in pairs):
        raise _fault(document, "have a rate above 0", "only zeros")
    return RateCurve(
        name=document.name("name"),
        starts_s=starts,
        rates=tuple(rate for _, rate in pairs),
        span_s=span_s,
        licence=document.text("licence", default=""),
        citation=document.text("citation", default=""),
        source=document.text("source", default=""),
    )


def _pair(document: Section, number: int, row: Sequence[str]) -> tuple[float, float]:
    if len(row) != len(_HEADER):
        raise _fault(document, f"have {len(_HEADER)} cells in row {number}", str(len(row)))
    start, rate = map(number_of, row)
    for column, value, cell in zip(_HEADER, (start, rate), row, strict=True):
        if not 0 <= value <= 1e12:  # NaN, too
            raise _fault(document, f"have a number of at least 0 in row {number}, {column}", repr(cell))
    return start, rate


def _fault(document: Section, rule: str, received: str) -> InputError:
    return InputError(
        f"{document.file}: {document.key_path('rates')} must {rule}, got {received}.",
        hint="One row a stretch of time: second of its start, requests a second.",
    )


MOST_WINDOWS = 200_000
"""Over a year of windows of 3 minutes: beyond it a time or two are wrong, and a schedule takes hours."""
MOST_RPS = 1e12
MOST_BURSTINESS = 1000.0
_TIMES = ("window_start", "start", "time", "timestamp", "date", "")  # without their unit: `seconds` is one
_RATES = ("requests_per_s", "requests_per_second", "rate_rps", "rps", "qps", "rate")
_POOLS = ("pool", "name", "service")
_BURSTINESS = ("arrival_cv", "arrival_cv_weighted", "burstiness", "cv")
_SAME_STEP = 1e-6


def load_rates(
    name_or_path: str | Path, pool: str | None = None, *, gaps: GapRule = GapRule.REFUSE, base: Path | None = None
) -> RateSeries:
    """The rates of a CSV file (of `pool`, where it holds several), or of a shipped curve by its name.

    Raises InputError, with file and row: no column of times or rates, several pools and none named, windows that are
    missing (unless `gaps` says what stands for them), doubled, out of order or of another length, rates that are no
    numbers of at least 0.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, str) and not is_path(text, ".csv", ".gz", ".xz", ".zst"):
        return _shipped(text, pool)
    table = _RateTable.of(resolve(text, base))
    return table.series(table.pool_named(pool), gaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    place: int
    start_s: float
    rate_rps: float | None
    burstiness: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _RateTable:
    """The rows of every pool, in the file's order. `dated`: times are dates, not numbers."""

    path: Path
    rows: Mapping[str, Sequence[_Row]]
    dated: bool

    @classmethod
    def of(cls, path: Path) -> "_RateTable":
        """The table of a file, cell by cell."""
        rows = list(csv_rows(path, ()))
        columns = _Columns.of(path, list(rows[0].cells))
        starts_s = _starts_s(path, columns.time, rows)
        by_pool: dict[str, list[_Row]] = {}
        for row, start_s in zip(rows, starts_s, strict=True):
            pool = row.name(columns.pool) if columns.pool else path.stem
            by_pool.setdefault(pool, []).append(columns.row(row, start_s))
        return cls(path=path, rows=by_pool, dated=not math.isfinite(rows[0].number(columns.time)))

    def pool_named(self, pool: str | None) -> str:
        """The pool that is meant; one must be named where there are several."""
        if pool is not None and pool in self.rows:
            return pool
        pools = listed(self.rows)
        if pool is not None:
            raise InputError(
                f"{self.path}: holds no pool {pool!r}.", hint=nearest_hint(pool, self.rows, noun="pools of the file")
            )
        if len(self.rows) > 1:
            raise InputError(
                f"{self.path}: holds the rates of {len(self.rows)} pools: {pools}; got no name of one.",
                hint=f"Name one of them: --pool {next(iter(self.rows))} (in Python pool=).",
            )
        return next(iter(self.rows))

    def series(self, pool: str, gaps: GapRule) -> RateSeries:
        """The windows of a pool, those that are missing filled as `gaps` says."""
        rows = self.rows[pool]
        self._require_order(rows)
        window_s = self._window_s(rows)
        windows = _filled(rows, window_s)
        missing = [row.start_s for row in windows if row.rate_rps is None]
        if missing and (gaps is GapRule.REFUSE or windows[0].rate_rps is None or windows[-1].rate_rps is None):
            raise self._gaps(rows, missing, gaps)
        if not any(row.rate_rps for row in windows):
            raise InputError(f"{self.path}: pool {pool} must have a rate above 0, got only zeros.", hint="Mend it.")
        begins_s = rows[0].start_s
        return RateSeries(
            name=pool,
            window_s=window_s,
            windows=tuple(
                RateWindow(start_s=number * window_s, rate_rps=rate, burstiness=burstiness)
                for number, (rate, burstiness) in enumerate(_without_gaps(windows, gaps))
            ),
            begins_s=begins_s % DAY_S,
        )

    def _require_order(self, rows: Sequence[_Row]) -> None:
        for before, row in pairwise(rows):
            if row.start_s > before.start_s:
                continue
            doubled = row.start_s == before.start_s
            got = "the same window again" if doubled else self._time(row.start_s)
            raise InputError(
                f"{self.path}: row {row.place} must begin after row {before.place}, at {self._time(before.start_s)}; "
                f"got {got}.",
                hint="Drop one of the two rows." if doubled else "Sort the rows by time.",
            )

    def _window_s(self, rows: Sequence[_Row]) -> float:
        """How long windows are: the step that most rows have, of equally many the shortest."""
        steps = Counter(round(after.start_s - before.start_s, 6) for before, after in pairwise(rows))
        if not steps:
            raise InputError(
                f"{self.path}: must hold at least two windows of a pool, to tell how long they are; got one.",
                hint="Give a row a window.",
            )
        repeats = max(steps.values())
        window_s = min(step for step, times in steps.items() if times == repeats)
        for before, row in pairwise(rows):
            step_s = row.start_s - before.start_s
            if abs(step_s / window_s - max(1, round(step_s / window_s))) > _SAME_STEP:
                raise InputError(
                    f"{self.path}: windows must all be {window_s:.15g} s long, as most are; row {before.place} lasts "
                    f"{step_s:.15g} s up to row {row.place}.",
                    hint="Write the rates over windows of one length.",
                )
        count = round((rows[-1].start_s - rows[0].start_s) / window_s) + 1
        if count > MOST_WINDOWS:
            raise InputError(
                f"{self.path}: must span at most {MOST_WINDOWS:,} windows of {window_s:.15g} s, got {count:,}.",
                hint="Mend the times, or write the rates over longer windows.",
            )
        return window_s

    def _time(self, at_s: float) -> str:
        return iso_text(at_s) if self.dated else f"{at_s:.15g} s"

    def _gaps(self, rows: Sequence[_Row], missing: Sequence[float], gaps: GapRule) -> InputError:
        """Which windows are missing, in the file's own times."""
        shown = listed((self._time(start_s) for start_s in missing), 5)
        after = max((row for row in rows if row.start_s < missing[0]), key=lambda row: row.start_s, default=None)
        place = f"after row {after.place}" if after is not None else "in its first row"
        return InputError(
            f"{self.path}: must have a rate for every window; {len(missing)} of them are missing, the first {place}: "
            f"those that begin at {shown}.",
            hint="Fill them in, or say what stands for them: --gaps interpolate or --gaps previous."
            if gaps is GapRule.REFUSE
            else "The first and the last window must have a rate: drop the rows that have none.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """Names of the columns that are read; empty where there is none."""

    time: str
    rate: str
    pool: str
    burstiness: str

    @classmethod
    def of(cls, path: Path, header: Sequence[str]) -> "_Columns":
        """The columns of a header, by the names that they usually have."""
        stems = {column: column_stem(column).strip(" _(") for column in header}
        times = [column for column, stem in stems.items() if stem in _TIMES]
        return cls(
            time=_only(path, "times", "window_start_s", header, times),
            rate=_only(path, "rates in requests/s", _RATES[0], header, _with_names(header, _RATES)),
            pool=_first(_with_names(header, _POOLS)),
            burstiness=_first(_with_names(header, _BURSTINESS)),
        )

    def row(self, row: CsvRow, start_s: float) -> _Row:
        """The cells of a row as numbers."""
        rate, burstiness = None, None
        if row.text(self.rate):
            rate = row.number(self.rate)
            if not 0 <= rate <= MOST_RPS:
                raise row.fault(self.rate, "must be a number of at least 0, requests a second")
        if self.burstiness and row.text(self.burstiness):
            burstiness = row.number(self.burstiness)
            if not 0 <= burstiness <= MOST_BURSTINESS:
                raise row.fault(self.burstiness, f"must be a number from 0 to {MOST_BURSTINESS:g}, or empty")
        return _Row(place=row.place, start_s=start_s, rate_rps=rate, burstiness=burstiness)


def _with_names(header: Sequence[str], names: Sequence[str]) -> list[str]:
    """Columns with one of the names, in the order of the names."""
    return [column for name in names for column in header if column.lower() == name]


def _first(columns: Sequence[str]) -> str:
    return columns[0] if columns else ""


def _only(path: Path, subject: str, usual: str, header: Sequence[str], columns: Sequence[str]) -> str:
    """The only column that may hold it. InputError where there is none, or are several."""
    if not columns:
        raise InputError(
            f"{path}: must have a column of {subject}, {usual}, got columns {listed(header)}.",
            hint=f"Call it {usual}; rates are requests a second.",
        )
    if len(columns) > 1:
        raise InputError(
            f"{path}: must have one column of {subject}, got {listed(columns)}.", hint="Drop or rename the others."
        )
    return columns[0]


def _starts_s(path: Path, column: str, rows: Sequence[CsvRow]) -> list[float]:
    """Starts of windows in seconds: since 1970 where they are dates."""
    numbers = [row.number(column) for row in rows]
    if numbers[0] != numbers[0]:  # NaN: no number, so a date
        dates = [iso_microseconds(row.text(column)) / 1e6 for row in rows]
        _require_times(column, rows, dates)
        return dates
    _require_times(column, rows, numbers)
    earliest, latest = min(range(len(rows)), key=numbers.__getitem__), max(range(len(rows)), key=numbers.__getitem__)
    times = Times(
        path=path,
        column=column,
        count=len(rows),
        least=numbers[earliest],
        greatest=numbers[latest],
        least_row=rows[earliest].place,
        greatest_row=rows[latest].place,
    )
    by_size, by_name = epoch_unit(times), named_unit(column)
    if by_size is not None and by_name not in (None, by_size):
        raise rows[0].fault(column, f"must be times in {by_name}, as it is called, not an epoch in {by_size}")
    unit = by_size or by_name
    per_second = unit.per_second if unit is not None else 1.0
    require_span(times, (times.greatest - times.least) / per_second)
    return [number / per_second for number in numbers]


def _require_times(column: str, rows: Sequence[CsvRow], numbers: Sequence[float]) -> None:
    for row, number in zip(rows, numbers, strict=True):
        if not abs(number) < float("inf"):
            raise row.fault(column, "must be a time, a number or ISO 8601, the same in every row")


def _filled(rows: Sequence[_Row], window_s: float) -> list[_Row]:
    """A row for every window; those that the file does not have without a rate."""
    windows: list[_Row] = []
    for row in rows:
        while windows and row.start_s - windows[-1].start_s > 1.5 * window_s:
            start_s = windows[-1].start_s + window_s
            windows.append(_Row(place=row.place, start_s=start_s, rate_rps=None, burstiness=None))
        windows.append(row)
    return windows


def _without_gaps(windows: Sequence[_Row], gaps: GapRule) -> Iterator[tuple[float, float | None]]:
    """Rate and burstiness of every window. The burstiness before a gap goes on in it."""
    before = 0
    for number, row in enumerate(windows):
        if row.rate_rps is not None:
            before = number
            yield row.rate_rps, row.burstiness
            continue
        low = windows[before].rate_rps or 0.0
        if gaps is GapRule.INTERPOLATE:
            after = next(k for k in range(number, len(windows)) if windows[k].rate_rps is not None)
            low += ((windows[after].rate_rps or 0.0) - low) * (number - before) / (after - before)
        yield low, windows[before].burstiness


def _shipped(name: str, pool: str | None) -> RateSeries:
    """A shipped curve as windows: its stretches are equally long."""
    curves = shipped_rate_curves()
    if name not in curves:
        raise InputError(
            f"There are no rates called {name!r}.",
            hint=nearest_hint(name, curves, noun="shipped rates") + " For your own give the path of a CSV file.",
        )
    if pool is not None:
        raise InputError(f"Rates {name} are of one pool, got pool {pool!r}.", hint="Leave the pool out.")
    return _series_of_curve(load_rate_curve(name))


def _series_of_curve(curve: RateCurve) -> RateSeries:
    window_s = curve.span_s / len(curve.rates)
    assert all(abs(start - k * window_s) < 1e-6 for k, start in enumerate(curve.starts_s)), "equally long stretches"
    return RateSeries(
        name=curve.name,
        window_s=window_s,
        windows=tuple(RateWindow(start_s=k * window_s, rate_rps=rate) for k, rate in enumerate(curve.rates)),
    )
