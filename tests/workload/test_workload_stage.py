"""Summaries of traces and cutting into ranges."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_data import reference_path

from planner.domain import LengthProfile, RequestTrace
from planner.errors import InputError
from planner.files import load_workload, read_trace
from planner.workload import divide, summarize


def _trace(*rows: tuple[float, int, int]) -> RequestTrace:
    arrival_s, input_tokens, output_tokens = zip(*rows, strict=True)
    return RequestTrace(name="t", arrival_s=arrival_s, input_tokens=input_tokens, output_tokens=output_tokens)


def _profile(masses: dict[int, float]) -> LengthProfile:
    return LengthProfile(
        name="p",
        input_tokens=tuple(sorted(masses)),
        probabilities=tuple(masses[length] for length in sorted(masses)),
        output_tokens=(),
        mean_output_tokens=10.0,
        max_output_tokens=20,
    )


@pytest.mark.parametrize(
    ("stem", "requests", "mean", "longest"), [("code", 8819, 27.9, 1899), ("conv", 19366, 211.1, 1000)]
)
def test_azure_traces_have_the_published_figures(stem: str, requests: int, mean: float, longest: int) -> None:
    profile = summarize(read_trace(reference_path(f"azure_llm_2023/{stem}.csv")))
    assert profile.requests == requests
    assert profile.mean_output_tokens == pytest.approx(mean, abs=0.05)
    assert profile.max_output_tokens == longest


def test_a_summary_by_hand() -> None:
    profile = summarize(_trace((0.0, 100, 4), (1.0, 300, 0), (4.0, 100, 8)))
    assert profile.input_tokens == (100, 300)
    assert profile.probabilities == (2 / 3, 1 / 3)
    assert profile.output_tokens == (6.0, 0.0)
    assert (profile.mean_output_tokens, profile.max_output_tokens, profile.requests) == (4.0, 8, 3)
    assert profile.arrival_rps == 0.5
    # gaps 1 and 3: mean 2, standard deviation 1
    assert profile.burstiness == 0.5


@pytest.mark.parametrize(
    "rows", [((0.0, 5, 1),), ((2.0, 5, 1), (2.0, 6, 1)), ((0.0, 5, 1), (0.0, 6, 1), (5e-324, 7, 1))]
)
def test_without_a_span_of_time_there_is_no_rate(rows: tuple[tuple[float, int, int], ...]) -> None:
    profile = summarize(_trace(*rows))
    assert (profile.arrival_rps, profile.burstiness) == (None, None)


@pytest.mark.parametrize("rows", [(), ((0.0, 5, 0), (1.0, 5, 0))])
def test_a_trace_without_answers_is_refused(rows: tuple[tuple[float, int, int], ...]) -> None:
    trace = RequestTrace(
        name="mine",
        arrival_s=tuple(r[0] for r in rows),
        input_tokens=tuple(r[1] for r in rows),
        output_tokens=tuple(r[2] for r in rows),
    )
    with pytest.raises(InputError, match=r"Trace mine: .* with an answer"):
        summarize(trace)


def test_ranges_by_hand() -> None:
    workload = divide(_profile({0: 0.125, 255: 0.375, 256: 0.25, 1024: 0.25}), 256)
    assert [(r.start, r.end, r.midpoint, r.probability) for r in workload.ranges] == [
        (0, 256, 128, 0.5),
        (256, 512, 384, 0.25),
        (1024, 1280, 1152, 0.25),
    ]
    assert [r.mean_input_tokens for r in workload.ranges] == [255 * 0.75, 256, 1024]
    assert [r.longest_input_tokens for r in workload.ranges] == [255, 256, 1024]
    assert workload.longest_prompt == 1024


@pytest.mark.parametrize(("name", "count"), [("azure-code-2023", 30), ("azure-conv-2023", 32)])
def test_the_azure_profiles_fill_the_ranges_of_the_study(name: str, count: int) -> None:
    profile = load_workload(name)
    assert isinstance(profile, LengthProfile)
    assert len(divide(profile, 256).ranges) == count


@pytest.mark.parametrize("width", [0, -1])
def test_a_width_below_one_is_refused(width: int) -> None:
    with pytest.raises(InputError, match=r"ranges\.width must be at least 1"):
        divide(_profile({1: 1.0}), width)


weights = st.dictionaries(st.integers(0, 50_000), st.integers(1, 1000), min_size=1, max_size=60)


@given(counts=weights, width=st.integers(1, 60_000))
@settings(max_examples=200, deadline=None)
def test_cutting_keeps_the_mass_and_puts_every_length_in_one_range(counts: dict[int, int], width: int) -> None:
    total = sum(counts.values())
    profile = _profile({length: count / total for length, count in counts.items()})
    workload = divide(profile, width)
    assert sum(r.probability for r in workload.ranges) == pytest.approx(1, abs=1e-12)
    for length in profile.input_tokens:
        assert sum(r.start <= length < r.end for r in workload.ranges) == 1
    for part in workload.ranges:
        assert part.start % width == 0
        assert part.end - part.start == width
        assert part.start <= part.midpoint < part.end
        assert part.start <= part.mean_input_tokens <= part.end - 1 + 1e-9
    mean = sum(r.probability * r.mean_input_tokens for r in workload.ranges)
    assert mean == pytest.approx(workload.mean_input_tokens, rel=1e-9, abs=1e-9)


@given(counts=weights, width=st.integers(1, 5_000), factor=st.integers(2, 5))
def test_wider_ranges_are_unions_of_narrow_ones(counts: dict[int, int], width: int, factor: int) -> None:
    total = sum(counts.values())
    profile = _profile({length: count / total for length, count in counts.items()})
    narrow, wide = divide(profile, width), divide(profile, width * factor)
    for part in wide.ranges:
        inside = [r.probability for r in narrow.ranges if part.start <= r.start < part.end]
        assert sum(inside) == pytest.approx(part.probability, rel=1e-9)
