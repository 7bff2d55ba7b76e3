"""The job of target `slurm`, run: a Slurm of one machine that takes what Slurm documents, and engines without a model.

Hosts are loopback addresses, an address each, so that what listens for one host does not answer for another.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from contract_plans import PLANS, planned
from export_plans import example_plan, island, plan_of
from slurm_run import slurm_programs
from tools import locations

from planner.domain import ParallelConfig, Phase, Plan
from planner.errors import ExportError
from planner.export import TARGETS, ExportOptions, render
from planner.export.objects.scripts import read_launch_script

HERE = Path(slurm_programs.__file__).parent
WAIT_S = 40
pytestmark = pytest.mark.skipif(not (shutil.which("bash") and shutil.which("curl")), reason="needs bash and curl")
NET = 78 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))  # tests side by side share no port
HOSTS = {"h200": [f"127.{NET}.1.{n}" for n in range(1, 7)], "h20": [f"127.{NET}.2.{n}" for n in range(1, 8)]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that runs; `folder`: of the export, `sim`: of the Slurm that is none."""

    folder: Path
    sim: Path
    process: "subprocess.Popen[bytes]"

    @property
    def output(self) -> str:
        """What the job has said."""
        return (self.sim / "job.out").read_text() if (self.sim / "job.out").exists() else ""

    def started(self, program: str = "vllm") -> list[dict[str, Any]]:
        """How each process of the program was started, in the order of time."""
        notes = [json.loads(path.read_text()) for path in (self.sim / "started").glob("*.json") if path.stat().st_size]
        return sorted((note for note in notes if note["program"] == program), key=lambda note: note["at"])

    def until(self, text: str) -> None:
        """Wait for what the job says."""
        end = time.monotonic() + WAIT_S
        while text not in self.output:
            assert time.monotonic() < end, f"no {text!r} in {self.output}{self.logs}"
            assert self.process.poll() is None, f"{self.output}{self.logs}"
            time.sleep(0.05)

    @property
    def logs(self) -> str:
        """What its steps have said."""
        return "".join(path.read_text() for path in self.folder.glob("*.log"))


