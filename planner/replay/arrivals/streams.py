"""Streams: a trace, or a workload that is known by its lengths alone, becomes requests at a rate.

A trace does by one of four processes; lengths, as the shipped workloads have them, by those that draw arrivals. The
rate is that of the trace's part over its period, or of a curve over its span: a stretch of a trace that is burstier
than the rest keeps its share of it, and `Requests.rate_rps` says what came of it. Each pass through a trace with blocks
is of other users, so that nobody's prompts are found in a cache only because the trace began anew; what all users share
is then missed once more in each pass. Where sessions are closed a rate below the trace's is met by fewer of them, each
with all its turns.
"""

import math
from array import array
from dataclasses import replace

import numpy as np

from planner.domain import LengthProfile, RequestTrace
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, LeftOut, Requests, SessionPace
from planner.errors import InputError
from planner.replay.arrivals.gaps import drawn_times
from planner.replay.arrivals.parts import (
    Places,
    Reals,
    StreamLength,
    TracePart,
    copied_blocks,
    copied_turns,
    faults_of,
    generators,
    part_of,
    require_rate,
    require_sense,
    require_some,
)
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
    sessions = _closed_sessions(trace, settings, part)
    of_users = trace.blocks is not None or sessions is not None
    if settings.process is ArrivalProcess.TRACE:
        drawn, notes = _replayed(part, settings, rate, length, times, of_users=of_users, sessions=sessions)
    else:
        drawn, notes = _drawn(part, settings, rate, length, times, lengths, of_users=of_users), ()
    require_some(trace.name, len(drawn.places), rate, seconds)
    return _requests(trace, part, drawn, notes, settings.sessions)


def _closed_sessions(trace: RequestTrace, settings: ArrivalSettings, part: TracePart) -> Places | None:
    """Whose turn each of the part's requests is; None where sessions are open."""
    if settings.sessions is SessionPace.OPEN:
        return None
    if trace.sessions is None:
        raise InputError(
            f"Trace {trace.name}: must tell sessions and turns where sessions are closed; it tells none.",
            hint="Give a trace with sessions, or leave sessions open.",
        )
    return np.asarray(trace.sessions.ids, dtype=np.int64)[part.rows]


def _replayed(
    part: TracePart,
    settings: ArrivalSettings,
    rate_rps: float,
    length: StreamLength,
    random: np.random.Generator,
    *,
    of_users: bool,
    sessions: Places | None,
) -> tuple[DrawnRequests, tuple[str, ...]]:
    """The trace as it came, at another rate; and how that was done."""
    times = rate_rps / part.rate_rps
    if settings.compress:
        part = replace(part, arrival_s=part.arrival_s / times, period_s=part.period_s / times)
        note = f"The trace runs {times:.3g} times as fast: its bursts are that much shorter, unlike a larger service's."
    elif times < 1 and sessions is not None:
        note = f"The trace is thinned: {times:.1%} of its requests, in whole sessions drawn at random."
    elif times < 1:
        note = f"The trace is thinned: {times:.1%} of its requests, drawn at random, its bursts that much weaker."
        note += " Of a conversation some turns are missing, so less of its prompts is found." * of_users
    else:
        note = f"{times:.4g} copies of the trace lie over each other, all but the first begun at a random time of it."
    drawn = superposed(part, rate_rps, length, random, of_users=of_users, sessions=sessions)
    notes = (() if math.isclose(times, 1) else (note,)) + _notes_on(part, drawn)
    return drawn, notes if sessions is None else (*notes, _CLOSED)


_CLOSED = (
    "Later turns of sessions come their pause after the answer before them has ended, not when they came in the trace; "
    "counted are those that come while sessions still begin."
)


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


def _requests(
    trace: RequestTrace, part: TracePart, drawn: DrawnRequests, notes: tuple[str, ...], pace: SessionPace
) -> Requests:
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
        turns=None
        if trace.sessions is None
        else copied_turns(trace, trace.sessions, part.rows[drawn.places], drawn.users, pace),
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


_MEANS = "Answers are as long as the mean answer to prompts of their length: how they vary is not in the workload."


