"""What a stream is made of: what is asked of it, the part of a trace, and the blocks of that trace's prompts.

Asked are its length, process, rate and seed. The part is in order, of the seconds asked for, without what no engine
takes. Blocks of prompts are told from those of the trace without a copy of them.
"""

import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from planner.domain import PromptBlocks, RequestTrace
from planner.domain.arrivals import (
    POISSON_VARIATION,
    ArrivalProcess,
    ArrivalSettings,
    LeftOut,
    SessionPace,
    StreamTurns,
)
from planner.domain.workload import SessionTurns
from planner.errors import InputError

MOST_REQUESTS = 20_000_000
"""Of a stream: 2 GB on the way, and hours of any replay; who asks for more mistook a unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLength:
    """One of the two is None."""

    count: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if (self.count is None) == (self.seconds is None):
            raise InputError(
                f"A stream of requests must have either a count or seconds, got count {self.count} and seconds "
                f"{self.seconds}.",
                hint="Give one of the two.",
            )
        if self.count is not None and self.count < 1:
            raise InputError(f"Stream: count must be at least 1, got {self.count}.", hint="Ask for more requests.")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise InputError(f"Stream: seconds must be above 0 and finite, got {self.seconds:g}.", hint="Correct it.")
        if self.count is not None:
            require_fits(self.count)


def require_fits(requests: float) -> None:
    """InputError beyond what fits into memory."""
    if requests > MOST_REQUESTS:
        raise InputError(
            f"Stream: must take at most {MOST_REQUESTS:,} requests of the trace to make, it would take "
            f"{requests:,.0f}.",
            hint="Ask for fewer requests or seconds, or for a rate nearer to the trace's.",
        )


def require_sense(settings: ArrivalSettings) -> None:
    """InputError for a setting that its process does not heed: somebody counts on it."""
    process = settings.process
    heeded = (
        ("compress", settings.compress, (ArrivalProcess.TRACE,)),
        ("variation", settings.variation != POISSON_VARIATION, (ArrivalProcess.GAMMA, ArrivalProcess.DIURNAL)),
        ("curve", settings.curve is not None, (ArrivalProcess.DIURNAL,)),
        ("curve_start_s", settings.curve_start_s != 0, (ArrivalProcess.DIURNAL,)),
        # Only the trace tells when sessions begin beside each other, and how long their pauses are.
        ("sessions: closed", settings.sessions is SessionPace.CLOSED, (ArrivalProcess.TRACE,)),
    )
    for key, stated, processes in heeded:
        if stated and process not in processes:
            raise InputError(
                f"Arrivals: {key} must be left out for the process {process}, which does not heed it.",
                hint=f"Leave it out, or choose the process {' or '.join(processes)}.",
            )
    if settings.sessions is SessionPace.CLOSED and settings.compress:
        raise InputError(
            "Arrivals: compress must be left out where sessions are closed: pauses last as long as they did.",
            hint="Leave it out: the trace meets another rate by more or fewer sessions.",
        )
    if process is ArrivalProcess.DIURNAL and settings.curve is None:
        raise InputError(
            "Arrivals: curve must be given for the process diurnal; it is missing.",
            hint="Give a rate curve, shipped ones by name: `planner.files.load_rate_curve('servegen-m-large')`.",
        )


def require_rate(name: str, rate_rps: float) -> float:
    """The rate, if it is one; `name` is the workload's."""
    if not 0 < rate_rps < math.inf:
        raise InputError(
            f"Stream of {name}: rate_rps must be above 0 and finite, got {rate_rps:g}.",
            hint="Give requests a second, or leave it out for the workload's own rate.",
        )
    return rate_rps


def require_some(name: str, requests: int, rate_rps: float, seconds: float | None) -> None:
    """InputError for a stream of no requests, which only so many seconds may have."""
    if not requests:
        raise InputError(
            f"Stream of {name}: must hold at least one request; at {rate_rps:g} requests/s none came in {seconds:g} s.",
            hint="Ask for more seconds, or give a count.",
        )


def generators(seed: int) -> tuple[np.random.Generator, np.random.Generator]:
    """Of arrivals and of lengths, apart: another rate does not change the lengths."""
    if seed < 0:
        raise InputError(f"Stream: seed must be a whole number of at least 0, got {seed}.", hint="Give another.")
    arrivals, lengths = np.random.SeedSequence(seed).spawn(2)
    return np.random.default_rng(arrivals), np.random.default_rng(lengths)


