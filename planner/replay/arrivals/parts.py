"""The part of a trace that a stream is made of: in order, of the seconds asked for, without what no engine takes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.domain import RequestTrace
from planner.domain.arrivals import LeftOut
from planner.errors import InputError

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
