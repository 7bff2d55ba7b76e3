"""Workers, schedulers and clients that die, are of another version, or say nothing."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread

import psutil
import pytest
from dask_processes import (
    EVALUATIONS,
    LIMIT_S,
    Cluster,
    environment,
    halted,
    in_the_middle,
    started_cluster,
    wait_for,
)
from distributed import Client
from fault_tasks import parent_after, square
from test_dask_answers import SMALL, untimed

from planner import files
from planner.errors import InputError, PlannerError
from planner.files.plan.batches.locks import probes_in, unseen
from planner.files.scenario.settings import read_swept_key
from planner.plans.provenance import planner_version, versions
from planner.runs.batches.choosing import executor_of
from planner.runs.batches.dask_engine.admission import Admission, workers_of
from planner.runs.batches.dask_engine.children import answer_in_child
from planner.runs.batches.dask_engine.clusters import open_client
from planner.runs.batches.dask_engine.executor import DaskExecutor, DaskSettings, open_dask_pool, open_dispatcher
from planner.runs.batches.jobs import Job, with_content
from planner.runs.batches.local import SerialExecutor
from planner.runs.batches.running import outcome_again, run_job
from planner.runs.batches.sweeps import SweepRequest, run_sweep

LONG = """\
name: long
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 32, H20: 32}
ranges: {width: 2048}
routing: {form: table}
search: {method: random, iterations: ITERATIONS, batch_size: 4, min_island_size: 12}
"""


def alive(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    return state_of(Path(f"/proc/{pid}"))[0] not in "ZX"


def listening(pids: list[int]) -> set[str]:
    """The addresses at which processes can be reached; some may have ended."""
    addresses = set()
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            connections = psutil.Process(pid).net_connections()
            addresses |= {entry.laddr.ip for entry in connections if entry.status == psutil.CONN_LISTEN}
    return addresses


def children_of(pid: int) -> list[int]:
    processes = [path for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [int(path.name) for path in processes if state_of(path)[1] == pid]


def state_of(process: Path) -> tuple[str, int]:
    """The letter of a process's state, and its parent's id; `X` where there is none."""
    with suppress(FileNotFoundError, ProcessLookupError):
        state, parent, *_ = (process / "stat").read_text().rpartition(")")[2].split()
        return state, int(parent)
    return "X", 0


def descendants_of(pid: int) -> list[int]:
    return [below for child in children_of(pid) for below in (child, *descendants_of(child))]


def writes(pid: int, folder: Path) -> bool:
    """Whether a process has a file of the folder open."""
    with suppress(FileNotFoundError):
        return any(str(entry.readlink()).startswith(f"{folder}/") for entry in Path(f"/proc/{pid}/fd").iterdir())
    return False


def scenario_file(folder: Path, text: str, iterations: int = 1) -> Path:
    path = folder / "scenario.yaml"
    path.write_text(text.replace("ITERATIONS", str(iterations)))
    return path


def test_what_a_killed_worker_had_is_done_by_another(cluster: Cluster, tmp_path: Path) -> None:
    """And the process that worked on it ends with its worker."""
    doomed = cluster.start_worker()
    go, notes = tmp_path / "go", tmp_path / "notes"
    notes.mkdir()

    def pids() -> dict[int, int]:
        return {int(note.read_text() or 0): int(note.name) for note in notes.iterdir()}

    def kill() -> None:
        wait_for(lambda: doomed.pid in pids(), "a task on the third worker")
        doomed.kill()
        wait_for(lambda: not alive(pids()[doomed.pid]), "the end of its task")
        go.touch()

    with open_dask_pool(cluster.settings()) as pool:
        killer = Thread(target=kill)
        killer.start()
        answers = list(pool.run(parent_after, [(notes, go)] * 4))
        killer.join()
    assert len(answers) == 4
    assert doomed.pid not in answers


def test_a_search_whose_worker_is_killed_resumes_on_another(cluster: Cluster, tmp_path: Path) -> None:
    scenario = scenario_file(tmp_path, LONG, iterations=3)
    job = with_content(Job(scenario=scenario, folder=tmp_path / "there"))
    killed: list[int] = []

    def kill() -> None:
        (worker,) = [w for w in cluster.workers if any(writes(child, job.folder) for child in children_of(w.pid))]
        worker.kill()
        killed.append(worker.pid)

    with in_the_middle(tmp_path, "there", kill):
        (outcome,) = DaskExecutor(settings=cluster.settings()).run([job])
    cluster.start_worker()
    assert len(killed) == 1
    assert (outcome.status, outcome.message) == (0, "")
    run_job(Job(scenario=scenario, folder=tmp_path / "here"))
    assert untimed(job.folder) == untimed(tmp_path / "here")


def test_a_late_first_writer_is_not_undone(tmp_path: Path) -> None:
    """What the first worker had finished, before nobody heard of it any more, is reported by the second."""
    job = with_content(Job(scenario=scenario_file(tmp_path, SMALL), folder=tmp_path / "run"))
    first = run_job(job)
    before = {path: path.stat().st_mtime_ns for path in job.folder.rglob("*")}
    again = outcome_again(job)
    assert (again.status, again.message, again.throughput_rps) == (0, "", first.throughput_rps)
    assert {path: path.stat().st_mtime_ns for path in job.folder.rglob("*")} == before
    changed = with_content(Job(scenario=job.scenario, folder=job.folder, force=True, engine="sglang"))
    assert outcome_again(changed).status == 0


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler with one worker, which may be killed."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    with started_cluster(folder) as started:
        started.start_worker()
        yield started


def test_a_killed_scheduler_ends_the_batch_and_leaves_what_has_ended(own_cluster: Cluster, tmp_path: Path) -> None:
    """The worker ends the search that it was at; that resumes elsewhere."""
    short = tmp_path / "short.yaml"
    short.write_text(SMALL)
    jobs = [
        with_content(Job(scenario=path, folder=tmp_path / path.stem))
        for path in (short, scenario_file(tmp_path, LONG, iterations=3))
    ]
    with (
        halted(tmp_path, "scenario") as wait,
        closing(DaskExecutor(settings=own_cluster.settings()).run(jobs)) as outcomes,
    ):
        assert next(outcomes).status == 0
        killer = Thread(target=lambda: (wait(), own_cluster.scheduler.kill()))
        killer.start()
        with pytest.raises(PlannerError, match="scheduler does not answer any more") as error:
            next(outcomes)
        killer.join()
        assert "--resume" in error.value.hint
        assert files.load_run(jobs[0].folder).scenario.name == "small"
        wait_for(lambda: own_cluster.workers[0].poll() is not None, "the end of the worker")
        with closing(files.Journal.reopen(jobs[1].folder, versions())) as journal:  # nobody holds it any more
            assert journal.evaluations == EVALUATIONS


SWEEP = ("--set", "search.seed=0..1:1", "--executor", "dask", "--quiet")


@contextmanager
def planner(*words: object, folder: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """The program in a process of its own, which ends with the block."""
    variables = {**environment(), "TMPDIR": str(folder)}
    with subprocess.Popen(
        [sys.executable, "-m", "planner", *map(str, words)], cwd=folder, env=variables, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_client_and_the_sweep_resumes(tmp_path: Path, end: signal.Signals) -> None:
    """A cluster of its own: nothing of it lives on; what was planned is not planned again."""
    scenario_file(tmp_path, LONG, iterations=2)
    points = tmp_path / "grid/points"
    line = ("sweep", "scenario.yaml", *SWEEP, "--processes", 1, "--out", "grid")
    with halted(tmp_path, "1-") as wait, planner(*line, folder=tmp_path) as client:
        wait()
        processes = descendants_of(client.pid)
        assert len(processes) >= 2
        assert listening([client.pid, *processes]) == {"127.0.0.1"}
        client.send_signal(end)
        _, errors = client.communicate(timeout=LIMIT_S)
        assert client.returncode == {signal.SIGKILL: -9, signal.SIGINT: 130}[end]
        assert (b"resume with: planner sweep" in errors) == (end == signal.SIGINT)
        wait_for(lambda: not any(map(alive, processes)), "the end of the workers")
    before = {path: path.stat().st_mtime_ns for path in points.glob("[!.]*/plan.json")}
    assert len(before) == 1
    request = SweepRequest(
        scenario=tmp_path / "scenario.yaml", keys=(read_swept_key(SWEEP[1]),), folder=tmp_path / "grid"
    )
    resumed = run_sweep(request, SerialExecutor(), resume=True)
    undisturbed = run_sweep(replace(request, folder=tmp_path / "alone"), SerialExecutor())
    assert [point.state.value for point in resumed.points] == ["planned"] * 2
    assert {path: path.stat().st_mtime_ns for path in before} == before
    for point, alone in zip(resumed.points, undisturbed.points, strict=True):
        assert point.entry == alone.entry
        assert untimed(points / point.entry.name) == untimed(tmp_path / "alone/points" / alone.entry.name)


def test_a_client_that_leaves_takes_its_tasks_along(cluster: Cluster, tmp_path: Path) -> None:
    """Its connection is gone, whatever it died of; the workers are there for others."""
    job = Job(scenario=scenario_file(tmp_path, LONG, iterations=2), folder=tmp_path / "run")
    with halted(tmp_path, "run") as wait:
        with open_client(cluster.address, 1, LIMIT_S) as client:
            worker = min(workers_of(client))
            future = client.submit(answer_in_child, None, run_job, (job,), workers=[worker], pure=False)
            wait()
            (child,) = [pid for w in cluster.workers for pid in children_of(w.pid) if writes(pid, job.folder)]
            assert future.status == "pending"
        wait_for(lambda: not alive(child), "the end of the search")
    with open_dask_pool(cluster.settings()) as pool:
        assert list(pool.run(square, [(3,), (4,)])) == [9, 16]


def test_what_a_client_learns_meanwhile_takes_no_worker_away(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every two seconds a client asks for the scheduler's totals, without workers; here after each question of ours."""
    learn = Client._update_scheduler_info

    async def learn_totals_at_once(client: Client, n_workers: int = 0) -> None:
        await learn(client, n_workers)
        await learn(client)

    monkeypatch.setattr(Client, "_update_scheduler_info", learn_totals_at_once)
    with open_client(cluster.address, 1, LIMIT_S) as client:
        admission = Admission(client)
        admission.begin(0.0)
        present = dict(admission.threads)
        admission.look()
        assert admission.threads == present == workers_of(client)
    assert present


