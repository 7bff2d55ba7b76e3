"""`planner cluster import` and `planner cluster flextopo`: exit status, what is written, and that nothing is left."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Command

from planner.files.cluster.clusters import load_cluster

NUMA = "default: [0, 0, 0, 0, 1, 1, 1, 1]\n"


def node(name: str, product: str = "NVIDIA-H200", gpus: int = 8) -> dict[str, Any]:
    labels = {"rack": "r1", "nvidia.com/gpu.product": product, "node-role.kubernetes.io/worker": ""}
    held = {"cpu": "64", "memory": "1000Gi", "nvidia.com/gpu": str(gpus)}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": held, "allocatable": held},
    }


def pod(name: str, on: str, gpus: int) -> dict[str, Any]:
    asked = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": str(gpus)}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    spread = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spec = {"nodeName": on, "affinity": spread, "containers": [{"name": "c", "resources": {"requests": asked}}]}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "ns", "labels": {"app": "x"}}, "spec": spec}


@pytest.fixture
def sources(here: Path) -> list[str]:
    """Two nodes with a pod each, and a map of NUMA nodes."""
    items = [node("n-1"), node("n-2"), pod("a", "n-1", 8), pod("b", "n-2", 2)]
    Path("list.json").write_text(json.dumps({"kind": "List", "items": items}))
    Path("numa.yaml").write_text(NUMA)
    return ["--kubectl", "list.json", "--gpu-numa", "numa.yaml", "--level", "asw=rack"]


@pytest.mark.parametrize("name", ["cluster.yaml", "cluster.json"])
def test_an_import_writes_a_cluster_file(planner: Command, sources: list[str], name: str) -> None:
    answer = planner("cluster", "import", "--out", name, "--name", "mine", *sources)
    assert answer.status == 0, answer.err
    assert "n-2: nobody says which GPUs its pods hold" in answer.err
    cluster = load_cluster(Path(name))
    assert (cluster.name, cluster.gpus, cluster.idle_gpus) == ("mine", {"H200": 16}, {"H200": 6})
    assert {p.key: (p.gpus, p.gpu_request, p.anti_affinity) for p in cluster.pods} == {
        "ns/a": (tuple(range(8)), 8, "ns: app In x"),
        "ns/b": ((), 2, "ns: app In x"),
    }
    assert dict(cluster.nodes[0].labels)["node-role.kubernetes.io/worker"] == ""
    assert any("sockets are not told" in note for note in cluster.notes)


def test_the_summary_as_json(planner: Command, sources: list[str]) -> None:
    answer = planner("cluster", "import", "--out", "c.yaml", "--json", *sources)
    assert (answer.json["nodes"], answer.json["gpus"], answer.json["pods"]) == (2, {"H200": 16}, 2)
    assert len(answer.json["notes"]) == 3


def test_a_file_is_not_replaced_unasked(planner: Command, sources: list[str]) -> None:
    Path("c.yaml").write_text("mine")
    answer = planner("cluster", "import", "--out", "c.yaml", *sources)
    assert (answer.status, Path("c.yaml").read_text()) == (2, "mine")
    assert planner("cluster", "import", "--out", "c.yaml", "--force", *sources).status == 0
    first = Path("c.yaml").read_bytes()
    assert planner("cluster", "import", "--out", "c.yaml", "--force", *sources).status == 0
    assert Path("c.yaml").read_bytes() == first


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["--level", "asw=leaf"], ("--level", "asw", "twice")),
        (["--level", "asw"], ("--level", "'asw'")),
        (["--host", "n-1=nowhere"], ("nowhere", "folder")),
        (["--flextopo", "none.yaml"], ("none.yaml", "no such file")),
        (["--devices", "numa.yaml"], ("numa.yaml", "default", "namespace/pod")),
        (["--gpu-type", "X=a b"], ("--gpu-type", "X=a b")),
        (["--nrt", "list.json"], ("list.json", "kind", "NodeResourceTopology")),
    ],
)
def test_bad_input_leaves_nothing(
    planner: Command, sources: list[str], changes: list[str], words: tuple[str, ...], here: Path
) -> None:
    before = sorted(here.iterdir())
    answer = planner("cluster", "import", "--out", "c.yaml", *sources, *changes)
    assert (answer.status, answer.out) == (2, "")
    for word in words:
        assert word in answer.err
    assert sorted(here.iterdir()) == before


def test_more_gpus_than_there_are_leave_nothing(planner: Command, sources: list[str], here: Path) -> None:
    items = [node("n-1", gpus=8), pod("a", "n-1", 5), pod("b", "n-1", 5)]
    Path("list.json").write_text(json.dumps({"kind": "List", "items": items}))
    answer = planner("cluster", "import", "--out", "c.yaml", *sources)
    assert answer.status == 2
    assert "node n-1: left out with its pods: GPUs used must be at most the 8" in answer.err
    assert not Path("c.yaml").exists()
    items.append(node("n-2", gpus=8))
    Path("list.json").write_text(json.dumps({"kind": "List", "items": items}))
    strict = planner("cluster", "import", "--out", "c.yaml", "--strict", *sources)
    assert (strict.status, Path("c.yaml").exists()) == (2, False)
    assert "node n-1: GPUs used must be at most the 8" in strict.err
    assert planner("cluster", "import", "--out", "c.yaml", *sources).status == 0
    assert [one.name for one in load_cluster(Path("c.yaml")).nodes] == ["n-2"]


def test_flextopo_objects_there_and_back(planner: Command, sources: list[str]) -> None:
    Path("devices.yaml").write_text("ns/b: [4, 5]\n")
    args = ["cluster", "import", "--out", "c.yaml", *sources, "--devices", "devices.yaml"]
    assert planner(*args).status == 0
    answer = planner("cluster", "flextopo", "c.yaml", "--out", "topos")
    assert answer.status == 0, answer.err
    assert sorted(path.name for path in Path("topos").iterdir()) == ["n-1.yaml", "n-2.yaml"]
    document = yaml.safe_load(Path("topos/n-2.yaml").read_text())
    users = {v["id"]: v["attributes"].get("usedBy") for v in document["spec"]["nodes"] if v["type"] == "GPU"}
    assert [gpu for gpu, user in users.items() if user == "ns/b"] == ["gpu-4", "gpu-5"]
    topos = ["--flextopo", "topos/n-1.yaml", "--flextopo", "topos/n-2.yaml"]
    both = planner("cluster", "import", "--out", "d.yaml", *sources, *topos)
    assert both.status == 0, both.err
    again = load_cluster(Path("d.yaml"))
    assert {p.key: p.gpus for p in again.pods} == {"ns/a": tuple(range(8)), "ns/b": (4, 5)}
    assert planner("cluster", "flextopo", "c.yaml", "--out", "topos").status == 2
    assert planner("cluster", "flextopo", "c.yaml", "--out", "topos", "--force", "--dialect", "agent").status == 0
    assert "nearby" not in Path("topos/n-1.yaml").read_text()


def test_flextopo_refuses_what_it_cannot_say(planner: Command, sources: list[str]) -> None:
    assert planner("cluster", "import", "--out", "c.yaml", *sources).status == 0
    answer = planner("cluster", "flextopo", "c.yaml", "--out", "topos")
    assert answer.status == 2
    assert "pod ns/b: gpus must be known" in answer.err
    assert planner("cluster", "flextopo", "c.yaml", "--out", "topos", "--dialect", "other").status == 2
    assert not Path("topos").exists()
