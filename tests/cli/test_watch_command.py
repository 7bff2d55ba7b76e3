"""`planner watch`: a history gone through, killed and gone on with; feeds that break; one watch a folder."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import Command

from planner.files.plan.watch_folders import WatchFolder, load_watch

SMALL = """\
name: small
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 64, H20: 64}
prices_usd_per_gpu_hour: {H200: 4, H20: 1}
ranges: {width: 4096}
serving: split
"""
LOADS = [(0, 6), (600, 6), (1200, 16), (7800, 5), (14400, 5)]
PRICES = "time,gpu,usd_per_hour\n0,H20,1.0\n900,H20,-1\n1200,H20,nan\n1500,h20,100\n1800,B999,2\n2100,H20,1.02\n"
SIMULATE = ("watch", "small.yaml", "--feed", "load.csv", "--feed", "prices.csv", "--simulate", "--every", "5m")


@pytest.fixture(autouse=True)
def _feeds(here: Path) -> None:
    Path("small.yaml").write_text(SMALL)
    Path("load.csv").write_text("time,requests_per_s\n" + "".join(f"{time},{rate}\n" for time, rate in LOADS))
    Path("prices.csv").write_text(PRICES)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but pictures, whose pixels depend on the style that the test runner's process has."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".png"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_a_killed_watch_goes_on_as_if_nothing_had_been(planner: Command) -> None:
    answer = planner(*SIMULATE, "--out", "undisturbed", "--json")
    assert answer.status == 0, answer.err
    killed = _killed(Path("killed"))
    assert 0 < killed < 49
    with Path("killed/watch.jsonl").open("ab") as log:
        log.write(b'{"step": {"time": 12')  # what a kill in the middle of a line leaves
    again = planner(*SIMULATE, "--out", "killed", "--json")
    assert again.json == answer.json
    assert contents(Path("killed")) == contents(Path("undisturbed"))
    # a third call has nothing left to do
    assert planner(*SIMULATE, "--out", "killed", "--json").json == answer.json
    assert contents(Path("killed")) == contents(Path("undisturbed"))
    _require_log(Path("undisturbed"), answer.json)
    _require_report(planner, Path("undisturbed"), answer.json)


def _killed(out: Path) -> int:
    """Lines of the log when a process of its own was killed, once it had made its second plan."""
    arguments = [sys.executable, "-m", "planner", *SIMULATE, "--out", str(out)]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (out / "plans" / "0002").exists():
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return len((out / "watch.jsonl").read_bytes().splitlines()) - 1


def _require_log(out: Path, tally: dict[str, object]) -> None:
    _, steps = load_watch(out)
    causes = [step.decision.cause for step in steps if step.decision.fleet is not None]
    assert [cause.value for cause in causes if cause] == ["start", "load", "saving"]
    assert [step.observation.at_s for step in steps] == [300.0 * k for k in range(49)]
    notes = [note for step in steps for note in step.observation.notes]
    assert [note.partition("prices.csv: ")[2][:6] for note in notes] == ["row 2,", "row 3,", "row 4:", "row 5:"]
    assert {dict(step.observation.prices)["H20"] for step in steps} == {1.0, 1.02}
    assert tally["changes"] == {"load": 1, "lost": 0, "saving": 1}
    assert Path(out, "current").read_text() == "plans/0003\n"


def _require_report(planner: Command, out: Path, tally: dict[str, object]) -> None:
    """The page has each plan and each value that was not believed; it replaces itself, and the watch goes on beside."""
    assert planner("report", str(out), "--json").json == tally
    assert not (out / "report.html").exists()
    assert planner("report", str(out)).status == 0
    page = (out / "report.html").read_text()
    for words in ("Watch of small", "Load and promise", "0003", "prices.csv: row 2", f"{tally['gpus_touched']}"):
        assert words in page
    assert planner("report", str(out)).status == 0
    assert planner("report", str(out), "--out", "sent").status == 0
    rows = Path("sent/windows.csv").read_text().splitlines()
    assert len(rows) == 1 + 49
    assert sorted(path.name for path in Path("sent").iterdir()) == ["report.html", "watch.md", "windows.csv"]
    assert planner("report", str(out), "--out", "sent").status == 2
    assert planner(*SIMULATE, "--out", str(out), "--json").json == tally


def test_feeds_that_nobody_writes_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written at noon, watched from an hour before until two hours later, every half an hour."""
    from planner.runs.watching import watches
    from planner.runs.watching.watches import Clock, WatchJob, watch

    state, noon = Path("state.yaml"), 1_700_000_000.0
    now = [noon - 3600]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    state.write_text("load_rps: 6\n")
    os.utime(state, (noon, noon))
    monkeypatch.setattr(watches, "decide", lambda *_: _KEEP)
    clock = Clock(now=lambda: now[0], sleep=sleep)
    job = WatchJob(
        scenario=Path("small.yaml"), feeds=(state,), out=Path("live"), every_s=1800, until_s=noon + 7200, stale_s=3600
    )
    steps = list(watch(job, clock))
    times = [step.observation.at_s for step in steps if any("stale" in note for note in step.observation.notes)]
    late = [step.observation.at_s for step in steps if step.observation.at_s > noon + 3600]
    assert len(late) >= 2
    assert times == late[:1]


