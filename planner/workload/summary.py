"""What a trace says of its requests (lengths, answers, arrivals), ranges of lengths, and a shorter trace like it.

A profile is cut into ranges [k W, (k+1) W):

| symbol | meaning | unit | source |
|---|---|---|---|
| W | width of a range | tokens | scenario, `ranges.width` |
| p_j | probability mass of range j | 1 | sum over its lengths |
| midpoint | k W + floor(W / 2), where the paper's cost model looks | tokens | Rignall 2025, chapter 4 |

A shorter trace that is like a long one has stretches of it, drawn alike and laid end to end:

| symbol | meaning | unit |
|---|---|---|
| n, T | requests and span of the long trace | 1, s |
| N | requests wanted | 1 |
| m | stretches that are drawn | 1 |
| M = ceil(m n / N) | stretches of w = T / M seconds that the trace is cut into | 1 |

Each stretch is drawn with the same chance, so rate, lengths and peaks of up to w seconds are those of the long trace on
average, and requests within a stretch come as they came; the sample has about N of them. Requests drawn one by one
would lose how arrivals bunch, and one long stretch the rhythm of the day.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.domain import LengthProfile, LengthRange, PrefixReuse, Question, RequestTrace, Scenario, Workload
from planner.domain.workload import TraceSummary
from planner.errors import InputError
from planner.workload.prefix_affinity import prefix_affinity
from planner.workload.prefix_reuse import CACHE_TOKENS, at_sizes, prefix_reuse, reuse_curves
from planner.workload.tallies import RequestTally, length_facts, session_facts

_BLOCK = 262_144
"""Requests at a time: what is worked out on the way stays small beside the trace."""

Requests = tuple[NDArray[np.float64], NDArray[np.integer], NDArray[np.integer]]


def summarize(trace: RequestTrace) -> LengthProfile:
    """The length profile of a trace.

    The probability of a prompt length is its share of the requests; `arrival_rps` (requests/s) is (n - 1)
    over the time from first to last arrival; `burstiness` is the gaps' population standard deviation over
    their mean (1 for Poisson arrivals). The last two are None for fewer than two requests or when all came at
    once.
    """
    return tally_requests(blocks_of(trace)).profile(trace.name, clock=trace.clock, prefix=_reuse(trace))


def lengths_of(requests: RequestTrace | LengthProfile) -> LengthProfile:
    """Lengths and rate alone, which take little time to count: of a trace without what its prompts share."""
    if isinstance(requests, LengthProfile):
        return requests
    return tally_requests(blocks_of(requests)).profile(requests.name, clock=requests.clock)


def describe(requests: RequestTrace | LengthProfile, cache_tokens: Sequence[int] = ()) -> TraceSummary:
    """All that is shown of a trace: rate and its peaks, lengths, how arrivals bunch, sessions, what a prefix cache
    would find, also one of each of `cache_tokens`.

    A workload that was summarised before tells what it knows; InputError for a cache that its table does not have."""
    if isinstance(requests, LengthProfile):
        return _described(requests, tuple(cache_tokens))
    return profile_and_summary(requests, cache_tokens)[1]


def _described(profile: LengthProfile, asked_tokens: tuple[int, ...]) -> TraceSummary:
    counts, n, rate = profile.counts, profile.requests, profile.arrival_rps
    sizes = () if profile.prefix is None else profile.prefix.cache_tokens
    if missing := [tokens for tokens in asked_tokens if tokens not in sizes]:
        shown = ", ".join(map(str, sizes)) or "none"
        raise InputError(
            f"Workload {profile.name}: a cache must be one of its table's ({shown} tokens), got {missing[0]}.",
            hint="Ask a trace with hashes of its blocks, of which any size can be told.",
        )
    return TraceSummary(
        name=profile.name,
        requests=n,
        span_s=(n - 1) / rate if n and rate else None,
        mean_rps=rate,
        burstiness=profile.burstiness,
        dispersion=() if counts is None else tuple(zip(counts.windows_s, counts.dispersion, strict=True)),
        prompts=length_facts(dict(zip(profile.input_tokens, profile.probabilities, strict=True))),
        mean_answer=profile.mean_output_tokens,
        longest_answer=profile.max_output_tokens,
        prefix=profile.prefix,
        asked_tokens=asked_tokens,
        licence=profile.licence,
        citation=profile.citation,
    )


def profile_and_summary(trace: RequestTrace, cache_tokens: Sequence[int] = ()) -> tuple[LengthProfile, TraceSummary]:
    """Both at once, as prefixes of long traces take time; the summary also for caches of `cache_tokens`."""
    tally = tally_requests(blocks_of(trace))
    reuse, timed = reuse_curves(trace, sorted({*CACHE_TOKENS, *cache_tokens}))
    summary = replace(
        tally.summary(trace.name, reading=trace.reading),
        prefix=reuse,
        asked_tokens=tuple(cache_tokens),
        timed=timed,
        sessions=None if trace.sessions is None else session_facts(trace.sessions),
    )
    usual = None if reuse is None else replace(at_sizes(reuse, CACHE_TOKENS), affinity=prefix_affinity(trace))
    return tally.profile(trace.name, clock=trace.clock, prefix=usual), summary


def _reuse(trace: RequestTrace) -> PrefixReuse | None:
    reuse = prefix_reuse(trace)
    return None if reuse is None else replace(reuse, affinity=prefix_affinity(trace))


def tally_requests(blocks: Iterable[Requests]) -> RequestTally:
    """Blocks of requests counted as they pass by: seconds since the first arrival (ascending), tokens in and out. How
    they are cut into blocks changes no digit."""
    tally = RequestTally()
    waiting: list[Requests] = []
    count = 0
    for block in blocks:
        waiting.append(block)
        count += len(block[0])
        while count >= _BLOCK:
            arrivals, inputs, outputs = _joined(waiting)
            tally.take(arrivals[:_BLOCK], inputs[:_BLOCK], outputs[:_BLOCK])
            waiting = [(arrivals[_BLOCK:], inputs[_BLOCK:], outputs[_BLOCK:])]
            count -= _BLOCK
    if count:
        tally.take(*_joined(waiting))
    return tally


def _joined(blocks: Sequence[Requests]) -> Requests:
    arrivals, inputs, outputs = (np.concatenate(columns) for columns in zip(*blocks, strict=True))
    return arrivals, inputs, outputs


def blocks_of(trace: RequestTrace) -> Iterator[Requests]:
    """The requests of a trace in order of arrival; seconds count from the first."""
    arrivals = np.asarray(trace.arrival_s, dtype=float)
    inputs, outputs = np.asarray(trace.input_tokens, dtype=np.int64), np.asarray(trace.output_tokens, dtype=np.int64)
    if (arrivals[1:] < arrivals[:-1]).any():
        order = np.argsort(arrivals, kind="stable")
        arrivals, inputs, outputs = arrivals[order], inputs[order], outputs[order]
    parts = (slice(start, start + _BLOCK) for start in range(0, len(arrivals), _BLOCK))
    return ((arrivals[part] - arrivals[0], inputs[part], outputs[part]) for part in parts)


_Member = tuple[int, float, float | None]


def question_of(scenario: Scenario) -> Question:
    """The scenario with its workload cut into ranges of the width that it asks for. Raises as `divide` does."""
    return Question(scenario=scenario, workload=divide(scenario.workload, scenario.ranges.width))


def divide(profile: LengthProfile, width: int) -> Workload:
    """Cut a profile into ranges of `width` tokens.

    They run from 0 to the first multiple of `width` above the longest prompt. Every length falls into exactly
    one range; ranges without mass are left out.
    """
    if width < 1:
        raise InputError(f"ranges.width must be at least 1 token, got {width}.", hint="Give a width such as 256.")
    answers = profile.output_tokens or (None,) * len(profile.input_tokens)
    members: defaultdict[int, list[_Member]] = defaultdict(list)
    for length, probability, answer in zip(profile.input_tokens, profile.probabilities, answers, strict=True):
        if probability > 0.0:
            members[length // width].append((length, probability, answer))
    return Workload(
        name=profile.name,
        ranges=tuple(_range(k * width, width, members[k]) for k in sorted(members)),
        mean_input_tokens=profile.mean_input_tokens,
        mean_output_tokens=profile.mean_output_tokens,
        max_output_tokens=profile.max_output_tokens,
    )


def _range(start: int, width: int, members: list[_Member]) -> LengthRange:
    mass = math.fsum(probability for _, probability, _ in members)
    return LengthRange(
        start=start,
        end=start + width,
        midpoint=start + width // 2,
        probability=mass,
        # from the start, so that rounding cannot leave the range
        mean_input_tokens=start + math.fsum((length - start) * p for length, p, _ in members) / mass,
        longest_input_tokens=max(length for length, _, _ in members),
        mean_output_tokens=_mean_answer(members, mass),
    )


def _mean_answer(members: list[_Member], mass: float) -> float | None:
    """Mean answer to the prompts of a range; None where answers are not known by length."""
    answered = [(probability, answer) for _, probability, answer in members if answer is not None]
    if len(answered) < len(members):
        return None
    return math.fsum(probability * answer for probability, answer in answered) / mass


STRETCHES = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretches:
    """Places (ascending) of the stretches of `width_s` seconds each that are taken of all `many`."""

    width_s: float
    many: int
    places: tuple[int, ...]


def draw_stretches(*, requests: int, span_s: float, sample_size: int, seed: int) -> Stretches:
    """Stretches that together hold about `sample_size` of a trace's requests. Raises InputError for no request."""
    if sample_size < 1:
        raise InputError(
            f"requests: must be at least 1, got {sample_size}.", hint="Say how many the sample is to have."
        )
    if sample_size >= requests or span_s <= 0:
        return Stretches(width_s=max(span_s, 1.0), many=1, places=(0,))
    drawn = min(STRETCHES, sample_size)
    many = -(-drawn * requests // sample_size)
    places = np.sort(np.random.default_rng(seed).choice(many, size=drawn, replace=False))
    return Stretches(width_s=span_s / many, many=many, places=tuple(places.tolist()))


def take_stretches(blocks: Iterable[Requests], stretches: Stretches) -> Iterator[Requests]:
    """The requests in these stretches, which follow each other without a gap."""
    places = np.array(stretches.places)
    for arrivals, inputs, outputs in blocks:
        # the last request ends the last stretch, it does not begin another
        at = np.minimum(np.floor(arrivals / stretches.width_s), stretches.many - 1)
        position = np.searchsorted(places, at)
        chosen = places[np.minimum(position, len(places) - 1)] == at
        moved = arrivals[chosen] - (at[chosen] - position[chosen]) * stretches.width_s
        yield moved, inputs[chosen], outputs[chosen]
