"""Workload files: the shipped ones against the published traces, round trips, refusals."""

import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference_data import reference_path

from planner.domain import LengthProfile, RequestTrace
from planner.files import load_workload, read_trace, shipped_workloads, write_workload
from planner.workload import summarize

Refused = Callable[..., None]
Write = Callable[[str, str], Path]

NORMAL = "name: n\nkind: normal\nmean: 500\nstandard_deviation: 2000\nlow: 0\nhigh: 8000\n"
ANSWERS = "mean_output_tokens: 100\nmax_output_tokens: 1000\n"


def _profile(name_or_path: str) -> LengthProfile:
    found = load_workload(name_or_path)
    assert isinstance(found, LengthProfile)
    return found


@pytest.mark.parametrize(("name", "stem"), [("azure-code-2023", "code"), ("azure-conv-2023", "conv")])
def test_shipped_azure_files_are_the_summarised_traces(name: str, stem: str) -> None:
    shipped = _profile(name)
    made = summarize(read_trace(reference_path(f"azure_llm_2023/{stem}.csv")))
    assert replace(made, name=name, licence=shipped.licence, citation=shipped.citation) == shipped


@pytest.mark.parametrize(
    ("name", "requests", "mean", "longest"),
    [("azure-code-2023", 8819, 27.9, 1899), ("azure-conv-2023", 19366, 211.1, 1000)],
)
def test_azure_figures_are_the_published_ones(name: str, requests: int, mean: float, longest: int) -> None:
    profile = _profile(name)
    assert (profile.requests, profile.max_output_tokens) == (requests, longest)
    assert profile.mean_output_tokens == pytest.approx(mean, abs=0.05)
    assert profile.licence == "CC-BY-4.0"
    assert "Patel" in profile.citation


def test_normal_workload_matches_the_cut_normal_distribution() -> None:
    profile = _profile("normal-500-2000")
    assert profile.input_tokens == tuple(range(8001))
    assert sum(profile.probabilities) == pytest.approx(1, abs=1e-12)
    density = statistics.NormalDist(500, 2000)
    inside = density.cdf(8000.5) - density.cdf(-0.5)
    for length in (0, 500, 2500, 8000):
        cell = density.cdf(length + 0.5) - density.cdf(length - 0.5)
        assert profile.probabilities[length] == pytest.approx(cell / inside, rel=1e-9)
    # mean of a cut normal distribution in closed form
    low, high = (-0.5 - 500) / 2000, (8000.5 - 500) / 2000
    pdf = statistics.NormalDist().pdf
    assert profile.mean_input_tokens == pytest.approx(500 + 2000 * (pdf(low) - pdf(high)) / inside, rel=1e-6)


def test_normal_far_from_its_mean_keeps_its_digits(write: Write) -> None:
    text = "name: tail\nkind: normal\nmean: 0\nstandard_deviation: 100\nlow: 2000\nhigh: 2100\n" + ANSWERS
    profile = _profile(str(write("tail.yaml", text)))
    assert math.fsum(profile.probabilities) == pytest.approx(1, abs=1e-12)
    ratio = profile.probabilities[1] / profile.probabilities[0]
    assert ratio == pytest.approx(math.exp(-(2001**2 - 2000**2) / (2 * 100**2)), rel=1e-3)


def test_the_writer_is_byte_stable_and_reads_back(tmp_path: Path) -> None:
    for name in ("azure-code-2023", "azure-conv-2023", "normal-500-2000"):
        profile = _profile(name)
        for copy in ("a.yaml", "b.yaml"):
            write_workload(profile, tmp_path / copy, force=True, source="a copy")
        assert (tmp_path / "a.yaml").read_bytes() == (tmp_path / "b.yaml").read_bytes()
        assert _profile(str(tmp_path / "a.yaml")) == profile


def test_an_existing_file_is_only_overwritten_by_force(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("mine", encoding="utf-8")
    profile = _profile("azure-code-2023")
    refused(lambda: write_workload(profile, path), str(path), "exists already", hint="force")
    assert path.read_text(encoding="utf-8") == "mine"
    write_workload(profile, path, force=True)
    assert _profile(str(path)) == profile
    assert [p.name for p in tmp_path.iterdir()] == ["w.yaml"]


def test_writing_into_no_folder_or_under_a_bad_name_is_refused(tmp_path: Path, refused: Refused) -> None:
    profile = _profile("azure-code-2023")
    refused(lambda: write_workload(profile, tmp_path / "no" / "w.yaml"), "cannot be written", hint="folder")
    bad = replace(profile, name="a b")
    refused(lambda: write_workload(bad, tmp_path / "w.yaml"), "'a b'", hint="Rename")


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True)
requests = st.lists(
    st.tuples(st.floats(0, 1e6), st.integers(1, 10_000), st.integers(0, 5_000)), min_size=1, max_size=40
)


