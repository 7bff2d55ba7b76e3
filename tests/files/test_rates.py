"""Files of rates over a day: what is read of them, and how each fault is named."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.domain.schedules import GapRule
from planner.errors import InputError
from planner.files import load_rate_curve, load_rates

EXCERPT = Path(__file__).parents[1] / "data/servegen/rates_excerpt.csv"
PLAIN = "window_start_s,requests_per_s\n0,1\n600,2\n1200,4\n"


def rates_file(folder: Path, text: str) -> Path:
    (folder / "rates.csv").write_text(text)
    return folder / "rates.csv"


def test_a_pool_of_production_has_the_figures_of_its_source() -> None:
    """Mean over peak 0.38, as published of the day of deepseek-r1; the shipped curve was computed by other code."""
    series = load_rates(EXCERPT, "deepseek-r1")
    assert (series.name, series.window_s, len(series.windows), set(series.days)) == ("deepseek-r1", 600, 144, {0})
    assert series.mean_rps / series.peak_rps == pytest.approx(0.38, abs=0.005)
    assert series.rates_rps == pytest.approx(load_rate_curve("servegen-deepseek-r1").rates, rel=1e-4)
    assert [window.burstiness for window in series.windows[:3]] == [1.63, 1.312, 1.071]


def test_windows_without_requests_tell_no_burstiness() -> None:
    series = load_rates(EXCERPT, "m-mid")
    assert [window.rate_rps == 0 for window in series.windows] == [False] * 3 + [True] * 3
    assert [window.burstiness is None for window in series.windows] == [False] * 3 + [True] * 3
    assert (series.windows[1].start_s, series.begins_s) == (600, 311_400 % 86_400)


def test_one_of_several_pools_must_be_named() -> None:
    with pytest.raises(InputError, match=r"rates_excerpt\.csv: holds the rates of 2 pools: deepseek-r1, m-mid"):
        load_rates(EXCERPT)
    with pytest.raises(InputError, match=r"no pool 'm-mit'. Did you mean m-mid"):
        load_rates(EXCERPT, "m-mit")


def test_a_shipped_curve_serves_as_rates() -> None:
    series = load_rates("servegen-m-small")
    assert (series.window_s, len(series.windows), len(set(series.days))) == (600, 2016, 14)
    with pytest.raises(InputError, match=r"no rates called 'servegen-m-smal'.*servegen-m-small"):
        load_rates("servegen-m-smal")


@pytest.mark.parametrize(
    ("times", "begins_s"),
    [
        (("2026-03-02T06:00:00", "2026-03-02T06:10:00", "2026-03-02T06:20:00"), 21_600),
        (("2026-03-02 07:00+01:00", "2026-03-02 07:10+01:00", "2026-03-02 07:20+01:00"), 21_600),
        (("1772431200", "1772431800", "1772432400"), 21_600),
        (("1772431200000", "1772431800000", "1772432400000"), 21_600),
        (("86400", "87000", "87600"), 0),
    ],
)
def test_times_are_seconds_dates_or_epochs(tmp_path, times, begins_s) -> None:
    path = rates_file(tmp_path, "timestamp,rps\n" + "".join(f"{time},{k}\n" for k, time in enumerate(times)))
    series = load_rates(path)
    assert (series.begins_s, series.window_s, series.rates_rps) == (begins_s, 600, (0, 1, 2))


def test_a_gap_is_refused_and_filled_only_where_that_is_asked_for(tmp_path) -> None:
    path = rates_file(tmp_path, "time_s,rps,cv\n0,1,2\n600,3,4\n2400,9,1\n3000,,\n3600,5,1\n4200,5,1\n")
    with pytest.raises(
        InputError,
        match=r"rates\.csv: .*3 of them are missing, the first after row 2: .*1200 s, 1800 s, 3000 s.*--gaps",
    ):
        load_rates(path)
    assert load_rates(path, gaps=GapRule.INTERPOLATE).rates_rps == pytest.approx((1, 3, 5, 7, 9, 7, 5, 5))
    series = load_rates(path, gaps=GapRule.PREVIOUS)
    assert series.rates_rps == (1, 3, 3, 3, 9, 9, 5, 5)
    assert [window.burstiness for window in series.windows] == [2, 4, 4, 4, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PLAIN.replace("1200,4", "600,4"), "row 3 must begin after row 2, at 600 s; got the same window again"),
        (PLAIN.replace("1200,4", "300,4"), "row 3 must begin after row 2, at 600 s; got 300 s"),
        (
            "time,rps\n2026-11-09T00:00Z,1\n2026-11-09T00:10Z,1\n2026-11-09T00:30Z,1\n2026-11-09T00:40Z,1\n",
            "those that begin at 2026-11-09T00:20:00Z",
        ),
        (PLAIN + "1500,1\n", "must all be 600 s long.*row 3 lasts 300 s up to row 4"),
        (PLAIN.replace("600,2", "600,-2"), "row 2, column requests_per_s must be a number of at least 0.*'-2'"),
        (PLAIN.replace("600,2", "600,nan"), "row 2, column requests_per_s must be a number of at least 0.*'nan'"),
        (PLAIN.replace("600,2", "600,inf"), "row 2, column requests_per_s must be a number of at least 0.*'inf'"),
        (PLAIN.replace("600,2", "600,"), "1 of them are missing, the first after row 1: those that begin at 600 s"),
        (PLAIN.replace("600,2", "soon,2"), "row 2, column window_start_s must be a time"),
        (PLAIN.replace("0,1\n", "nan,1\n", 1), "row 1, column window_start_s must be a time"),
        (PLAIN + "1e12,4\n", "10 years"),
        (PLAIN + "300000000,4\n", "at most 200,000 windows of 600 s, got 500,001"),
        ("window_start_s,requests_per_s\n0,1\n", "at least two windows"),
        ("window_start_s,requests_per_s\n0,0\n600,0\n", "must have a rate above 0"),
        ("window_start_s,requests_per_s\n", "only a header"),
        ("", "it is empty"),
        ("window_start_s,requests_per_minute\n0,1\n600,1\n", "must have a column of rates.*requests_per_minute"),
        ("hour,rps\n0,1\n1,1\n", "must have a column of times.*hour"),
        ("time_s,start_s,rps\n0,0,1\n", "one column of times, got time_s, start_s"),
        ("time_s,rps,cv\n0,1,-1\n600,1,1\n", "row 1, column cv must be a number from 0"),
        ("time_s,rps,pool\n0,1,\n600,1,a\n", "row 1, column pool must be a name"),
        ("time_ms,rps\n1772431200,1\n1772431800,1\n", "must be times in ms, as it is called, not an epoch in s"),
    ],
)
def test_faults_are_named_with_their_row(tmp_path, text, words) -> None:
    with pytest.raises(InputError, match=words) as caught:
        load_rates(rates_file(tmp_path, text))
    assert "rates.csv" in caught.value.message


def test_gaps_at_an_end_are_never_filled(tmp_path) -> None:
    path = rates_file(tmp_path, PLAIN + "1800,\n")
    with pytest.raises(InputError, match="first and the last window must have a rate"):
        load_rates(path, gaps=GapRule.PREVIOUS)


@given(
    rates=st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=2, max_size=40).filter(any),
    window_s=st.sampled_from([1, 60, 600, 3600]),
    offset_s=st.integers(0, 10**6),
)
def test_what_is_written_is_read(tmp_path_factory, rates, window_s, offset_s) -> None:
    """As seconds and as dates alike."""
    begins = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=offset_s)
    folder = tmp_path_factory.mktemp("rates")
    seconds = "".join(f"{offset_s + k * window_s},{rate!r}\n" for k, rate in enumerate(rates))
    dates = "".join(f"{begins + timedelta(seconds=k * window_s):%FT%TZ},{rate!r}\n" for k, rate in enumerate(rates))
    read = [load_rates(rates_file(folder, f"time,rps\n{text}")) for text in (seconds, dates)]
    assert read[0] == read[1]
    assert read[0].rates_rps == tuple(rates)
    assert (read[0].window_s, read[0].begins_s) == (window_s, offset_s % 86_400)
