"""What a trace says of its requests: prompt lengths, answers, arrivals."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.domain import CountDispersion, LengthProfile, RequestTrace
from planner.errors import InputError
from planner.workload.dispersion import FEWEST_WINDOWS, count_dispersion
from planner.workload.prefix_reuse import prefix_reuse

WINDOWS_S = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""From a prefill step to what no queue takes in."""

_BLOCK = 262_144
"""Requests at a time: what is worked out on the way stays small beside the trace."""


def summarize(trace: RequestTrace) -> LengthProfile:
    """The length profile of a trace.

    The probability of a prompt length is its share of the requests; `arrival_rps` (requests/s) is (n - 1)
    over the time from first to last arrival; `burstiness` is the gaps' population standard deviation over
    their mean (1 for Poisson arrivals). The last two are None for fewer than two requests or when all came at
    once.
    """
    n = len(trace.input_tokens)
    counts, answers = _by_length(trace)
    if not any(answers.values()):
        raise InputError(
            f"Trace {trace.name}: must hold at least one request with an answer; it has {n} requests, none with one.",
            hint="Give another trace, or drop the filter that emptied it.",
        )
    lengths = sorted(counts)
    arrival_s = np.sort(np.asarray(trace.arrival_s, dtype=float))
    return LengthProfile(
        name=trace.name,
        input_tokens=tuple(lengths),
        probabilities=tuple(counts[length] / n for length in lengths),
        output_tokens=tuple(answers[length] / counts[length] for length in lengths),
        mean_output_tokens=sum(answers.values()) / n,
        max_output_tokens=max(trace.output_tokens),
        requests=n,
        arrival_rps=_arrival_rps(arrival_s),
        burstiness=_burstiness(arrival_s),
        clock=trace.clock,
        prefix=prefix_reuse(trace),
        counts=_counts(arrival_s),
    )


def _counts(arrival_s: NDArray[np.float64]) -> CountDispersion | None:
    """`arrival_s`: ascending. Windows that fit often enough into the trace; None where none does."""
    span = float(arrival_s[-1] - arrival_s[0])
    windows = tuple(window for window in WINDOWS_S if window * FEWEST_WINDOWS <= span)
    if not windows:
        return None
    return CountDispersion(windows_s=windows, dispersion=count_dispersion(arrival_s, windows))


def _by_length(trace: RequestTrace) -> tuple[dict[int, int], dict[int, int]]:
    """Requests, and tokens of their answers, by prompt length."""
    counts: dict[int, int] = {}
    answers: dict[int, int] = {}
    for inputs, outputs in zip(_blocks(trace.input_tokens), _blocks(trace.output_tokens), strict=True):
        lengths, places = np.unique(inputs, return_inverse=True)
        requests = np.bincount(places)
        tokens = np.zeros(len(lengths), dtype=np.int64)
        np.add.at(tokens, places, outputs)
        for length, many, sum_of in zip(lengths.tolist(), requests.tolist(), tokens.tolist(), strict=True):
            counts[length] = counts.get(length, 0) + many
            answers[length] = answers.get(length, 0) + sum_of
    return counts, answers


def _blocks(tokens: Sequence[int]) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(tokens), _BLOCK):
        yield np.asarray(tokens[start : start + _BLOCK], dtype=np.int64)


def _arrival_rps(arrival_s: NDArray[np.float64]) -> float | None:
    """`arrival_s`: ascending."""
    span = float(arrival_s[-1] - arrival_s[0])
    rate = (len(arrival_s) - 1) / span if span > 0 else math.inf
    return rate if math.isfinite(rate) else None


def _burstiness(arrival_s: NDArray[np.float64]) -> float | None:
    """`arrival_s`: ascending."""
    span, gaps = float(arrival_s[-1] - arrival_s[0]), len(arrival_s) - 1
    mean = span / gaps if gaps else 0.0
    if mean == 0:  # also of a span whose share is too small for a number
        return None
    squares = (square for start in range(0, gaps, _BLOCK) for square in _squares(arrival_s, start, mean))
    return math.sqrt(math.fsum(squares) / gaps) / mean


def _squares(arrival_s: NDArray[np.float64], start: int, mean: float) -> list[float]:
    """Squared deviations of a block of gaps from their mean."""
    deviations = np.diff(arrival_s[start : start + _BLOCK + 1]) - mean
    squares: list[float] = (deviations * deviations).tolist()
    return squares