Reals = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePart:
    """Columns of one length n >= 1, in the order of arrival.

    `arrival_s`: from the start of the part, 0 <= t < `period_s`. `rows`: which of the trace's requests each is.
    `period_s`: after it the part may begin anew. That of a trace in full is such that its rate is (n - 1) over the time
    from first to last arrival, as elsewhere; 0 where all requests came at once.
    """

    name: str
    arrival_s: Reals
    rows: Places
    prompt_tokens: Places
    answer_tokens: Places
    period_s: float
    left_out: LeftOut
    notes: tuple[str, ...]

    @property
    def rate_rps(self) -> float:
        """Of the part itself (requests/s). InputError where all its requests came at once."""
        rate = len(self.rows) / self.period_s if self.period_s > 0 else math.inf
        if not math.isfinite(rate):
            raise InputError(
                f"Trace {self.name}: must span some time to have a rate; its requests, {len(self.rows)}, all came at "
                "once.",
                hint="Give a trace with a clock, or draw arrivals: `process: poisson` with a rate.",
            )
        return rate


def part_of(
    trace: RequestTrace, between: tuple[float, float] | None = None, most_tokens: int | None = None
) -> TracePart:
    """The requests that arrive from second `between[0]` on and before `between[1]`, and fit into `most_tokens`.

    Times count from the trace's first arrival. Requests out of order are sorted, as files of traces are, and a note
    says so; those of one instant stay, in their order. InputError where a column is no column or nothing is left.
    """
    arrival_s, prompts, answers = _columns(trace)
    order, notes = _order(arrival_s)
    clock = arrival_s[order] - arrival_s[order[0]]
    start, period = _window(trace.name, between, float(clock[-1]) * len(clock) / max(len(clock) - 1, 1))
    first, last = (0, len(clock)) if between is None else np.searchsorted(clock, (start, start + period))
    if first == last:
        raise InputError(
            f"Trace {trace.name}: between must hold at least one request; none came in seconds {start:g} to "
            f"{start + period:g}.",
            hint="Widen `between`, or leave it out.",
        )
    rows = order[first:last]
    faults = faults_of(prompts[rows], answers[rows], most_tokens)
    sound, left_out = ~np.any(faults, axis=0), LeftOut.of([int(fault.sum()) for fault in faults])
    if not sound.any():
        raise InputError(
            f"Trace {trace.name}: must hold a request that can be served; of {len(rows)} none is left: "
            f"{left_out.words}.",
            hint="Give another trace, or a model with a longer context.",
        )
    if left_out.total:
        notes += (f"Left out of {len(rows)} requests of the trace: {left_out.words}.",)
    rows = rows[sound]
    return TracePart(
        name=trace.name,
        arrival_s=clock[first:last][sound] - start,
        rows=rows,
        prompt_tokens=prompts[rows],
        answer_tokens=answers[rows],
        period_s=period,
        left_out=left_out,
        notes=notes,
    )


def _columns(trace: RequestTrace) -> tuple[Reals, Places, Places]:
    arrival_s = np.asarray(trace.arrival_s, dtype=np.float64)
    prompts, answers = (np.asarray(column, dtype=np.int64) for column in (trace.input_tokens, trace.output_tokens))
    if not len(arrival_s):
        raise InputError(f"Trace {trace.name}: must hold at least one request; it is empty.", hint="Give another.")
    if not len(arrival_s) == len(prompts) == len(answers):
        raise InputError(
            f"Trace {trace.name}: must have columns of one length, got {len(arrival_s)} arrivals, {len(prompts)} "
            f"prompts and {len(answers)} answers.",
            hint="Give each request a time, a prompt and an answer.",
        )
    _require(trace.name, "arrival_s", "be finite", np.isfinite(arrival_s), trace.arrival_s)
    _require(trace.name, "input_tokens", "be 0 or more", prompts >= 0, trace.input_tokens)
    _require(trace.name, "output_tokens", "be 0 or more", answers >= 0, trace.output_tokens)
    return arrival_s, prompts, answers


def _require(name: str, key: str, rule: str, holds: NDArray[np.bool_], column: Sequence[float]) -> None:
    if not holds.all():
        row = int(np.argmin(holds))
        raise InputError(
            f"Trace {name}: request {row + 1}, {key} must {rule}, got {column[row]}.", hint="Mend or drop the request."
        )


def _order(arrival_s: Reals) -> tuple[Places, tuple[str, ...]]:
    """The requests by time, those of one instant in their order; and a note where that was another order."""
    early = int((arrival_s[1:] < arrival_s[:-1]).sum())
    if not early:
        return np.arange(len(arrival_s)), ()
    note = f"Requests are sorted by time: {early} of {len(arrival_s)} stood behind a later one."
    return np.argsort(arrival_s, kind="stable"), (note,)


