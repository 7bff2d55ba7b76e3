"""Comparisons, sweeps and explanations from Python: the same figures as the command line's files."""

import csv
from pathlib import Path

import pytest

import planner
from planner.errors import InputError

SMALL = """\
name: small
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 16}
ranges: {width: 4096}
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> "planner.api.comparisons.SweptScenario":
    """Two points of a small scenario, in this process."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "small.yaml").write_text(SMALL)
    return planner.sweep(folder / "small.yaml", {"inventory.H200": range(16, 25, 8)}, folder / "grid")


def test_a_sweep_is_a_frame_and_a_page(swept) -> None:
    rows = list(csv.DictReader((swept.folder / "sweep.csv").read_text().splitlines()))
    assert list(swept.frame["rate_rps"]) == pytest.approx([float(row["rate_rps"]) for row in rows])
    assert swept.page() == (swept.folder / "report.html").read_text()
    assert swept.summary() == (swept.folder / "sweep.md").read_text()
    assert "2 points" in repr(swept)


def test_plans_at_hand_and_on_the_disk_are_compared(swept) -> None:
    runs = [swept.folder / "points" / name for name in swept.frame["run"]]
    small, large = (planner.load_plan(run) for run in runs)
    compared = planner.compare(small, large, runs[0])
    names = [plan.figures.name for plan in compared.record.plans]
    assert names == ["small", "small (2)", runs[0].name]
    assert list(compared.frame["rate_rps"]) == [small.throughput_rps, large.throughput_rps, small.throughput_rps]
    assert compared.frame["better_than_first"][1] == large.probability_better(small)
    assert compared.page().startswith("<!doctype html>")
    assert "inventory.H200" in compared.summary()


def test_what_explains_a_plan_takes_it_as_it_comes(swept) -> None:
    run = swept.folder / "points" / swept.frame["run"][1]
    plan = planner.load_plan(run)
    assert planner.explain(run).record == planner.explain(plan).record == planner.explain(plan.record).record
    pool = planner.explain(plan, plan.pools["island"][0], seconds=0)
    assert pool.record.island in pool.summary()
    with pytest.raises(InputError, match="must have a pool 'nobody'"):
        planner.explain(plan, "nobody")


def test_nothing_to_compare_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one plan"):
        planner.compare()
    with pytest.raises(InputError, match="no such file"):
        planner.compare(tmp_path / "nowhere")
    (tmp_path / "small.yaml").write_text(SMALL)
    with pytest.raises(InputError, match="must be given, a key and its values"):
        planner.sweep(tmp_path / "small.yaml", {}, tmp_path / "grid")
    with pytest.raises(InputError, match="each value once"):
        planner.sweep(tmp_path / "small.yaml", {"slo.tpot_ms": [60, 60]}, tmp_path / "grid")
