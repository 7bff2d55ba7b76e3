"""`planner batch`: every job is the plan made alone, each once, whatever happens on the way."""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import Command, untimed
from small_batches import BARE, JOBS, SMALL, rows_of, runs_of, write_jobs

from planner.errors import InputError
from planner.files.plan.batches import indexes, locks
from planner.runs.batches.jobs import Job, Outcome
from planner.runs.batches.running import failure, outcome_of


@pytest.fixture(autouse=True)
def _small(here: Path) -> None:
    write_jobs()


def test_jobs_are_the_plans_made_alone_and_equal_ones_are_made_once(planner: Command, executed: list[str]) -> None:
    answer = planner("batch", "jobs.yaml", "--out", "out", "--executor", "serial", "--quiet")
    assert (answer.status, answer.err) == (3, "")  # one is infeasible, none failed
    rows = {row["job"]: row for row in rows_of("out")}
    assert list(rows) == ["level-40", "level-80", "same", "none"]
    assert [row["state"] for row in rows.values()] == ["planned", "planned", "planned", "infeasible"]
    assert executed == ["level-40", "level-80", "none"]
    assert (rows["same"]["run"], rows["same"]["same_as"]) == (rows["level-80"]["run"], "level-80")
    assert "4 jobs: 3 planned, 1 infeasible; 1 job asked what another had asked" in answer.out
    assert planner("plan", "small.yaml", "--set", "slo.tpot_ms=40", "--out", "alone", "--quiet").status == 0
    assert untimed(runs_of("out")["level-40"]) == untimed(Path("alone"))
    plan = json.loads(Path("alone/plan.json").read_text())
    assert float(rows["level-40"]["rate_rps"]) == pytest.approx(plan["throughput_rps"])
    assert "H200" in rows["none"]["message"]


def test_a_folder_of_scenarios_is_a_job_each_and_settings_stand_above(planner: Command) -> None:
    Path("fleet").mkdir()
    for name in ("a.yaml", "b.yaml"):
        shutil.copy("small.yaml", Path("fleet", name))
    answer = planner("batch", "fleet", "--set", "inventory.H200=24", "--out", "out", *BARE, "--json")
    assert answer.status == 0
    assert [(job["name"], job["same_as"], job["settings"]) for job in answer.json["jobs"]] == [
        ("a", "", ["inventory.H200=24"]),
        ("b", "a", ["inventory.H200=24"]),
    ]
    shutil.copy("small.yaml", "fleet/a.yml")
    Path("fleet/a.yml").write_text(SMALL.replace("4096", "2048"))
    answer = planner("batch", "fleet", "--out", "other", *BARE)
    assert answer.status == 2
    assert "two different jobs are called a: fleet/a.yaml and fleet/a.yml" in answer.err


def test_resumed_it_plans_only_what_is_missing_or_changed(planner: Command, executed: list[str]) -> None:
    line = ("batch", "jobs.yaml", "--out", "out", *BARE, "--json")
    first = planner(*line)
    summary = Path("out/summary.json").read_bytes()
    executed.clear()
    again = planner(*line, "--resume")
    assert (again.json, executed) == (first.json, [])
    assert Path("out/summary.json").read_bytes() == summary
    Path("jobs.yaml").write_text(JOBS.replace("[40, 80]", "[80, 60, 40]"))
    assert planner(*line, "--resume").status == 3
    assert executed == ["level-60"]
    Path("small.yaml").write_text(SMALL.replace("H200: 4", "H200: 5"))
    executed.clear()
    assert planner(*line, "--resume").status == 3
    assert len(executed) == 4
    assert planner(*line).status == 2  # without --resume a folder with something in it is left alone


def test_an_unfinished_search_goes_on_where_it_was(planner: Command, executed: list[str]) -> None:
    searched = "search: {method: random, iterations: 3, batch_size: 2, min_island_size: 8}\nrouting: {form: table}\n"
    Path("small.yaml").write_text(SMALL + searched)
    Path("jobs.yaml").write_text("jobs: [{name: s, scenario: small.yaml, seeds: [3]}]")
    line = ("batch", "jobs.yaml", "--out", "out", *BARE)
    assert planner(*line).status == 0
    run = runs_of("out")["s"]
    complete = untimed(run)
    begun = run.with_name("begun")
    job = Job(scenario=Path("small.yaml"), folder=begun, seed=3, content="", figures=False)
    _cut_short(job)
    shutil.rmtree(run)
    begun.rename(run)
    assert planner(*line, "--resume").status == 0
    assert {name: content for name, content in untimed(run).items() if "/" not in name} == {
        name: content for name, content in complete.items() if "/" not in name
    }
    assert not list(Path("out").glob("quarantine/*"))


