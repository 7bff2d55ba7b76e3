"""What a trace says of its requests: prompt lengths, answers, arrivals."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.domain import LengthProfile, RequestTrace
from planner.domain.workload import TraceSummary
from planner.workload.prefix_reuse import prefix_reuse
from planner.workload.tallies import RequestTally, length_facts

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
    return tally_requests(blocks_of(trace)).profile(trace.name, clock=trace.clock, prefix=prefix_reuse(trace))


def describe(requests: RequestTrace | LengthProfile) -> TraceSummary:
    """All that is shown of a trace: rate and its peaks, lengths, how arrivals bunch, what a prefix cache would find.

    A workload that was summarised before tells what it knows."""
    if isinstance(requests, LengthProfile):
        return _described(requests)
    return tally_requests(blocks_of(requests)).summary(
        requests.name, prefix=prefix_reuse(requests), reading=requests.reading
    )


def _described(profile: LengthProfile) -> TraceSummary:
    counts, n, rate = profile.counts, profile.requests, profile.arrival_rps
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
        licence=profile.licence,
        citation=profile.citation,
    )


def profile_and_summary(trace: RequestTrace) -> tuple[LengthProfile, TraceSummary]:
    """Both at once, as prefixes of long traces take time."""
    tally, prefix = tally_requests(blocks_of(trace)), prefix_reuse(trace)
    return (
        tally.profile(trace.name, clock=trace.clock, prefix=prefix),
        tally.summary(trace.name, prefix=prefix, reading=trace.reading),
    )


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
