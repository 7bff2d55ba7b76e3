"""Lengths of most entropy within classes: shares and mean kept, against the shape that theory says, and real traces."""

import math
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.domain import LengthProfile
from planner.errors import InputError
from planner.files import load_workload
from planner.workload.histograms import mean_bounds, tilted_lengths
from planner.workload.tallies import length_facts

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from engine_expositions import EDGES

EDGES_SMALL = (0, 4, 10, 30)


def in_classes(lengths: tuple[int, ...], masses: tuple[float, ...], edges: tuple[int, ...]) -> list[float]:
    pairs = list(zip(lengths, masses, strict=True))
    return [math.fsum(mass for length, mass in pairs if low < length <= high) for low, high in pairwise(edges)]


@given(
    weights=st.lists(st.floats(0.01, 1), min_size=3, max_size=3),
    place=st.floats(0.02, 0.98),
)
def test_shares_and_mean_are_kept_and_the_tilt_is_one(weights: list[float], place: float) -> None:
    shares = [weight / sum(weights) for weight in weights]
    low, high = mean_bounds(EDGES_SMALL, shares)
    mean = low + place * (high - low)
    lengths, masses = tilted_lengths(EDGES_SMALL, shares, mean, "test")
    assert in_classes(lengths, masses, EDGES_SMALL) == pytest.approx(shares)
    assert math.fsum(x * p for x, p in zip(lengths, masses, strict=True)) == pytest.approx(mean)
    # geometric in each class with one ratio in all: what Lagrange's condition for the greatest entropy says
    logs = dict(zip(lengths, np.log(masses), strict=True))
    slopes = [logs[x + 1] - logs[x] for low, high in pairwise(EDGES_SMALL) for x in range(low + 1, high)]
    assert slopes == pytest.approx([slopes[0]] * len(slopes), abs=1e-6)


def test_a_mean_in_the_middle_of_every_class_is_uniform() -> None:
    lengths, masses = tilted_lengths((0, 10, 20), (0.5, 0.5), 10.5, "test")
    assert lengths == tuple(range(1, 21))
    assert masses == pytest.approx([0.05] * 20)


def test_wide_classes_are_cut_into_few_lengths_that_keep_the_mean() -> None:
    lengths, masses = tilted_lengths((0, 50_000, 100_000), (0.3, 0.7), 61_000.0, "test")
    assert len(lengths) <= 256
    assert in_classes(lengths, masses, (0, 50_000, 100_000)) == pytest.approx([0.3, 0.7])
    assert math.fsum(x * p for x, p in zip(lengths, masses, strict=True)) == pytest.approx(61_000)


@pytest.mark.parametrize("mean", [0.5, 8.0])
def test_a_mean_that_no_lengths_have_is_refused(mean: float) -> None:
    with pytest.raises(InputError, match=r"prompts: the mean.*must lie in 3 to 7"):
        tilted_lengths((0, 4, 10), (0.5, 0.5), mean, "prompts")


def rebuilt(profile: LengthProfile, engine: str) -> dict[int, float]:
    """From the engine's own classes and the mean."""
    edges = (0, *EDGES[engine])
    known = list(zip(profile.input_tokens, profile.probabilities, strict=True))
    below = [0.0, *(math.fsum(p for x, p in known if x <= high) for high in edges[1:])]
    if below[-1] < 1 - 1e-9:
        edges, below = (*edges, 131_072), [*below, 1.0]
    shares = [after - before for before, after in pairwise(below)]
    lengths, masses = tilted_lengths(edges, shares, profile.mean_input_tokens, "prompts")
    return dict(zip(lengths, masses, strict=True))


# the greatest of the relative errors of P50, P90 and P99, as measured
@pytest.mark.parametrize(
    ("name", "engine", "error"),
    [
        ("azure-conv-2023", "vllm", 0.13),  # P90: a third of its prompts lie at the lower end of vLLM's 1,000 to 2,000
        ("azure-conv-2023", "sglang", 0.12),
        ("azure-code-2023", "vllm", 0.13),
        ("azure-code-2023", "sglang", 0.05),
        ("mooncake-conversation", "vllm", 0.15),
        ("mooncake-conversation", "sglang", 0.03),
        ("ragpulse-week", "vllm", 0.20),
        ("ragpulse-week", "sglang", 0.01),
        ("normal-500-2000", "vllm", 0.09),
        ("normal-500-2000", "sglang", 0.02),
    ],
)
def test_quantiles_of_traces_come_back_within_what_was_measured(name: str, engine: str, error: float) -> None:
    profile = load_workload(name)
    assert isinstance(profile, LengthProfile)
    truth = length_facts(dict(zip(profile.input_tokens, profile.probabilities, strict=True)))
    facts = length_facts(rebuilt(profile, engine))
    assert facts.mean == pytest.approx(truth.mean, rel=1e-6)
    errors = [abs(getattr(facts, key) / getattr(truth, key) - 1) for key in ("p50", "p90", "p99")]
    assert 0.5 * error < max(errors) <= error
