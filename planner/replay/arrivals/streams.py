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
from planner.domain.replay.arrivals import POISSON_VARIATION, ArrivalProcess, ArrivalSettings, Requests
from planner.errors import InputError
from planner.replay.arrivals.copied_blocks import copied_blocks
from planner.replay.arrivals.gaps import drawn_times
from planner.replay.arrivals.lengths import StreamLength
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
    part = part_of(trace, settings.between, most_tokens)
    rate = _rate(part, rate_rps)
    if seed < 0:
        raise InputError(f"Stream: seed must be a whole number of at least 0, got {seed}.", hint="Give another.")
    times, lengths = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(2))
    of_users = trace.blocks is not None
    if settings.process is ArrivalProcess.TRACE:
        drawn, notes = _replayed(part, settings, rate, length, times, of_users=of_users)
    else:
        drawn, notes = _drawn(part, settings, rate, length, times, lengths, of_users=of_users), ()
    if not len(drawn.places):
        raise InputError(
            f"Stream of trace {trace.name}: must hold at least one request; at {rate:g} requests/s none came in "
            f"{seconds:g} s.",
            hint="Ask for more seconds, or give a count.",
        )
    return _requests(trace, part, drawn, notes)


def _rate(part: TracePart, rate_rps: float | None) -> float:
    if rate_rps is None:
        return part.rate_rps
    if not 0 < rate_rps < math.inf:
        raise InputError(
            f"Stream of trace {part.name}: rate_rps must be above 0 and finite, got {rate_rps:g}.",
            hint="Give requests a second, or leave it out for the trace's own rate.",
        )
    return rate_rps


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
    return drawn, _what_happened(part, drawn, () if math.isclose(times, 1) else (note,))


def _what_happened(part: TracePart, drawn: DrawnRequests, notes: tuple[str, ...]) -> tuple[str, ...]:
    """`notes`, and what else a replayed trace has that one may not expect."""
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
    diurnal = settings.process is ArrivalProcess.DIURNAL
    if diurnal and settings.curve is None:
        raise InputError(
            "Arrivals: curve must be given for the process diurnal; it is missing.",
            hint="Give a rate curve, shipped ones by name: `planner.files.load_rate_curve('servegen-m-large')`.",
        )
    arrival_s = drawn_times(
        rate_rps,
        POISSON_VARIATION if settings.process is ArrivalProcess.POISSON else settings.variation,
        length,
        times,
        curve=settings.curve if diurnal else None,
        curve_start_s=settings.curve_start_s,
    )
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
            f"Stream of trace {requests.name}: must be longer than the warm-up of {warmup_s:g} s; its last request "
            f"comes at {last_s:.4g} s.",
            hint="Ask for more requests or seconds, or for a shorter warm-up.",
        )
