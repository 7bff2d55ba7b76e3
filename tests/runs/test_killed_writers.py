"""A writer killed at any moment leaves no half run, and the next one cleans up after it."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from run_writers import left_overs, run_of, state

from planner.files import claim_run_folder, write_run

PROGRAM = Path(__file__).with_name("run_writers.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PROGRAM.parents[2])}
KILLED = -signal.SIGKILL


def _answers(mode: str, folder: Path) -> Any:
    done = subprocess.run(
        [sys.executable, PROGRAM, mode, folder],
        check=False,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    new, over = _answers("each-step", tmp_path_factory.mktemp("each"))
    return {"new": new, "over": over}


@pytest.mark.parametrize(("case", "before"), [("new", None), ("over", 1)])
def test_killed_at_every_step_a_run_is_whole_or_absent(
    killed: dict[str, list[dict[str, Any]]], case: str, before: int | None
) -> None:
    rows = killed[case]
    assert [row["status"] for row in rows] == [KILLED] * (len(rows) - 1) + [0]
    assert len(rows) > 12
    assert {row["found"] for row in rows} <= {None, before, 2}
    assert any(row["left"] for row in rows), "no kill came while anything was half done"
    assert rows[0]["found"] == before
    assert rows[-1] | {"found": 2, "left": 0} == rows[-1]


@pytest.mark.parametrize(("case", "before"), [("new", None), ("over", 1)])
def test_the_next_writer_cleans_up(killed: dict[str, list[dict[str, Any]]], case: str, before: int | None) -> None:
    for row in killed[case]:
        assert row["left_after_claim"] == []
        # what was being replaced is never lost: it is put back if it had been moved aside
        assert row["after_claim"] in ({before, 2} if row["found"] is None else {row["found"]})
        assert (row["after_write"], row["left_after_write"]) == (3, [])


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.study)])
def test_killed_at_any_moment_a_run_is_whole_or_absent(tmp_path: Path, kills: int) -> None:
    moments = random.Random(0)
    for _ in range(kills):
        writer = subprocess.Popen(
            [sys.executable, PROGRAM, "for-ever", tmp_path], env=ENVIRONMENT, stdout=subprocess.PIPE
        )
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(moments.uniform(0.0, 0.08))
        writer.kill()
        assert writer.wait(timeout=30) == KILLED
        writer.stdout.close()
        runs = [path for path in tmp_path.iterdir() if not path.name.startswith(".")]
        assert [found for found in map(state, runs) if not isinstance(found, int)] == []
    for name in {name.removeprefix(".").rsplit(".", 1)[0] for name in left_overs(tmp_path / "same")} | {"same"}:
        claim_run_folder(tmp_path / name, force=True)
        write_run(tmp_path / name, run_of(0), force=True)
    assert left_overs(tmp_path / "same") == []


def test_of_writers_at_once_one_wins_and_all_are_whole(tmp_path: Path) -> None:
    polite, forceful = _answers("at-once", tmp_path)
    assert polite["statuses"] == [0] + [7] * 7
    assert forceful["statuses"] == [0] * 8
    for answer in (polite, forceful):
        assert answer["found"] in range(8)
        assert answer["left"] == []


def test_writers_side_by_side_do_not_pull_the_folder_from_under_each_other(tmp_path: Path) -> None:
    answer = _answers("side-by-side", tmp_path)
    assert answer == {"statuses": [0] * 3, "found": [0, 1, 2], "left": []}
