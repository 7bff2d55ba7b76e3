"""Frames: columns as the records' fields, rows as the plan's, sums that add up."""

import io
from dataclasses import replace

import pandas as pd
import pytest

from planner.domain import SearchRecord
from planner.report import islands_frame, routing_frame, trials_frame


def test_islands(plan):
    frame = islands_frame(plan)
    assert list(frame.columns) == [
        *("id", "gpu", "size", "phase", "tp", "dp", "pp", "replicas", "batch_size", "longest_prompt"),
        *("rate_rps", "utilisation", "price_usd_per_hour", "note", "band_low", "band_high"),
    ]
    assert frame.shape == (12, 16)
    assert frame["size"].sum() == 252
    assert frame["price_usd_per_hour"].sum() == 64 * 4 + 62 * 2 + 126
    assert frame.groupby("phase")["rate_rps"].sum().to_dict() == pytest.approx({"prefill": 180, "decode": 180})
    busy = frame.dropna(subset=["phase"])
    assert (busy["tp"] * busy["dp"] * busy["pp"] * busy["replicas"] == busy["size"]).all()


def test_an_idle_island_has_no_phase_and_no_parallelism(plan):
    idle = islands_frame(plan).iloc[-1]
    assert idle[["phase", "tp", "dp", "pp", "replicas"]].isna().all()
    assert idle["note"].startswith("671 GB")


def test_routing(plan):
    frame = routing_frame(plan)
    assert list(frame.columns) == [
        *("phase", "range_start", "range_end", "probability", "island", "share"),
        *("rate_rps", "assigned_rps", "capacity_rps", "batch_size", "step_ms"),
    ]
    assert len(frame) == len(plan.routing)
    by_cell = frame.groupby(["phase", "range_start"])["share"].sum()
    assert len(by_cell) == 50
    assert by_cell.to_numpy() == pytest.approx(1.0)
    assert frame.groupby("phase")["rate_rps"].sum().to_dict() == pytest.approx({"prefill": 180, "decode": 180})


def test_routing_survives_a_csv(plan):
    frame = routing_frame(plan)
    again = pd.read_csv(io.StringIO(frame.to_csv(index=False)))
    pd.testing.assert_frame_equal(again, pd.DataFrame(frame), check_dtype=False, check_exact=True)


def test_trials(plan):
    frame = trials_frame(plan)
    assert list(frame.columns) == [
        *("index", "iteration", "parameter_islands_H200", "parameter_skew_H200"),
        *("layout", "throughput_rps", "generator", "error"),
    ]
    assert len(frame) == 48
    assert frame["layout"].unique().tolist() == ["H200 16x4"]
    assert frame["throughput_rps"].max() == 180.0
    assert frame.loc[frame["throughput_rps"] == 0, "index"].tolist() == [3, 20]


def test_trials_may_have_different_parameters(plan):
    first, second = plan.search.trials[:2]
    trials = (first, replace(second, parameters=(("slot_0", 4.0),)))
    frame = trials_frame(replace(plan, search=SearchRecord(trials=trials, best_trial=0)))
    assert frame["parameter_slot_0"].isna().tolist() == [True, False]
    assert frame["parameter_skew_H200"].isna().tolist() == [False, True]


def test_empty_tables_keep_their_columns(plan):
    empty = replace(plan, routing=(), islands=(), search=SearchRecord(trials=(), best_trial=0))
    for make in (islands_frame, routing_frame):
        assert list(make(empty).columns) == list(make(plan).columns)
        assert make(empty).empty
    assert "throughput_rps" in trials_frame(empty).columns
