"""README and guides are true: their commands and code run, their scenarios are read, their files and pages exist."""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from documentation import BLOCKS, README, ROOT, TEXT, blocks
from plain_pictures import copied_pictures

from planner.cli import main
from planner.files import load_gpu_specs

Planner = Callable[[str], str]

MEASUREMENTS = "gpu,model,phase,tp,dp,ep,length,batch,ms\nH200,deepseek-v3,decode,1,32,32,4096,64,60\n"
GPU_NUMA = "default: [0, 0, 0, 0, 1, 1, 1, 1]\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"n{k},{cpus}000,393216,{gpus},{model}\n"
    for k, (model, gpus, cpus) in enumerate([("G2", 8, 96), ("T4", 2, 104)] * 4)
)
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n" + "".join(
    f"p{k},{4 + 4 * (k % 3)}000,8192,{gpus},{milli},,{60 * k},{60 * k + 1800}\n"
    for k, (gpus, milli) in enumerate([(1, 1000), (1, 500), (0, 0), (1, 470), (2, 1000)] * 6)
)
SERVERS = "server_id,gpu_spec_public,gpu_count,day,hour\ns1,H20,8,109,0\ns2,A10,1,109,0\n"
TRACE = "arrival_s,input_tokens,output_tokens\n0,100,10\n1.5,2000,20\n2,300,0\n"


def cluster_list() -> str:
    """What `kubectl get nodes,pods -A -o json` says of a node of eight H200 with a pod on two of them."""
    held = {"cpu": "96", "memory": "1000Gi", "nvidia.com/gpu": "8"}
    asked = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "2"}
    labels = {"rack": "r1", "nvidia.com/gpu.product": "NVIDIA-H200"}
    node = {
        "kind": "Node",
        "metadata": {"name": "n-1", "labels": labels},
        "status": {"capacity": held, "allocatable": held},
    }
    spec = {"nodeName": "n-1", "containers": [{"name": "c", "resources": {"requests": asked}}]}
    pod = {"kind": "Pod", "metadata": {"name": "a", "namespace": "ns"}, "spec": spec}
    return json.dumps({"kind": "List", "items": [node, pod]})


def file_stem(document: dict[str, object]) -> str:
    """A scenario has a name; what has none is a jobs file or an offer."""
    return str(document.get("name", "jobs" if "jobs" in document else "offer"))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with what a reader of the README has at hand."""
    for name in ("workloads", "gpu_specs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "server_hourly.csv").write_text(SERVERS)
    (tmp_path / "measurements.csv").write_text(MEASUREMENTS)
    (tmp_path / "cluster-list.json").write_text(cluster_list())
    (tmp_path / "gpu-numa.yaml").write_text(GPU_NUMA)
    (load,) = (text for text in blocks("text") if text.startswith("time,requests_per_s\n"))
    (tmp_path / "load.csv").write_text(load)
    for document in blocks("yaml"):
        (tmp_path / f"{file_stem(yaml.safe_load(document))}.yaml").write_text(document)
    return tmp_path


@pytest.fixture
def planner(checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Planner]:
    """Runs a line of the README in this process, in that folder; its standard output. A process of its own, as the
    tests of the command line start some, would load the libraries anew for every line."""

    def typed(line: str) -> str:
        monkeypatch.chdir(checkout)
        monkeypatch.setattr(sys, "argv", line.split())
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        assert not left.value.code, f"{line}: {said.err}"
        return said.out

    before = signal.getsignal(signal.SIGTERM)
    with copied_pictures():
        yield typed
    signal.signal(signal.SIGTERM, before)


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    assert {kind for kind, _ in BLOCKS} == {"", "bash", "python", "text", "yaml"}


def test_commands_run_in_order(planner: Planner, checkout: Path) -> None:
    for line in "".join(blocks("bash")).splitlines():
        assert line.startswith("planner ")
        planner(line)
    assert (checkout / "runs/chapter5/study.md").is_file()
    assert (checkout / "runs/quickstart/plan.json").is_file()
    assert (checkout / "runs/quickstart-lws/routing.yaml").is_file()
    assert (checkout / "my-trace.yaml").is_file()
    assert (checkout / "runs/quickstart-placed/placement.csv").is_file()
    assert (checkout / "mine.yaml").is_file()
    assert (checkout / "runs/policies/metrics.csv").is_file()
    assert (checkout / "runs/preemption/hit_rates.csv").is_file()
    assert (checkout / "runs/serving/serving.csv").is_file()
    assert (checkout / "runs/quickstart-script/routing.json").is_file()
    assert (checkout / "runs/spot/curve.csv").is_file()
    assert (checkout / "runs/budget/plan.json").is_file()
    assert (checkout / "runs/watched/current").read_text() == "plans/0002\n"
    assert (checkout / "runs/cheapest-50rps/plan.json").is_file()
    assert (checkout / "runs/docs/index.html").is_file()
    assert (checkout / "runs/watched/report.html").is_file()


def test_python_blocks_run(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    with copied_pictures():
        exec(compile("\n".join(blocks("python")), "README.md", "exec"), {"__name__": "__main__"})
    assert (checkout / "runs/from-a-notebook/plan.json").is_file()


def test_the_scenarios_are_scenarios(planner: Planner, checkout: Path) -> None:
    (synth,) = (line for line in "".join(blocks("bash")).splitlines() if line.endswith("--out cluster.yaml"))
    planner(synth)
    names = [document["name"] for document in map(yaml.safe_load, blocks("yaml")) if "name" in document]
    assert "my-fleet" in names
    for name in names:
        assert name in planner(f"planner check {name}.yaml")


def test_make_targets_do_what_the_set_up_says() -> None:
    setup = blocks("")[0]
    for target in re.findall(r"^make (\w+)", setup, re.MULTILINE):
        recipe = subprocess.run(
            ["make", "-n", "-B", target], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        expected = "planner plan workloads/scenarios/mixed-fleet.yaml" if target == "plan" else "pytest"
        assert expected in recipe
        assert "PIP_CONSTRAINT" in (ROOT / "Makefile").read_text()


def test_the_readme_is_a_page_of_200_lines() -> None:
    assert len(README.splitlines()) <= 200


def test_the_readme_counts_the_gpu_types() -> None:
    assert f"lists the {len(load_gpu_specs())} GPU types at hand" in README


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_files_that_texts_name_exist() -> None:
    shipped = {
        path
        for path in re.findall(r"`((?:planner|notebooks|workloads|gpu_specs)/[\w./-]+)`", TEXT)
        if "NAME" not in path
    }
    assert len(shipped) > 8
    assert [path for path in shipped if not (ROOT / path).exists()] == []


def test_every_file_of_the_tables_exists() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| (.*`.*) \|$", guide, re.MULTILINE)
    paths = [path for row in rows for path in re.findall(r"`([\w./]+/[\w./]*)`", row) if "NAME" not in path]
    assert len(paths) > 60
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_versions_are_all_pinned() -> None:
    pinned = {
        re.split(r"==", line)[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    project = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"dependencies = \[(.*?)\].*?dev = \[(.*?)\]", project, re.DOTALL)
    assert listed is not None
    named = set(re.findall(r'"([\w-]+)"', (listed[1] + listed[2]).lower()))
    assert named - pinned == set()
