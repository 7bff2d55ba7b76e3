"""Who has no key of a cluster is refused, and runs nothing: by every port that it listens at."""

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

import psutil
import pytest
import yaml
from dask_processes import HERE, LIMIT_S, Cluster, environment, files_below, halted, wait_for
from test_dask_answers import SMALL
from test_dask_faults import LONG, SWEEP, descendants_of, listening, planner, scenario_file

import planner as planner_package
from planner.errors import InputError
from planner.export.batch_objects import DASK_PORT, TLS_FOLDER, BatchObjects, dask_files
from planner.runs.batches.dask_engine.clusters import open_client, require_address
from planner.runs.batches.dask_engine.executor import open_dispatcher


def ports_of(pids: list[int]) -> list[str]:
    """Ports of 127.0.0.1 at which processes listen; AssertionError where one listens elsewhere."""
    addresses = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            connections = psutil.Process(pid).net_connections()
            addresses += [entry.laddr for entry in connections if entry.status == psutil.CONN_LISTEN]
    assert {address.ip for address in addresses} == {"127.0.0.1"}
    return [str(address.port) for address in addresses]


def stranger(mark: Path, ports: list[str], patience_s: float = 5.0) -> dict[str, str | None]:
    """What a stranger's tries came to, by name. Who is refused learns it at once; pages alone keep silent."""
    words = [sys.executable, str(HERE / "stranger.py"), str(patience_s), str(mark), *ports]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    tries: dict[str, str | None] = json.loads(done.stdout)
    return tries


@pytest.mark.parametrize(
    "line",
    [
        ("sweep", "scenario.yaml", *SWEEP, "--out", "1-grid"),
        pytest.param(
            ("plan", "scenario.yaml", "--executor", "dask", "--out", "1-run", "--quiet"), marks=pytest.mark.study
        ),
    ],
    ids=["jobs", "layouts"],
)
def test_a_stranger_is_refused_by_a_cluster_of_ours(line: tuple[str, ...], tmp_path: Path) -> None:
    """Of jobs and of layouts; and no file of the run or the scratch folder holds its key."""
    scenario_file(tmp_path, LONG, iterations=2)
    with halted(tmp_path, "1-") as wait, planner(*line, "--processes", 1, folder=tmp_path) as client:
        wait()
        processes = [client.pid, *descendants_of(client.pid)]
        ports = ports_of(processes)
        assert len(ports) >= 3, "scheduler, nanny, worker"
        tries = stranger(tmp_path / "mark", ports)
        assert len(tries) == 10 * len(ports)
        assert {name: answer for name, answer in tries.items() if answer is not None} == {}
        assert not (tmp_path / "mark").exists()
        assert [path for path in files_below(tmp_path, "*") if b"PRIVATE KEY" in path.read_bytes()] == []
        for pid in processes:
            said = (Path(f"/proc/{pid}/cmdline").read_bytes(), Path(f"/proc/{pid}/environ").read_bytes())
            assert not any(b"PRIVATE KEY" in text for text in said)


def test_one_module_starts_clusters() -> None:
    """So that what holds of one command's cluster holds of all."""
    starts = [path for path in Path(planner_package.__file__).parent.rglob("*.py") if "Cluster(" in path.read_text()]
    assert [path.name for path in starts if "distributed" in path.read_text()] == ["clusters.py"]


def test_a_stranger_runs_code_where_nobody_asks_for_a_key(cluster: Cluster, tmp_path: Path) -> None:
    """The same tries at a scheduler and workers without TLS succeed, so that a refusal means something."""
    heard: list[str] = []
    mark = tmp_path / "mark"
    with open_client(cluster.address, 1, LIMIT_S) as client:
        (worker, *_) = client.scheduler_info(n_workers=-1)["workers"]
    scheduler = cluster.address.rpartition(":")[2]
    tries = stranger(mark, [scheduler, worker.rpartition(":")[2]], LIMIT_S / 4)
    assert tries[f"identify by tcp at {scheduler}"] == "Scheduler"
    assert tries[f"submit by tcp at {scheduler}"] == str(len(cluster.address))
    assert "ran" in tries.values()
    assert mark.read_text()
    with open_dispatcher(cluster.settings(tell=heard.append)):
        assert [f"--scheduler {cluster.address} asks nobody for a key" in warning for warning in heard] == [True]


