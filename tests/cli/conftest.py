"""What the tests of the command line share: the program called in this process, in a folder of its own."""

import shutil
import sys
from contextlib import chdir
from pathlib import Path

import pytest
from called_program import *  # noqa: F403  (fixtures)
from command_line import EVEN, TABLE, TINY, TRACE
from plain_pictures import copied_pictures
from small_batches import BARE, write_jobs

from planner import files
from planner.cli import main
from planner.runs.batches.batches import BatchRequest, run_batch
from planner.runs.batches.jobs import Job, Outcome
from planner.runs.batches.local import SerialExecutor
from planner.runs.batches.running import outcome_of
from planner.runs.comparisons import write_batch_files


@pytest.fixture
def few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs on two GPU types of those that come along: all of them are judged by the test of the guide's table."""
    given = files.load_given_benchmarks
    monkeypatch.setattr(
        files, "load_given_benchmarks", lambda: tuple(run for run in given() if run.gpu in ("H100", "MI300X"))
    )


@pytest.fixture
def tiny(here: Path) -> Path:
    """A scenario file that takes a moment to plan."""
    Path("tiny.yaml").write_text(TINY)
    return Path("tiny.yaml")


def _planned(folder: Path, text: str) -> Path:
    from planner.runs import Job, run_job

    (folder / "tiny.yaml").write_text(text)
    with copied_pictures():
        run_job(Job(scenario=folder / "tiny.yaml", folder=folder / "run"))
    return folder / "run"


@pytest.fixture(scope="session")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the tiny scenario, pools behind buckets, written once."""
    return _planned(tmp_path_factory.mktemp("planned"), TINY)


@pytest.fixture(scope="session")
def planned_as_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose ranges have shares of their own, written once."""
    return _planned(tmp_path_factory.mktemp("planned-as-table"), TABLE)


@pytest.fixture(scope="session")
def planned_evenly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a run whose islands have 16 or 32 GPUs, which every engine can run; written once."""
    return _planned(tmp_path_factory.mktemp("planned-evenly"), EVEN)


@pytest.fixture
def even_run(planned_evenly: Path, here: Path) -> Path:
    """Such a run, to do with as one likes."""
    shutil.copytree(planned_evenly, here / "even-run")
    return Path("even-run")


@pytest.fixture
def run(planned: Path, here: Path) -> Path:
    """A copy of that run in the current folder."""
    shutil.copytree(planned, here / "run")
    return Path("run")


@pytest.fixture
def table_run(planned_as_table: Path, here: Path) -> Path:
    """A copy of the run with a table in the current folder."""
    shutil.copytree(planned_as_table, here / "table-run")
    return Path("table-run")


@pytest.fixture
def trace(here: Path) -> Path:
    """A trace of sixty requests."""
    Path("mine.csv").write_text(TRACE)
    return Path("mine.csv")


@pytest.fixture(scope="session")
def placed_once(planned: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a cluster of forty nodes of which half are busy, `c.yaml`, and the run placed on it, `placed`;
    written once."""
    folder = tmp_path_factory.mktemp("placed")
    types = ("--type", "H200=1", "--type", "H20=1")
    synth = ("cluster", "synth", "--nodes", "40", "--seed", "2", "--load", "0.5", *types, "--out", f"{folder}/c.yaml")
    for arguments in (synth, ("place", str(planned), "--cluster", f"{folder}/c.yaml", "--out", f"{folder}/placed")):
        with copied_pictures(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["planner", *arguments])
            with pytest.raises(SystemExit) as left:
                main()
        assert not left.value.code
    return folder


@pytest.fixture
def cluster(placed_once: Path, here: Path) -> Path:
    """Such a cluster in the current folder."""
    shutil.copy(placed_once / "c.yaml", here)
    return Path("c.yaml")


@pytest.fixture
def placed(placed_once: Path, here: Path) -> Path:
    """A copy of the placed run in the current folder."""
    shutil.copytree(placed_once / "placed", here / "placed")
    return Path("placed")


@pytest.fixture(scope="module")
def planned_batch_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of those jobs, planned."""
    folder = tmp_path_factory.mktemp("planned")
    with chdir(folder):
        write_jobs()
        request = BatchRequest(source=Path("jobs.yaml"), folder=Path("out"), figures=False)
        write_batch_files(Path("out"), run_batch(request, SerialExecutor()))
    return folder / "out"


@pytest.fixture
def resuming(planned_batch_once: Path, here: Path) -> str:
    """The jobs planned in a folder `out`; the words that resume them."""
    shutil.copytree(planned_batch_once, here / "out")
    return " ".join(("batch", "jobs.yaml", "--out", "out", "--resume", *BARE))


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of jobs that are executed, in this process."""
    from planner.runs.batches import local

    names: list[str] = []

    def run(job: Job) -> Outcome:
        names.append(job.folder.name.rpartition("-")[0])
        return outcome_of(job)

    monkeypatch.setattr(local, "outcome_of", run)
    return names
