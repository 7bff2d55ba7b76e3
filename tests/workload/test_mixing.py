"""Mixtures of workloads: what pooling the requests of two traces gives."""

from dataclasses import replace

import numpy as np
import pytest

from planner.domain import LengthProfile, RequestTrace
from planner.domain.workload import CountDispersion
from planner.workload import mixed_profile, summarize


def trace_of(seed: int, requests: int, seconds: float, longest: int) -> RequestTrace:
    """Whole lengths, of which the traces have some in common; first and last arrival at the ends."""
    rng = np.random.default_rng(seed)
    inner = np.sort(rng.uniform(0, seconds, requests - 2))
    return RequestTrace(
        name=f"t{seed}",
        arrival_s=(0.0, *inner.tolist(), seconds),
        input_tokens=tuple((10 * rng.integers(1, longest, requests)).tolist()),
        output_tokens=tuple(rng.integers(0, 90 + seed, requests).tolist()),
    )


def pooled(*traces: RequestTrace) -> LengthProfile:
    rows = sorted(row for t in traces for row in zip(t.arrival_s, t.input_tokens, t.output_tokens, strict=True))
    arrivals, prompts, answers = zip(*rows, strict=True)
    return summarize(RequestTrace(name="pool", arrival_s=arrivals, input_tokens=prompts, output_tokens=answers))


@pytest.mark.parametrize(
    ("first", "second"), [((1, 400, 12), (2, 100, 30)), ((3, 250, 5), (4, 250, 5)), ((5, 9, 4), (6, 900, 40))]
)
def test_a_mixture_is_that_of_all_requests(first: tuple[int, int, int], second: tuple[int, int, int]) -> None:
    traces = [trace_of(seed, requests, 600.0, longest) for seed, requests, longest in (first, second)]
    truth = pooled(*traces)
    mixed = mixed_profile("pool", [(summarize(trace), len(trace.arrival_s) / 600.0) for trace in traces])
    assert mixed.input_tokens == truth.input_tokens
    assert mixed.probabilities == pytest.approx(truth.probabilities)
    assert mixed.output_tokens == pytest.approx(truth.output_tokens)
    assert mixed.mean_output_tokens == pytest.approx(truth.mean_output_tokens)
    assert mixed.mean_input_tokens == pytest.approx(truth.mean_input_tokens)
    assert mixed.max_output_tokens == truth.max_output_tokens
    # of n requests a trace counts the n - 1 gaps
    assert mixed.arrival_rps == pytest.approx((truth.arrival_rps or 0.0) + 1 / 600.0)


def test_a_stream_alone_stays_what_it_is_at_its_rate() -> None:
    profile = summarize(trace_of(7, 300, 60.0, 20))
    mixed = mixed_profile(profile.name, [(profile, 4.0)])
    assert (mixed.input_tokens, mixed.arrival_rps) == (profile.input_tokens, 4.0)
    assert mixed.probabilities == pytest.approx(profile.probabilities)
    assert mixed.output_tokens == pytest.approx(profile.output_tokens)


def test_answers_that_are_known_by_their_mean_alone_are_that_long() -> None:
    plain = LengthProfile(
        name="p", input_tokens=(10, 20), probabilities=(0.5, 0.5), output_tokens=(), mean_output_tokens=8.0,
        max_output_tokens=9,
    )  # fmt: skip
    other = LengthProfile(
        name="q", input_tokens=(20,), probabilities=(1.0,), output_tokens=(2.0,), mean_output_tokens=2.0,
        max_output_tokens=12,
    )  # fmt: skip
    mixed = mixed_profile("m", [(plain, 3.0), (other, 1.0)])
    assert mixed.input_tokens == (10, 20)
    assert mixed.probabilities == pytest.approx((3 / 8, 5 / 8))
    assert mixed.output_tokens == pytest.approx((8.0, (3 / 8 * 8 + 2 / 8 * 2) / (5 / 8)))
    assert (mixed.mean_output_tokens, mixed.max_output_tokens) == (6.5, 12)


def test_independent_streams_bunch_as_their_counts_add_up() -> None:
    """Variances and means of drawn counts, added: none of the formula."""
    rng = np.random.default_rng(0)
    draws = [rng.negative_binomial(2, 0.2, 200_000), rng.poisson(15, 200_000)]
    profiles = []
    for n, counts in enumerate(draws):
        bunched = CountDispersion(windows_s=(1.0,), dispersion=(float(counts.var() / counts.mean()),))
        profile = LengthProfile(
            name=str(n), input_tokens=(10,), probabilities=(1.0,), output_tokens=(), mean_output_tokens=1.0,
            max_output_tokens=1, counts=bunched,
        )  # fmt: skip
        profiles.append((profile, float(counts.mean())))
    total = draws[0] + draws[1]
    mixed = mixed_profile("m", profiles).counts
    assert mixed is not None
    assert mixed.dispersion[0] == pytest.approx(total.var() / total.mean(), rel=0.02)


def test_what_is_not_known_of_one_is_not_known_of_both() -> None:
    streams = [(summarize(trace_of(seed, 300, 60.0, 20)), 1.0) for seed in (7, 8)]
    assert mixed_profile("m", streams).counts is not None
    bare = replace(streams[1][0], counts=None)
    assert mixed_profile("m", [streams[0], (bare, 1.0)]).counts is None
