"""What is typed runs in this process, jobs of batches too: others would load the libraries anew for every line."""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from plain_pictures import copied_pictures

from planner import files
from planner.cli import main
from planner.runs.batches import choosing
from planner.runs.batches.local import SerialExecutor


@pytest.fixture
def planner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[[str], str]]:
    """Runs a line in the test's folder, where it has to succeed; its standard output."""

    def typed(line: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", line.split())
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        assert not left.value.code, f"{line}: {said.err}"
        return said.out

    monkeypatch.setattr(choosing, "LocalExecutor", lambda **_: SerialExecutor())
    monkeypatch.setattr("planner.runs.replays.router_losses._REQUESTS", 200)  # every export replays its router
    given = files.load_given_benchmarks  # all of them are judged once, by the test of the guide's table
    monkeypatch.setattr(
        files, "load_given_benchmarks", lambda: tuple(run for run in given() if run.gpu in ("H100", "MI300X"))
    )
    before = signal.getsignal(signal.SIGTERM)
    with copied_pictures():
        yield typed
    signal.signal(signal.SIGTERM, before)
