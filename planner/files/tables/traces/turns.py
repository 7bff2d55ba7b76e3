"""Turns of sessions: which requests are of one conversation or one agent's run, and how long after an answer they came.

| what a row may tell | usual columns | read as |
|---|---|---|
| session | session_id, conversation_id, gen_ai.conversation.id | any text; none: a session of its own |
| turn | turn, turn_index | its number, which grows with the arrivals of its session |
| pause | delay, pause | since the end of the answer before |
| duration | duration, elapsed time, latency | of the answer |
| end | end_time, completed_at | of the answer, in the form of the arrivals |

Pauses and durations count in the unit that their column names (`delay_ms`), else as the arrivals do; beside ISO 8601 in
seconds. A turn's pause is what its row tells; else from the end of the answer before; else from the arrival before:
then what the answer took is in it, and it is too long by that. A row without a time that tells a pause (AIPerf's later
turns) comes so long after the answer before, which takes no time where nothing tells it.

Sources: `docs/benchmark-modes/trace-replay.md` of ai-dynamo/aiperf (session_id, timestamp, delay; ms); semantic
conventions of OpenTelemetry for generative AI (gen_ai.conversation.id); BurstGPT (Session ID, Elapsed time).
"""

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from planner.domain.workload import SessionTurns
from planner.errors import InputError
from planner.files.disk.csv_rows import number_of
from planner.files.tables.traces.clocks import TimeUnit, column_stem, iso_microseconds, named_unit, time_number
from planner.files.tables.traces.options import TURN_COLUMNS, columns_of, named_place, plain
from planner.workload.sessions import numbered

SESSION, TURN, PAUSE, DURATION, END = TURN_COLUMNS
NOT_TOLD = "none"
"""In place of a column's name: the trace is read as if it did not tell this."""

_USUAL = {
    SESSION: ("genaiconversationid attributesgenaiconversationid conversationid sessionid attributessessionid session"),
    TURN: "turn turnindex turnid turnnumber roundindex",
    PAUSE: "delay pause thinktime",
    DURATION: "duration elapsedtime latency e2elatency requestlatency responsetime",
    END: "endtime endtimestamp endedat completedat finishedat endtimeunixnano",
}
_ROUNDED_S = 1.0
"""Clocks that were rounded let a turn come so long before the end of the answer before."""

_Row = Sequence[str]
_Numbers = NDArray[np.float64]
_Places = NDArray[np.int64]


def turn_places(origin: object, names: Sequence[str], columns: Mapping[str, str]) -> dict[str, int]:
    """Where the columns of `TURN_COLUMNS` stand that there are, none without sessions; of several usual ones the first
    in the list above. Raises InputError for a column that a user names and the trace lacks."""
    by_user = columns_of(origin, columns)
    places = {key: _place(origin, names, key, by_user.get(key)) for key in TURN_COLUMNS}
    if places[SESSION] is None:
        return {}
    return {key: place for key, place in places.items() if place is not None}


def _place(origin: object, names: Sequence[str], key: str, column: str | None) -> int | None:
    if column is not None:
        return None if column == NOT_TOLD else named_place(origin, names, column, key)
    for shown in (list(names), [name.rpartition(".")[2] for name in names]):
        stems = [plain(name) if key in (SESSION, TURN) else plain(column_stem(name)) for name in shown]
        for usual in _USUAL[key].split():
            if usual in stems:
                return stems.index(usual)
    return None


