"""A study on Dask's workers prints what it prints without them."""

from pathlib import Path

import pytest
from dask_processes import started_cluster

from planner.cli import main

STUDY = "simulate defragmentation --nodes 6 --days 0.3 --warm-up-days 0.1 --every never,2 --seeds 0 --json --quiet"


def test_the_answer_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One worker: tests/faults has several, and those that die."""
    answers = []
    with started_cluster(tmp_path) as cluster:
        cluster.start_worker()
        for executor in (f"--executor dask --scheduler {cluster.address}", "--executor serial"):
            monkeypatch.setattr("sys.argv", ["planner", *STUDY.split(), *executor.split()])
            with pytest.raises(SystemExit) as exit_info:
                main()
            assert not exit_info.value.code
            answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
