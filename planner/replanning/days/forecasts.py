"""Rates of the day ahead from rates so far, and how much more is planned for.

| symbol | meaning | unit |
|---|---|---|
| x_t | rate of window t | requests/s |
| P | windows of a day | 1 |
| L | P, or 7 P for `last-week` | 1 |
| f_t | forecast of window t: x_{t-L}; `ewma`: w x_{t-L} + (1 - w) f_{t-L}, on the first day x_{t-L} | requests/s |
| h | headroom: a share, or the quantile of x_s / f_s - 1 over windows s before, at least 0 | 1 |

f_t takes nothing of the day before t, so all windows of a day ahead are forecast in the same way, whenever that is
done. A window with less than a hundredth of the highest rate so far was an outage and no day like others: after it
f_t = f_{t-L}.
"""

import numpy as np
from numpy.typing import NDArray

from planner.domain.schedules import DAY_S, ForecastKind, ForecastSettings, RateSeries
from planner.errors import InputError

Floats = NDArray[np.float64]
OUTAGE = 0.01
"""Of the highest rate so far: rates below are no forecast of a day to come."""


def windows_of_a_day(series: RateSeries) -> int:
    """How many windows a day has. InputError where they do not divide it."""
    windows = round(DAY_S / series.window_s)
    if windows < 1 or abs(windows * series.window_s - DAY_S) > 1e-6:
        raise InputError(
            f"rates {series.name}: windows must divide a day for a forecast by time of day, got {series.window_s:g} s.",
            hint="Write the rates over windows of 5, 10 or 60 minutes.",
        )
    return windows


def forecasts_of(series: RateSeries, settings: ForecastSettings) -> Floats:
    """The forecast of every window from the windows before (T, requests/s); NaN where there are too few."""
    rates = np.asarray(series.rates_rps, dtype=float)
    if settings.kind is ForecastKind.KNOWN:
        return rates
    day = windows_of_a_day(series)
    lag = day * (7 if settings.kind is ForecastKind.LAST_WEEK else 1)
    weight = settings.weight if settings.kind is ForecastKind.EWMA else 1.0
    highest = np.maximum.accumulate(rates)
    expected = np.full(len(rates), np.nan)
    for window in range(lag, len(rates)):
        rate, before = rates[window - lag], expected[window - lag]
        if np.isnan(before):
            expected[window] = rate
        elif rate < OUTAGE * highest[window - lag]:
            expected[window] = before
        else:
            expected[window] = weight * rate + (1 - weight) * before
    return expected


def headroom_at(series: RateSeries, expected: Floats, settings: ForecastSettings, window: int) -> float:
    """The share that is planned for above forecasts, by what is known when `window` begins."""
    if settings.kind is ForecastKind.KNOWN:
        return settings.headroom or 0.0
    if settings.headroom is not None:
        return settings.headroom
    first = max(0, window - round(settings.memory_days * windows_of_a_day(series)))
    rates, before = np.asarray(series.rates_rps[first:window], dtype=float), expected[first:window]
    usable = before > OUTAGE * rates.max(initial=0.0)  # NaN, too, is not; a ratio to nothing tells nothing
    if not usable.any():
        return settings.first_headroom
    return max(0.0, float(np.quantile(rates[usable] / before[usable] - 1.0, settings.quantile)))


def first_window(series: RateSeries, settings: ForecastSettings) -> int:
    """The first window that can be forecast. InputError where the series ends before it."""
    if settings.kind is ForecastKind.KNOWN:
        return 0
    first = settings.kind.history_days * windows_of_a_day(series)
    if first >= len(series.windows):
        days = len(series.windows) * series.window_s / DAY_S
        raise InputError(
            f"rates {series.name}: forecast {settings.kind}: must have rates of more than "
            f"{settings.kind.history_days} days, as it begins after them; got {days:.3g}.",
            hint="Give more days, or take the rates as known (--forecast known).",
        )
    return first
