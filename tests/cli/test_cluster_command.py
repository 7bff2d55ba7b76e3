"""`planner cluster synth` and `show`: what they write, what they print, what they refuse."""

from collections import Counter
from pathlib import Path

import pytest
from command_line import Command

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE
from planner.files import load_cluster
from planner.placement.clusters.synthetic import PRODUCT_LABEL


@pytest.fixture
def made(planner: Command, here: Path) -> Path:
    answer = planner("cluster", "synth", "--nodes", 90, "--seed", 4, "--load", 0.6, "--out", "c.yaml")
    assert answer.status == EXIT_DONE
    return Path("c.yaml")


def test_a_made_up_cluster_is_written_as_asked(planner: Command, made: Path) -> None:
    cluster = load_cluster(made)
    assert len(cluster.nodes) == 90
    assert cluster.gpus == {"H20": 27 * 8, "H200": 36 * 8, "H800": 27 * 8}
    assert sum(pod.gpu_count for pod in cluster.pods) == round(0.6 * 720)
    again = planner("cluster", "synth", "--nodes", 90, "--seed", 4, "--load", 0.6, "--out", "d.yaml", "--json")
    assert (again.status, again.json["gpus"], again.json["idle"]) == (EXIT_DONE, 720, 288)
    assert Path("d.yaml").read_bytes() == made.read_bytes()


def test_types_have_the_labels_and_the_size_of_their_data_sheets(planner: Command, here: Path) -> None:
    options = ("--type", "MI300X=3", "--type", "GB200-NVL72=1", "--numa-per-socket", 2, "--fit", "random")
    answer = planner("cluster", "synth", "--nodes", 8, "--out", "c.json", "--nodes-per-asw", 2, 3, *options)
    assert answer.status == EXIT_DONE
    cluster = load_cluster(Path("c.json"))
    assert cluster.gpus == {"GB200-NVL72": 8, "MI300X": 48}
    assert len(cluster.nodes[0].numa_nodes) == 4
    labels = {node.gpu: dict(node.labels) for node in cluster.nodes}
    assert labels["GB200-NVL72"][PRODUCT_LABEL] == "NVIDIA-GB200"
    assert any("amd.com" in key for key in labels["MI300X"])
    assert "random fit" in cluster.notes[0]


def test_trays_of_an_nvl72_form_domains_that_islands_lie_in(planner: Command, here: Path) -> None:
    options = ("--type", "GB200-NVL72=1", "--load", 0, "--nodes-per-asw", 32, 64)
    assert planner("cluster", "synth", "--nodes", 40, "--out", "c.yaml", *options).status == EXIT_DONE
    cluster = load_cluster(Path("c.yaml"))
    sizes = Counter(node.nvlink_domain for node in cluster.nodes)
    assert sizes == {"nvl-0000": 18, "nvl-0018": 18, "nvl-0036": 4}
    assert all(dict(node.labels)["nvidia.com/gpu.clique"] == node.nvlink_domain for node in cluster.nodes)


def test_show_prints_the_page(planner: Command, made: Path) -> None:
    answer = planner("cluster", "show", made)
    assert answer.status == EXIT_DONE
    assert "**432 of 720 GPUs are held (60 %)**" in answer.out
    assert "## Fragmentation" in answer.out
    document = planner("cluster", "show", made, "--json").json
    assert sum(one["gpus"] for one in document["classes"]) == 432
    assert document["fragments"][0] == {"gpus": 1, "stranded": 0, "fit": 288, "share": 0.0}


def test_show_tells_what_keeps_pods_from_idle_gpus(planner: Command, made: Path) -> None:
    page = planner("cluster", "show", made).out
    assert "Of the 288 GPUs that are idle" in page
    assert "| Pods like | Share | Usable | Too few GPUs |" in page
    found = planner("cluster", "show", made, "--json").json["fragmentation"]
    assert found["idle_gpu_milli"] == 288_000
    assert sum(found["causes"].values()) == pytest.approx(288_000)
    for one in found["classes"]:
        assert sum(one["causes"].values()) == 288_000


@pytest.mark.parametrize(("name", "start"), [("c.png", b"\x89PNG"), ("c.svg", b"<?xml"), ("c.md", b"# Cluster")])
def test_show_draws_into_a_file(planner: Command, made: Path, name: str, start: bytes) -> None:
    assert planner("cluster", "show", made, "--out", name).status == EXIT_DONE
    assert Path(name).read_bytes().startswith(start)
    again = planner("cluster", "show", made, "--out", name)
    assert (again.status, again.out) == (EXIT_BAD_INPUT, "")
    assert "--force" in again.err
    assert planner("cluster", "show", made, "--out", name, "--force").status == EXIT_DONE


@pytest.mark.parametrize(
    ("span", "count"),
    [("node-0003..node-0007", 5), ("..node-0001", 2), ("node-0080..", 10), ("node-0004", 1), ("..", 90)],
)
def test_show_takes_some_of_the_nodes(planner: Command, made: Path, span: str, count: int) -> None:
    document = planner("cluster", "show", made, "--nodes", span, "--json").json
    assert (document["nodes"], document["gpus"]) == (count, 8 * count)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("synth", "--nodes", 0, "--out", "x.yaml"), "nodes must be within 1 and 1,000,000"),
        (("synth", "--nodes", 5, "--load", 1.5, "--out", "x.yaml"), "load must be within 0 and 1"),
        (("synth", "--nodes", 5, "--fit", "worst", "--out", "x.yaml"), "--fit: must be best or random"),
        (("synth", "--nodes", 5, "--type", "H200", "--out", "x.yaml"), "--type: must be GPU=SHARE"),
        (("synth", "--nodes", 5, "--type", "H200=-1", "--out", "x.yaml"), "--type: must be GPU=SHARE"),
        (("synth", "--nodes", 5, "--type", "H200=nan", "--out", "x.yaml"), "--type: must be GPU=SHARE"),
        (("synth", "--nodes", 5, "--type", "H900=1", "--out", "x.yaml"), "H900"),
        (("synth", "--nodes", 5, "--type", "H20=1", "--type", "H20=2", "--out", "x.yaml"), "each once"),
        (("synth", "--nodes", 5, "--numa-per-socket", 3, "--out", "x.yaml"), "divide evenly"),
        (("synth", "--nodes", 5, "--out", "x.txt"), "x.txt"),
        (("synth", "--nodes", 5, "--out", "c.yaml"), "exists already"),
        (("show", "c.yaml", "--out", "x.pdf"), "--out: must end in"),
        (("show", "c.yaml", "--nodes", "node-0001..nobody"), "got 'nobody'"),
        (("show", "c.yaml", "--nodes", "node-0002..node-0001"), "FIRST must not come after LAST"),
        (("show", "nothing.yaml"), "nothing.yaml"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_written(
    planner: Command, made: Path, arguments: tuple[object, ...], said: str
) -> None:
    answer = planner("cluster", *arguments)
    assert (answer.status, answer.out) == (EXIT_BAD_INPUT, "")
    assert said in answer.err
    assert sorted(path.name for path in Path().iterdir()) == ["c.yaml"]
