"""Workloads at hand: shipped ones, files and data frames."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from reference_data import reference_path

import planner
from planner.api.workloads import Workload
from planner.domain import LengthProfile
from planner.errors import InputError
from planner.files import read_trace
from planner.workload import summarize

QUESTION: dict[str, Any] = {
    "inventory": {"H200": 32},
    "model": "deepseek-v3",
    "ranges": {"width": 2048},
    "search": {"method": "random", "iterations": 2, "batch_size": 2, "min_island_size": 12},
    "seed": 0,
}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.read_csv(reference_path("azure_llm_2023/code.csv"), nrows=600)


@pytest.fixture(scope="module")
def from_file(tmp_path_factory: pytest.TempPathFactory, frame: pd.DataFrame) -> Workload:
    path = tmp_path_factory.mktemp("traces") / "trace.csv"
    frame.to_csv(path, index=False)
    return planner.workload(path)


def variants(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    times = pd.to_datetime(frame["TIMESTAMP"])
    return {
        "texts": frame,
        "times": frame.assign(TIMESTAMP=times),
        "zones": frame.assign(TIMESTAMP=times.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")),
        "index": frame.assign(TIMESTAMP=times).set_index("TIMESTAMP"),
        "unnamed index": frame.drop(columns="TIMESTAMP").set_index(pd.DatetimeIndex(times.to_numpy())),
        "floats": frame.assign(TIMESTAMP=times, ContextTokens=frame["ContextTokens"].astype(float)),
        "turned": frame.iloc[::-1],
    }


VARIANTS = ("texts", "times", "zones", "index", "unnamed index", "floats", "turned")


@pytest.mark.parametrize("name", VARIANTS)
def test_a_frame_is_the_trace_of_its_rows(name: str, frame: pd.DataFrame, from_file: Workload) -> None:
    assert planner.workload(variants(frame)[name]).record == from_file.record


def test_durations_and_epochs(frame: pd.DataFrame, from_file: Workload) -> None:
    times = pd.to_datetime(frame["TIMESTAMP"])
    since = planner.workload(frame.assign(TIMESTAMP=times - times.min()))
    epoch = planner.workload(frame.assign(TIMESTAMP=times.astype("datetime64[us]").astype("int64")))
    for workload in (since, epoch):
        assert list(workload.requests["arrival_s"]) == pytest.approx(list(from_file.requests["arrival_s"]), abs=1e-6)


def test_what_is_at_hand(from_file: Workload) -> None:
    assert repr(from_file).startswith("<workload trace: 600 requests, ")
    assert from_file.frame["share"].sum() == pytest.approx(1)
    assert list(from_file.requests.columns) == ["arrival_s", "input_tokens", "output_tokens"]
    assert "| mean rate |" in from_file.summary()
    assert 500 < len(from_file._repr_html_()) < 20_000
    assert len(from_file.figure().axes) == 3
    assert from_file.profile == summarize(read_trace(Path(str(from_file.document["file"]))))  # type: ignore[index]


def test_shipped_names_files_and_documents(tmp_path: Path, from_file: Workload) -> None:
    shipped = planner.workload("ragpulse-week")
    assert (shipped.document, shipped.facts.requests) == ("ragpulse-week", 7106)
    with pytest.raises(InputError, match="must be a trace to have requests"):
        _ = shipped.requests
    saved = from_file.save(tmp_path / "mine.yaml")
    assert planner.workload(saved).record == from_file.profile
    document = {"kind": "normal", "name": "n", "mean": 500, "standard_deviation": 1, "low": 1, "high": 999,
                "mean_output_tokens": 9, "max_output_tokens": 9}  # fmt: skip
    assert isinstance(planner.workload(document).record, LengthProfile)
    assert planner.workload(from_file) is from_file


def test_choices_reach_the_scenario(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "logs.csv"
    frame.assign(model=["a", "b"] * 300).to_csv(path, index=False)
    chosen = planner.workload(path, where={"model": ["a"]}, drop=["unanswered"], last="5m", name="mine")
    assert chosen.document == {
        "kind": "trace", "name": "mine", "file": str(path), "where": {"model": ["a"]}, "drop": ["unanswered"],
        "last": "5m",
    }  # fmt: skip
    assert planner.workload(chosen.document).record == chosen.record  # type: ignore[arg-type]


def test_frames_are_planned_for_and_replayed(frame: pd.DataFrame, from_file: Workload) -> None:
    plan = planner.plan(**QUESTION, workload=frame)
    assert plan.throughput_rps == planner.plan(**QUESTION, workload=from_file).throughput_rps
    replay = plan.replay(planner.workload(frame), arrivals="trace", rate="0.5x", requests=40, seeds=1)
    assert replay.record.rate_rps == pytest.approx(0.5 * plan.throughput_rps)


BROKEN = {
    "empty": (pd.DataFrame({"timestamp": [], "input_tokens": [], "output_tokens": []}), "it is empty"),
    "twice": (pd.DataFrame([[1, 2, 3]], columns=["ts", "input_tokens", "input_tokens"]), "'input_tokens' twice"),
    "missing": (
        pd.DataFrame({"ts": [pd.Timestamp("2026-01-01"), pd.NaT], "input_tokens": [1, 2], "output_tokens": [1, 2]}),
        "row 2, column ts must be a time",
    ),
    "gaps": (
        pd.DataFrame({"ts": [1.7e9, 1.7e9 + 1], "input_tokens": [1, None], "output_tokens": [1, 2]}),
        "row 2, column input_tokens must be a whole number",
    ),
    "no columns": (pd.DataFrame({"a": [1]}), "the data frame: must have one column of arrival_s; none does"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_frames_that_are_no_trace_are_refused(name: str) -> None:
    frame, words = BROKEN[name]
    with pytest.raises(InputError) as refusal:
        planner.workload(frame)
    assert words in str(refusal.value)


def test_choices_of_a_workload_file_are_refused() -> None:
    with pytest.raises(InputError, match="is a workload file"):
        planner.workload("azure-code-2023", last="1h")
