"""Forecasts of the day ahead, held against counts by hand and against a look at the future."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.domain.schedules import ForecastKind, ForecastSettings, RateSeries, RateWindow
from planner.errors import InputError
from planner.replanning.days.forecasts import first_window, forecasts_of, headroom_at

QUARTERS = 4  # windows of six hours a day
FORECASTS = (ForecastKind.LAST_DAY, ForecastKind.LAST_WEEK, ForecastKind.EWMA)


def series_of(rates: list[float], window_s: float = 21_600.0) -> RateSeries:
    windows = tuple(RateWindow(start_s=k * window_s, rate_rps=rate) for k, rate in enumerate(rates))
    return RateSeries(name="made", window_s=window_s, windows=windows)


def settings(kind: ForecastKind, **changes: float) -> ForecastSettings:
    return ForecastSettings(kind=kind, **changes)


def test_the_last_day_is_expected_again() -> None:
    expected = forecasts_of(series_of([1, 2, 3, 4, 5, 6, 7, 8, 9]), settings(ForecastKind.LAST_DAY))
    assert np.isnan(expected[:4]).all()
    assert expected[4:].tolist() == [1, 2, 3, 4, 5]


def test_a_mean_by_time_of_day_gives_late_days_more_weight() -> None:
    """At 6:00: 10 on the first day, 20, then 40; a weight of a half gives 10, 15, 27.5."""
    rates = [1, 10, 1, 1, 1, 20, 1, 1, 1, 40, 1, 1, 1, 0]
    expected = forecasts_of(series_of(rates), settings(ForecastKind.EWMA, weight=0.5))
    assert expected[[5, 9, 13]].tolist() == [10, 15, 27.5]


def test_an_outage_is_no_forecast_of_another() -> None:
    rates = [100.0, 50, 50, 50, 100, 0.5, 50, 50, 100, 60, 50, 50]
    assert forecasts_of(series_of(rates), settings(ForecastKind.LAST_DAY))[9] == 50


def test_headroom_is_what_past_rates_were_above_their_forecasts() -> None:
    """Day two is 10 to 40 % above day one; the median of 0.1, 0.2, 0.3, 0.4 is 0.25."""
    series = series_of([10, 10, 10, 10, 11, 12, 13, 14, 0, 0, 0, 0])
    chosen = settings(ForecastKind.LAST_DAY, quantile=0.5)
    expected = forecasts_of(series, chosen)
    assert headroom_at(series, expected, chosen, 8) == pytest.approx(0.25)
    assert headroom_at(series, expected, chosen, 4) == chosen.first_headroom
    stated = settings(ForecastKind.LAST_DAY, headroom=0.1)
    assert headroom_at(series, expected, stated, 8) == 0.1


@given(
    rates=st.lists(st.floats(0, 1e4), min_size=9 * QUARTERS, max_size=10 * QUARTERS),
    kind=st.sampled_from(FORECASTS),
    days=st.integers(7, 8),
    other=st.floats(0, 1e6),
)
def test_the_future_decides_nothing(rates, kind, days, other) -> None:
    """Whatever comes once a day has begun: its forecasts and its headroom are the same."""
    begin = days * QUARTERS
    changed = rates[:begin] + [other] * (len(rates) - begin)
    answers = []
    for series in (series_of(rates), series_of(changed)):
        expected = forecasts_of(series, settings(kind))
        ahead = expected[begin : begin + QUARTERS].tolist()
        answers.append((ahead, headroom_at(series, expected, settings(kind), begin)))
    assert answers[0] == answers[1]
    assert not any(math.isnan(rate) for rate in answers[0][0])


@pytest.mark.parametrize("kind", FORECASTS)
def test_too_few_days_are_refused(kind) -> None:
    days = kind.history_days
    with pytest.raises(InputError, match=rf"must have rates of more than {days} days.*got {days}"):
        first_window(series_of([1.0] * days * QUARTERS), settings(kind))
    assert first_window(series_of([1.0] * (days * QUARTERS + 1)), settings(kind)) == days * QUARTERS


def test_windows_that_do_not_divide_a_day_have_no_time_of_day() -> None:
    with pytest.raises(InputError, match="windows must divide a day"):
        forecasts_of(series_of([1.0] * 300, window_s=700), settings(ForecastKind.EWMA))
