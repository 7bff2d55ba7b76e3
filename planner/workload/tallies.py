"""What is counted of requests while they pass by, and how much their arrivals bunch: memory does not grow with them.

| symbol | meaning | unit |
|---|---|---|
| n | requests | 1 |
| g_i | gap between request i and the next | s |
| c | mean gap of the first block: g_i - c are small, so that sums of their squares lose no digits | s |
| burstiness | sqrt(mean (g - c)^2 - mean (g - c)^2) / mean g: the gaps' standard deviation over their mean | 1 |
| N(t) | requests in a window of t seconds, its sums exact in whole numbers | 1 |

What is held: a number for each distinct length of prompts and answers, four for each window, and the series.

How much arrivals bunch, over short windows and long ones, is their dispersion:

| symbol | meaning | unit |
|---|---|---|
| I(t) | index of dispersion for counts: Var N(t) / E N(t) | 1 |
| m | windows of t seconds, one behind the other, in the time from first to last arrival | 1 |

Poisson arrivals have I = 1 at every t, renewal ones tend to the squared variation of their gaps. A rate that changes by
itself makes I grow with t up to the time scale of its changes: gaps alone (`burstiness`) do not tell bursts of seconds,
which a queue takes in, from bursts of minutes, which it does not. The variance is that of a sample, over m - 1: its
standard error is about I sqrt(2 / (m - 1)), and slow changes beyond the trace are not in it.
Source: Cox and Lewis, The Statistical Analysis of Series of Events, 1966, section 4.5; Gusella, Characterizing the
Variability of Arrival Processes with Indexes of Dispersion, 1991.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from planner.domain import CountDispersion, LengthProfile, PrefixReuse
from planner.domain.workload import (
    ArrivalSeries,
    LengthFacts,
    PeakRate,
    SessionFacts,
    SessionTurns,
    TraceReading,
    TraceSummary,
)
from planner.errors import InputError

FEWEST_WINDOWS = 10
"""Standard error 47 %: a coarse word on bursts, fewer say nothing."""

_MOST_WINDOWS = 100_000_000


def count_dispersion(
    arrival_s: Sequence[float] | NDArray[np.float64], windows_s: Sequence[float], *, span_s: float | None = None
) -> tuple[float, ...]:
    """I(t) of arrivals (s, in any order) at each window t (s, in any order).

    `span_s`: how long was counted, from the first arrival on; None: up to the last. InputError names a window that does
    not fit in `FEWEST_WINDOWS` times.
    """
    arrivals = np.asarray(arrival_s, dtype=np.float64)
    if len(arrivals) < 2 or not np.isfinite(arrivals).all():
        raise InputError(
            f"Arrivals: must be at least 2 finite times to tell how they bunch, got {len(arrivals)}.",
            hint="Give a longer trace.",
        )
    arrivals = arrivals - arrivals.min()
    span = float(arrivals.max()) if span_s is None else span_s
    return tuple(_dispersion(arrivals, window, span) for window in windows_s)


def _dispersion(arrivals: "np.ndarray[tuple[int], np.dtype[np.float64]]", window_s: float, span_s: float) -> float:
    windows = span_s / window_s if window_s > 0 else math.nan
    if not FEWEST_WINDOWS <= windows <= _MOST_WINDOWS:
        raise InputError(
            f"Arrivals: a window must fit {FEWEST_WINDOWS} to {_MOST_WINDOWS:,} times into their {span_s:,.6g} s, "
            f"got {window_s:g} s.",
            hint="Give another window, or a longer trace.",
        )
    places = np.floor(arrivals / window_s).astype(np.int64)
    counts = np.bincount(places[places < int(windows)], minlength=int(windows))
    return dispersion_of(int(windows), int(counts.sum()), int((counts * counts).sum()))


def dispersion_of(windows: int, requests: int, squares: int) -> float:
    """I of so many windows, from the sum of their counts and that of their squares, in whole numbers up to the end."""
    return (squares * windows - requests * requests) / ((windows - 1) * requests) if requests else math.nan


WINDOWS_S = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""From a prefill step to what no queue takes in."""

PEAK_WINDOWS_S = (1.0, 10.0, 60.0, 600.0, 3600.0)
"""From what a queue takes in to what an autoscaler can follow."""

WIDTHS_S = (1.0, 2.0, 10.0, 20.0, 60.0, 120.0, 600.0, 1200.0, 3600.0, 7200.0, 21_600.0, 43_200.0, 86_400.0, 604_800.0)
"""Of the series: each a whole multiple of the one before; then twice the one before."""

MOST_POINTS = 480
Floats = NDArray[np.float64]


