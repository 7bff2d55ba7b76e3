"""Arrivals that are drawn have the moments that theory gives them."""

import numpy as np
import pytest
from arrival_traces import azure, trace_of
from scipy import stats

from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, RateCurve
from planner.errors import InputError
from planner.files import load_rate_curve
from planner.replay.arrivals import requests_of
from planner.workload import count_dispersion

STEPS = RateCurve(name="steps", starts_s=(0.0, 100.0, 150.0, 400.0), rates=(1.0, 0.0, 4.0, 2.0), span_s=500.0)
SECONDS = trace_of([0.0, 1.0, 3.0])


def _arrivals(process, *, variation=1.0, seed=0, **how):
    settings = ArrivalSettings(process=process, variation=variation, **how.pop("settings", {}))
    return np.asarray(requests_of(SECONDS, settings, seed=seed, **how).arrival_ms) / 1000


def test_poisson_gaps_are_exponential() -> None:
    arrivals = _arrivals(ArrivalProcess.POISSON, rate_rps=5.0, count=100_000)
    gaps = np.diff(arrivals, prepend=0.0)
    assert stats.kstest(gaps, stats.expon(scale=0.2).cdf).pvalue > 0.01
    assert count_dispersion(arrivals, [1.0, 10.0, 60.0]) == pytest.approx((1, 1, 1), abs=0.15)


@pytest.mark.parametrize("variation", [0.25, 4.0, 30.0])
def test_gamma_gaps_have_their_variation_and_so_have_counts_in_the_long_run(variation) -> None:
    arrivals = _arrivals(ArrivalProcess.GAMMA, variation=variation, rate_rps=5.0, count=400_000)
    gaps = np.diff(arrivals)
    assert gaps.mean() == pytest.approx(0.2, rel=0.03)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(variation, rel=0.05)
    assert count_dispersion(arrivals, [200.0]) == pytest.approx((variation,), rel=0.15)


def test_no_variation_means_even_gaps() -> None:
    assert np.diff(_arrivals(ArrivalProcess.GAMMA, variation=0.0, rate_rps=4.0, count=50)) == pytest.approx(
        np.full(49, 0.25)
    )


@pytest.mark.parametrize("variation", [0.0, 1.0, 25.0])
def test_the_rate_holds_from_the_first_second_on(variation) -> None:
    """A renewal stream that began with a full gap would be late by (variation - 1) / 2 requests."""
    counts = [
        len(_arrivals(ArrivalProcess.GAMMA, variation=variation, seed=seed, rate_rps=50.0, seconds=10.0))
        for seed in range(400)
    ]
    assert np.mean(counts) == pytest.approx(500, abs=4 * np.std(counts) / 20 + 0.51)


@pytest.mark.parametrize("start_s", [0.0, 120.0, 430.0])
def test_a_curve_shares_requests_out_over_its_rows(start_s) -> None:
    settings = {"curve": STEPS, "curve_start_s": start_s}
    arrivals = (_arrivals(ArrivalProcess.DIURNAL, rate_rps=60.0, seconds=5000.0, settings=settings) + start_s) % 500
    counts = np.histogram(arrivals, bins=[0, 100, 150, 400, 500])[0]
    expected = 5000 * 60 * np.array([100, 0, 1000, 200]) / 1300
    assert counts[1] == 0
    assert ((counts - expected) ** 2 / np.maximum(expected, 1)).sum() < stats.chi2(3).ppf(0.999)


def test_changed_back_to_a_steady_rate_a_curves_gaps_are_exponential() -> None:
    arrivals = _arrivals(ArrivalProcess.DIURNAL, rate_rps=20.0, count=50_000, settings={"curve": STEPS})
    areas = np.concatenate(([0.0], np.cumsum(np.array([1.0, 0.0, 4.0, 2.0]) * [100, 50, 250, 100]))) * 20 / 2.6
    expected = arrivals // 500 * areas[-1] + np.interp(arrivals % 500, [0, 100, 150, 400, 500], areas)
    assert stats.kstest(np.diff(expected, prepend=0.0), stats.expon.cdf).pvalue > 0.01


def test_a_shipped_week_peaks_where_its_curve_does() -> None:
    curve = load_rate_curve("servegen-deepseek-r1").over(3600.0)
    settings = ArrivalSettings(process=ArrivalProcess.DIURNAL, curve=curve)
    requests = requests_of(azure(), settings, rate_rps=30.0, seconds=3600.0, seed=1)
    counts = np.histogram(np.asarray(requests.arrival_ms) / 1000, bins=np.linspace(0, 3600, 145))[0]
    assert len(requests) == pytest.approx(30 * 3600, rel=0.02)
    assert np.corrcoef(counts, curve.rates)[0, 1] > 0.98


def test_prompts_and_their_answers_are_drawn_together_and_evenly() -> None:
    trace = trace_of([0.0, 1.0, 2.0, 5.0], [10, 20, 30, 40], [1, 2, 3, 4])
    requests = requests_of(trace, ArrivalSettings(process=ArrivalProcess.POISSON), rate_rps=9.0, count=40_000, seed=0)
    prompts, answers = np.asarray(requests.prompt_tokens), np.asarray(requests.answer_tokens)
    assert (prompts == 10 * answers).all()
    assert np.bincount(answers)[1:] == pytest.approx(np.full(4, 10_000), abs=400)


def test_a_trace_without_a_clock_gives_lengths_all_the_same() -> None:
    trace = trace_of([3.0, 3.0, 3.0])
    settings = ArrivalSettings(process=ArrivalProcess.POISSON)
    assert len(requests_of(trace, settings, rate_rps=2.0, count=5, seed=0)) == 5
    with pytest.raises(InputError, match="must span some time to have a rate"):
        requests_of(trace, settings, count=5, seed=0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"process": "gamma", "variation": float("nan")}, "variation must be a number from 0"),
        ({"process": "gamma", "variation": -1.0}, "variation must be a number from 0"),
        ({"process": "gamma", "variation": 1e9}, "variation must be a number from 0"),
        ({"process": "diurnal"}, "curve must be given for the process diurnal"),
        ({"process": "diurnal", "curve": STEPS, "curve_start_s": -1.0}, "curve_start_s must be at least 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(settings, words) -> None:
    made = ArrivalSettings(**{**settings, "process": ArrivalProcess(settings["process"])})
    with pytest.raises(InputError, match=words):
        requests_of(SECONDS, made, rate_rps=1.0, count=5, seed=0)


@pytest.mark.parametrize(
    ("starts", "rates", "span", "words"),
    [
        ((0.0, 1.0), (1.0,), 2.0, "as many rates as starts"),
        ((1.0,), (1.0,), 2.0, "starts_s from 0"),
        ((), (), 2.0, "starts_s from 0"),
        ((0.0, 5.0), (1.0, 1.0), 5.0, "ascend and end before span_s"),
        ((0.0, float("nan")), (1.0, 1.0), 5.0, "ascend"),
        ((0.0,), (-1.0,), 5.0, "finite rates of at least 0"),
        ((0.0,), (0.0,), 5.0, "a rate above 0"),
    ],
)
def test_a_curve_that_is_none_is_refused(starts, rates, span, words) -> None:
    with pytest.raises(InputError, match=f"Rate curve bent: .*{words}"):
        RateCurve(name="bent", starts_s=starts, rates=rates, span_s=span)