def _window(name: str, between: tuple[float, float] | None, period_s: float) -> tuple[float, float]:
    """Where the part starts, and how long it is (s)."""
    if between is None:
        return 0.0, period_s
    start, end = between
    if not 0 <= start < end or start >= period_s:  # NaN, too
        raise InputError(
            f"Trace {name}: between must be two seconds of it, the first before the second and before {period_s:,.6g}, "
            f"where it ends; got {start:g} and {end:g}.",
            hint="Count seconds from the trace's first request: `between: [0, 1800]`.",
        )
    return start, min(end, period_s) - start


def faults_of(prompts: Places, answers: Places, most_tokens: int | None) -> NDArray[np.bool_]:
    """Which requests cannot be served, each by its first fault only: a row for each field of `LeftOut`."""
    limit = np.iinfo(np.int64).max if most_tokens is None else most_tokens
    # Taken from the limit, not added up: the sum of two large numbers would overflow.
    faults = np.stack((prompts == 0, answers == 0, prompts > limit, answers > limit - prompts))
    faults[1:] &= ~np.logical_or.accumulate(faults, axis=0)[:-1]
    return faults


_LARGEST = 2**63


class CopiedIds(Sequence[int]):
    """The ids of all prompts behind each other: those of the trace's request `rows[i]`, `shifts[i]` added.

    Kept are 24 bytes a request and the trace's ids, not the stream's, of which there may be a hundred a request.
    """

    def __init__(self, ids: Places, starts: Places, rows: Places, shifts: Places, ends: "array[int]") -> None:
        self._ids, self._starts, self._rows, self._shifts, self._ends = ids, starts, rows, shifts, ends

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        """An id, or those of a slice as a list."""
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            return self._between(start, stop) if step == 1 else [self[i] for i in range(start, stop, step)]
        at = place + len(self) if place < 0 else place
        if not 0 <= at < len(self):
            raise IndexError(place)
        return self._between(at, at + 1)[0]

    def _between(self, start: int, stop: int) -> list[int]:
        ids: list[int] = []
        request = bisect_right(self._ends, start)
        while start < stop:
            end = min(self._ends[request], stop)
            first = self._starts[self._rows[request]] + start - (self._ends[request - 1] if request else 0)
            ids += (self._ids[first : first + end - start] + self._shifts[request]).tolist()
            start, request = end, request + 1
        return ids


def copied_blocks(blocks: PromptBlocks, rows: Places, users: Places) -> PromptBlocks:
    """The blocks of requests `rows` of a trace, ids of different `users` (from 0 on) kept apart.

    The ids of user 0 are the trace's, unless those leave no room for others: then all are numbered anew.
    """
    ids = np.asarray(blocks.ids, dtype=np.int64)
    stops = np.asarray(blocks.ends, dtype=np.int64)
    counts = np.diff(stops, prepend=0)
    most_users = int(users.max(initial=0)) + 1
    distinct = int(ids.max(initial=0)) + 1
    # A user's ids are the trace's and a shift: they must neither meet another's nor overflow.
    if ids.min(initial=0) < 0 or distinct * most_users >= _LARGEST:
        names, ids = np.unique(ids, return_inverse=True)
        distinct = len(names)
    ends = array("q", np.cumsum(counts[rows]).tobytes())
    copied = CopiedIds(ids, stops - counts, rows, users * distinct, ends)
    return PromptBlocks(block_tokens=blocks.block_tokens, ids=copied, ends=ends)


def copied_turns(
    trace: RequestTrace, turns: SessionTurns, rows: Places, users: Places | None, pace: SessionPace
) -> StreamTurns:
    """The turns of requests `rows` of a trace, sessions of different `users` (from 0 on) kept apart; None: of one."""
    ids = np.asarray(turns.ids, dtype=np.int64)
    order = np.argsort(np.asarray(trace.arrival_s, dtype=np.float64), kind="stable")
    _, firsts = np.unique(ids[order], return_index=True)
    later = np.ones(len(ids), dtype=bool)
    later[order[firsts]] = False
    shifts = 0 if users is None else users * (int(ids.max(initial=0)) + 1)
    pauses = np.asarray(turns.pause_s, dtype=np.float64)[rows] if pace is SessionPace.CLOSED else np.empty(0)
    return StreamTurns(
        sessions=array("q", (ids[rows] + shifts).tobytes()),
        later=later[rows].tolist(),
        pause_s=array("d", pauses.tobytes()),
    )