def _cut_short(job: Job) -> None:
    """A search that was killed after its first round."""

    class Killed(BaseException):
        pass

    from planner.runs.batches.running import run_job

    def tell(evaluated: int, total: int, best: float) -> None:
        raise Killed

    with pytest.raises(Killed):
        run_job(job, tell)


def _edit(run: Path) -> str:
    path = run / "plan.json"
    plan = path.read_text()
    rate = json.loads(plan)["throughput_rps"]
    path.write_text(plan.replace(f"{rate}", f"{rate * 2}"))
    return "throughput_rps"


def _halve(run: Path) -> str:
    (run / "plan.json").unlink()
    return "lacks plan.json"


def _thin(run: Path) -> str:
    shutil.rmtree(run / "manifests")
    return "lacks manifests"


def _swap(run: Path) -> str:
    other = next(path for path in run.parent.iterdir() if path.is_dir() and path != run)
    shutil.copy(other / "plan.json", run / "plan.json")
    return "that of another scenario"


def _truncate(run: Path) -> str:
    (run / "plan.json").write_bytes((run / "plan.json").read_bytes()[:500])
    return "plan.json"


def _damage_journal(run: Path) -> str:
    shutil.rmtree(run)
    (run / "search").mkdir(parents=True)
    (run / "search/journal.jsonl").write_text("{}\n")
    return "journal.jsonl"


@pytest.mark.parametrize("damage", [_edit, _halve, _thin, _swap, _truncate, _damage_journal])
def test_a_run_that_is_no_good_is_moved_aside_and_made_again(
    planner: Command, executed: list[str], resuming: str, damage
) -> None:
    run = runs_of("out")["level-40"]
    plan = untimed(run)
    reason = damage(run)
    assert planner("report", "out").status == 0
    assert run.exists()  # who only looks changes nothing
    answer = planner(*resuming.split())
    assert (answer.status, executed) == (3, ["level-40"])
    aside = Path("out/quarantine", f"{run.name}-1")
    assert aside.is_dir()
    assert reason in aside.with_name(f"{aside.name}.reason.txt").read_text()
    assert f"{run.name}: moved to out/quarantine and done again" in answer.err
    assert untimed(run) == plan
    assert json.loads(Path("out/times.json").read_text())["quarantined"][0]["run"] == run.name
    compared = planner("compare", "out", "--json")
    assert len(compared.json["plans"]) == 2  # and none of the quarantine


def test_notes_that_nobody_can_read_cost_nothing_but_a_look(
    planner: Command, executed: list[str], resuming: str
) -> None:
    for note in Path("out/runs").glob("level-*.note.json"):
        note.write_text("{")
    assert planner(*resuming.split()).status == 3
    assert executed == []
    assert not Path("out/quarantine").exists()


class Dying:
    """Workers that die at their first `times` tries of a job called by `name`; else a serial executor."""

    def __init__(self, name: str, times: int) -> None:
        self.name, self.left = name, times

    def run(self, jobs: Sequence[Job], /):
        """Outcomes."""
        for job in jobs:
            if job.folder.name.startswith(self.name) and self.left:
                self.left -= 1
                yield failure(job, 1, "its process ended without an answer (exit code -9)", worker_died=True)
            else:
                yield outcome_of(job)


@pytest.mark.parametrize(("deaths", "status", "states"), [(1, 0, "planned planned"), (2, 1, "failed planned")])
def test_a_job_whose_worker_died_is_done_once_more(
    planner: Command, monkeypatch: pytest.MonkeyPatch, deaths: int, status: int, states: str
) -> None:
    from planner.runs.batches import choosing

    Path("jobs.yaml").write_text(JOBS.partition("  - {name: same")[0])
    with monkeypatch.context() as patched:
        patched.setattr(choosing, "executor_of", lambda *_, **__: Dying("level-40", deaths))
        answer = planner("batch", "jobs.yaml", "--out", "out", "--no-figures")
    assert answer.status == status
    assert [row["state"] for row in rows_of("out")] == states.split()
    assert "2/2 jobs (local)" in answer.err
    assert ("1 failed" in answer.err) is (deaths == 2)
    if deaths == 2:
        assert "exit code -9" in planner("report", "out").out  # what failed is noted, and done again
        assert planner("batch", "jobs.yaml", "--out", "out", "--resume", *BARE).status == 0