def other_planner(folder: Path) -> Path:
    """A folder in which Python finds the planner in version 9.9, before all others."""
    metadata = folder / "packages/llm_fleet_planner-9.9.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-fleet-planner\nVersion: 9.9\n")
    return metadata.parent


def test_a_worker_of_another_version_gets_no_work(own_cluster: Cluster, tmp_path: Path) -> None:
    """It is refused with the others before anything runs, and alone where it comes later."""
    heard: list[str] = []
    with open_client(own_cluster.address, 1, LIMIT_S) as client:
        admission = Admission(client, tell=heard.append)
        admission.begin(LIMIT_S)
        (sound,) = admission.threads
        own_cluster.start_worker(other_planner(tmp_path))
        wait_for(lambda: admission.look() or heard, "refusing a worker")
        assert list(admission.threads) == [sound]
        admission.look()
        assert len(heard) == 1
    assert re.search(r"Worker tcp://\S+ gets no work: it has other versions:\n", heard[0])
    job = Job(scenario=scenario_file(tmp_path, SMALL), folder=tmp_path / "run")
    with pytest.raises(InputError) as error:
        list(DaskExecutor(settings=own_cluster.settings()).run([job]))
    assert error.value.message.startswith(f"{own_cluster.address}: scheduler and workers must have the versions")
    _, titles, *rows = error.value.message.splitlines()
    assert titles.split()[:2] == ["here", "scheduler"]
    version = planner_version()
    (row,) = rows
    assert sorted(row.split()) == sorted(["planner", version, "-", version, "9.9"])
    assert not (tmp_path / "run").exists()


