"""What theory says of thinned, superposed and compressed traces, held against the streams that are made."""

from functools import partial

import numpy as np
import pytest
from arrival_traces import azure, mooncake, switching, switching_dispersion

from planner.domain.arrivals import ArrivalSettings
from planner.replay.arrivals import requests_of
from planner.replay.arrivals.parts import part_of
from planner.workload import count_dispersion

TRACES = [
    pytest.param(azure, id="azure-code"),
    pytest.param(mooncake, id="mooncake"),
    pytest.param(partial(switching, span_s=3_000.0), id="switching-poisson"),
]
WINDOWS = (0.5, 4.0, 10.7, 31.0)
"""Not multiples of Mooncake's tick of 3 s: an arrival on a window's edge falls to either side."""

AS_IT_CAME = ArrivalSettings()


def _dispersions(requests, span_s, windows=WINDOWS):
    return np.array(count_dispersion([0.0, *np.asarray(requests.arrival_ms) / 1000], windows, span_s=span_s))


def _at_rate(trace, times, seeds, settings=AS_IT_CAME):
    """I(t) of the trace at so many times its rate, over one period: mean over seeds and its standard error."""
    part = part_of(trace)
    rows = np.array(
        [
            _dispersions(
                requests_of(trace, settings, rate_rps=times * part.rate_rps, seconds=part.period_s, seed=seed),
                part.period_s,
            )
            for seed in range(seeds)
        ]
    )
    return rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(seeds)


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_thinning_brings_the_dispersion_nearer_to_poisson(trace, share) -> None:
    own = np.array(count_dispersion(trace().arrival_s, WINDOWS, span_s=part_of(trace()).period_s))
    mean, error = _at_rate(trace(), share, seeds=12)
    theory = 1 + share * (own - 1)
    assert (abs(mean - theory) < 4 * error + 0.01 * theory).all(), (mean, theory, error)


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("times", [2, 8])
def test_superposition_keeps_the_dispersion(trace, times) -> None:
    own = _own_dispersion(trace())
    mean, error = _at_rate(trace(), times, seeds=40)
    assert (abs(mean - own) < 4 * error + 0.02 * own).all(), (mean, own, error)


def _own_dispersion(trace):
    """I(t) of the repeated trace, wherever the windows begin."""
    part = part_of(trace)
    shifts = np.random.default_rng(0).random(40) * part.period_s
    rows = [
        count_dispersion([0.0, *(part.arrival_s + shift) % part.period_s], WINDOWS, span_s=part.period_s)
        for shift in shifts
    ]
    return np.mean(rows, axis=0)


def test_a_made_trace_has_the_dispersion_of_its_closed_form() -> None:
    """So do its copies and, by the rule for thinning, its parts: the formulas hold from end to end."""
    windows = np.array(WINDOWS)
    theory = switching_dispersion(windows)
    assert np.array(count_dispersion(switching().arrival_s, windows)) == pytest.approx(theory, rel=0.07)
    assert _at_rate(switching(), 3.4, seeds=2)[0] == pytest.approx(
        (3 * theory + 0.4 * (1 + 0.4 * (theory - 1))) / 3.4, rel=0.07
    )
    assert _at_rate(switching(), 0.3, seeds=2)[0] == pytest.approx(1 + 0.3 * (theory - 1), rel=0.07)


@pytest.mark.parametrize("times", [0.5, 4.0, 16.0])
def test_compression_makes_bursts_shorter(times) -> None:
    """I'(t) = I(c t): the same counts, in windows so much shorter."""
    trace, part = azure(), part_of(azure())
    rate = part.rate_rps * times
    n = len(trace.arrival_s)
    requests = requests_of(trace, ArrivalSettings(compress=True), rate_rps=rate, count=n, seed=0)
    assert np.asarray(requests.arrival_ms) == pytest.approx(np.asarray(trace.arrival_s) * 1000 / times)
    assert _dispersions(requests, part.period_s / times, np.array([8.0, 32.0]) / times) == pytest.approx(
        count_dispersion(trace.arrival_s, [8.0, 32.0], span_s=part.period_s), rel=0.02
    )
    assert "times as fast" in requests.notes[0]


def test_compression_overstates_bursts_of_seconds() -> None:
    """Why it is not the default: at 16 times the rate a code service is under a third as bursty over 3 s."""
    part = part_of(azure())
    rate = 16 * part.rate_rps
    laid_over = requests_of(azure(), AS_IT_CAME, rate_rps=rate, seconds=part.period_s, seed=0)
    compressed = requests_of(azure(), ArrivalSettings(compress=True), rate_rps=rate, seconds=part.period_s, seed=0)
    assert 3 * _dispersions(laid_over, part.period_s, [3.0]) < _dispersions(compressed, part.period_s, [3.0])


def test_the_trace_at_its_own_rate_is_the_trace() -> None:
    for trace in (azure("code"), azure("conv"), mooncake()):
        requests = requests_of(trace, AS_IT_CAME, count=len(trace.arrival_s), seed=3)
        assert np.asarray(requests.arrival_ms) == pytest.approx(np.asarray(trace.arrival_s) * 1000)
        assert list(requests.prompt_tokens) == list(trace.input_tokens)
        assert list(requests.answer_tokens) == list(trace.output_tokens)


def test_what_comes_in_one_instant_stays_and_is_counted() -> None:
    """Mooncake's clock ticks every three seconds."""
    requests = requests_of(mooncake(), AS_IT_CAME, count=1500, seed=0)
    same = 1500 - len(set(mooncake().arrival_s))
    assert requests.same_instant == same > 1000
    assert f"{same} of 1500 requests come in the same instant" in requests.notes[-1]
