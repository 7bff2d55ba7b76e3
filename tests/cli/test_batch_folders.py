"""What holds a batch up: another at work in its folder, a full disk, pods that have a part each."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from command_line import Command
from small_batches import BARE, JOBS, rows_of, write_jobs

from planner.errors import InputError
from planner.files.plan.batches import locks


@pytest.fixture(autouse=True)
def _small(here: Path) -> None:
    write_jobs()


HOLD = """
import sys, time
from pathlib import Path
from planner.files.plan.batches.locks import alone_in
with alone_in(Path("out")):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_second_batch_is_refused_and_a_killed_ones_lock_is_taken_over(planner: Command, resuming: str) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "locked\n"
    before = {path: path.stat().st_mtime_ns for path in Path("out").rglob("*")}
    refused = planner(*resuming.split())
    assert refused.status == 2
    assert re.search(rf"process {holder.pid} on \S+ since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", refused.err)
    assert planner("sweep", "small.yaml", "--set", "slo.tpot_ms=40", "--out", "out", "--resume").status == 2
    assert {path: path.stat().st_mtime_ns for path in Path("out").rglob("*")} == before
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert str(holder.pid) in Path("out", locks.LOCK_FILE).read_text()  # what it left
    assert planner(*resuming.split()).status == 3
    assert Path("out", locks.LOCK_FILE).read_bytes() == b""


def test_where_the_file_system_has_no_locks_the_file_counts(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import fcntl

    def none(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with locks.alone_in(here), pytest.raises(InputError, match=f"process {os.getpid()} on "):
        locks.require_free(here)
    locks.require_free(here)
    row = {"pid": 2**22 + 1, "host": os.uname().nodename, "since": "x", "began": 1}
    for change, free in (({}, True), ({"pid": os.getpid()}, True), ({"host": "elsewhere"}, False)):
        (here / locks.LOCK_FILE).write_text(json.dumps(row | change))  # of that number, but not that process
        if free:
            locks.require_free(here)
        else:
            with pytest.raises(InputError, match="on elsewhere since x"):
                locks.require_free(here)


@pytest.mark.parametrize("code", ["ENOSPC", "EROFS"])
def test_a_disk_that_takes_no_more_ends_the_batch_and_the_rest_is_told(
    planner: Command, monkeypatch: pytest.MonkeyPatch, executed: list[str], code: str
) -> None:
    import errno

    from planner.files.disk import folders, single_files

    number, writes = getattr(errno, code), single_files._written_beside

    def full(path: Path, content: bytes) -> Path:
        if path.name.startswith("level-40"):
            raise OSError(number, os.strerror(number))
        return writes(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(single_files, "_written_beside", full)
        answer = planner("batch", "jobs.yaml", "--out", "out", *BARE)
    assert answer.status == 1
    assert os.strerror(number) in answer.err
    way = {"ENOSPC": "Make room there, or choose another folder", "EROFS": "Choose a folder that you may write to"}[
        code
    ]
    assert f"{way}. Then run it again with --resume." in answer.err
    assert executed == ["level-40"]
    assert [row["state"] for row in rows_of("out")] == ["failed", "missing", "missing", "missing"]
    executed.clear()
    assert planner("batch", "jobs.yaml", "--out", "out", "--resume", *BARE).status == 3
    assert executed == ["level-80", "none"]  # the run itself had been written
    monkeypatch.setattr(folders.Path, "write_bytes", lambda *_: (_ for _ in ()).throw(OSError(number, "no")))
    Path("jobs.yaml").write_text(JOBS.replace("[40, 80]", "[50, 70]"))
    assert planner("batch", "jobs.yaml", "--out", "out", "--resume", *BARE).status == 1
    assert sum(row["state"] == "missing" for row in rows_of("out")) == 1
    assert not list(Path("out/runs").glob(".*partial*"))


def test_a_limit_on_file_sizes_leaves_nothing_half_written(here: Path) -> None:
    """A real process that may write no file above 3 kB, less than a plan has."""
    Path("jobs.yaml").write_text("jobs: [{name: a, scenario: small.yaml, grid: {slo.tpot_ms: [40, 50]}}]")
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from planner.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)); sys.argv = ['planner', *sys.argv[1:]]; main()"
    )
    line = ["batch", "jobs.yaml", "--out", "out", *BARE]
    without_caches = [sys.executable, "-B", "-c", code]  # modules would be cached in part, and all later imports fail
    process = subprocess.run([*without_caches, *line], capture_output=True, text=True, check=False)
    assert process.returncode == 1, process.stderr
    assert "File too large" in process.stderr
    assert not list(Path("out/runs").glob("*/plan.json"))
    assert not [path for path in Path("out").rglob("*") if "partial" in path.name]
    assert all(json.loads(path.read_text()) for path in Path("out").rglob("*.json"))


def test_the_commands_of_the_manifests_make_the_batch(planner: Command, here: Path) -> None:
    """Each pod's, with its number where Kubernetes puts it; then that of the tables."""
    place = ("--batch", f"{here}/out", "--mount", here)
    line = ("batch-manifests", f"{here}/jobs.yaml", *place, "--image", "planner:1", "--claim", "files", "--workers", 2)
    assert planner(*map(str, line), "--out", "manifests").status == 0
    shards, tables = (
        yaml.safe_load(Path("manifests", name).read_text())["spec"]["template"]["spec"]["containers"][0]["command"][1:]
        for name in ("20-shards.yaml", "30-tables.yaml")
    )
    for index in ("0", "1"):
        words = [word.replace("$(JOB_COMPLETION_INDEX)", index) for word in shards]
        assert planner(*words, *BARE).status in (0, 3)
    assert not Path("out/results.csv").exists()
    assert planner(*tables, *BARE).status == 3
    assert [row["state"] for row in rows_of("out")] == ["planned", "planned", "planned", "infeasible"]
    assert not json.loads(Path("out/times.json").read_text())["runs"]  # nothing was left to plan
