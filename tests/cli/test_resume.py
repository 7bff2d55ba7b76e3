"""`planner plan --resume`: a search that was cut short ends with the plan that it would have had."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import TINY, Command, untimed
from plain_pictures import unpainted

PROGRAM = Path(__file__).with_name("killed_searches.py")
ENVIRONMENT = unpainted(os.environ)
LONG = TINY.replace("iterations: 2, batch_size: 2", "iterations: 4, batch_size: 4")
JOURNAL = Path("cut/search/journal.jsonl")
CASES = {
    "random": LONG,
    "pool": LONG.replace("search: {", "search: {processes: 2, "),
    "table": LONG + "routing: {form: table}\n",
    "divider": LONG.replace("method: random, iterations: 4", "method: divider, iterations: 3"),
}


def _start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "planner", "plan", *arguments, "--quiet"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _lines() -> int:
    return JOURNAL.read_bytes().count(b"\n") if JOURNAL.exists() else 0


def _stop(at: int, number: int, *arguments: str) -> tuple[int, str]:
    """Send a signal once the journal has so many lines; exit status and standard error."""
    process = _start(*arguments)
    end = time.monotonic() + 60
    while _lines() < at and process.poll() is None:
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)
    os.killpg(process.pid, number) if process.poll() is None else None
    _, err = process.communicate(timeout=60)
    return process.returncode, err


def _judged() -> list[int]:
    rows = [json.loads(line) for line in JOURNAL.read_text().splitlines()]
    return [row["judged"]["index"] for row in rows if "judged" in row]


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.study) if case != "table" else case for case in CASES],
)  # random search is killed below at random moments, and a pool of two is stopped by Ctrl-C
def test_killed_again_and_again_a_search_ends_as_if_it_had_not_been(planner: Command, case: str) -> None:
    Path("s.yaml").write_text(CASES[case])
    assert planner("plan", "s.yaml", "--quiet", "--out", "whole").status == 0
    for place, at in enumerate((8,) if case == "divider" else (3, 9)):
        before = _lines()
        status, _ = _stop(
            before + at - 1, signal.SIGKILL, *(("--resume", "cut") if place else ("s.yaml", "--out", "cut"))
        )
        assert status == -signal.SIGKILL
        assert [path.name for path in Path("cut").iterdir()] == ["search"]
        assert _judged() == list(range(len(_judged())))
        assert len(_judged()) >= place
    with JOURNAL.open("ab") as torn:
        torn.write(b'{"judged": {"index": 7')
    Path("cut").rename(".cut.replaced-12345678")  # as if killed while the run took its place
    assert planner("plan", "--resume", "cut", "--quiet").status == 0
    assert untimed(Path("cut")) == untimed(Path("whole"))


@pytest.mark.parametrize(
    ("case", "moments"),
    [
        ("random", 2),
        pytest.param("random", 24, marks=pytest.mark.study),
        pytest.param("pool", 8, marks=pytest.mark.study),
        pytest.param("divider", 8, marks=pytest.mark.study),
    ],
)
def test_killed_at_random_moments_searches_end_with_equal_plans(here: Path, case: str, moments: int) -> None:
    Path("s.yaml").write_text(CASES[case])
    done = subprocess.run(
        [sys.executable, PROGRAM, "s.yaml", str(moments), "7", "no" if moments == 2 else "yes"],
        check=False, env=ENVIRONMENT, capture_output=True, text=True, timeout=3000,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["status"] for row in rows] == [0] * moments, done.stderr
    assert any(judged > 0 for row in rows for judged in row["judged"]), "no kill came within a search"
    assert sum(row["kills"] for row in rows) > moments // 2
    whole = untimed(Path("whole"))
    assert [row["folder"] for row in rows if untimed(Path(row["folder"])) != whole] == []
    assert sorted(path.name for path in Path().iterdir()) == sorted(["s.yaml", "whole", *(r["folder"] for r in rows)])


def test_ctrl_c_ends_with_the_best_so_far_and_loses_nothing(planner: Command) -> None:
    Path("s.yaml").write_text(CASES["pool"])
    assert planner("plan", "s.yaml", "--quiet", "--out", "whole").status == 0
    status, err = _stop(12, signal.SIGINT, "s.yaml", "--out", "cut")
    assert status == 130
    assert err == "Interrupted; resume with: planner plan --resume cut\n"
    plan = json.loads(Path("cut/plan.json").read_text())
    assert plan["search"]["interrupted"] is True
    assert 8 <= len(plan["search"]["trials"]) < 16
    assert "**interrupted** after" in Path("cut/summary.md").read_text()
    assert planner("report", "cut", "--json").status == 0
    assert planner("plan", "s.yaml", "--out", "cut").status == 2
    known = _judged()
    assert known == list(range(len(known)))
    assert planner("plan", "--resume", "cut", "s.yaml", "--quiet").status == 0
    assert untimed(Path("cut")) == untimed(Path("whole"))


def test_a_finished_run_is_told_to_be_finished(planner: Command, run: Path, tiny: Path) -> None:
    before = untimed(run)
    answer = planner("plan", "--resume", run, tiny, "--quiet")
    assert (answer.status, answer.err) == (0, f"{run}: is finished, nothing is left to do\n")
    head, *_ = (run / "summary.md").read_text().split("\n## ")
    assert head.strip() in answer.out
    assert untimed(run) == before
    answer = planner("plan", "--resume", run, "--seed", 3)
    assert answer.status == 2
    assert "of another scenario" in answer.err


def test_a_run_moved_aside_is_put_back(planner: Command, run: Path) -> None:
    run.rename(".run.replaced-12345678")
    Path(".run.partial-87654321").mkdir()
    assert planner("plan", "--resume", "run", "--quiet").status == 0
    assert [path.name for path in Path().iterdir()] == ["run"]


def test_another_scenario_is_refused_with_the_keys_that_differ(planner: Command, tiny: Path) -> None:
    _stop(3, signal.SIGKILL, "tiny.yaml", "--out", "cut")
    content = JOURNAL.read_bytes()
    Path("other.yaml").write_text(TINY.replace("H20: 32", "H20: 48"))
    gpus, seed = "inventory.H20 32, got 48", "search.seed 0, got 4"
    for arguments, said in (
        (("other.yaml",), gpus),
        (("--seed", "4"), seed),
        (("other.yaml", "--seed", "4"), f"{gpus}; {seed}"),
    ):
        answer = planner("plan", "--resume", "cut", *arguments)
        assert (answer.status, answer.out) == (2, "")
        assert f"cut: its search is of another scenario: {said}." in answer.err
    assert JOURNAL.read_bytes() == content
    assert planner("plan", "--resume", "cut", "tiny.yaml", "--quiet").status == 0


def test_a_changed_number_of_rounds_resumes(planner: Command) -> None:
    """What the error of a search that is not to be begun anew says to do."""
    Path("s.yaml").write_text(LONG)
    _stop(9, signal.SIGKILL, "s.yaml", "--out", "cut")
    Path("s.yaml").write_text(LONG.replace("iterations: 4", "iterations: 3"))
    refused = planner("plan", "s.yaml", "--out", "cut")
    assert refused.status == 2
    assert "`planner plan SCENARIO --resume cut`" in refused.err
    assert planner("plan", "s.yaml", "--resume", "cut", "--quiet").status == 0
    assert planner("plan", "s.yaml", "--out", "whole", "--quiet").status == 0
    assert untimed(Path("cut")) == untimed(Path("whole"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tiny.yaml", "--force"), "got --force"),
        (("--out", "x"), "got --out"),
        (("tiny.yaml", "tiny.yaml"), "got 2 scenarios"),
        ((), "holds no unfinished search"),
    ],
)
def test_what_cannot_be_resumed_is_told(planner: Command, tiny: Path, arguments: tuple[str, ...], words: str) -> None:
    answer = planner("plan", "--resume", "nowhere", *arguments)
    assert answer.status == 2
    assert words in answer.err
    assert [path.name for path in Path().iterdir()] == ["tiny.yaml"]


def test_untold_times_leave_equal_bytes(planner: Command) -> None:
    Path("s.yaml").write_text(TINY.replace("search: {", "search: {timings: false, "))
    for out in ("one", "two"):
        assert planner("plan", "s.yaml", "--quiet", "--out", out).status == 0
    assert "cpu_s" not in Path("one/plan.json").read_text()
    assert Path("one/plan.json").read_bytes() == Path("two/plan.json").read_bytes()