@given(rows=requests, name=names)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_summary_survives_writing_and_reading(
    tmp_path: Path, rows: list[tuple[float, int, int]], name: str
) -> None:
    rows = [*rows, (0.0, 1, 7)]
    trace = RequestTrace(
        name=name,
        arrival_s=tuple(r[0] for r in rows),
        input_tokens=tuple(r[1] for r in rows),
        output_tokens=tuple(r[2] for r in rows),
    )
    profile = summarize(trace)
    write_workload(profile, tmp_path / "w.yaml", force=True)
    assert _profile(str(tmp_path / "w.yaml")) == profile


def test_a_trace_comes_back_as_requests(write: Write) -> None:
    found = load_workload("t.csv", write("t.csv", "arrival_s,input_tokens,output_tokens\n0,5,1\n").parent)
    assert isinstance(found, RequestTrace)


def test_unknown_names_list_the_shipped(refused: Refused) -> None:
    refused(lambda: load_workload("azure-code"), "azure-code", hint="Did you mean azure-code-2023")
    refused(lambda: load_workload("azure-code"), hint="normal-500-2000")
    assert set(shipped_workloads()) == {
        "agents",
        "azure-code-2023",
        "azure-conv-2023",
        "mooncake-conversation",
        "normal-500-2000",
        "ragpulse-week",
    }


def _lengths(*rows: str, head: str = "input_tokens,probability", more: str = ANSWERS) -> str:
    block = "".join(f"  {row}\n" for row in (head, *rows))
    return f"name: w\nkind: lengths\n{more}lengths: |\n{block}"


def test_probabilities_with_and_without_answers(write: Write) -> None:
    plain = _profile(str(write("w.yaml", _lengths("10,0.25", "20,0.75"))))
    assert (plain.probabilities, plain.output_tokens, plain.requests) == ((0.25, 0.75), (), None)
    head = "input_tokens,probability,output_tokens"
    text = _lengths("10,0.25,4", "20,0.75,8", head=head, more="max_output_tokens: 9\n")
    assert _profile(str(write("w.yaml", text))).mean_output_tokens == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_lengths("10,0.5", "20,0.500002"), ("lengths", "sum to 1", "1.000002")),
        (_lengths("20,0.5", "10,0.5"), ("lengths", "ascend", "10 after 20")),
        (_lengths("10,0.5", "10,0.5"), ("lengths", "ascend", "10 after 10")),
        (_lengths("10,-0.5", "20,1.5"), ("row 1, probability", "'-0.5'")),
        (_lengths("10.5,1"), ("row 1, input_tokens", "whole number", "'10.5'")),
        (_lengths("10,nan"), ("row 1, probability", "'nan'")),
        (_lengths("10"), ("2 cells in row 1", "got 1")),
        (_lengths(), ("at least one row",)),
        (_lengths("10,1", head="tokens,share"), ("begin with input_tokens,requests", "tokens,share")),
        (_lengths("10,0,5", head="input_tokens,requests,output_tokens"), ("at least one request",)),
        (
            _lengths(
                "10,2,5",
                head="input_tokens,requests,output_tokens",
                more="requests: 3\nmax_output_tokens: 9\n",
            ),
            ("requests", "sum of the lengths' requests, 2", "3 (int)"),
        ),
        (
            _lengths("10,2,5", head="input_tokens,requests,output_tokens"),
            ("mean_output_tokens", "mean of the lengths' output_tokens, 5", "100"),
        ),
        (
            _lengths("10,1", more="mean_output_tokens: 100\nmax_output_tokens: 99\n"),
            ("max_output_tokens", "100", "99"),
        ),
        (_lengths("10,1", more="max_output_tokens: 99\n"), ("mean_output_tokens", "it is missing")),
        (_lengths("10,1", more=ANSWERS + "burst: 1\n"), ("burst is not a known key",)),
        (_lengths("10,1", more=ANSWERS + "arrival_rps: 0\n"), ("arrival_rps", "more than 0", "0 (int)")),
        (_lengths("10,1").replace("name: w", "name: a b"), ("name", "letters, digits", "'a b'")),
        ("name: w\nkind: zipf\n", ("kind", "one of lengths, normal", "'zipf'")),
        (NORMAL.replace("8000", "0") + ANSWERS, ("high", "at least 1", "0 (int)")),
        (NORMAL.replace("2000", "0") + ANSWERS, ("standard_deviation", "more than 0")),
        (NORMAL.replace("mean: 500", "mean: .inf") + ANSWERS, ("mean", "finite", "inf")),
        (NORMAL.replace("mean: 500", "mean: yes") + ANSWERS, ("mean", "a number", "True (bool)")),
    ],
)
def test_a_faulty_workload_names_file_key_rule_and_value(
    write: Write, refused: Refused, text: str, words: tuple[str, ...]
) -> None:
    path = write("w.yaml", text)
    refused(lambda: load_workload(str(path)), str(path), *words)


def test_a_normal_without_mass_in_its_bounds_is_refused(write: Write, refused: Refused) -> None:
    text = NORMAL.replace("mean: 500", "mean: -1000000000").replace("2000", "1") + ANSWERS
    refused(lambda: load_workload(str(write("w.yaml", text))), "n:", "standard_deviation 1", hint="low and high")