class Refusing:
    """No worker is fit for the jobs."""

    def run(self, _jobs: Sequence[Job], /):
        """None."""
        raise InputError("tcp://10.0.0.5:8786: must have workers, got none.", hint="Start some.")
        yield


@pytest.mark.parametrize("line", ["batch one.yaml --no-figures", "sweep small.yaml --set slo.tpot_ms=40"])
def test_where_nothing_was_begun_the_same_line_begins_later(
    planner: Command, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    from planner.runs.batches import choosing

    Path("one.yaml").write_text("jobs: [{scenario: small.yaml}]")
    with monkeypatch.context() as patched:
        patched.setattr(choosing, "executor_of", lambda *_, **__: Refusing())
        refused = planner(*line.split(), "--out", "out", "--quiet")
    assert (refused.status, "got none" in refused.err) == (2, True)
    assert [path.name for path in Path("out").iterdir()] == [locks.LOCK_FILE]
    assert planner(*line.split(), "--out", "out", "--quiet", "--executor", "serial").status == 0


def test_one_failure_stops_no_other(planner: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from planner.runs.batches import running

    run = running.run_or_resume

    def breaks(job: Job) -> Outcome:
        if "level-40" in job.folder.name:
            raise ZeroDivisionError("of ours")
        return run(job)

    monkeypatch.setattr(running, "run_or_resume", breaks)
    answer = planner("batch", "jobs.yaml", "--out", "out", *BARE, "--json")
    assert answer.status == answer.json["status"] == 1
    assert answer.json["counts"] == {
        "jobs": 4, "distinct": 3, "planned": 2, "infeasible": 1, "failed": 1, "missing": 0,
    }  # fmt: skip
    assert "internal error: ZeroDivisionError" in answer.json["jobs"][0]["message"]


def test_the_summary_says_no_times_and_the_table_is_the_frame(planner: Command) -> None:
    import pyarrow.parquet as pq

    import planner as package

    batch = package.batch("jobs.yaml", "here", figures=False, progress=False)
    assert planner("batch", "jobs.yaml", "--out", "out", *BARE).status == 3
    for name in ("summary.json", "results.csv", "results.parquet", "batch.md", "report.html", "batch.json"):
        assert Path("here", name).read_bytes() == Path("out", name).read_bytes(), name
    assert not re.search(r'"(wall|cpu)_s"', Path("out/summary.json").read_text())
    times = json.loads(Path("out/times.json").read_text())["runs"]
    assert all(took["cpu_s"] > 0 for took in times.values())
    table, rows = pq.read_table("out/results.parquet").to_pylist(), rows_of("out")
    assert [row["job"] for row in table] == [row["job"] for row in rows] == list(batch.frame["job"])
    for typed, text in zip(table, rows, strict=True):
        assert text["rate_rps"] == ("" if typed["rate_rps"] is None else f"{typed['rate_rps']:.10g}")
        assert (typed["seed"], typed["status"]) == (None, int(text["status"]))
    assert batch.summary() == Path("out/batch.md").read_text()
    assert "level-40" in batch.page()
    assert planner("report", "out", "--out", "copy").status == 0
    assert Path("copy/report.html").read_bytes() == Path("out/report.html").read_bytes()


def test_without_the_library_there_is_no_parquet_and_a_line_says_so(
    planner: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "find_spec", lambda _: None)
    Path("jobs.yaml").write_text("jobs: [{scenario: small.yaml}]")
    answer = planner("batch", "jobs.yaml", "--out", "out", *BARE, "--quiet")
    assert answer.status == 0
    assert indexes.INSTALL_PARQUET in answer.err
    assert not Path("out/results.parquet").exists()
    assert [row["job"] for row in rows_of("out")] == ["small"]


@pytest.mark.parametrize(
    ("jobs", "parts"),
    [
        (
            "defaults: {scenario: small.yaml}\njobs:\n  - {name: a, grid: {}}\n  - {name: b, gird: {}}\n"
            "  - {scenario: gone.yaml}\n  - {name: 'a b'}\n",
            ["mistakes", "jobs[1].gird is not a known key", "grid", "gone.yaml: there is no such file", "jobs[3].name"],
        ),
        ("jobs: []", ["jobs must be a list of at least one job"]),
        ("jobs: [{scenario: small.yaml, grid: {slo.tpot_ms: []}}]", ["grid", "must have a value"]),
        ("jobs: [{scenario: small.yaml, grid: {slo.tpot_ms: 1..5}}]", ["a range must have a step"]),
        ("jobs: [{scenario: small.yaml, grid: {slo.tpot_ms: [5, 5]}}]", ["each value once"]),
        ("jobs: [{scenario: small.yaml, grid: {}}]", ["grid must be a mapping of at least one key"]),
        ("jobs: [{scenario: small.yaml, seeds: [-1]}]", ["seeds must be whole numbers of 0 to 4294967295, got -1"]),
        ("jobs: [{scenario: small.yaml, engines: [vlm]}]", ["engines: must be of vllm, sglang, trtllm, got 'vlm'"]),
        ("jobs: [{scenario: small.yaml, traces: [gone.csv]}]", ["gone.csv", "no such file"]),
        ("jobs: [{scenario: no-such}]", ["names no scenario", "shipped scenarios are"]),
        (
            "jobs: [{scenario: small.yaml, grid: {slo.tpt_ms: [1, 2], inventory.H2O: [8]}}]",
            ["slo.tpt_ms is not a known key", "H2O is not a known GPU type"],
        ),
        (
            "jobs:\n  - {name: a, scenario: small.yaml}\n  - {name: a, scenario: small.yaml, set: {slo.tpot_ms: 5}}\n",
            ["two different jobs are called a: jobs[0] and jobs[1]"],
        ),
        ("jobs: [{scenario: small.yaml, set: {inventory.H20.x: 1}}]", ["inventory.H20"]),
    ],
)
def test_what_is_wrong_is_told_at_once_and_nothing_is_planned(planner: Command, jobs: str, parts: list[str]) -> None:
    Path("jobs.yaml").write_text(jobs)
    answer = planner("batch", "jobs.yaml", "--out", "out", *BARE)
    assert (answer.status, answer.out) == (2, "")
    for part in parts:
        assert part in answer.err, answer.err
    assert not Path("out").exists()


def test_a_mistake_of_many_jobs_is_told_once(planner: Command) -> None:
    Path("jobs.yaml").write_text("jobs: [{scenario: small.yaml, set: {slo.tpt_ms: 3}, seeds: 0..9:1}]")
    answer = planner("batch", "jobs.yaml", "--out", "out", *BARE)
    assert (answer.status, answer.err.count("slo.tpt_ms is not a known key")) == (2, 1)
    assert "small-s0 (jobs[0])" in answer.err


def test_interrupted_it_says_how_to_resume_and_loses_nothing(
    planner: Command, monkeypatch: pytest.MonkeyPatch, executed: list[str]
) -> None:
    from planner.runs.batches import local

    run = local.outcome_of

    def until_the_second(job: Job) -> Outcome:
        if "level-80" in job.folder.name:
            raise KeyboardInterrupt
        return run(job)

    with monkeypatch.context() as patched:
        patched.setattr(local, "outcome_of", until_the_second)
        answer = planner("batch", "jobs.yaml", "--set", "simplicity=0.02", "--seed", "0", "--out", "out", *BARE)
    assert answer.status == 130
    way = "planner batch jobs.yaml --set simplicity=0.02 --executor serial --seed 0 --no-figures --out out --resume"
    assert f"Interrupted; resume with: {way}" in answer.err
    assert executed == ["level-40"]
    assert "not planned yet" in planner("report", "out").out
    assert planner(*way.split()[1:]).status == 3
    assert executed == ["level-40", "level-80", "none"]


def test_traces_are_relative_to_the_jobs_file(planner: Command) -> None:
    Path("far").mkdir()
    shutil.move("small.yaml", "far/small.yaml")
    rows = "".join(f"{k * 0.5},{300 + 7 * k},{10 + k % 3}\n" for k in range(40))
    Path("mine.csv").write_text(f"arrival_s,input_tokens,output_tokens\n{rows}")
    Path("jobs.yaml").write_text(
        "jobs: [{scenario: far/small.yaml, traces: [mine.csv, normal-500-2000], inventories: [{H200: 16}, {H200: 24}]}]"
    )
    answer = planner("batch", "jobs.yaml", "--out", "out", *BARE, "--json")
    assert answer.status == 0
    assert [job["name"] for job in answer.json["jobs"]] == [
        "small-mine-H200x16",
        "small-mine-H200x24",
        "small-normal-500-2000-H200x16",
        "small-normal-500-2000-H200x24",
    ]
    assert "workload=./../mine.csv" in answer.json["jobs"][0]["settings"]
