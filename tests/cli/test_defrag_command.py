"""`planner defrag`: what it writes, what its script does to a cluster, what it refuses."""

import csv
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Command

from planner.defragmentation import replay
from planner.domain import Cluster, ClusterNode, NodeGpu, NumaNode, Pod
from planner.domain.defragmentation import Move
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE
from planner.files import load_cluster, write_cluster
from planner.placement.clusters.synthetic import NodeType, TaskMix, synthesize

FILES = {"README.md", "moves.json", "moves.csv", "migrate.sh", "evictions", "cluster-after.yaml"}


def node(name: str) -> ClusterNode:
    gpus = tuple(NodeGpu(index=at, uuid=f"GPU-{name}-{at}", numa=0) for at in range(4))
    return ClusterNode(
        name=name,
        gpu="H20",
        gpus=gpus,
        numa_nodes=(NumaNode(id=0, socket=0),),
        cpus=64.0,
        memory_gb=512.0,
        asw="asw-0",
    )


def pod(name: str, place: str, gpus: range, *, locked: bool = False, namespace: str = "default") -> Pod:
    return Pod(
        name=name, node=place, namespace=namespace, gpus=tuple(gpus), gpu_request=len(gpus), cpus=4.0, locked=locked
    )


def figure_15(**names: str) -> Cluster:
    """ASI paper, figure 15; `names` replaces those of pods."""
    pods = (
        pod(names.get("j1", "j1"), "n0", range(3), namespace=names.get("namespace", "default")),
        pod("j2", "n1", range(1), locked=True),
        pod("j3", "n1", range(1, 3)),
        pod("j4", "n2", range(2), locked=True),
        pod("j7", "n2", range(2, 3)),
        pod("j8", "n3", range(3), locked=True),
    )
    return Cluster(name="figure-15", nodes=tuple(map(node, ("n0", "n1", "n2", "n3"))), pods=pods)


@pytest.fixture
def example(here: Path) -> Path:
    write_cluster(figure_15(), Path("c.yaml"))
    return Path("c.yaml")


def test_the_plan_s_files_agree(planner: Command, example: Path) -> None:
    answer = planner("defrag", example, "--out", "plan", "--overlap-minutes", 30)
    assert (answer.status, answer.err) == (EXIT_DONE, "")
    assert answer.out.splitlines()[0] == "1 node vacated by 3 moves in 3 waves, 3 GPU-hours held twice."
    assert {path.name for path in Path("plan").iterdir()} == FILES
    document = json.loads(Path("plan/moves.json").read_text())
    rows = list(csv.DictReader(Path("plan/moves.csv").read_text().splitlines()))
    assert [(row["pod"], row["source"], row["target"]) for row in rows] == [
        ("default/j7", "n2", "n3"),
        ("default/j3", "n1", "n2"),
        ("default/j1", "n0", "n1"),
    ]
    assert [(row["order"], row["gpu_indices"]) for row in rows] == [("1", "3"), ("2", "2 3"), ("3", "1 2 3")]
    moves = [Move(**move | {"gpu_indices": tuple(move["gpu_indices"])}) for move in document["moves"]]
    assert replay(figure_15(), moves) == load_cluster(Path("plan/cluster-after.yaml"))
    evictions = json.loads(Path("plan/evictions/step-0001.json").read_text())["items"]
    assert [item["metadata"]["name"] for item in evictions] == ["j7", "j3", "j1"]
    assert {(item["apiVersion"], item["kind"]) for item in evictions} == {("policy/v1", "Eviction")}
    page = Path("plan/README.md").read_text()
    assert "| 1 | n0 (H20) | 4 | 3 | 3 | 0 |" in page
    assert document.pop("digests")
    assert planner("defrag", example, "--overlap-minutes", 30, "--json").json == document


def test_nothing_to_gain_is_said_plainly(planner: Command, example: Path) -> None:
    answer = planner("defrag", example, "--depth", 2, "--states", 0, "--out", "plan")
    assert answer.status == EXIT_DONE
    assert answer.out.startswith("Nothing is gained by moving pods: no node can be vacated")
    assert {path.name for path in Path("plan").iterdir()} == FILES - {"migrate.sh", "evictions"}
    assert load_cluster(Path("plan/cluster-after.yaml")) == figure_15()


