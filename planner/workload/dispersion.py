"""How much arrivals bunch, over short windows and long ones.

| symbol | meaning | unit |
|---|---|---|
| N(t) | arrivals in a window of t seconds | 1 |
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
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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
