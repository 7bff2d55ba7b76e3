"""A batch on this machine whose worker is killed in the middle of a search."""

import multiprocessing
import os
import signal
from pathlib import Path

from dask_processes import in_the_middle
from test_dask_answers import untimed
from test_dask_faults import LONG, scenario_file

from planner.runs.batches.batches import BatchRequest, run_batch
from planner.runs.batches.local import LocalExecutor, SerialExecutor


def test_a_search_whose_worker_is_killed_is_the_one_of_an_undisturbed_batch(tmp_path: Path) -> None:
    """The other job goes on; the search resumes in another process, and counts as done once."""
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    scenario_file(jobs, LONG, iterations=3)
    (jobs / "other.yaml").write_text(LONG.replace("ITERATIONS", "1").replace("name: long", "name: other"))
    killed: list[int] = []

    def kill() -> None:
        for child in multiprocessing.active_children():
            if child.pid is not None:
                os.kill(child.pid, signal.SIGKILL)
                killed.append(child.pid)

    with in_the_middle(tmp_path, "scenario", kill):
        result = run_batch(BatchRequest(source=jobs, folder=tmp_path / "batch"), LocalExecutor(workers=1))
    assert len(killed) == 1
    undisturbed = run_batch(BatchRequest(source=jobs, folder=tmp_path / "alone"), SerialExecutor())
    assert result.batch == undisturbed.batch
    assert [job.state.value for job in result.batch.jobs] == ["planned"] * 2
    for job in result.batch.jobs:
        runs = [tmp_path / name / "runs" / job.entry.run for name in ("batch", "alone")]
        assert untimed(runs[0]) == untimed(runs[1])
