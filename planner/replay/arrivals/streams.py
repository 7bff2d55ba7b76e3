"""Streams: a trace becomes requests at a rate, by one of four processes.

The rate is that of the trace's part over its period, or of a curve over its span: a stretch of a trace that is burstier
than the rest keeps its share of it, and `Requests.rate_rps` says what came of it. Each pass through a trace with blocks
is of other users, so that nobody's prompts are found in a cache only because the trace began anew; what all users share
is then missed once more in each pass.
"""

import math
from array import array
from dataclasses import replace

import numpy as np

from planner.domain import RequestTrace
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, Requests
from planner.errors import InputError
from planner.replay.arrivals.copied_blocks import copied_blocks
from planner.replay.arrivals.demands import StreamLength, generators, require_rate, require_sense, require_some
from planner.replay.arrivals.gaps import drawn_times
from planner.replay.arrivals.parts import Reals, TracePart, part_of
from planner.replay.arrivals.superposition import DrawnRequests, superposed
from planner.units import MS_PER_S


def requests_of(
    trace: RequestTrace,
    settings: ArrivalSettings,
    *,
    seed: int,
    rate_rps: float | None = None,
    count: int | None = None,
    seconds: float | None = None,
    most_tokens: int | None = None,
) -> Requests:
    """The first `count` requests, or those of the first `seconds`, of the trace at `rate_rps`.

    `rate_rps` None: the rate of the trace's part. `most_tokens`: of a prompt and its answer, the model's context. The
    same arguments give the same stream to the bit. InputError where the trace, the settings or the rate allow none.
    """
    length = StreamLength(count=count, seconds=seconds)
    require_sense(settings)
    part = part_of(trace, settings.between, most_tokens)
    rate = part.rate_rps if rate_rps is None else require_rate(trace.name, rate_rps)
    times, lengths = generators(seed)
    of_users = trace.blocks is not None
    if settings.process is ArrivalProcess.TRACE:
        drawn, notes = _replayed(part, settings, rate, length, times, of_users=of_users)
    else:
        drawn, notes = _drawn(part, settings, rate, length, times, lengths, of_users=of_users), ()
    require_some(trace.name, len(drawn.places), rate, seconds)
    return _requests(trace, part, drawn, notes)


def _replayed(
    part: TracePart,
    settings: ArrivalSettings,
    rate_rps: float,
    length: StreamLength,
    random: np.random.Generator,
    *,
    of_users: bool,
) -> tuple[DrawnRequests, tuple[str, ...]]:
    """The trace as it came, at another rate; and how that was done."""
    times = rate_rps / part.rate_rps
    if settings.compress:
        part = replace(part, arrival_s=part.arrival_s / times, period_s=part.period_s / times)
        note = f"The trace runs {times:.3g} times as fast: its bursts are that much shorter, unlike a larger service's."
    elif times < 1:
        note = f"The trace is thinned: {times:.1%} of its requests, drawn at random, its bursts that much weaker."
        note += " Of a conversation some turns are missing, so less of its prompts is found." * of_users
    else:
        note = f"{times:.4g} copies of the trace lie over each other, all but the first begun at a random time of it."
    drawn = superposed(part, rate_rps, length, random, of_users=of_users)
    return drawn, (() if math.isclose(times, 1) else (note,)) + _notes_on(part, drawn)


def _notes_on(part: TracePart, drawn: DrawnRequests) -> tuple[str, ...]:
    """What a replayed trace has that one may not expect."""
    notes: tuple[str, ...] = ()
    passes = float(drawn.arrival_s.max(initial=0.0)) / part.period_s
    if passes > 1:
        notes += (f"The trace ends after {part.period_s:,.4g} s and begins anew: the stream is {passes:.3g} as long.",)
    same_instant = _same_instant(drawn.arrival_s)
    if same_instant:
        notes += (f"{same_instant} of {len(drawn.places)} requests come in the same instant as the one before.",)
    return notes


def _same_instant(arrivals: Reals) -> int:
    return int((arrivals[1:] == arrivals[:-1]).sum())


def _drawn(
    part: TracePart,
    settings: ArrivalSettings,
    rate_rps: float,
    length: StreamLength,
    times: np.random.Generator,
    lengths: np.random.Generator,
    *,
    of_users: bool,
) -> DrawnRequests:
    """Arrivals drawn; prompts with their answers drawn from the trace, or in its order where they have blocks, so that
    what comes back in the trace comes back in the stream."""
    arrival_s = drawn_times(settings, rate_rps, length, times)
    n = len(part.rows)
    if not of_users:
        return DrawnRequests(arrival_s=arrival_s, places=lengths.integers(0, n, len(arrival_s)), users=None)
    users, places = np.divmod(np.arange(len(arrival_s)), n)
    return DrawnRequests(arrival_s=arrival_s, places=places, users=users)


def _requests(trace: RequestTrace, part: TracePart, drawn: DrawnRequests, notes: tuple[str, ...]) -> Requests:
    arrival_ms = drawn.arrival_s * MS_PER_S
    prompts, answers = part.prompt_tokens.astype(np.intc), part.answer_tokens.astype(np.intc)
    return Requests(
        name=trace.name,
        arrival_ms=array("d", arrival_ms.tobytes()),
        prompt_tokens=array("i", prompts[drawn.places].tobytes()),
        answer_tokens=array("i", answers[drawn.places].tobytes()),
        blocks=None
        if trace.blocks is None or drawn.users is None
        else copied_blocks(trace.blocks, part.rows[drawn.places], drawn.users),
        left_out=part.left_out,
        same_instant=_same_instant(arrival_ms),
        notes=part.notes + notes,
    )


def require_longer_than(requests: Requests, warmup_s: float) -> None:
    """InputError where the last request comes before a warm-up of `warmup_s` has ended: nothing would be measured."""
    last_s = requests.arrival_ms[-1] / MS_PER_S
    if not last_s > warmup_s:
        raise InputError(
            f"Stream of {requests.name}: must be longer than the warm-up of {warmup_s:g} s; its last request "
            f"comes at {last_s:.4g} s.",
            hint="Ask for more requests or seconds, or for a shorter warm-up.",
        )