def test_nothing_is_overwritten_unasked(planner: Command, example: Path) -> None:
    planner("defrag", example, "--out", "plan")
    before = {path: path.read_bytes() for path in Path("plan").rglob("*") if path.is_file()}
    again = planner("defrag", example, "--out", "plan", "--depth", 1)
    assert again.status == EXIT_BAD_INPUT
    assert {path: path.read_bytes() for path in Path("plan").rglob("*") if path.is_file()} == before
    assert planner("defrag", example, "--out", "plan", "--depth", 1, "--states", 0, "--force").status == EXIT_DONE
    assert not Path("plan/migrate.sh").exists()
    Path("plan/notes.txt").write_text("mine")
    assert planner("defrag", example, "--out", "plan", "--force").status == EXIT_BAD_INPUT


def test_the_same_bytes_in_any_number_of_processes(planner: Command, here: Path) -> None:
    mix = TaskMix(filled=1.0)
    write_cluster(synthesize(120, 3, 0.87, types=(NodeType(gpu="H800", share=1.0),), mix=mix), Path("c.yaml"))
    for folder, processes in (("first", 1), ("second", 2)):
        options = ("--partition-nodes", 10, "--seed", 5, "--processes", processes, "--out", folder)
        assert planner("defrag", "c.yaml", *options).status == EXIT_DONE
    first, second = (
        {path.relative_to(folder): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
        for folder in ("first", "second")
    )
    assert first == second
    assert len(json.loads(first[Path("moves.json")])["moves"]) >= 5


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"j1": "j1; rm -rf x"}, "its pod must be a Kubernetes name to be moved, got 'j1; rm -rf x'"),
        ({"j1": "J1"}, "its pod must be a Kubernetes name"),
        ({"namespace": "a.b"}, "its namespace must be a Kubernetes name to be moved, got 'a.b'"),
    ],
)
def test_names_that_are_none_are_refused(planner: Command, here: Path, names: dict[str, str], words: str) -> None:
    write_cluster(figure_15(**names), Path("c.yaml"))
    answer = planner("defrag", "c.yaml", "--out", "plan")
    assert (answer.status, Path("plan").exists()) == (EXIT_BAD_INPUT, False)
    assert words in answer.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--aim", "rack"), "--aim: must be one of nodes, switch, nvlink_domain, got 'rack'"),
        (("--aim", "switch"), "pods must name their job"),
        (("--most-gpu-hours", "inf"), "most_gpu_hours must be finite"),
    ],
)
def test_options_that_make_no_sense(planner: Command, example: Path, options: tuple[str, ...], words: str) -> None:
    answer = planner("defrag", example, *options)
    assert answer.status == EXIT_BAD_INPUT
    assert words in answer.err


def test_contradictions_are_reported_and_overcommitted_clusters_refused(planner: Command, here: Path) -> None:
    text = """\
name: odd
shapes: {s: {gpu: H20, gpus_per_numa: 4, numa_nodes: [{socket: 0}], cpus: 64, memory_gb: 512}}
nodes: [{name: a, shape: s, asw: x}, {name: b, shape: s, asw: x}]
pods:
- {name: p, node: a, gpus: [0], node_selector: {pool: fast}}
- {name: q, node: b, gpus: [0]}
"""
    Path("odd.yaml").write_text(text)
    answer = planner("defrag", "odd.yaml", "--json")
    assert answer.json["problems"] == [
        "pod default/p: node a lacks the label pool=fast that it selects; left where they are"
    ]
    assert [move["pod"] for move in answer.json["moves"]] == ["default/q"]
    for line, words in (
        ("- {name: r, node: c, gpus: [0]}", "must be a node of the cluster"),
        ("- {name: r, node: a, gpu_request: 4}", "must be at most the 4 that it has, got 5"),
    ):
        Path("odd.yaml").write_text(f"{text}{line}\n")
        answer = planner("defrag", "odd.yaml", "--out", "plan")
        assert (answer.status, Path("plan").exists()) == (EXIT_BAD_INPUT, False)
        assert words in answer.err


