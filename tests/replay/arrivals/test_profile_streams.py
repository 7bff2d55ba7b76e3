"""Streams of workloads that are known by their lengths alone."""

from dataclasses import replace

import numpy as np
import pytest
from arrival_traces import azure
from scipy import stats

from planner.domain import LengthProfile
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, LeftOut
from planner.errors import InputError
from planner.files import load_workload
from planner.replay.arrivals import requests_of, requests_of_profile
from planner.workload import summarize

POISSON = ArrivalSettings(process=ArrivalProcess.POISSON)
SMALL = LengthProfile(
    name="small",
    input_tokens=(0, 10, 20, 9000, 9100),
    probabilities=(0.1, 0.2, 0.4, 0.2, 0.1),
    output_tokens=(3.0, 2.5, 0.2, 100.0, 0.0),
    mean_output_tokens=21.2,
    max_output_tokens=100,
    requests=50,
)


def test_a_shipped_workload_comes_at_its_rate_with_its_means() -> None:
    profile = load_workload("azure-code-2023")
    requests = requests_of_profile(profile, POISSON, count=200_000, seed=0)
    assert requests.rate_rps == pytest.approx(profile.arrival_rps, rel=0.01)
    assert np.mean(requests.prompt_tokens) == pytest.approx(profile.mean_input_tokens, rel=0.01)
    assert np.mean(requests.answer_tokens) == pytest.approx(profile.mean_output_tokens, rel=0.02)
    assert requests.left_out == LeftOut()
    assert requests.notes[0].startswith("Answers are as long as the mean answer")


def test_prompts_are_spread_as_those_of_the_trace() -> None:
    drawn = requests_of(azure("conv"), POISSON, count=50_000, seed=0)
    summed = requests_of_profile(summarize(azure("conv")), POISSON, count=50_000, seed=1)
    assert stats.ks_2samp(drawn.prompt_tokens, summed.prompt_tokens).pvalue > 0.01


def test_what_no_engine_takes_is_left_out() -> None:
    requests = requests_of_profile(SMALL, POISSON, rate_rps=1.0, count=30_000, seed=0, most_tokens=9000)
    counts = dict(zip(*np.unique(requests.prompt_tokens, return_counts=True), strict=True))
    assert set(counts) == {10, 20}
    assert counts[20] / counts[10] == pytest.approx(2, rel=0.05)
    assert requests.left_out == LeftOut(empty_prompts=5, empty_answers=5, long_answers=10)
    assert "Left out are 40.00% of the requests" in requests.notes[0]
    answers, prompts = np.asarray(requests.answer_tokens), np.asarray(requests.prompt_tokens)
    assert set(answers[prompts == 10]) == {2, 3}
    assert answers[prompts == 10].mean() == pytest.approx(2.5, abs=0.03)
    assert set(answers[prompts == 20]) == {1}


def test_without_answers_by_length_all_have_the_mean_one() -> None:
    normal = load_workload("normal-500-2000")
    requests = requests_of_profile(normal, POISSON, rate_rps=10.0, seconds=20.0, seed=0)
    assert set(requests.answer_tokens) <= {int(normal.mean_output_tokens), int(normal.mean_output_tokens) + 1}
    assert len(requests) == pytest.approx(200, abs=60)


@pytest.mark.parametrize(
    ("profile", "settings", "asked", "words"),
    [
        (SMALL, ArrivalSettings(), {}, "Workload small: must be a trace for process trace; it is a table of lengths"),
        (SMALL, replace(POISSON, between=(0.0, 9.0)), {}, "must be a trace for between"),
        (SMALL, POISSON, {"rate_rps": None}, "must have arrival_rps where no rate is given"),
        (SMALL, POISSON, {"rate_rps": 0.0}, "Stream of small: rate_rps must be above 0 and finite, got 0"),
        (SMALL, POISSON, {"most_tokens": 5}, "must hold a request that can be served; none is left"),
        (SMALL, POISSON, {"count": None, "seconds": 1e-9}, "none came in 1e-09 s"),
    ],
)
def test_what_makes_no_stream_is_refused(profile, settings, asked, words) -> None:
    with pytest.raises(InputError) as refusal:
        requests_of_profile(profile, settings, **{"rate_rps": 1.0, "count": 5, "seed": 0, **asked})
    assert words in refusal.value.message
    assert refusal.value.hint