class RequestTally:
    """Counts requests: `take` them in order of arrival, then ask."""

    def __init__(self) -> None:
        self._prompts, self._answers, self._answer_tokens = Counter[int](), Counter[int](), Counter[int]()
        self._gaps = _Gaps()
        self._windows = {window: _Window(window) for window in sorted({*WINDOWS_S, *PEAK_WINDOWS_S})}
        self._series = _Series()
        self._span_s = 0.0

    def take(self, arrival_s: Floats, input_tokens: NDArray[np.integer], output_tokens: NDArray[np.integer]) -> None:
        """Requests behind those before: seconds since the first arrival (ascending), tokens in and out."""
        if not len(arrival_s):
            return
        self._take_lengths(input_tokens, output_tokens)
        self._gaps.take(arrival_s)
        self._series.take(arrival_s)
        for window in self._windows.values():
            window.take(arrival_s)
        self._span_s = float(arrival_s[-1])

    def _take_lengths(self, inputs: NDArray[np.integer], outputs: NDArray[np.integer]) -> None:
        lengths, places = np.unique(inputs, return_inverse=True)
        tokens = np.zeros(len(lengths), dtype=np.int64)
        np.add.at(tokens, places, outputs)
        self._prompts.update(dict(zip(lengths.tolist(), np.bincount(places).tolist(), strict=True)))
        self._answer_tokens.update(dict(zip(lengths.tolist(), tokens.tolist(), strict=True)))
        answers, requests = np.unique(outputs, return_counts=True)
        self._answers.update(dict(zip(answers.tolist(), requests.tolist(), strict=True)))

    @property
    def requests(self) -> int:
        """How many were taken."""
        return self._prompts.total()

    def profile(self, name: str, *, clock: str = "", prefix: PrefixReuse | None = None) -> LengthProfile:
        """The length profile. Raises InputError where no request has an answer."""
        n = self.requests
        if not any(self._answers):
            raise InputError(
                f"Trace {name}: must hold at least one request with an answer; it has {n} requests, none with one.",
                hint="Give another trace, or drop the filter that emptied it.",
            )
        lengths = sorted(self._prompts)
        return LengthProfile(
            name=name,
            input_tokens=tuple(lengths),
            probabilities=tuple(self._prompts[length] / n for length in lengths),
            output_tokens=tuple(self._answer_tokens[length] / self._prompts[length] for length in lengths),
            mean_output_tokens=self._answer_tokens.total() / n,
            max_output_tokens=max(self._answers),
            requests=n,
            arrival_rps=self._mean_rps(),
            burstiness=self._gaps.variation(),
            clock=clock,
            prefix=prefix,
            counts=self._dispersion(),
        )

    def summary(self, name: str, *, reading: TraceReading | None = None) -> TraceSummary:
        """All that is shown of a trace but how its requests hang together."""
        counts = self._dispersion()
        fitting = [window for window in PEAK_WINDOWS_S if window <= self._span_s]
        return TraceSummary(
            name=name,
            requests=self.requests,
            span_s=self._span_s,
            mean_rps=self._mean_rps(),
            burstiness=self._gaps.variation(),
            peaks=tuple(PeakRate(window_s=t, rps=self._windows[t].most / t) for t in fitting),
            series=self._series.record(),
            simultaneous=self._gaps.zero_share,
            dispersion=() if counts is None else tuple(zip(counts.windows_s, counts.dispersion, strict=True)),
            prompts=length_facts(self._prompts),
            mean_answer=self._answer_tokens.total() / self.requests,
            longest_answer=max(self._answers),
            answers=length_facts(self._answers),
            reading=reading,
        )

    def _mean_rps(self) -> float | None:
        rate = (self.requests - 1) / self._span_s if self._span_s > 0 else math.inf
        return rate if math.isfinite(rate) else None

    def _dispersion(self) -> CountDispersion | None:
        """Windows that fit often enough into the trace; None where none does."""
        windows = tuple(window for window in WINDOWS_S if window * FEWEST_WINDOWS <= self._span_s)
        if not windows:
            return None
        return CountDispersion(
            windows_s=windows, dispersion=tuple(self._windows[t].dispersion(self._span_s) for t in windows)
        )


