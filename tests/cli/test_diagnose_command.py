"""`planner cluster diagnose`: what it prints, writes and refuses."""

from pathlib import Path

import pytest
from command_line import Command

from planner.domain import Cluster, ClusterNode, NodeGpu, NumaNode, Pod
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE
from planner.files import write_cluster


def node_of(name: str, asw: str) -> ClusterNode:
    return ClusterNode(
        name=name,
        gpu="H20",
        gpus=tuple(NodeGpu(index=k, uuid=f"{name}-{k}", numa=k // 4) for k in range(8)),
        numa_nodes=(NumaNode(id=0, socket=0), NumaNode(id=1, socket=1)),
        cpus=128,
        memory_gb=1024,
        asw=asw,
    )


@pytest.fixture
def small(here: Path) -> Path:
    """Idle: 8, 5 (with 100 CPUs) and 4 (with 24 CPUs) of 24 GPUs."""
    pods = (
        Pod(name="a", node="n-2", gpus=(0, 1, 4), cpus=28),
        Pod(name="b", node="n-3", gpus=(0, 1, 2, 3), cpus=104, locked=True),
    )
    nodes = (node_of("n-1", "s1"), node_of("n-2", "s1"), node_of("n-3", "s2"))
    write_cluster(Cluster(name="small", nodes=nodes, pods=pods), Path("small.yaml"))
    return Path("small.yaml")


def test_the_page_and_the_json_say_the_same(planner: Command, small: Path) -> None:
    answer = planner("cluster", "diagnose", small, "--request", "4G32C", "--job", 8)
    assert answer.status == EXIT_DONE
    assert "**17 of 24 GPUs are idle.** Of 4G32C 3 requests fit; 5 GPUs cannot serve it" in answer.out
    assert "| all types | 4G32C | 3 | 29 % | 17 | 12 | 0 | 1 | 4 |" in answer.out
    assert "8 CPUs more a node: +4 GPUs" in answer.out
    assert "| H20 | 8 | within one access switch | 1 |" in answer.out
    document = planner("cluster", "diagnose", small, "--request", "4G32C", "--job", 8, "--json").json
    row = document["requests"][-1]
    assert (row["gpu"], row["request"], row["fit"], row["causes"]) == ("", "4G32C", 3, {"stranded": 1, "cpu": 4})
    assert row["released"] == {"fractional": 0, "stranded": 0, "cpu": 4}
    assert {change["change"]: change["gpus"] for change in row["changes"]}["8 CPUs more a node"] == 4
    assert [job["fit"] for job in document["jobs"] if not job["gpu"]] == [1, 1]


def test_alignment_is_given_up_only_where_it_binds(planner: Command, small: Path) -> None:
    aligned = planner(
        "cluster", "diagnose", small, "--request", "4G8C", "--qos", "single_numa", "--job", "none", "--json"
    ).json
    assert aligned["requests"][-1]["causes"] == {"stranded": 1, "numa": 4}
    assert aligned["jobs"] == []
    assert aligned["requests"][-1]["changes"][0]["kind"] == "alignment"


@pytest.mark.parametrize("suffix", ["md", "png", "svg"])
def test_the_page_and_the_figure_are_written_whole(planner: Command, small: Path, suffix: str) -> None:
    out = Path(f"idle.{suffix}")
    assert planner("cluster", "diagnose", small, "--out", out).status == EXIT_DONE
    first = out.read_bytes()
    assert first[:5] in (b"# Idl", b"\x89PNG\r", b"<?xml")
    assert planner("cluster", "diagnose", small, "--out", out).status == EXIT_BAD_INPUT
    assert planner("cluster", "diagnose", small, "--out", out, "--force").status == EXIT_DONE
    assert out.read_bytes() == first


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--request", "4X"), "request: must be GPUs"),
        (("--request", "1G8C", "--request", "1G8C"), "must each come once"),
        (("--job", "many"), "--job: must be a number of GPUs"),
        (("--job", "0"), "job: must have 1 to"),
        (("--cpus-per-gpu", "-1"), "CPUs a GPU: must be from 0"),
        (("--qos", "loose"), "--qos: must be one of"),
        (("--out", "idle.pdf"), "--out: must end in"),
    ],
)
def test_what_cannot_be_meant_is_refused(planner: Command, small: Path, options: tuple[str, ...], fault: str) -> None:
    answer = planner("cluster", "diagnose", small, *options)
    assert answer.status == EXIT_BAD_INPUT
    assert fault in answer.err


def test_a_cluster_file_that_is_over_committed_is_refused_with_the_node(planner: Command, small: Path) -> None:
    small.write_text(small.read_text().replace("cpus: 104", "cpus: 140"))
    answer = planner("cluster", "diagnose", small)
    assert answer.status == EXIT_BAD_INPUT
    assert "node n-3" in answer.err
    assert "140" in answer.err


def test_a_cluster_without_gpus_has_nothing_to_diagnose(planner: Command, here: Path) -> None:
    node = ClusterNode(name="n", gpu="", gpus=(), numa_nodes=(), cpus=8, memory_gb=16, asw="")
    write_cluster(Cluster(name="plain", nodes=(node,)), Path("plain.yaml"))
    answer = planner("cluster", "diagnose", "plain.yaml", "--out", "idle.png")
    assert answer.status == EXIT_DONE
    assert "**No node has a GPU.**" in answer.out


def test_moves_are_counted_not_bounded(planner: Command, here: Path) -> None:
    """Two nodes of four idle GPUs each: one move makes room for a request of eight."""
    nodes = (node_of("n-1", "s1"), node_of("n-2", "s1"))
    pods = tuple(Pod(name=name, node=node, gpus=(0, 1, 2, 3), cpus=32) for name, node in (("a", "n-1"), ("b", "n-2")))
    write_cluster(Cluster(name="halves", nodes=nodes, pods=pods), Path("halves.yaml"))
    options = ("--request", "8G64C", "--request", "4G32C", "--job", "none", "--json")
    rows = planner("cluster", "diagnose", "halves.yaml", *options, "--moves").json["requests"]
    eight, four = rows[-2:]
    assert (eight["fit"], four["fit"]) == (0, 2)
    opened = {change["kind"]: (change["change"], change["gpus"], change["at_most"]) for change in eight["changes"]}
    assert opened["moves"] == ("1 move of pods (planner defrag)", 8, False)
    assert opened["consolidation"][1:] == (8, True)
    assert four["changes"] == []
    without = planner("cluster", "diagnose", "halves.yaml", *options).json["requests"][-2]
    assert "moves" not in {change["kind"] for change in without["changes"]}