def requests_of_profile(
    profile: LengthProfile,
    settings: ArrivalSettings,
    *,
    seed: int,
    rate_rps: float | None = None,
    count: int | None = None,
    seconds: float | None = None,
    most_tokens: int | None = None,
) -> Requests:
    """As `requests_of`, with prompts drawn by their probability and arrivals drawn, as there are none to replay.

    An answer is the mean one to prompts of that length, rounded up or down at random so that the mean stays, and of one
    token at least. `rate_rps` None: the workload's own.
    """
    length = StreamLength(count=count, seconds=seconds)
    require_sense(settings)
    _require_drawn(profile, settings)
    rate = _rate(profile) if rate_rps is None else require_rate(profile.name, rate_rps)
    times, lengths = generators(seed)
    prompts, means = _columns(profile)
    probabilities, left_out, notes = _sound(profile, prompts, means, most_tokens)
    arrival_s = drawn_times(settings, rate, length, times)
    require_some(profile.name, len(arrival_s), rate, seconds)
    places = _draws(probabilities, len(arrival_s), lengths)
    answers = np.maximum(np.floor(means[places] + lengths.random(len(places))), 1.0)
    return Requests(
        name=profile.name,
        arrival_ms=array("d", (arrival_s * MS_PER_S).tobytes()),
        prompt_tokens=array("i", prompts[places].astype(np.intc).tobytes()),
        answer_tokens=array("i", answers.astype(np.intc).tobytes()),
        left_out=left_out,
        same_instant=int((np.diff(arrival_s) == 0).sum()),
        notes=(*notes, _MEANS),
    )


def _require_drawn(profile: LengthProfile, settings: ArrivalSettings) -> None:
    if settings.process is ArrivalProcess.TRACE or settings.between is not None:
        key = "process trace" if settings.process is ArrivalProcess.TRACE else "between"
        raise InputError(
            f"Workload {profile.name}: must be a trace for {key}; it is a table of lengths, which says nothing of when "
            "requests came.",
            hint="Give the trace itself, or draw arrivals: `process: poisson`, and no `between`.",
        )


def _rate(profile: LengthProfile) -> float:
    if profile.arrival_rps is None:
        raise InputError(
            f"Workload {profile.name}: must have arrival_rps where no rate is given; it has none.",
            hint="Give a rate in requests/s.",
        )
    return profile.arrival_rps


def _columns(profile: LengthProfile) -> tuple[Places, Reals]:
    """Prompt lengths, and the mean answer to each."""
    prompts = np.asarray(profile.input_tokens, dtype=np.int64)
    means = profile.output_tokens or (profile.mean_output_tokens,) * len(prompts)
    return prompts, np.asarray(means, dtype=np.float64)


def _sound(
    profile: LengthProfile, prompts: Places, means: Reals, most_tokens: int | None
) -> tuple[Reals, LeftOut, tuple[str, ...]]:
    """Probabilities of what can be served, what cannot, and a note on that."""
    faults = faults_of(prompts, np.ceil(means).astype(np.int64), most_tokens)
    weights = np.asarray(profile.probabilities)
    shares = (faults * weights).sum(axis=1)
    left_out = LeftOut.of([round(share * (profile.requests or 0)) for share in shares.tolist()])
    probabilities = np.where(faults.any(axis=0), 0.0, weights)
    note = f"Left out are {shares.sum():.2%} of the requests: without a prompt or an answer, or beyond the context."
    if not probabilities.any():
        raise InputError(
            f"Workload {profile.name}: must hold a request that can be served; none is left. {note}",
            hint="Give another workload, or a model with a longer context.",
        )
    return probabilities, left_out, (note,) if shares.any() else ()


def _draws(probabilities: Reals, count: int, random: np.random.Generator) -> Places:
    """Rows by their probability, which need not sum to 1."""
    ends = np.cumsum(probabilities)
    # from the right: past rows without probability, whose ends are alike
    return np.asarray(np.searchsorted(ends, random.random(count) * ends[-1], side="right"), dtype=np.int64)