BATCH = BatchObjects(
    name="nightly",
    image="planner:1",
    claim="files",
    mount=PurePosixPath("/files"),
    jobs=PurePosixPath("/files/jobs.yaml"),
    folder=PurePosixPath("/files/out"),
    workers=1,
)


def containers(files: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The container of each Deployment and Job."""
    for text in files.values():
        for thing in yaml.safe_load_all(text):
            if "template" in thing["spec"]:
                yield thing["spec"]["template"]["spec"]["containers"][0]


@contextmanager
def started(container: dict[str, Any], folder: Path, places: dict[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    """A container's command with its variables here, `places` of the pod and of the cluster put into those of here."""
    text = json.dumps({"words": container["command"], "env": {row["name"]: row["value"] for row in container["env"]}})
    for there, here in places.items():
        text = text.replace(there, here)
    here_said = json.loads(text)
    program, *words = here_said["words"]
    module = "planner" if program == "planner" else f"distributed.cli.dask_{words.pop(0)}"
    variables = environment() | {"TMPDIR": str(folder)} | here_said["env"]
    more = [] if program == "planner" else ["--host", "127.0.0.1"]
    with subprocess.Popen([sys.executable, "-m", module, *words, *more], env=variables, cwd=folder) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_cluster_of_the_manifests_refuses_a_stranger_and_does_its_jobs(tmp_path: Path) -> None:
    """Scheduler, worker and client run as the pods would, with a certificate made as the notes say."""
    files = dask_files(BATCH)
    (line,) = re.findall(r"^# (openssl .*)$", files["20-scheduler.yaml"], re.MULTILINE)
    subprocess.run(shlex.split(line), cwd=tmp_path, check=True, capture_output=True)
    shutil.copy(tmp_path / "tls.crt", tmp_path / "ca.crt")
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "jobs.yaml").write_text("jobs: [{scenario: small.yaml}]\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    places = {
        str(TLS_FOLDER): str(tmp_path),
        "/files": str(tmp_path),
        '"/tmp"': f'"{tmp_path}"',
        f"{BATCH.name}-scheduler:{DASK_PORT}": f"127.0.0.1:{port}",
        f'"{DASK_PORT}"': f'"{port}"',
    }
    scheduler, worker, client, _ = containers(files)
    with started(scheduler, tmp_path, places) as first, started(worker, tmp_path, places) as second:
        wait_for(lambda: listening([first.pid]) and listening([second.pid]), "starting a scheduler and a worker")
        with started(client, tmp_path, places) as third:
            third.communicate(timeout=LIMIT_S)
            assert third.returncode == 0
        tries = stranger(tmp_path / "mark", ports_of([first.pid, second.pid]))
    refused = {name: answer for name, answer in tries.items() if not name.startswith("page")}
    assert len(refused) >= 2 * 9
    assert set(refused.values()) == {None}
    assert not (tmp_path / "mark").exists()
    assert [path.name for path in tmp_path.rglob("plan.json")] == ["plan.json"]
    keys = [path.name for path in files_below(tmp_path, "*") if b"PRIVATE KEY" in path.read_bytes()]
    assert keys == ["tls.key"]


def test_a_certificate_that_is_not_configured_is_asked_for() -> None:
    with (
        pytest.raises(InputError, match=r"lacks distributed.comm.tls.ca-file and distributed.comm.tls.client.cert"),
        open_client("tls://10.0.0.5:8786", 1, LIMIT_S),
    ):
        pytest.fail("opened")


@pytest.mark.parametrize("host", ["10.0.0.5", "scheduler.example", "0.0.0.0", "[2001:db8::1]", "127.0.0.1.example"])
def test_other_machines_are_reached_by_tls_alone(host: str) -> None:
    require_address(f"tls://{host}:8786")
    with pytest.raises(InputError, match="must be tls:// where the scheduler is on another machine") as error:
        require_address(f"tcp://{host}:8786")
    assert "planner docs dask" in error.value.hint


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "[::1]"])
def test_this_machine_is_reached_without(host: str) -> None:
    require_address(f"tcp://{host}:8786")