def test_live_feeds_that_break_are_told_and_the_last_good_value_stands(
    planner: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is rewritten between polls: half-written, gone, impossible, mended."""
    from planner.runs.watching import watches
    from planner.runs.watching.watches import Clock, WatchJob, watch

    state = Path("state.yaml")
    states = iter(["load_rps: 5", None, "load_rps: .nan\n", "load_rps: 7\nlost: {H20: 8}\n"])
    now = [1_700_000_000.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        text = next(states, "")
        state.unlink(missing_ok=True)
        if text is not None:
            state.write_text(text)

    state.write_text("load_rps: 6\n")
    clock = Clock(now=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(watches, "decide", lambda *_: _KEEP)
    job = WatchJob(scenario=Path("small.yaml"), feeds=(state,), out=Path("live"), ticks=5)
    steps = list(watch(job, clock))
    assert [step.observation.load_rps for step in steps] == [6, 6, 6, 6, 7]
    assert ["half-written" in "".join(step.observation.notes) for step in steps] == [False, True, False, False, False]
    assert ["no such file" in "".join(step.observation.notes) for step in steps] == [False, False, True, False, False]
    assert ["finite" in "".join(step.observation.notes) for step in steps] == [False, False, False, True, False]
    assert dict(steps[-1].observation.available) == {"H20": 56, "H200": 64}


def _kept() -> object:
    from planner.domain.watching import Decision, Verdict

    return Decision(verdict=Verdict.KEEP, reason="by hand")


_KEEP = _kept()


def test_two_watches_of_one_folder_refuse_each_other(planner: Command) -> None:
    Path("load.csv").write_text("time,requests_per_s\n0,\n")
    Path("state.yaml").write_text("inventory: {H20: 64}\n")
    arguments = ("watch", "small.yaml", "--feed", "state.yaml", "--simulate", "--out", "out")
    first = planner(*arguments)
    assert first.status == 0, first.err
    header, _ = load_watch(Path("out"))
    folder = WatchFolder.open(Path("out"), header)
    try:
        second = planner(*arguments)
    finally:
        folder.close()
    assert second.status == 2
    assert "another watch is at work in it" in second.err
    assert f"process {os.getpid()} on {socket.gethostname()} since 20" in " ".join(second.err.split())
    assert Path("out/.watch.lock").read_bytes() == b""
    other = planner(*arguments, "--every", "2m")
    assert other.status == 2
    assert "another every" in other.err


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "", "must have the columns of one feed"),
        ("a.csv", "time,gpu\n0,H20\n", "must have the columns of one feed"),
        ("a.csv", "time,pool,requests_per_s\n0,a,3\n", "must be of one service"),
        ("a.csv", "time,requests_per_s\nnever,3\n", "must have a row with a time"),
        ("a.csv", "time,requests_per_s\n0,3\n2026-11-23T00:00:00Z,3\n", "all dates or all numbers"),
        ("a.yaml", "", "must be"),
        ("a.yaml", "loads: 3\n", "is not a known key"),
        ("a.yaml", "load_rps: 3\nload_rps: 4\n", "a.yaml"),
        ("a.txt", "x", "must be a feed"),
    ],
)
def test_feeds_that_are_none_are_refused(planner: Command, name: str, text: str, words: str) -> None:
    Path(name).write_text(text)
    answer = planner("watch", "small.yaml", "--feed", name, "--simulate", "--out", "out", "--once")
    assert answer.status == 2
    assert words in " ".join(answer.err.split())
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "flags", [("--every", "soon"), ("--until", "late"), ("--once", "--ticks", "3"), ("--dwell", "0")]
)
def test_bad_flags_are_refused(planner: Command, flags: tuple[str, ...]) -> None:
    answer = planner("watch", "small.yaml", "--feed", "load.csv", "--simulate", "--out", "out", *flags)
    assert answer.status == 2
    assert flags[0] in answer.err


def test_a_folder_of_something_else_is_left_alone(planner: Command) -> None:
    Path("out").mkdir()
    Path("out/notes.txt").write_text("mine")
    answer = planner("watch", "small.yaml", "--feed", "load.csv", "--simulate", "--out", "out", "--force")
    assert answer.status == 2
    assert Path("out/notes.txt").read_text() == "mine"
    assert [path.name for path in Path("out").iterdir()] == ["notes.txt"]


def test_histories_with_dates_are_told_with_dates(planner: Command) -> None:
    Path("dated.csv").write_text("time,requests_per_s\n2026-11-23T00:00:00Z,5\n")
    answer = planner("watch", "small.yaml", "--feed", "dated.csv", "--simulate", "--out", "out", "--once")
    assert "2026-11-23T00:00:00Z  replan plan 0001: the first plan" in answer.out
