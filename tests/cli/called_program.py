"""Fixtures of tests that call the program in this process, in a folder of their own."""

import signal
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from command_line import Answer, Command
from plain_pictures import copied_pictures

from planner.cli import main

__all__ = ["here", "painted", "pictures", "planner", "priced_quickly"]


@pytest.fixture
def painted() -> None:
    """For tests that look at what is painted."""


@pytest.fixture(autouse=True)
def pictures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs are written a hundred times, without pictures."""
    with nullcontext() if "painted" in request.fixturenames else copied_pictures():
        yield


@pytest.fixture(autouse=True)
def priced_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every export replays its router; 20,000 requests of it are most of an export's time."""
    monkeypatch.setattr("planner.runs.replays.router_losses._REQUESTS", 200)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder, and this process's way of dying restored."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    before = signal.getsignal(signal.SIGTERM)
    yield folder
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `planner ARGUMENTS` in this process."""

    def run(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["planner", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        captured = capsys.readouterr()
        return Answer(status=int(left.value.code or 0), out=captured.out, err=captured.err)

    return run