class _Gaps:
    """Gaps between arrivals: how many, and the sums of what they differ from a shift, and of its square."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._shift, self._count, self._sum, self._squares = 0.0, 0, 0.0, 0.0
        self._zeros = 0

    def take(self, arrival_s: Floats) -> None:
        before = arrival_s if self._last is None else np.concatenate(([self._last], arrival_s))
        gaps = np.diff(before)
        self._last = float(arrival_s[-1])
        if not len(gaps):
            return
        if not self._count:
            self._shift = float(gaps.mean())
        self._zeros += int(len(gaps) - np.count_nonzero(gaps))
        deviations = gaps - self._shift
        self._count += len(gaps)
        self._sum += float(deviations.sum())
        self._squares += float((deviations * deviations).sum())

    @property
    def zero_share(self) -> float:
        """Gaps of no time, of all."""
        return self._zeros / self._count if self._count else 0.0

    def variation(self) -> float | None:
        """Standard deviation over mean; None where there is no time between the first and the last."""
        if not self._count:
            return None
        offset = self._sum / self._count
        mean = self._shift + offset
        if mean <= 0 or not self._last or self._last / self._count == 0:  # also a span too small for a number
            return None
        return math.sqrt(max(0.0, self._squares / self._count - offset * offset)) / mean


class _Window:
    """Requests in windows of one size, one behind the other: sum and squares of those that ended, and the most."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._place, self._open = 0, 0
        self._sum, self._squares, self.most = 0, 0, 0

    def take(self, arrival_s: Floats) -> None:
        places = np.floor(arrival_s / self._window_s)
        starts = np.concatenate(([0], np.flatnonzero(places[1:] != places[:-1]) + 1))
        counts = np.diff(np.append(starts, len(places)))
        if places[0] == self._place:
            counts[0] += self._open
        else:
            self._close(np.array([self._open]))
        self._close(counts[:-1])
        self._place, self._open = int(places[-1]), int(counts[-1])
        self.most = max(self.most, self._open)

    def _close(self, counts: NDArray[np.integer]) -> None:
        if len(counts):
            self._sum += int(counts.sum())
            self._squares += int((counts * counts).sum())
            self.most = max(self.most, int(counts.max()))

    def dispersion(self, span_s: float) -> float:
        """Variance over mean of all whole windows in a span."""
        windows = int(span_s / self._window_s)
        extra = self._open if self._place < windows else 0
        return dispersion_of(windows, self._sum + extra, self._squares + extra * extra)


class _Series:
    """Requests over time in at most `MOST_POINTS` windows, which grow with the trace."""

    def __init__(self) -> None:
        self._widths = _widths()
        self._width = next(self._widths)
        self._counts: NDArray[np.int64] = np.zeros(MOST_POINTS, dtype=np.int64)
        self._points = 0

    def take(self, arrival_s: Floats) -> None:
        while arrival_s[-1] >= self._width * MOST_POINTS:
            self._widen(next(self._widths))
        places = np.floor(arrival_s / self._width).astype(np.int64)
        self._counts += np.bincount(places, minlength=MOST_POINTS)
        self._points = int(places[-1]) + 1

    def _widen(self, width: float) -> None:
        wider: NDArray[np.int64] = np.zeros(MOST_POINTS, dtype=np.int64)
        np.add.at(wider, np.arange(MOST_POINTS) // round(width / self._width), self._counts)
        self._counts, self._width = wider, width

    def record(self) -> ArrivalSeries:
        return ArrivalSeries(width_s=self._width, requests=tuple(self._counts[: self._points].tolist()))


def _widths() -> Iterator[float]:
    yield from WIDTHS_S
    width = WIDTHS_S[-1]
    while True:
        width *= 2
        yield width


def length_facts(counts: Mapping[int, float]) -> LengthFacts:
    """Mean, percentiles (the least length that so many requests do not exceed) and powers of two of lengths with their
    counts, or with their shares."""
    lengths = sorted(length for length in counts if counts[length])
    n = math.fsum(counts.values())
    below = np.cumsum([counts[length] for length in lengths])
    below[-1] = n  # shares do not quite sum to it
    p50, p90, p99 = (lengths[int(np.searchsorted(below, n * share, side="left"))] for share in (0.5, 0.9, 0.99))
    return LengthFacts(
        mean=math.fsum(length * requests for length, requests in counts.items()) / n,
        p50=p50,
        p90=p90,
        p99=p99,
        most=lengths[-1],
        bins=tuple((start, end, requests / n) for start, end, requests in _bins(lengths, counts)),
    )


def session_facts(turns: SessionTurns) -> SessionFacts:
    """Turns of a session and pauses before later ones, percentiles between two values told from both."""
    ids, pauses = np.asarray(turns.ids, dtype=np.int64), np.asarray(turns.pause_s, dtype=float)
    counts = np.bincount(ids)
    is_later = np.ones(len(ids), dtype=bool)
    is_later[np.unique(ids, return_index=True)[1]] = False
    later = pauses[is_later] if is_later.any() else np.zeros(1)
    p50, p90, p99 = (float(value) for value in np.percentile(later, (50, 90, 99)))
    return SessionFacts(
        sessions=len(counts),
        mean_turns=len(ids) / len(counts),
        most_turns=int(counts.max()),
        mean_pause_s=float(later.mean()),
        p50_pause_s=p50,
        p90_pause_s=p90,
        p99_pause_s=p99,
    )


def _bins(lengths: Sequence[int], counts: Mapping[int, float]) -> Iterator[tuple[int, int, float]]:
    """Empty ones between others, too."""
    requests: defaultdict[int, float] = defaultdict(float)
    for length in lengths:
        requests[length.bit_length()] += counts[length]
    edges = [0, *(2**power for power in range(max(requests) + 1))]
    for power, (start, end) in enumerate(pairwise(edges)):
        if power >= min(requests):
            yield start, end, requests[power]
