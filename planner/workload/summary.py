"""What a trace says of its requests: prompt lengths, answers, arrivals."""

import math
from collections import defaultdict
from itertools import pairwise

from planner.domain import LengthProfile, RequestTrace
from planner.errors import InputError


def summarize(trace: RequestTrace) -> LengthProfile:
    """The length profile of a trace.

    The probability of a prompt length is its share of the requests; `arrival_rps` (requests/s) is (n - 1)
    over the time from first to last arrival; `burstiness` is the gaps' population standard deviation over
    their mean (1 for Poisson arrivals). The last two are None for fewer than two requests or when all came at
    once.
    """
    n = len(trace.input_tokens)
    if not n or not any(trace.output_tokens):
        raise InputError(
            f"Trace {trace.name}: must hold at least one request with an answer; it has {n} requests, none with one.",
            hint="Give another trace, or drop the filter that emptied it.",
        )
    answers: defaultdict[int, list[int]] = defaultdict(list)
    for length, answer in zip(trace.input_tokens, trace.output_tokens, strict=True):
        answers[length].append(answer)
    lengths = sorted(answers)
    return LengthProfile(
        name=trace.name,
        input_tokens=tuple(lengths),
        probabilities=tuple(len(answers[length]) / n for length in lengths),
        output_tokens=tuple(sum(answers[length]) / len(answers[length]) for length in lengths),
        mean_output_tokens=sum(trace.output_tokens) / n,
        max_output_tokens=max(trace.output_tokens),
        requests=n,
        arrival_rps=_arrival_rps(trace.arrival_s),
        burstiness=_burstiness(trace.arrival_s),
    )


def _arrival_rps(arrival_s: tuple[float, ...]) -> float | None:
    span = max(arrival_s) - min(arrival_s)
    rate = (len(arrival_s) - 1) / span if span > 0 else math.inf
    return rate if math.isfinite(rate) else None


def _burstiness(arrival_s: tuple[float, ...]) -> float | None:
    ordered = sorted(arrival_s)
    gaps = [after - before for before, after in pairwise(ordered)]
    if not gaps or ordered[-1] == ordered[0]:
        return None
    mean = (ordered[-1] - ordered[0]) / len(gaps)
    return math.sqrt(math.fsum((gap - mean) ** 2 for gap in gaps) / len(gaps)) / mean
