"""Sources joined into one cluster: what each gives, that they must agree, and every bad input of a real cluster."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_sources import (
    EXPORTER,
    agent_flextopo,
    host_folder,
    kubectl_node,
    kubectl_pod,
    nrt,
    with_nearby,
    written_list,
    written_yaml,
)

from planner.domain import Cluster, NumaNode, Taint, require_sound
from planner.errors import InputError
from planner.runs.cluster_import import ClusterSources, import_cluster

QUADS = [0, 0, 1, 1, 2, 2, 3, 3]
RACK = (("asw", "rack"),)
RTX = (("NVIDIA-GeForce-RTX-4090", "RTX4090"),)


@pytest.fixture
def kubectl(tmp_path: Path) -> Callable[..., Path]:
    def write(*items: dict[str, Any], name: str = "list.json") -> Path:
        return written_list(tmp_path / name, *items)

    return write


@pytest.fixture
def text(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, content: str) -> Path:
        (tmp_path / name).write_text(content)
        return tmp_path / name

    return write


def refused(sources: ClusterSources, *words: str) -> InputError:
    """What `--strict` says; `left_out` looks at what happens without it."""
    with pytest.raises(InputError) as caught:
        import_cluster(replace(sources, strict=True))
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{caught.value} lacks {missing}"
    assert caught.value.hint
    return caught.value


def gpus_of(cluster: Cluster) -> dict[str, tuple[int, ...]]:
    return {pod.key: pod.gpus for pod in cluster.pods}


def test_kubectl_and_host_probes_make_a_whole_node(tmp_path: Path, kubectl: Callable[..., Path]) -> None:
    probes = host_folder(tmp_path / "h", "n-1", QUADS, nics=8)
    path = kubectl(
        kubectl_node("n-1", spec={"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}),
        kubectl_pod("whole", "n-1", gpus=8, cpu="32"),
    )
    cluster = import_cluster(ClusterSources(kubectl=(path,), hosts=(("n-1", probes),), levels=RACK))
    (node,) = cluster.nodes
    assert (node.gpu, node.asw, node.aggregation, node.cpus) == ("H200", "r1", "", 64.0)
    assert node.memory_gb == pytest.approx(1000 * 2**30 / 1e9)
    assert [gpu.numa for gpu in node.gpus] == QUADS
    assert node.gpus[3].uuid == "GPU-n-1-p3"
    assert node.numa_nodes[2] == NumaNode(id=2, socket=1, cores=tuple(range(32, 48)))
    assert [(nic.name, nic.numa) for nic in node.nics] == [(f"mlx5_{i}", numa) for i, numa in enumerate(QUADS)]
    assert node.taints == (Taint(key="gpu", value="yes"),)
    assert gpus_of(cluster) == {"serving/whole": tuple(range(8))}  # it asks for all there are
    assert cluster.idle_gpus == {"H200": 0}
    assert cluster.notes == ()


def test_the_agents_objects_alone_have_the_usual_board_or_a_map(tmp_path: Path, text: Callable[..., Path]) -> None:
    source = written_yaml(
        tmp_path / "f.yaml",
        agent_flextopo("n-1", gpu_0="a", gpu_1="a"),
        agent_flextopo("n-2", exporter="node-exporter-2"),
    )
    usual = import_cluster(ClusterSources(flextopo=(source,), gpu_types=RTX))
    assert [gpu.numa for gpu in usual.nodes[0].gpus] == [0] * 4 + [1] * 4  # two of the agent's eight NUMA nodes
    assert any("node n-1, node n-2: which GPU lies" in note and "--gpu-numa" in note for note in usual.notes)
    near = text("numa.yaml", "default: [0, 1, 2, 3, 4, 5, 6, 7]\nn-2: [3, 2, 1, 0, 7, 6, 5, 4]\n")
    cluster = import_cluster(ClusterSources(flextopo=(source,), gpu_types=RTX, gpu_numa=near))
    assert [[gpu.numa for gpu in node.gpus] for node in cluster.nodes] == [list(range(8)), [3, 2, 1, 0, 7, 6, 5, 4]]
    assert [numa.socket for numa in cluster.nodes[0].numa_nodes] == [0] * 4 + [1] * 4
    assert gpus_of(cluster) == {
        f"default/{EXPORTER}": (),
        "default/a": (0, 1),
        "default/node-exporter-2": (),
    }
    assert any("RTX4090: no GPU spec" in note for note in cluster.notes)
    assert any(EXPORTER in note and "not pinned" in note for note in cluster.notes)


def test_flextopo_and_kubectl_of_the_same_node(tmp_path: Path, kubectl: Callable[..., Path]) -> None:
    cores = {f"core_{core}": "a" for core in range(8)}
    source = written_yaml(
        tmp_path / "f.yaml", with_nearby(agent_flextopo("n-1", gpu_0="a", gpu_1="a", **cores), list(range(8)))
    )
    path = kubectl(
        kubectl_node("n-1", labels={"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"}),
        kubectl_pod("a", "n-1", gpus=2, cpu="8"),
        kubectl_pod("b", "n-1", gpus=1),
        kubectl_pod(EXPORTER, "n-1", cpu="100m"),
        kubectl_pod("over", "n-1", gpus=4, phase="Succeeded"),
        kubectl_pod("waiting", "n-1", gpus=4, spec={"nodeName": None}),
    )
    cluster = import_cluster(ClusterSources(flextopo=(source,), kubectl=(path,), levels=RACK, gpu_types=RTX))
    pods = {pod.name: pod for pod in cluster.pods}
    assert set(pods) == {"a", "b", EXPORTER}
    assert (pods["a"].gpus, pods["a"].cores) == ((0, 1), tuple(range(8)))
    assert (pods["b"].gpus, pods["b"].gpu_request) == ((), 1)  # the agent misses GPUs of child processes
    assert pods[EXPORTER].cores == ()
    assert cluster.idle_gpus == {"RTX4090": 5}
    assert any("node n-1" in note and "free GPUs count by number" in note for note in cluster.notes)
    assert any("1 pods" in note and "wait for a node" in note for note in cluster.notes)


def test_devices_settle_which_gpus_a_pod_holds(tmp_path: Path, kubectl: Callable[..., Path], text: Callable[..., Path]):
    probes = host_folder(tmp_path / "h", "n-1", QUADS)
    path = kubectl(
        kubectl_node("n-1"), kubectl_pod("a", "n-1", gpus=2), kubectl_pod("b", "n-1", gpus=1), kubectl_pod("c", "n-1")
    )
    sources = ClusterSources(kubectl=(path,), hosts=(("n-1", probes),), levels=RACK)
    assert len(import_cluster(sources).notes) == 1

    def with_devices(content: str) -> ClusterSources:
        return ClusterSources(
            kubectl=(path,), hosts=(("n-1", probes),), levels=RACK, devices=text("devices.yaml", content)
        )

    cluster = import_cluster(with_devices("serving/a: [GPU-n-1-p5, GPU-n-1-p4]\nserving/b: [0]\n"))
    assert gpus_of(cluster) == {"serving/a": (4, 5), "serving/b": (0,), "serving/c": ()}
    assert cluster.notes == ()
    refused(with_devices("serving/a: [0, 1]\nserving/b: [1]\n"), "pod serving/b: gpus", "one pod alone", "serving/a")
    refused(with_devices("serving/a: [0]\n"), "devices.yaml: serving/a", "2 GPUs", "lists 1")
    refused(with_devices("serving/a: [0, 8]\n"), "serving/a", "GPUs of node n-1", "got 8")
    refused(with_devices("serving/a: [0, GPU-x]\n"), "serving/a", "'GPU-x'")
    refused(with_devices("serving/z: [0]\n"), "serving/z", "running pod")
    refused(with_devices("a: [0]\n"), "devices.yaml: a", "namespace/pod")
    refused(with_devices("serving/a: [0, 0]\n"), "serving/a", "distinct")


def test_devices_must_agree_with_flextopo(tmp_path: Path, kubectl: Callable[..., Path], text: Callable[..., Path]):
    source = written_yaml(tmp_path / "f.yaml", with_nearby(agent_flextopo("n-1", gpu_0="a"), list(range(8))))
    path = kubectl(
        kubectl_node("n-1", labels={"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"}),
        kubectl_pod("a", "n-1", gpus=1),
        kubectl_pod(EXPORTER, "n-1"),
    )
    sources = {"flextopo": (source,), "kubectl": (path,), "levels": RACK, "gpu_types": RTX}
    refused(ClusterSources(**sources, devices=text("d.yaml", "serving/a: [1]")), "FlexTopo", "[1] and [0]")


def test_zones_with_counts_are_enough(tmp_path: Path, kubectl: Callable[..., Path]) -> None:
    zones = written_yaml(tmp_path / "nrt.yaml", nrt("n-1", [2, 2, 2, 2], parents=[0, 0, 1, 1]), nrt("n-2", [4, 4]))
    path = kubectl(kubectl_node("n-1"), kubectl_node("n-2", labels={"rack": "r2"}))
    cluster = import_cluster(ClusterSources(kubectl=(path,), nrt=(zones,), levels=RACK))
    assert [[gpu.numa for gpu in node.gpus] for node in cluster.nodes] == [QUADS, [0] * 4 + [1] * 4]
    assert [[numa.socket for numa in node.numa_nodes] for node in cluster.nodes] == [[0, 0, 1, 1], [0, 1]]
    assert cluster.nodes[0].numa_nodes[0].memory_gb == pytest.approx(250 * 2**30 / 1e9)
    assert [node.asw for node in cluster.nodes] == ["r1", "r2"]
    notes = "\n".join(cluster.notes)
    assert "node n-1, node n-2: which GPU lies" in notes
    assert "node n-2: sockets are not told" in notes
    assert "cores are not known" in notes


def test_kubectl_alone_has_the_usual_board_or_a_map(kubectl: Callable[..., Path], text: Callable[..., Path]) -> None:
    path = kubectl(kubectl_node("n-1"))
    usual = import_cluster(ClusterSources(kubectl=(path,), levels=RACK))
    assert [gpu.numa for gpu in usual.nodes[0].gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [(numa.id, numa.socket) for numa in usual.nodes[0].numa_nodes] == [(0, 0), (1, 1)]
    assert any("usual board of H200" in note for note in usual.notes)
    short = text("short.yaml", "default: [0, 0, 1, 1]")  # for nodes of four GPUs: this one has the usual board
    assert import_cluster(ClusterSources(kubectl=(path,), levels=RACK, gpu_numa=short)).nodes == usual.nodes
    near = text("numa.yaml", "default: {gpus: [0, 0, 1, 1, 2, 2, 3, 3], sockets: [0, 0, 1, 1]}")
    (node,) = import_cluster(ClusterSources(kubectl=(path,), levels=RACK, gpu_numa=near)).nodes
    assert [numa.socket for numa in node.numa_nodes] == [0, 0, 1, 1]
    assert node.gpus[7].uuid == "GPU-n-1-7"


def test_a_node_without_gpus_needs_neither_switch_nor_topology(kubectl: Callable[..., Path]) -> None:
    bare = kubectl_node("cpu-1", gpus=0)
    bare["metadata"]["labels"] = {"node-role.kubernetes.io/control-plane": ""}
    (node,) = import_cluster(ClusterSources(kubectl=(kubectl(bare),), levels=RACK)).nodes
    assert (node.gpu, node.gpus, node.asw, node.numa_nodes) == ("", (), "", ())


@pytest.mark.parametrize(
    ("numas", "words"),
    [
        ("n-1: [0, 0]", ("numa.yaml", "GPUs", "2 and 8")),
        ("default: [0, 0, x, 1, 2, 2, 3, 3]", ("numa.yaml: default", "list of ids")),
        ("n-9: [0, 0]", ("numa.yaml: n-9", "node of the cluster")),
        ("default: {gpus: [0, 0, 1, 1, 2, 2, 3, 3], sockets: [0, 0]}", ("sockets", "none for 2")),
    ],
)
def test_bad_maps_are_refused(kubectl: Callable[..., Path], text: Callable[..., Path], numas: str, words: Any) -> None:
    near = text("numa.yaml", numas + ("" if "default" in numas else "\ndefault: [0, 0, 1, 1, 2, 2, 3, 3]"))
    refused(ClusterSources(kubectl=(kubectl(kubectl_node("n-1")),), levels=RACK, gpu_numa=near), *words)


def test_sources_that_disagree_are_both_named(tmp_path: Path, kubectl: Callable[..., Path], text: Callable[..., Path]):
    probes = host_folder(tmp_path / "h", "n-1", QUADS)
    host = {"hosts": (("n-1", probes),), "levels": RACK}
    seven = kubectl(kubectl_node("n-1", gpus=7), name="seven.json")
    refused(ClusterSources(kubectl=(seven,), **host), "node n-1: GPUs", str(probes), "seven.json", "8 and 7")
    other = kubectl(kubectl_node("n-2"), name="other.json")
    refused(ClusterSources(kubectl=(other,), **host), "node n-1", str(probes), "other.json")
    h20 = kubectl(kubectl_node("n-1", labels={"nvidia.com/gpu.product": "NVIDIA-H20"}), name="h20.json")
    refused(ClusterSources(kubectl=(h20,), **host), "GPU type", str(probes), "h20.json", "H200 and H20")
    two = written_yaml(tmp_path / "two.yaml", nrt("n-1", [4, 4]))
    good = kubectl(kubectl_node("n-1"))
    refused(ClusterSources(kubectl=(good,), nrt=(two,), **host), "NUMA ids", "two.yaml", "[0, 1, 2, 3] and [0, 1]")
    swapped = written_yaml(tmp_path / "sockets.yaml", nrt("n-1", [2, 2, 2, 2], parents=[0, 1, 0, 1]))
    refused(ClusterSources(kubectl=(good,), nrt=(swapped,), **host), "sockets", "sockets.yaml")
    uneven = written_yaml(tmp_path / "uneven.yaml", nrt("n-1", [3, 1, 2, 2]))
    refused(ClusterSources(kubectl=(good,), nrt=(uneven,), **host), "GPUs of each NUMA node", "uneven.yaml")
    near = text("numa.yaml", "n-1: [3, 0, 1, 1, 2, 2, 3, 0]")
    refused(ClusterSources(kubectl=(good,), gpu_numa=near, **host), "NUMA node of GPU 0", "numa.yaml", "0 and 3")


def test_a_node_or_pod_is_described_once(tmp_path: Path, kubectl: Callable[..., Path]) -> None:
    source = written_yaml(tmp_path / "f.yaml", agent_flextopo("n-1"))
    again = written_yaml(tmp_path / "g.yaml", agent_flextopo("n-1"))
    refused(ClusterSources(flextopo=(source, again)), "node n-1", "f.yaml", "g.yaml")
    twice = written_yaml(tmp_path / "t.yaml", agent_flextopo("n-1"), agent_flextopo("n-1", gpu_0="a"))
    refused(ClusterSources(flextopo=(twice,)), "t.yaml", "n-1", "twice")
    lists = (kubectl(kubectl_node("n-1"), name="a.json"), kubectl(kubectl_node("n-1", gpus=4), name="b.json"))
    refused(ClusterSources(kubectl=lists, levels=RACK), "Node n-1", "a.json", "b.json")
    with pytest.raises(InputError, match="Node n-1: must be given once"):
        import_cluster(ClusterSources(kubectl=lists, levels=RACK))
    same = (lists[0], kubectl(kubectl_node("n-1"), name="c.json"))
    assert len(import_cluster(ClusterSources(kubectl=same, levels=RACK)).nodes) == 1


def test_pods_that_cannot_be_are_refused(tmp_path: Path, kubectl: Callable[..., Path]) -> None:
    host = {"hosts": (("n-1", host_folder(tmp_path / "h", "n-1", QUADS)),), "levels": RACK}

    def of(*pods: dict[str, Any]) -> ClusterSources:
        return ClusterSources(kubectl=(kubectl(kubectl_node("n-1"), *pods),), **host)

    refused(of(kubectl_pod("a", "n-2")), "pod serving/a: node", "'n-2'")
    refused(of(kubectl_pod("a", "n-1", gpus=5), kubectl_pod("b", "n-1", gpus=4)), "node n-1: GPUs used", "8", "got 9")
    refused(of(kubectl_pod("a", "n-1", cpu="65")), "node n-1: cpus", "64", "65")
    claims = kubectl_pod("a", "n-1", spec={"resourceClaims": [{"name": "gpu"}]})
    refused(of(claims), "pod serving/a: spec.resourceClaims", "--devices")


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        ([kubectl_pod("a", "n-1", gpus=5), kubectl_pod("b", "n-1", gpus=4)], "GPUs used must be at most the 8"),
        ([kubectl_pod("a", "n-1", cpu="65")], "cpus requested or pinned must be at most the 64"),
        ([kubectl_pod("a", "n-1", cpu="1x")], "requests.cpu must be a quantity"),
        ([kubectl_pod("a", "n-1", gpus=-1)], "nvidia.com/gpu must be a quantity of at least 0"),
        ([kubectl_pod("a", "n-1", spec={"resourceClaims": [{"name": "gpu"}]})], "add resourceclaims to the list"),
        ([kubectl_pod("a", "n-1", metadata={"annotations": {"gpu-fraction": "1.5"}})], "at most 1, got 1.5"),
        ([kubectl_pod("a", "n-1", metadata={"annotations": {"gpu-fraction": "half"}})], "a number above 0"),
    ],
)
def test_a_node_with_pods_that_cannot_be_is_left_out_with_a_note(
    kubectl: Callable[..., Path], pods: list[dict[str, Any]], why: str
) -> None:
    """Nothing of it is repaired: neither its pods nor what they ask for count anywhere."""
    sources = ClusterSources(kubectl=(kubectl(kubectl_node("n-1"), kubectl_node("n-2"), *pods),))
    cluster = import_cluster(sources)
    assert ([node.name for node in cluster.nodes], cluster.pods) == (["n-2"], ())
    (note,) = [note for note in cluster.notes if "left out with its pods" in note]
    assert note.startswith("node n-1: ")
    assert why in note
    with pytest.raises(InputError):
        import_cluster(replace(sources, strict=True))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"status": None}, "status must be a mapping"),
        ({"status": {"allocatable": {"cpu": "64", "memory": "-1Gi"}}}, "memory must be a quantity of at least 0"),
        ({"spec": {"taints": [{"key": "a", "effect": "Never"}]}}, "effect"),
        ({"metadata": {"name": "n-1", "labels": {"rack": 5}}}, "rack"),
        ({"metadata": {"name": "n-1", "labels": {"rack": "r1"}}}, "Run GPU feature discovery"),
    ],
)
def test_a_node_that_cannot_be_read_is_left_out_with_a_note(
    kubectl: Callable[..., Path], change: dict[str, Any], why: str
) -> None:
    path = kubectl(kubectl_node("n-1") | change, kubectl_node("n-2"), kubectl_pod("a", "n-1", gpus=1))
    cluster = import_cluster(ClusterSources(kubectl=(path,)))
    assert ([node.name for node in cluster.nodes], cluster.pods) == (["n-2"], ())
    assert any(note.startswith("node n-1: left out with its pods") and why in note for note in cluster.notes)
    with pytest.raises(InputError):
        import_cluster(ClusterSources(kubectl=(path,), strict=True))


def test_pods_of_a_node_that_is_not_listed_are_left_out(kubectl: Callable[..., Path]) -> None:
    cluster = import_cluster(ClusterSources(kubectl=(kubectl(kubectl_node("n-1"), kubectl_pod("a", "gone", gpus=2)),)))
    assert (len(cluster.nodes), cluster.pods) == (1, ())
    assert any("pod serving/a: node must be in the list of nodes, got 'gone'" in note for note in cluster.notes)


def test_flextopo_must_name_pods_that_are_there(tmp_path: Path, kubectl: Callable[..., Path]) -> None:
    def sources(pod: str, *pods: dict[str, Any]) -> ClusterSources:
        topo = with_nearby(agent_flextopo("n-1", gpu_3=pod), list(range(8)))
        node = kubectl_node("n-1", labels={"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"})
        return ClusterSources(
            flextopo=(written_yaml(tmp_path / "f.yaml", topo),),
            kubectl=(kubectl(node, kubectl_pod(EXPORTER, "n-1"), *pods),),
            levels=RACK,
            gpu_types=RTX,
        )

    refused(sources("ghost"), "FlexTopo n-1", "gpu-3", "ghost")
    over = import_cluster(sources("done", kubectl_pod("done", "n-1", gpus=1, phase="Failed")))
    assert over.idle_gpus == {"RTX4090": 8}
    assert any("pod done" in note and "is over" in note for note in over.notes)
    same = [kubectl_pod("x", "n-1", gpus=1), kubectl_pod("x", "n-1", gpus=1, metadata={"namespace": "other"})]
    refused(sources("x", *same), "usedBy x", "serving/x and other/x")
    first = import_cluster(sources("other/x", *same))
    assert gpus_of(first)["other/x"] == (3,)
    assert gpus_of(first)["serving/x"] == ()


def test_switch_levels_are_told_by_labels(tmp_path: Path, kubectl: Callable[..., Path], text: Callable[..., Path]):
    near = text("numa.yaml", "default: [0, 0, 0, 0, 1, 1, 1, 1]")
    path = kubectl(kubectl_node("n-1", labels={"spine": "s1"}), kubectl_node("n-2", labels={"spine": "s2"}))
    nobody = import_cluster(ClusterSources(kubectl=(path,), gpu_numa=near))
    assert [node.asw for node in nobody.nodes] == ["", ""]
    assert any("access switches are not known" in note and "--level asw=LABEL" in note for note in nobody.notes)
    missing = import_cluster(ClusterSources(kubectl=(path,), gpu_numa=near, levels=(("asw", "leaf"),)))
    assert any("lacks the label leaf" in note for note in missing.notes)
    strange = import_cluster(ClusterSources(kubectl=(path,), gpu_numa=near, levels=(*RACK, ("pod", "leaf"))))
    assert any("--level pod=leaf: passed over" in note for note in strange.notes)
    refused(ClusterSources(kubectl=(path,), gpu_numa=near, levels=(("asw", "leaf"),)), "node n-1", "label leaf")
    refused(ClusterSources(kubectl=(path,), gpu_numa=near, levels=(("pod", "leaf"),)), "--level", "pod=leaf")
    both = ClusterSources(kubectl=(path,), gpu_numa=near, levels=(*RACK, ("aggregation", "spine")))
    assert [(node.asw, node.aggregation) for node in import_cluster(both).nodes] == [("r1", "s1"), ("r1", "s2")]
    source = written_yaml(tmp_path / "f.yaml", agent_flextopo("n-1"))
    refused(ClusterSources(flextopo=(source,), levels=RACK), "--level", "--kubectl")


def test_gpu_types_are_those_of_the_specs(kubectl: Callable[..., Path], text: Callable[..., Path]) -> None:
    near = text("numa.yaml", "default: [0, 0, 0, 0, 1, 1, 1, 1]")
    strange = kubectl(kubectl_node("n-1", labels={"nvidia.com/gpu.product": "NVIDIA-H200-NVL"}))
    nobodys = import_cluster(ClusterSources(kubectl=(strange,), gpu_numa=near, levels=RACK))
    assert nobodys.gpus == {"NVIDIA-H200-NVL": 8}
    assert any("GPU type NVIDIA-H200-NVL: no GPU spec" in note and "--gpu-type" in note for note in nobodys.notes)
    named = ClusterSources(kubectl=(strange,), gpu_numa=near, levels=RACK, gpu_types=(("NVIDIA-H200-NVL", "H200"),))
    assert import_cluster(named).gpus == {"H200": 8}
    known = kubectl(kubectl_node("n-1", labels={"nvidia.com/gpu.product": "NVIDIA-H20"}))
    larger = ClusterSources(kubectl=(known,), gpu_numa=near, levels=RACK, gpu_types=(("NVIDIA-H20", "H20-3E"),))
    assert import_cluster(larger).gpus == {"H20-3E": 8}
    bare = kubectl_node("n-1")
    del bare["metadata"]["labels"]["nvidia.com/gpu.product"]
    refused(ClusterSources(kubectl=(kubectl(bare),), gpu_numa=near, levels=RACK), "node n-1", "GPU feature discovery")


def test_gpus_that_are_not_allocatable_close_their_node(kubectl: Callable[..., Path], text: Callable[..., Path]):
    near = text("numa.yaml", "default: [0, 0, 0, 0, 1, 1, 1, 1]")
    node = kubectl_node("n-1", allocatable={"nvidia.com/gpu": "7"}, spec={"unschedulable": True})
    cluster = import_cluster(ClusterSources(kubectl=(kubectl(node),), gpu_numa=near, levels=RACK))
    assert {taint.key for taint in cluster.nodes[0].taints} == {
        "planner/unhealthy-gpus",
        "node.kubernetes.io/unschedulable",
    }
    assert any("1 GPUs are not allocatable" in note for note in cluster.notes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ("source",)),
        ({"name": "a b"}, ("--name", "'a b'")),
        ({"core_group_size": 0}, ("--core-group-size", "0")),
        ({"gpu_types": (("A", "B"), ("A", "C"))}, ("--gpu-type", "A", "twice")),
        ({"gpu_types": (("A", "b c"),)}, ("--gpu-type", "A=b c")),
    ],
)
def test_options_are_checked_first(tmp_path: Path, change: dict[str, Any], words: tuple[str, ...]) -> None:
    sources = {"flextopo": (tmp_path / "none.yaml",)} | change if change else {}
    refused(ClusterSources(**sources), *words)


@given(data=st.data())
def test_what_is_imported_is_sound_whatever_the_pods(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory):
    """Any pods: the import is either sound with every request kept, or refused."""
    folder = tmp_path_factory.mktemp("any")
    asked = data.draw(st.lists(st.integers(0, 4), max_size=5))
    phases = [data.draw(st.sampled_from(["Running", "Succeeded", "Failed"])) for _ in asked]
    pods = [kubectl_pod(f"p{i}", "n-1", gpus=g, phase=phases[i]) for i, g in enumerate(asked)]
    (folder / "numa.yaml").write_text("default: [0, 0, 0, 0, 1, 1, 1, 1]")
    path = written_list(folder / "list.json", kubectl_node("n-1"), *pods)
    held = sum(g for g, phase in zip(asked, phases, strict=True) if phase == "Running")
    sources = ClusterSources(kubectl=(path,), gpu_numa=folder / "numa.yaml", levels=RACK)
    if held > 8:
        refused(sources, "node n-1: GPUs used")
        return
    cluster = import_cluster(sources)
    require_sound(cluster, "again")
    assert cluster.idle_gpus == {"H200": 8 - held}
    assert import_cluster(sources) == cluster


ODD = st.sampled_from([None, True, -1, 0, 1.5, "", "x", "1", [], {}, [1], [None], {"a": 1}, "a" * 300, 10**30])


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every value of a document."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, inner in entries for place in places(inner, (*at, key)))]


@given(data=st.data())
def test_any_value_anywhere_is_read_or_refused(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One value of a source replaced by an odd one: never an exception of another kind, never an unsound cluster."""
    folder = tmp_path_factory.mktemp("odd")
    documents = [
        with_nearby(agent_flextopo("n-1", gpu_0="a"), list(range(8))),
        kubectl_node("n-1", labels={"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"}),
        kubectl_pod("a", "n-1", gpus=1, metadata={"labels": {"planner/class": "spot"}, "annotations": {}}),
        nrt("n-1", [1] * 8, parents=[0] * 4 + [1] * 4),
    ]
    broken = data.draw(st.integers(0, 3))
    *above, last = data.draw(st.sampled_from(places(documents[broken])[1:]))
    part: Any = documents[broken]
    for key in above:
        part = part[key]
    part[last] = data.draw(ODD)
    exporter = kubectl_pod(EXPORTER, "n-1")
    sources = ClusterSources(
        flextopo=(written_list(folder / "f.json", documents[0]),),
        kubectl=(written_list(folder / "k.json", documents[1], documents[2], exporter),),
        nrt=(written_list(folder / "n.json", documents[3]),),
        levels=RACK,
        gpu_types=RTX,
    )
    try:
        cluster = import_cluster(sources)
    except InputError:
        return
    require_sound(cluster, "again")
