"""`planner sweep`: its points are the plans made one by one, each once, whatever happens on the way."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import Command, untimed

from planner.files.plan.digests import sealed

SMALL = """\
name: small
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 16}
prices_usd_per_gpu_hour: {H200: 4, H20: 1}
ranges: {width: 4096}
serving: split
"""
RUNS = "[!.]*/plan.json"  # those that are still being written have names that begin with a dot
GRID = ("--set", "inventory.H20=null,16", "--set", "slo.tpot_ms=40,80")


@pytest.fixture(autouse=True)
def _small(here: Path) -> None:
    Path("small.yaml").write_text(SMALL)


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of jobs that are executed, in this process."""
    from planner.runs.batches import local
    from planner.runs.batches.jobs import Job, Outcome

    folders: list[Path] = []
    serial = local.SerialExecutor()

    def run(_self: object, jobs: list[Job], /) -> "list[Outcome]":
        folders.extend(job.folder for job in jobs)
        return serial.run(jobs)  # type: ignore[return-value]  # a generator of them

    monkeypatch.setattr(local.LocalExecutor, "run", run)
    return folders


def rows_of(folder: Path) -> list[dict[str, str]]:
    """The rows of sweep.csv."""
    return list(csv.DictReader((folder / "sweep.csv").read_text().splitlines()))


def test_points_are_the_plans_made_one_by_one(planner: Command, executed: list[Path]) -> None:
    """And the page and the table hold their numbers."""
    answer = planner("sweep", "small.yaml", *GRID, "--out", "grid", "--quiet")
    assert (answer.status, answer.err) == (0, "")
    rows = rows_of(Path("grid"))
    grid = [(row["inventory.H20"], row["slo.tpot_ms"]) for row in rows]
    assert grid == [("null", "40"), ("null", "80"), ("16", "40"), ("16", "80")]
    assert len(executed) == 4
    for row in rows[1:3]:
        words = [f"inventory.H20={row['inventory.H20']}", f"slo.tpot_ms={row['slo.tpot_ms']}"]
        options = [part for word in words for part in ("--set", word)]
        assert planner("plan", "small.yaml", *options, "--out", row["run"], "--quiet").status == 0
        assert untimed(Path("grid/points") / row["run"]) == untimed(Path(row["run"]))
        plan = json.loads((Path(row["run"]) / "plan.json").read_text())
        assert float(row["rate_rps"]) == pytest.approx(plan["throughput_rps"])
    page, table = Path("grid/report.html").read_text(), Path("grid/sweep.md").read_text()
    assert all(f"{float(row['rate_rps']):.4g}" in text for row in rows for text in (page, table))
    assert '"heatmap"' in page
    assert planner("report", "grid", "--out", "copy").status == 0
    for name in ("sweep.md", "sweep.csv", "report.html"):
        assert Path("copy", name).read_bytes() == Path("grid", name).read_bytes()


def test_a_scenario_with_the_key_written_into_it_gives_the_same_plan(planner: Command) -> None:
    Path("by-hand.yaml").write_text(SMALL.replace("{H200: 16}", "{H200: 16, H20: 16}"))
    assert planner("plan", "by-hand.yaml", "--out", "by-hand", "--quiet").status == 0
    assert planner("plan", "small.yaml", "--set", "inventory.H20=16", "--out", "set", "--quiet").status == 0
    plans = [json.loads((Path(run) / "plan.json").read_text()) for run in ("by-hand", "set")]
    for plan in plans:
        del plan["provenance"]["inputs_sha256"], plan["digests"], plan["search"]
    assert plans[0] == plans[1]


def test_equal_points_are_planned_once_and_resumed_not_at_all(planner: Command, executed: list[Path]) -> None:
    line = ("sweep", "small.yaml", "--set", "inventory.H200=8..16:8", "--set", "slo.tpot_ms=60,60.0", "--out", "grid")
    assert planner(*line).status == 0
    assert len(executed) == 2
    rows = rows_of(Path("grid"))
    assert [row["run"] for row in rows[::2]] == [row["run"] for row in rows[1::2]]
    before = {path: path.stat().st_mtime_ns for path in Path("grid/points").rglob("*")}
    again = planner(*line, "--resume", "--json")
    assert (again.status, len(executed)) == (0, 2)
    assert {path: path.stat().st_mtime_ns for path in Path("grid/points").rglob("*")} == before
    assert [point["state"] for point in again.json["points"]] == [row["state"] for row in rows]


def test_only_what_is_missing_or_changed_is_planned(planner: Command, executed: list[Path]) -> None:
    assert planner("sweep", "small.yaml", "--set", "slo.tpot_ms=60,80", "--out", "grid").status == 0
    assert planner("sweep", "small.yaml", "--set", "slo.tpot_ms=60..100:20", "--out", "grid", "--resume").status == 0
    assert [path.name.partition("-")[0] for path in executed] == ["60", "80", "100"]
    Path("small.yaml").write_text(f"# the same\n{SMALL}")
    assert planner("sweep", "small.yaml", "--set", "slo.tpot_ms=60,80", "--out", "grid", "--resume").status == 0
    assert len(executed) == 3
    Path("small.yaml").write_text(SMALL.replace("H200: 4", "H200: 5"))
    assert planner("sweep", "small.yaml", "--set", "slo.tpot_ms=60", "--out", "grid", "--resume").status == 0
    assert len(executed) == 4


