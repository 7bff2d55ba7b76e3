"""The program as a user has it: a process of its own, with signals, pipes and a terminal."""

import json
import os
import pty
import random
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import TABLE, TINY
from plain_pictures import unpainted

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
UNPAINTED = unpainted(os.environ)
PROGRAM = (sys.executable, "-m", "planner")
ENDLESS = TINY.replace("iterations: 2", "iterations: 100000")

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up under /proc")


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], check=False, env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )


@contextmanager
def _started(*arguments: str, program: Sequence[str] = PROGRAM) -> Iterator[subprocess.Popen[str]]:
    """A planner in a process group of its own, of which nothing stays behind."""
    process = subprocess.Popen(
        [*program, *arguments],
        env=UNPAINTED,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for member in _group(process.pid):
            os.kill(member, signal.SIGKILL)
        process.communicate(timeout=30)


def _group(group: int) -> list[int]:
    """Living processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, member_of = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if int(member_of) == group and state not in "ZX":
                found.append(int(entry.name))
    return found


def _wait_for(what: Callable[[], object], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def _workers(process: subprocess.Popen[str]) -> list[int]:
    """Child processes that do our work (not the one that tracks their resources)."""
    members = [member for member in _group(process.pid) if member != process.pid]
    return [m for m in members if b"spawn_main" in Path(f"/proc/{m}/cmdline").read_bytes()]


def test_a_plan_from_the_shell() -> None:
    Path("tiny.yaml").write_text(TABLE)
    done = _run("plan", "tiny.yaml", "--out", "one", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["folder"] == "one"
    assert Path("one/plan.json").exists()
    assert {path.read_bytes()[:4] for path in Path("one/figures").iterdir()} == {b"\x89PNG"}


def test_a_failure_is_a_line_and_a_status() -> None:
    Path("bad.yaml").write_text(TABLE.replace("{H200: 32, H20: 32}", "{H200: 12}"))
    done = _run("plan", "bad.yaml", "--quiet")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    assert "resume with `planner plan bad.yaml --resume runs/bad`" in done.stderr
    kept = [path.as_posix() for path in Path().rglob("*") if path.is_file() and path.suffix != ".yaml"]
    assert kept == ["runs/bad/search/journal.jsonl"]  # what a search has evaluated


SEARCHES: Sequence[tuple[str, ...]] = [("endless.yaml",), ("pool.yaml",), ("endless.yaml", "pool.yaml")]


def _write_searches() -> None:
    Path("endless.yaml").write_text(ENDLESS)
    Path("pool.yaml").write_text(ENDLESS.replace("search: {", "search: {processes: 2, "))


def _begin(process: subprocess.Popen[str], scenarios: tuple[str, ...]) -> None:
    """Wait until the search runs."""
    if len(scenarios) == 1:
        assert "layouts, best" in process.stderr.readline()
    else:
        # endless.yaml in one process, pool.yaml in another, which has two of its own
        _wait_for(lambda: len(_workers(process)) == 4)
        _wait_for(lambda: len([p for p in Path().glob("*/*/search/journal.jsonl") if b"judged" in p.read_bytes()]) == 2)


@pytest.mark.parametrize(
    ("scenarios", "number", "status"),
    [
        (SEARCHES[1], signal.SIGTERM, 143),
        (SEARCHES[2], signal.SIGINT, 130),
        pytest.param(SEARCHES[0], signal.SIGINT, 130, marks=pytest.mark.study),
        pytest.param(SEARCHES[1], signal.SIGINT, 130, marks=pytest.mark.study),
        pytest.param(SEARCHES[0], signal.SIGTERM, 143, marks=pytest.mark.study),
        pytest.param(SEARCHES[2], signal.SIGTERM, 143, marks=pytest.mark.study),
    ],
)
def test_a_stopped_search_leaves_what_it_has_found(scenarios: tuple[str, ...], number: int, status: int) -> None:
    _write_searches()
    with _started("plan", *scenarios, "--out", "stopped", "--processes", "2") as process:
        _begin(process, scenarios)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.terminate()
        _, err = process.communicate(timeout=30)
        assert process.returncode == status
        assert "Traceback" not in err
        assert "error" not in err
        _wait_for(lambda: not _group(process.pid))
    _searches_are_kept("stopped", scenarios)
    for folder in _folders("stopped", scenarios):
        plan = folder / "plan.json"  # of several scenarios none is waited for for long
        assert json.loads(plan.read_text())["search"]["interrupted"] if plan.exists() else len(scenarios) > 1
        assert f"planner plan --resume {folder}\n" in err


PRELOADED = (sys.executable, "-c", "import jax\nfrom planner.cli import main\nmain()")
"""jax has a callback of the garbage collector in which exceptions are lost."""


@pytest.mark.parametrize("moments", [1, pytest.param(20, marks=pytest.mark.study)])
def test_no_interrupt_is_lost_to_jax(moments: int) -> None:
    _write_searches()
    chance = random.Random(moments)
    for k in range(moments):
        number, folder = (signal.SIGINT, signal.SIGTERM)[k % 2], Path(f"stopped-{k}")
        with _started("plan", "endless.yaml", "--quiet", "--out", str(folder), program=PRELOADED) as process:
            _wait_for((folder / "search/journal.jsonl").exists, 120)
            time.sleep(chance.uniform(0.0, 1.0))
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (
            128 + number,
            f"Interrupted; resume with: planner plan --resume {folder}\n",
        )
        assert (folder / "search/journal.jsonl").exists()


DEEP = """
import hashlib, pathlib
from planner.evaluation import evaluator
from planner.cli import main

def never_ends(*_arguments):
    pathlib.Path("deep").touch()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)

