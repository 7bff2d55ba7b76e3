"""Dask's own programs, started as a user starts them, each with its process id."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from threading import Thread

import pytest
from plain_pictures import unpainted

from planner.runs.batches.dask_engine.clusters import open_client
from planner.runs.batches.dask_engine.executor import DaskSettings

HERE = Path(__file__).parent
LIMIT_S = 240.0
"""After that a process hangs; a laden machine may take a minute to start one."""
EVALUATIONS = 5
"""So many are made of a search that halts."""


def wait_for(happened: Callable[[], object], event: str) -> None:
    """Until it has happened; AssertionError where it takes too long even for a laden machine."""
    until_s = time.monotonic() + LIMIT_S
    while not happened():
        assert time.monotonic() < until_s, f"{event} took more than {LIMIT_S:g} s"
        time.sleep(0.02)


@contextmanager
def halted(folder: Path, name: str) -> Iterator[Callable[[], None]]:
    """Searches below `folder` whose run is called `name` or begins so, of processes that are started here, go no
    further than to `EVALUATIONS`, until the block is left. Yields what waits for one that has come so far."""
    words = folder / "halt"
    words.write_text(f"{name} {EVALUATIONS}")

    def halts() -> bool:
        journals = files_below(folder, f"{name}*/search/journal.jsonl")
        return any(evaluations(path.parents[1]) >= EVALUATIONS for path in journals)

    try:
        yield lambda: wait_for(halts, f"{EVALUATIONS} evaluations")
    finally:
        words.unlink()


def files_below(folder: Path, pattern: str) -> list[Path]:
    """Paths below a folder, hidden ones too, while others make and remove folders there, which ends `Path.rglob`."""
    found = glob(f"**/{pattern}", root_dir=folder, recursive=True, include_hidden=True)  # noqa: PTH207  # as said
    return [folder / path for path in found if (folder / path).is_file()]


@contextmanager
def in_the_middle(folder: Path, name: str, act: Callable[[], None]) -> Iterator[None]:
    """While the block runs, `act` is called once such a search halts, which then goes on."""
    with ExitStack() as stack:
        wait = stack.enter_context(halted(folder, name))

        def wait_and_act() -> None:
            with stack:
                wait()
                act()

        thread = Thread(target=wait_and_act)
        thread.start()
        yield
        thread.join()


def evaluations(run: Path) -> int:
    """How many a search has made."""
    journal = run / "search/journal.jsonl"
    return journal.read_bytes().count(b'{"judged"') if journal.exists() else 0


def environment(*folders: Path) -> dict[str, str]:
    """What a process gets: tasks of these tests, and `folders` before everything else, can be imported."""
    paths = unpainted(os.environ)["PYTHONPATH"]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, folders), paths, str(HERE)])}


@dataclass(slots=True)
class Cluster:
    """A scheduler's address and process, and its workers'."""

    address: str
    scheduler: "subprocess.Popen[bytes]"
    folder: Path
    workers: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def start_worker(self, *folders: Path, options: tuple[str, ...] = ("--no-nanny",)) -> "subprocess.Popen[bytes]":
        """One more, of one thread; `folders`: where it looks for packages first."""
        scratch = str(self.folder / f"worker-{len(self.workers)}")
        where = ("--host", "127.0.0.1", "--local-directory", scratch)
        words = ["distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-dashboard", *where, *options]
        worker = _started(words, self.folder, *folders)
        self.workers.append(worker)
        return worker

    def settings(self, **changes: object) -> DaskSettings:
        """Settings with this cluster's scheduler."""
        return DaskSettings(workers=2, scheduler=self.address, patience_s=LIMIT_S, **changes)  # type: ignore[arg-type]


@contextmanager
def started_cluster(folder: Path) -> Iterator[Cluster]:
    """A scheduler, and workers as they are started; all end with the block."""
    file = folder / "scheduler.json"
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    scheduler = _started(["distributed.cli.dask_scheduler", *options], folder)
    workers: list[subprocess.Popen[bytes]] = []
    try:
        wait_for(lambda: file.exists() and file.read_text().strip().endswith("}"), "starting a scheduler")
        yield Cluster(json.loads(file.read_text())["address"], scheduler, folder, workers)
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


def _started(words: list[str], scratch: Path, *folders: Path) -> "subprocess.Popen[bytes]":
    variables = {**environment(*folders), "TMPDIR": str(scratch)}
    return subprocess.Popen(
        [sys.executable, "-m", *words], env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler with two workers, which no test ends."""
    with started_cluster(tmp_path_factory.mktemp("cluster")) as started:
        for _ in range(2):
            started.start_worker()
        with open_client(started.address, 1, LIMIT_S) as client:
            client.wait_for_workers(2, timeout=LIMIT_S)
        yield started