@dataclass(slots=True)
class TurnRows:
    """What the rows of `origin` tell of turns. `places` of the columns in a row, that of the arrivals too; `names` of
    these columns; `time_unit`: of the arrivals, where it was stated."""

    origin: object
    names: Mapping[str, str]
    places: Mapping[str, int]
    arrival: int
    arrival_name: str
    time_unit: TimeUnit | None
    _numbers: dict[str, int] = field(default_factory=dict)
    _sessions: "array[int]" = field(default_factory=lambda: array("q"))
    _told: "dict[str, array[float]]" = field(default_factory=dict)
    _faulty: dict[tuple[str, int], str] = field(default_factory=dict)
    _latest: dict[int, tuple[int, float]] = field(default_factory=dict)  # turn of a session: its row, and its time

    @property
    def any(self) -> bool:
        """Whether the trace tells sessions."""
        return bool(self.places)

    def take(self, rows: list[_Row]) -> list[_Row]:
        """The next rows; those that tell a pause in place of a time get their time."""
        if not self.any:
            return rows
        for row in rows:
            cell = _cell(row, self.places[SESSION])
            self._sessions.append(self._numbers.setdefault(cell, len(self._numbers)) if cell else -1)
            for key in (TURN, PAUSE, DURATION):
                if key in self.places:
                    self._put(key, _cell(row, self.places[key]), number_of)
            if END in self.places:
                time = _cell(row, self.arrival)
                is_number = not time or math.isfinite(time_number(time))
                self._put(END, _cell(row, self.places[END]), time_number if is_number else iso_microseconds)
        return self._with_times(rows) if PAUSE in self.places else rows

    def _put(self, key: str, cell: str, number: Callable[[str], float]) -> None:
        value = number(cell) if cell else math.nan
        if cell and not (math.isfinite(value) and value >= 0):
            self._faulty[key, len(self._sessions)] = cell
            value = math.nan
        self._told.setdefault(key, array("d")).append(value)

    def _with_times(self, rows: list[_Row]) -> list[_Row]:
        """Each row with a time: of one without, its pause after the answer before."""
        first = len(self._sessions) - len(rows)
        return [self._with_time(number, row) for number, row in enumerate(rows, start=first)]

    def _with_time(self, number: int, row: _Row) -> _Row:
        session, time = self._sessions[number], time_number(_cell(row, self.arrival))
        timed = row
        if not _cell(row, self.arrival) and session in self._latest and math.isfinite(self._told[PAUSE][number]):
            time = self._ended(*self._latest[session]) + self._told[PAUSE][number] * self._times_in(PAUSE, number)
            timed = [*row[: self.arrival], repr(time), *row[self.arrival + 1 :]]
        if session >= 0 and math.isfinite(time):
            self._latest[session] = number, time
        return timed

    def _ended(self, number: int, time: float) -> float:
        """When the answer to a row that came at `time` ended; at once where nothing tells it."""
        end, took = (self._told[key][number] if key in self._told else math.nan for key in (END, DURATION))
        if math.isfinite(end):
            return end
        return time + took * self._times_in(DURATION, number) if math.isfinite(took) else time

    def _times_in(self, key: str, number: int) -> float:
        """Units of the arrivals in one of a column's."""
        own, arrivals = named_unit(self.names[key]), self.time_unit or named_unit(self.arrival_name)
        if own is None or own is arrivals:
            return 1.0
        if arrivals is None:
            raise InputError(
                f"{self.origin}: row {number + 1}, column {self.arrival_name} must tell the unit of its times where a "
                f"row has column {self.names[key]} in their place.",
                hint="State it: --time-unit ms, in a scenario `time_unit: ms`.",
            )
        return arrivals.per_second / own.per_second

    def sessions(self, rows: _Places, times: _Numbers, per_second: float, *, numbers: bool) -> SessionTurns | None:
        """The turns of `rows` (the first is 1), in order of arrival; None where no session has a second one.

        `times` as their column has them, `per_second` of them in a second; `numbers`: they are no dates. InputError
        names the first turn that comes before its answer before ended, or that is no turn of its own.
        """
        if not self.any:
            return None
        self._require_numbers(rows)
        session = np.frombuffer(self._sessions, dtype=np.int64)[rows - 1].copy()
        alone = np.flatnonzero(session < 0)
        session[alone] = len(self._numbers) + np.arange(len(alone))
        turn = self._column(TURN, rows)
        order = np.lexsort((turn, times, session))
        is_later = session[order[1:]] == session[order[:-1]]
        before, later = order[:-1][is_later], order[1:][is_later]
        if not len(later):
            return None
        self._require_turns_in_order(rows, turn, before, later)
        unit = per_second if numbers else 1.0
        pause_s = np.zeros(len(rows))
        pause_s[later] = self._pauses(rows, times, per_second, unit, before, later)
        return SessionTurns(ids=numbered(session), pause_s=array("d", pause_s.tobytes()))

    def _pauses(
        self, rows: _Places, times: _Numbers, per_second: float, unit: float, before: _Places, later: _Places
    ) -> _Numbers:
        """Seconds before the turns at `later`, whose turns before are at `before`."""
        told = self._seconds(PAUSE, rows, unit)[later]
        took = self._seconds(DURATION, rows, unit)[before]
        ends = self._column(END, rows)[before]
        ended = np.where(np.isnan(ends), times[before] / per_second + took, ends / per_second)
        since_end = times[later] / per_second - ended
        overlapping = np.flatnonzero(since_end < -_ROUNDED_S)
        if len(overlapping):
            place = overlapping[np.argmin(rows[later[overlapping]])]
            raise self._fault(
                rows[later[place]],
                f"must come after the answer before in its session ended (row {rows[before[place]]}); it comes "
                f"{-since_end[place]:,.6g} s earlier: the session overlaps itself",
            )
        gap = (times[later] - times[before]) / per_second
        since_end = np.where(np.isnan(since_end), gap, np.maximum(since_end, 0.0))
        return np.where(np.isnan(told), since_end, told)

    def _require_turns_in_order(self, rows: _Places, turn: _Numbers, before: _Places, later: _Places) -> None:
        wrong = np.flatnonzero(turn[later] <= turn[before])
        if not len(wrong):
            return
        place = wrong[np.argmin(rows[later[wrong]])]
        first, second = before[place], later[place]
        if turn[first] == turn[second]:
            rule = f"must be a turn of its own; row {rows[first]} of the session is turn {turn[first]:g}, too"
        else:
            rule = (
                f"must come before later turns of its session; turn {turn[second]:g} comes after turn {turn[first]:g} "
                f"(row {rows[first]}): the session overlaps itself"
            )
        raise self._fault(rows[second], rule)

    def _require_numbers(self, rows: _Places) -> None:
        if not self._faulty:
            return
        kept = set(rows.tolist())
        for (key, row), cell in self._faulty.items():
            if row in kept:
                raise InputError(
                    f"{self.origin}: row {row}, column {self.names[key]} must be a number, at least 0, got "
                    f"{cell!r:.80}.",
                    hint=f"Mend or drop the row; `columns: {{{key}: {NOT_TOLD}}}` (--columns {key}={NOT_TOLD}) passes "
                    "over the column.",
                )

    def _fault(self, row: int, rule: str) -> InputError:
        return InputError(
            f"{self.origin}: row {row}, column {self.names[SESSION]} {rule}.",
            hint="Mend or drop the row; requests that run side by side are no turns of one session: name another "
            f"column, or none, as in `columns: {{session: {NOT_TOLD}}}` (--columns session={NOT_TOLD}).",
        )

    def _column(self, key: str, rows: _Places) -> _Numbers:
        if key not in self._told:
            return np.full(len(rows), np.nan)
        return np.frombuffer(self._told[key])[rows - 1]

    def _seconds(self, key: str, rows: _Places, unit: float) -> _Numbers:
        own = named_unit(self.names[key]) if key in self.names else None
        return self._column(key, rows) / (unit if own is None else own.per_second)

    @property
    def pauses(self) -> str:
        """In words, how pauses were told; empty without sessions."""
        ways = [f"column {self.names[PAUSE]}"] if PAUSE in self.names else []
        ends = " or ".join(f"column {self.names[key]}" for key in (END, DURATION) if key in self.names)
        ways += [f"from the end of the answer before ({ends})"] if ends else []
        ways.append("from arrival to arrival, what answers took in it")
        return ", else ".join(ways) if self.any else ""


def _cell(row: _Row, place: int) -> str:
    return row[place].strip() if place < len(row) else ""
