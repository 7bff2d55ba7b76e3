"""A trace at another rate, with its bursts as long as they were: thinned, or laid over itself.

| symbol | meaning | unit |
|---|---|---|
| n, P | requests of the trace's part, and its period: it repeats | 1, s |
| x | rate asked for over the part's own n / P: so many copies | 1 |
| a(k) | second of the part at which copy k begins; a(0) = 0, the others uniform in [0, P) | s |
| N(t), I(t) | requests in a window of t seconds; index of dispersion, Var N(t) / E N(t) | 1 |

Copy k has the requests of seconds a(k) to a(k) + H of the repeated part. Of the last copy x - floor(x) of its requests
are drawn at random; x < 1 is thinning alone. What theory says the stream keeps:
thinned with chance p   I'(t) = 1 + p (I(t) - 1): from the trace's bursts towards Poisson, at every t alike
independent copies      I'(t) = I(t): variances and means add up
compressed c times      I'(t) = I(c t): bursts of minutes become bursts of seconds, which no larger service sees
Sources: Cox and Isham, Point Processes, 1980, sections 4.3 and 4.5; Cox and Lewis, Statistical Analysis of Series of
Events, 1966. The share of the last copy is met exactly in every stream, and of one seed and so many seconds the stream
of a lower rate is part of that of a higher one: a search for the best rate does not compare different draws.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.replay.arrivals.parts import Places, Reals, StreamLength, TracePart, require_fits

MOST_COPIES = 1_000_000
_LONGER = 1.05
_DIGITS = 9  # of a number of copies: rounding must not make 2 copies of 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRequests:
    """`arrival_s` ascending; `places`: which of the part's requests each is; `users`: whose blocks are the same, as a
    number from 0 on, None where nobody asks."""

    arrival_s: Reals
    places: Places
    users: Places | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copies:
    """`origins_s[k]`: a(k); of the last copy `last_share` is taken, 0 < share <= 1."""

    part: TracePart
    origins_s: Reals
    last_share: float

    def spans(self, seconds: float) -> tuple[Places, Places]:
        """First request of each copy and how many there are in `seconds`, the part's requests numbered on as it repeats
        (shape: copies)."""
        first = self._before(self.origins_s)
        return first, self._before(self.origins_s + seconds) - first

    def _before(self, seconds: Reals) -> Places:
        laps = np.floor(seconds / self.part.period_s)
        rest_s = seconds - laps * self.part.period_s
        return laps.astype(np.int64) * len(self.part.rows) + np.searchsorted(self.part.arrival_s, rest_s)

    def total(self, counts: Places) -> int:
        """Requests after thinning."""
        return int(counts[:-1].sum()) + round(self.last_share * int(counts[-1]))


def superposed(
    part: TracePart,
    rate_rps: float,
    length: StreamLength,
    random: np.random.Generator,
    *,
    of_users: bool,
    sessions: Places | None = None,
) -> DrawnRequests:
    """The part at `rate_rps`, thinned or laid over itself. `of_users`: whether `users` are wanted; `sessions`: of the
    part's requests, of which all or none stay where it is thinned (None: they stay one by one)."""
    copies = _copies(part, rate_rps, random)
    seconds = length.seconds if length.seconds is not None else _seconds(copies, rate_rps, length.count or 1)
    first, counts = copies.spans(seconds)
    require_fits(float(counts.sum()))
    # copy by copy: requests `first` to `first + counts` of each
    numbers = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
    of_copy = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    numbers, of_copy = _thinned(copies, numbers, of_copy, int(counts[-1]), random, sessions)
    laps, places = np.divmod(numbers, len(part.rows))
    arrival_s = laps * part.period_s + part.arrival_s[places] - copies.origins_s[of_copy]
    order = np.argsort(arrival_s, kind="stable")[: length.count]
    users = of_copy[order].astype(np.int64) * (int(laps.max(initial=0)) + 1) + laps[order] if of_users else None
    return DrawnRequests(arrival_s=np.maximum(arrival_s[order], 0.0), places=places[order], users=users)


def _copies(part: TracePart, rate_rps: float, random: np.random.Generator) -> _Copies:
    copies = round(rate_rps / part.rate_rps, _DIGITS)
    if copies > MOST_COPIES:
        raise InputError(
            f"Trace {part.name}: must have a rate of at least {rate_rps / MOST_COPIES:g} requests/s to be laid over "
            f"itself up to {rate_rps:g}, got {part.rate_rps:g}.",
            hint="Give a busier trace, or draw arrivals: `process: poisson`.",
        )
    number = max(math.ceil(copies), 1)
    origins_s = random.random(number) * part.period_s
    origins_s[0] = 0.0
    return _Copies(part=part, origins_s=origins_s, last_share=copies - number + 1)


def _seconds(copies: _Copies, rate_rps: float, count: int) -> float:
    """Long enough for `count` requests."""
    seconds = count / rate_rps
    while True:
        counts = copies.spans(seconds)[1]
        if copies.total(counts) >= count:
            return seconds
        require_fits(float(counts.sum()))
        seconds *= _LONGER


def _thinned(
    copies: _Copies,
    numbers: Places,
    of_copy: NDArray[np.int32],
    of_last: int,
    random: np.random.Generator,
    sessions: Places | None,
) -> tuple[Places, NDArray[np.int32]]:
    """Of the last copy's requests the share that is to be, those of the least marks, or of sessions that have these."""
    stay = round(copies.last_share * of_last)
    if stay == of_last:
        return numbers, of_copy
    # The least marks, so that a smaller share is part of a larger one: rates are compared on one draw.
    if sessions is None:
        marks = random.random(of_last)
    else:
        names, of_request = np.unique(sessions, return_inverse=True)
        places = numbers[len(numbers) - of_last :] % len(sessions)
        marks = random.random(len(names))[of_request[places]]
    chosen = np.sort(np.argsort(marks, kind="stable")[:stay]) + len(numbers) - of_last
    places = np.concatenate((np.arange(len(numbers) - of_last), chosen))
    return numbers[places], of_copy[places]