@contextmanager
def port(answer: bytes | None) -> Iterator[str]:
    """The address of a port that takes connections and says `answer`, or nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    if answer:
                        connection.sendall(answer)
                        connection.close()

        Thread(target=serve, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("answer", [None, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 64])
def test_what_is_no_scheduler_is_said_to_be_none(answer: bytes | None, tmp_path: Path) -> None:
    job = Job(scenario=scenario_file(tmp_path, SMALL), folder=tmp_path / "run")
    with port(answer) as address:
        settings = DaskSettings(workers=1, scheduler=address, patience_s=1.0)
        with pytest.raises(InputError, match="must be a Dask scheduler that answers within 1 s"):
            list(DaskExecutor(settings=settings).run([job]))


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8786", "tcp://8786", "inproc://1/2/3:4", "tls://host:port", "tls://a:0"]
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(InputError, match="must be tls://HOST:PORT or tcp://HOST:PORT"):
        executor_of("dask", workers=1, scheduler=address)


def test_a_closed_port_and_a_worker_in_the_place_of_a_scheduler(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    with open_client(cluster.address, 1, LIMIT_S) as client:
        worker = min(workers_of(client))
    for address in (closed, worker):
        with (
            pytest.raises(InputError, match=r"must be .*a Dask scheduler"),
            open_dask_pool(DaskSettings(workers=1, scheduler=address, patience_s=1.0)),
        ):
            pytest.fail("opened")


def test_a_scheduler_without_workers_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    with started_cluster(tmp_path) as empty:
        settings = DaskSettings(workers=1, scheduler=empty.address, patience_s=2.0)
        with (
            pytest.raises(InputError, match=r"got none within 2 s") as error,
            open_dask_pool(settings),
        ):
            pytest.fail("opened")
    assert f"dask worker {empty.address}" in error.value.hint


def test_workers_that_do_not_see_the_files_get_no_work(cluster: Cluster, tmp_path: Path) -> None:
    absent = tmp_path / "absent.yaml"
    with (
        pytest.raises(InputError, match=rf"worker tcp://\S+: must see .* does not see file {absent}\."),
        open_dispatcher(cluster.settings(), folders=(tmp_path / "new/run",), files=(absent,)),
    ):
        pytest.fail("opened")
    assert list(tmp_path.iterdir()) == []


def test_probes_tell_folders_that_are_not_there_or_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with probes_in([tmp_path / "a/b", tmp_path / "c"]) as probes:
        assert [probe.parent for probe in probes] == [tmp_path]
        assert unseen([*probes, Path(__file__)]) == ()
        elsewhere = tmp_path / "elsewhere" / probes[0].name
        assert unseen([elsewhere, tmp_path / "file"]) == (f"folder {elsewhere.parent}", f"file {tmp_path / 'file'}")
        monkeypatch.setattr(os, "access", lambda *_: False)
        assert unseen(probes) == (f"folder {tmp_path} (not writable)",)
    assert list(tmp_path.iterdir()) == []