evaluator.solve_pools = never_ends
main()
"""


def test_a_second_ctrl_c_ends_at_once_even_in_a_solver() -> None:
    _write_searches()
    with _started("plan", "endless.yaml", "--out", "stopped", program=(sys.executable, "-c", DEEP)) as process:
        _wait_for(Path("deep").exists, 120)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):  # the first waits for the solver
            process.wait(timeout=2)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130


def _searches_are_kept(out: str, scenarios: tuple[str, ...]) -> None:
    assert sorted(path.name for path in Path().iterdir()) == sorted(["endless.yaml", "pool.yaml", out])
    for folder in _folders(out, scenarios):
        assert len((folder / "search/journal.jsonl").read_text().splitlines()) > 1


def _folders(out: str, scenarios: tuple[str, ...]) -> list[Path]:
    return [Path(out)] if len(scenarios) == 1 else [Path(out) / name.removesuffix(".yaml") for name in scenarios]


def test_workers_end_with_a_planner_that_was_killed() -> None:
    scenarios = SEARCHES[2]
    _write_searches()
    with _started("plan", *scenarios, "--out", "killed", "--processes", "2") as process:
        _begin(process, scenarios)
        process.kill()
        process.wait(timeout=30)
        _wait_for(lambda: not _group(process.pid))
    _searches_are_kept("killed", scenarios)


@pytest.mark.study
def test_a_worker_that_is_killed_is_told_and_the_rest_is_done() -> None:
    _write_searches()
    Path("tiny.yaml").write_text(TABLE)
    with _started("plan", "endless.yaml", "tiny.yaml", "--out", "runs", "--processes", "2") as process:
        assert process.stderr.readline() == "tiny: done\n"
        (left,) = _workers(process)
        os.kill(left, signal.SIGKILL)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert err == "endless: failed with status 1\n"
    rows = [line for line in out.splitlines() if line.startswith("│")]
    assert [re.split(r"\s*│\s*", row)[1:3] for row in rows] == [["endless", "1"], ["tiny", "0"]]
    assert "its process ended without an answer (exit code -9)" in rows[0]
    assert sorted(path.name for path in Path("runs").iterdir()) == ["endless", "tiny"]
    assert [path.name for path in Path("runs/endless").iterdir()] == ["search"]


def test_a_closed_pipe_is_no_catastrophe() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PROGRAM, "gpus", "--json"], check=False, env=ENVIRONMENT, stdout=writer, stderr=subprocess.PIPE, timeout=60
    )
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == b""


def _on_a_terminal(*arguments: str) -> tuple[int, str]:
    """Exit status, and what standard error showed on a terminal of 100 columns."""
    main, end = pty.openpty()
    environment = {**UNPAINTED, "TERM": "xterm-256color", "COLUMNS": "100"}
    process = subprocess.Popen(
        [*PROGRAM, *arguments], env=environment, stdin=end, stdout=subprocess.DEVNULL, stderr=end, close_fds=True
    )
    os.close(end)
    shown = b""
    try:
        while select.select([main], [], [], 60)[0]:
            try:
                piece = os.read(main, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
    finally:
        os.close(main)
    return process.wait(timeout=60), shown.decode()


def test_a_terminal_shows_a_bar_with_the_best_so_far() -> None:
    Path("tiny.yaml").write_text(TABLE)
    status, shown = _on_a_terminal("plan", "tiny.yaml", "--out", "one")
    best = json.loads(Path("one/plan.json").read_text())["search"]["best_by_iteration_rps"]
    assert status == 0
    assert "━" in shown
    assert "tiny" in shown
    last = re.findall(r"(\d+)/4.*?best ([\d.]+) requests/s", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown))[-1]
    assert last == ("4", f"{best[-1]:.1f}")


def test_a_terminal_shows_no_bar_to_the_quiet() -> None:
    Path("tiny.yaml").write_text(TABLE)
    assert _on_a_terminal("plan", "tiny.yaml", "--quiet") == (0, "")