def test_rhythms_are_compared(planner: Command, here: Path) -> None:
    """Printed, as JSON, and in a folder with all of it; by the pods' own copies and by a list of tasks."""
    write_cluster(synthesize(12, 3, 0.85, types=(NodeType(gpu="H800", share=1.0),)), Path("c.yaml"))
    lines = ("submit_h,life_h,gpus,cpus,memory_gb,gpu", *(f"{at},9,{1 + at % 4},8,16,H800" for at in range(25)))
    Path("tasks.csv").write_text("\n".join(lines))
    options = ("--every", "never,12,3", "--days", 1, "--seeds", "0-1", "--processes", 1)
    answer = planner("defrag", "c.yaml", *options, "--out", "r")
    assert (answer.status, answer.err) == (EXIT_DONE, "")
    assert answer.out.startswith("Recommended: ")
    assert {path.name for path in Path("r").iterdir()} == {"README.md", "report.html", "rhythms.csv", "rhythms.json"}
    rows = list(csv.DictReader(Path("r/rhythms.csv").read_text().splitlines()))
    assert [row["every_hours"] for row in rows] == ["", "12", "3"]
    document = planner("defrag", "c.yaml", *options, "--json").json
    assert [row["freed"]["mean"] for row in document["rhythms"]] == [
        pytest.approx(float(row["freed"]), rel=1e-6) for row in rows
    ]
    listed = planner("defrag", "c.yaml", *options, "--tasks", "tasks.csv", "--json").json
    assert (document["tasks"], listed["tasks"]) == (0, 25)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--every", "daily"), "--every: must be hours, and never, got 'daily'"),
        (("--every", "6,never"), "rhythms must be never and others"),
        (("--every", "never,6", "--aim", "switch"), "--every: nodes are vacated, got --aim switch"),
        (("--tasks", "tasks.csv"), "--tasks: goes with --every"),
        (("--life-hours", 3), "--life-hours: goes with --every"),
        (("--every", "never,6", "--seed", 1), "--seed: is of one plan"),
        (("--every", "never,6", "--tasks", "early.csv"), "must come for the 336 hours that are simulated"),
        (("--every", "never,6", "--tasks", "tasks.csv"), "row 2, column life_h must be a number above 0, got '0'"),
    ],
)
def test_rhythms_that_make_no_sense(planner: Command, example: Path, options: tuple[str, ...], words: str) -> None:
    Path("tasks.csv").write_text("submit_h,life_h,gpus,cpus\n0,1,1,1\n0,0,1,1\n")
    Path("early.csv").write_text("submit_h,life_h,gpus,cpus\n0,1,1,1\n")
    answer = planner("defrag", example, *options, "--out", "r")
    assert (answer.status, Path("r").exists()) == (EXIT_BAD_INPUT, False)
    assert words in answer.err


KUBECTL = r"""
import json, pathlib, sys
state = pathlib.Path("state.json")
pods = json.loads(state.read_text())
log = open("log.txt", "a")
words = sys.argv[1:]
def done(): state.write_text(json.dumps(pods)); sys.exit(0)
def option(name): return words[words.index(name) + 1]
if words[0] == "get":
    row = pods.get(option("--namespace") + "/" + words[2])
    shown = option("--output")
    if shown == "json": print(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": words[2],
        "namespace": option("--namespace"), "uid": "u", "labels": {"app": "a", "pod-template-hash": "h"},
        "ownerReferences": [{}]}, "spec": {"nodeName": row["node"], "containers": []}, "status": {}}))
    elif row: print({"jsonpath={.spec.nodeName}": row["node"], "name": "pod/" + words[2]}.get(shown,
        row["owner"] if "ownerReferences" in shown else "h"), end="")
elif words[0] == "create" and words[1] == "--raw":
    body = json.load(sys.stdin)
    key = body["metadata"]["namespace"] + "/" + body["metadata"]["name"]
    print("evict", key, file=log); del pods[key]; done()
elif words[0] == "create":
    body = json.load(sys.stdin)
    assert set(body["metadata"]) == {"name", "namespace", "labels", "annotations"}, body
    assert "pod-template-hash" not in body["metadata"]["labels"] and "nodeName" not in body["spec"]
    terms = body["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (target,) = terms["nodeSelectorTerms"][0]["matchFields"][0]["values"]
    print("create", body["metadata"]["name"], target, file=log)
    pods[body["metadata"]["namespace"] + "/" + body["metadata"]["name"]] = {"node": target, "owner": ""}; done()
else:
    print(*words, file=log)
"""
"""Stands for kubectl over a file of pods; what it is told goes into log.txt."""


def carried_out(folder: Path, owners: dict[str, str], **environment: str) -> subprocess.CompletedProcess[str]:
    state = {item.key: {"node": item.node, "owner": owners.get(item.name, "")} for item in figure_15().pods}
    if not Path("state.json").exists():
        Path("state.json").write_text(json.dumps(state))
    kubectl = Path("kubectl")
    kubectl.write_text(f"#!{sys.executable} -SE{KUBECTL}")  # a moment; what `env` finds may take longer
    kubectl.chmod(0o755)
    variables = {**os.environ, **environment, "PATH": f"{Path.cwd()}:{os.environ['PATH']}"}
    command = ["bash", str(folder / "migrate.sh")]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=60)


needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="the script's copies are made with jq")


@needs_jq
def test_the_script_carries_the_plan_out(planner: Command, example: Path) -> None:
    planner("defrag", example, "--out", "plan")
    done = carried_out(Path("plan"), {"j3": "ReplicaSet"})
    assert (done.returncode, done.stderr) == (0, "")
    places = {key: row["node"] for key, row in json.loads(Path("state.json").read_text()).items()}
    assert places == {
        "default/j2": "n1",
        "default/j4": "n2",
        "default/j8": "n3",
        "default/j7-moved-1": "n3",
        "default/j3-moved-2": "n2",
        "default/j1-moved-3": "n1",
    }
    lines = Path("log.txt").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("cordon n0", "uncordon n0")
    acts = [line for line in lines if line.startswith(("create", "evict", "annotate", "label"))]
    assert acts == [
        "create j7-moved-1 n3",
        "evict default/j7",
        "create j3-moved-2 n2",
        "annotate pod j3 --namespace default --overwrite controller.kubernetes.io/pod-deletion-cost=-2147483647",
        "label pod j3-moved-2 --namespace default --overwrite pod-template-hash=h",
        "evict default/j3",
        "create j1-moved-3 n1",
        "evict default/j1",
    ]
    again = carried_out(Path("plan"), {})
    assert again.returncode == 0
    assert again.stdout.count("passed over") == 3


@needs_jq
def test_pods_of_other_owners_need_a_command(planner: Command, example: Path) -> None:
    planner("defrag", example, "--out", "plan")
    done = carried_out(Path("plan"), {"j3": "StatefulSet"})
    assert done.returncode == 1
    assert "default/j3 belongs to a StatefulSet: set BRING_UP to a command that brings up its copy on n2" in done.stderr
    assert "create j1-moved-3" not in Path("log.txt").read_text()  # nothing after it has begun
    done = carried_out(Path("plan"), {}, BRING_UP="true")
    assert done.returncode == 0
    assert "evict default/j3" in Path("log.txt").read_text()


DENSE = """\
name: dense
model: llama-3.1-70b
workload: normal-500-2000
inventory: {H20: 32}
serving: split
search: {method: exact}
"""


def test_a_placement_that_asks_for_moves(planner: Command, here: Path) -> None:
    """14 servers of 2 GPUs leave 1, 1 and 3 idle, which is no room for one of 4: a pod to one of the others makes it,
    and the prefill pool gives up a server otherwise."""
    Path("dense.yaml").write_text(DENSE)
    assert planner("plan", "dense.yaml", "--out", "run", "--quiet").status == EXIT_DONE
    nodes = tuple(replace(eight(name), cpus=192.0) for name in ("n0", "n1", "n2", "n3", "n4"))
    victim = replace(pod("d", "n4", range(2, 5)), preemptible=True, checkpoint_age_s=3600.0)
    on_last = (pod("c", "n4", range(1), locked=True), pod("e", "n4", range(1, 2)), victim)
    pods = (pod("a", "n0", range(1)), pod("b", "n1", range(1)), *on_last)
    write_cluster(Cluster(name="crowded", nodes=nodes, pods=pods), Path("c.yaml"))
    words = (
        "1 of its 14 servers find no room on the cluster; for h20-4g-decode-1, 1 move would host it (0.25 GPU-hours "
        "with both copies up) against 1 eviction (3 GPU-hours lost)"
    )
    answer = planner("place", "run", "--cluster", "c.yaml", "--moves", 4, "--out", "advised")
    assert answer.status == EXIT_DONE
    assert "**Not all servers have nodes:**" in answer.out
    assert words in answer.out
    assert words in Path("advised/summary.md").read_text()
    assert planner("place", "run", "--cluster", "c.yaml", "--out", "plain").status == EXIT_DONE
    assert "would host" not in Path("plain/summary.md").read_text()


def eight(name: str) -> ClusterNode:
    gpus = tuple(NodeGpu(index=at, uuid=f"GPU-{name}-{at}", numa=0) for at in range(8))
    return replace(node(name), gpus=gpus, memory_gb=2048.0)