@contextmanager
def running(
    files: Mapping[str, str], folder: Path, hosts: Mapping[str, list[str]] | None = None, haproxy: str = ""
) -> Iterator[Job]:
    """The job of an export, from a folder of its own; `haproxy`: the program in place of one that only answers."""
    export, sim, programs = (folder / name for name in ("export", "sim", "bin"))
    for path in (export, sim / "started", programs):
        path.mkdir(parents=True)
    for name, text in files.items():
        (export / name).write_text(text.replace("\npause=10\n", "\npause=0.1\n"), encoding="utf-8")
    (sim / "hosts.json").write_text(json.dumps(hosts or HOSTS))
    for name in ("sbatch", "srun", "scontrol", "vllm", "apptainer", "haproxy"):
        source = HERE / ("engine.py" if name in ("vllm", "apptainer", "haproxy") else "slurm_programs.py")
        text = f'#!/bin/sh\nexec {sys.executable} -I -S {source} {name} "$@"\n'
        (programs / name).write_text(f'#!/bin/sh\nexec {haproxy} "$@"\n' if haproxy and name == "haproxy" else text)
        (programs / name).chmod(0o755)
    clean = {k: v for k, v in os.environ.items() if not k.endswith(("VISIBLE_DEVICES", "_proxy", "_PROXY"))}
    environment = {**clean, "PATH": f"{programs}:{clean['PATH']}", "SIM_FOLDER": str(sim), "TMPDIR": str(sim)}
    process = subprocess.Popen(["sbatch", "slurm.sbatch"], cwd=export, env=environment, start_new_session=True)
    try:
        yield Job(folder=export, sim=sim, process=process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def small_plan() -> Plan:
    """Copies of a host, of several hosts, and of less than one, of two islands that share hosts."""
    return plan_of(
        (
            island("P", "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=2, replicas=2), batch_size=2),
            island("A", "H20", Phase.DECODE, ParallelConfig(tp=4, dp=1, replicas=3), batch_size=4),
            island("B", "H20", Phase.DECODE, ParallelConfig(tp=4, dp=1, replicas=2), batch_size=4),
        ),
        name="small",
    )


def test_every_rank_starts_once_with_its_leader_and_its_own_gpus(tmp_path: Path) -> None:
    files = render(small_plan(), target="slurm", router="none")
    with running(files, tmp_path) as job:
        job.until(f"small-b-1 is on {HOSTS['h20'][2]}.")
        notes, parts = job.started(), json.loads((job.sim / "allotted.json").read_text())
    assert [(part["nodes"], part["gpus-per-node"]) for part in parts] == [
        ("4", "h200:8"),
        ("2", "h20:8"),
        ("1", "h20:4"),
    ]
    assert len(notes) == 4 + 5
    used = Counter((note["host"], gpu) for note in notes for gpu in note["gpus"].split(","))
    assert set(used.values()) == {1}, "no GPU twice"
    assert len(used) == 4 * 8 + 5 * 4
    doors = Counter((note["host"], word) for note in notes for word in note["words"] if word.startswith("--port="))
    assert set(doors.values()) == {1}, "no port twice on a host"
    prefill = {note["host"]: note["words"] for note in notes if note["host"] in HOSTS["h200"]}
    for first, second in ((0, 1), (2, 3)):
        leader, worker = (HOSTS["h200"][at] for at in (first, second))
        for host in (leader, worker):
            assert f"--data-parallel-address={leader}" in prefill[host]
        assert "--data-parallel-start-rank=1" in prefill[worker]
        assert "--data-parallel-start-rank=1" not in prefill[leader]


def test_a_copy_is_started_as_its_script_starts_it(tmp_path: Path) -> None:
    """SGLang's words are filled in by the script; those of rank 3 of 4 are what bash makes of it here."""
    files = render(example_plan(), target="slurm", engine="sglang", router="none")
    rows = [words.split() for words in slurm_list(files, "copies")]
    for row in rows:
        script = read_launch_script(files[row[4]])
        assert (row[3], int(row[2]) * int(row[6]), int(row[7])) == (
            script["metadata"]["name"],
            script["ranks"],
            script["gpus"],
        )
    assert Counter(row[4] for row in rows) == {
        name: read_launch_script(text)["copies"] for name, text in files.items() if re.match(r"\d", name)
    }


@pytest.mark.parametrize(
    ("vendor", "environment", "shown"),
    [
        ("NVIDIA", {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}, "4,5,6,7 unset"),
        (
            "NVIDIA",
            {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b,GPU-c,GPU-d,GPU-e,GPU-f,GPU-g,GPU-h"},
            "GPU-e,GPU-f,GPU-g,GPU-h unset",
        ),
        (
            "AMD",
            {"ROCR_VISIBLE_DEVICES": "8,9,10,11,12,13,14,15", "CUDA_VISIBLE_DEVICES": "8,9,10,11,12,13,14,15"},
            "unset 4,5,6,7",
        ),
    ],
)
def test_processes_of_a_copy_on_one_host_share_its_gpus_out(
    vendor: str, environment: dict[str, str], shown: str, tmp_path: Path
) -> None:
    """The second of two on the second of three hosts; HIP counts the GPUs that ROCR leaves."""
    text = render(example_plan(), target="slurm")["slurm.sbatch"]
    function = re.search(r"^as_rank\(\) \{$.*?^\}$", text, re.MULTILINE | re.DOTALL)
    assert function
    script = 'echo "$@" "${CUDA_VISIBLE_DEVICES:-unset}" "${HIP_VISIBLE_DEVICES:-unset}"'
    (tmp_path / "launch.sh").write_text(script)
    call = f"set -eu; {function[0]}\nas_rank {tmp_path}/launch.sh 5 2 4 {vendor} h2 h1 h0"
    clean = {k: v for k, v in os.environ.items() if not k.endswith("VISIBLE_DEVICES")}
    numbers = {"SLURM_LOCALID": "1", "SLURM_PROCID": "0", "SLURMD_NODENAME": "h1"}
    done = subprocess.run(
        ["bash", "-c", call], env=clean | numbers | environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"5 3 h2 h1 {shown}\n"


def slurm_list(files: Mapping[str, str], name: str) -> list[str]:
    """The words of a list of the job's script."""
    text = files["slurm.sbatch"].split(f"\n{name}=(\n")[1].split("\n)\n")[0]
    return [line.strip().strip("'") for line in text.splitlines()]


def test_the_router_gets_every_address_and_ending_the_job_ends_all(tmp_path: Path) -> None:
    plan = PLANS["aggregated"]()
    files = render(plan, target="slurm")
    with running(files, tmp_path) as job:
        job.until(f"Requests are taken at http://{HOSTS['h20'][0]}:8080/v1.")
        (front,) = job.started("haproxy")
        engines = job.started()
        servers = re.findall(r"^    server \S+ (\S+):(\d+) ", front["config"], re.MULTILINE)
        planned = re.findall(r"^    server \S+ (\S+):(\d+) ", files["haproxy.cfg"], re.MULTILINE)
        assert len(set(servers)) == len(servers) == len(planned) > len(engines)
        assert {host for host, _ in servers} == {note["host"] for note in engines}
        assert [port for _, port in servers] == [port for _, port in planned]
        assert not any(f"{name}:" in front["config"] for name, _ in planned)
        job.process.send_signal(signal.SIGTERM)
        assert job.process.wait(WAIT_S) == 128 + signal.SIGTERM
        pids = [note["pid"] for note in (*engines, front)]
        assert [pid for pid in pids if alive(pid)] == []
        assert "aggregated: ends." in job.output
        assert [path.name for path in job.sim.glob("tmp.*")] == []
        assert json.loads((job.sim / "taken.json").read_text()) == {note["host"]: [] for note in engines}


def test_a_copy_that_ends_starts_again_and_the_others_go_on(tmp_path: Path) -> None:
    with running(render(small_plan(), target="slurm", router="none"), tmp_path) as job:
        job.until("small-b-1 is on")
        before = job.started()
        leader, worker = (next(n for n in before if n["host"] == host) for host in HOSTS["h200"][:2])
        os.kill(worker["pid"], signal.SIGKILL)
        job.until("copy 0 of small-p ended with status")
        end = time.monotonic() + WAIT_S
        while len(job.started()) < len(before) + 2 and time.monotonic() < end:
            time.sleep(0.05)
        again = job.started()[len(before) :]
        assert sorted((note["host"], note["words"]) for note in again) == sorted(
            (note["host"], note["words"]) for note in (leader, worker)
        )
        assert not alive(leader["pid"])
        assert all(alive(note["pid"]) for note in before if note not in (leader, worker))


def test_haproxy_itself_takes_the_filled_in_configuration(tmp_path: Path) -> None:
    locations.require("haproxy")
    files = dict(render(PLANS["aggregated"](), target="slurm"))
    front = HOSTS["h20"][0]
    files["haproxy.cfg"] = files["haproxy.cfg"].replace("bind :", f"bind {front}:")
    with running(files, tmp_path, haproxy=str(locations.program("haproxy"))) as job:
        job.until(f"Requests are taken at http://{front}:8080/v1.")
        answers = Counter[str]()
        for _ in range(12):
            request = urllib.request.Request(f"http://{front}:8080/v1/completions", data=b"{}", method="POST")
            answers[json.loads(urllib.request.urlopen(request, timeout=10).read())["host"]] += 1
        assert set(answers) <= {note["host"] for note in job.started()}
        assert len(answers) > 1


@pytest.mark.parametrize(
    ("folder", "lost", "told"),
    [
        ("a%j", "", "the folder: must have a name that srun takes as it is"),
        ("a b", "", "the folder: must have a name that srun takes as it is"),
        ("a", "03-b.sh", "03-b.sh: must be in the folder that sbatch is called from"),
    ],
)
def test_a_job_that_cannot_start_says_why_and_ends(folder: str, lost: str, told: str, tmp_path: Path) -> None:
    files = {name: text for name, text in render(small_plan(), target="slurm").items() if name != lost}
    with running(files, tmp_path / folder) as job:
        assert job.process.wait(WAIT_S) == 2
        assert told in job.output
        assert not [note for note in job.started() if alive(note["pid"])]


@pytest.mark.parametrize("container", ["pyxis", "apptainer"])
def test_containers_see_the_folder_and_run_the_engines_image(container: str, tmp_path: Path) -> None:
    words = (("container", container), ("mounts", "/models:/models:ro"))
    files = render(PLANS["aggregated"](), target="slurm", options=ExportOptions(sbatch=words))
    with running(files, tmp_path) as job:
        job.until("Requests are taken at")
        engines, boxes = job.started(), job.started("apptainer")
        mounted = f"{job.folder}:{job.folder},/models:/models:ro"
        if container == "pyxis":
            assert {note["step"]["container-mounts"] for note in engines} == {mounted}
            assert {note["step"]["container-image"] for note in engines} == {"vllm/vllm-openai:v0.33.0"}
            assert [n["step"]["container-image"] for n in job.started("haproxy")] == ["haproxy:2.6.12"]
        else:
            starts = [note["words"][: note["words"].index("bash")] for note in boxes]
            assert starts.count(["exec", "--nv", "--bind", mounted, "docker://vllm/vllm-openai:v0.33.0"]) == 4
            assert [start[-1] for start in starts].count("docker://haproxy:2.6.12") == 1


@pytest.mark.parametrize("engine", TARGETS["slurm"].engines)
@pytest.mark.parametrize("plan", PLANS)
def test_slurm_documents_every_option_of_the_job(plan: str, engine: str) -> None:
    words = (("partition", "a,b"), ("account", "x"), ("constraint", "[r1|r2]&ib"), ("time", "1-0:00:00"), ("qos", "q"))
    made = planned(plan, engine)
    options = ExportOptions(sbatch=(*words, ("reservation", "serving")))
    try:
        job = render(made, target="slurm", engine=engine, options=options)["slurm.sbatch"]
    except ExportError as error:
        pytest.skip(f"{engine} cannot start it: {error.message}")
    parts = slurm_programs.directives(job)
    assert [part["partition"] for part in parts] == ["a,b"] * len(parts)
    assert parts[0]["signal"] == "B:TERM@60"
    assert all("account" not in part for part in parts[1:]), "Slurm hands it on"
    gpus = Counter[str]()
    for part in parts:
        kind, count = slurm_programs.gres(part["gpus-per-node"])
        gpus[kind] += int(part["nodes"]) * count
    assert gpus == Counter(i.gpu.lower() for i in made.islands if i.phase is not None for _ in range(i.size))


@pytest.mark.parametrize(
    "line", ["--gpu-per-node=4", "--nodes", "--exclusive --nodes=2", "--mem=lots", "--no-kill=1 -x"]
)
def test_the_judge_refuses_what_slurm_does_not_document(line: str) -> None:
    text = render(example_plan(), target="slurm")["slurm.sbatch"].replace("--exclusive", line, 1)
    with pytest.raises(SystemExit):
        slurm_programs.directives(text)