def test_where_nothing_serves_is_a_row_and_no_failure(planner: Command, executed: list[Path]) -> None:
    line = ("sweep", "small.yaml", "--set", "slo.tpot_ms=1,80", "--out", "grid")
    answer = planner(*line)
    assert answer.status == 0
    assert [row["state"] for row in rows_of(Path("grid"))] == ["infeasible", "planned"]
    assert "slo.tpot\\_ms 1: infeasible: scenario small" in answer.out
    assert "service levels" in rows_of(Path("grid"))[0]["message"]
    assert planner(*line, "--resume").status == 0
    assert len(executed) == 2  # that nothing serves is known
    assert planner("sweep", "small.yaml", "--set", "slo.tpot_ms=1", "--out", "none").status == 3


def test_points_of_other_work_are_not_called_better(planner: Command, executed: list[Path]) -> None:
    line = ("sweep", "small.yaml", "--set", "workload=normal-500-2000,azure-conv-2023", "--out", "grid")
    answer = planner(*line)
    assert answer.status == 0
    assert answer.out.count("Most requests/s") == 2
    for row in rows_of(Path("grid")):
        assert f"**Most requests/s: {float(row['rate_rps']):.4g}** at workload {row['workload']};" in answer.out


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--set", "inventory.H2O=8"], ["inventory.H2O is not a known GPU type", "Did you mean H20"]),
        (["--set", "slo.tpt_ms=8"], ["slo.tpt_ms is not a known key", "tpot_ms"]),
        (["--set", "slo.tpot_ms=fast"], ["slo.tpot_ms must be a number"]),
        (["--set", "model.layers=3"], ["no mapping"]),
        (["--set", "slo.tpot_ms=1..100:1", "--set", "slo.ttft_ms=1000..1999:1"], ["at most 10,000 points"]),
        (["--set", "slo.tpot_ms=8", "--set", "slo.tpot_ms=9"], ["set twice"]),
        (["--set", "slo.tpot_ms=8", "--resume"], ["holds no sweep"]),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_planned(
    planner: Command, executed: list[Path], options: list[str], parts: list[str]
) -> None:
    answer = planner("sweep", "small.yaml", *options, "--out", "grid")
    assert (answer.status, answer.out, executed) == (2, "", [])
    assert all(part in answer.err for part in parts)
    assert not Path("grid/points").exists()


def test_a_folder_with_something_in_it_is_left_alone(planner: Command, executed: list[Path]) -> None:
    Path("grid").mkdir()
    Path("grid/mine.txt").write_text("mine")
    answer = planner("sweep", "small.yaml", "--set", "slo.tpot_ms=60", "--out", "grid")
    assert (answer.status, "must be a new folder" in answer.err, executed) == (2, True, [])
    assert [path.name for path in Path("grid").iterdir()] == ["mine.txt"]


def test_an_index_that_leads_elsewhere_is_refused(planner: Command, executed: list[Path]) -> None:
    assert planner("sweep", "small.yaml", "--set", "slo.tpot_ms=60", "--out", "grid").status == 0
    index = Path("grid/sweep.json")
    moved = index.read_text().replace('"name": "', '"name": "../')
    index.write_text(json.dumps(sealed(json.loads(moved))))
    answer = planner("report", "grid")
    assert (answer.status, "points.0.name: must be the name of a folder" in answer.err) == (2, True)


def test_killed_on_the_way_it_loses_nothing_and_repeats_nothing(planner: Command) -> None:
    """A real process, killed with its worker once a point is there."""
    line = ["sweep", "small.yaml", "--set", "slo.tpot_ms=50..70:10", "--out", "grid", "--processes", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "planner", *line], stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not list(Path("grid/points").glob(RUNS)) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    written = {path: path.read_bytes() for path in Path("grid/points").glob(RUNS)}
    assert 1 <= len(written) < 3
    assert not Path("grid/sweep.csv").exists()
    answer = planner(*line, "--resume")
    assert answer.status == 0
    assert len(answer.err.splitlines()) == 3 - len(written)  # a line a point that was planned
    assert {path: path.read_bytes() for path in written} == written
    assert [row["state"] for row in rows_of(Path("grid"))] == ["planned"] * 3


def test_interrupted_it_resumes_with_the_seed_and_engine_that_it_was_begun_with(
    planner: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others would be other points."""
    from planner.runs.batches import local

    def interrupt(_job: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "outcome_of", interrupt)
    options = ("--executor", "serial", "--processes", "2", "--seed", "7", "--engine", "sglang")
    answer = planner("sweep", "small.yaml", "--set", "slo.tpot_ms=40", "--out", "grid", "--quiet", *options)
    assert answer.status == 130
    way = f"planner sweep small.yaml --set slo.tpot_ms=40 {' '.join(options)} --out grid --resume"
    assert f"Interrupted; resume with: {way}" in answer.err
