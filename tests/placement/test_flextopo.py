"""FlexTopo objects: the published example, both dialects there and back, and every way to be wrong."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_sources import EXPORTER, agent_flextopo, with_nearby, written_yaml

from planner.domain import ClusterNode, FlexTopo, NodeGpu, NumaNode, Pod, TopologyEdge, Vertex
from planner.errors import InputError
from planner.files.cluster.flextopo_files import flextopo_document, read_flextopos, write_flextopos
from planner.placement.clusters.imported_pods import claims_of, pods_of_claims
from planner.placement.clusters.synthetic import synthesize
from planner.placement.flextopo import Dialect, flextopo, report, to_graph


def read(path: Path, document: dict[str, Any]) -> FlexTopo:
    return read_flextopos(written_yaml(path / "topo.yaml", document))[0][1]


def test_the_published_example_has_90_vertices_and_80_edges(tmp_path: Path) -> None:
    topo = read(tmp_path, agent_flextopo())
    graph = to_graph(topo, "example")
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (90, 80)
    kinds = [vertex.kind for vertex in topo.vertices]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "CPUCore": 64, "CoreGroup": 8, "GPU": 8, "NUMANode": 8, "Socket": 2,
    }  # fmt: skip


def test_the_agents_object_tells_sockets_and_cores_but_no_numa_of_gpus(tmp_path: Path) -> None:
    told = report(read(tmp_path, agent_flextopo()), "example")
    assert [numa.socket for numa in told.numa_nodes] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert told.numa_nodes[3].cores == tuple(range(24, 32))
    assert {gpu.numa for gpu in told.gpus} == {None}
    assert {gpu.product for gpu in told.gpus} == {"NVIDIA GeForce RTX 4090"}


def test_nearby_edges_need_not_be_the_identity(tmp_path: Path) -> None:
    told = report(read(tmp_path, with_nearby(agent_flextopo(), [3, 2, 1, 0, 7, 6, 5, 4])), "example")
    assert [gpu.numa for gpu in told.gpus] == [3, 2, 1, 0, 7, 6, 5, 4]


def test_a_graph_and_its_object_are_the_same(tmp_path: Path) -> None:
    topo = read(tmp_path, with_nearby(agent_flextopo(), list(range(8))))
    graph = to_graph(topo, "example")
    vertices = {
        Vertex(id=name, kind=data["kind"], attributes=tuple(data["attributes"].items()))
        for name, data in graph.nodes(data=True)
    }
    edges = {TopologyEdge(source=s, target=t, kind=kind) for s, t, kind in graph.edges(data="kind")}
    assert (vertices, edges) == (set(topo.vertices), set(topo.edges))


# fault of the object -> words that the error must say
def _dangling(spec: dict[str, Any]) -> None:
    spec["edges"].append({"source": "gpu-0", "target": "numa-9", "type": "nearby"})


def _cycle(spec: dict[str, Any]) -> None:
    spec["edges"].append({"source": "core-0", "target": "socket-0", "type": "contains"})


def _loop(spec: dict[str, Any]) -> None:
    spec["edges"].append({"source": "numa-0", "target": "numa-0", "type": "contains"})


def _wrong_kind(spec: dict[str, Any]) -> None:
    spec["nodes"][0]["type"] = "Sockets"


def _wrong_edge_kind(spec: dict[str, Any]) -> None:
    spec["edges"][0]["type"] = "holds"


def _wrong_ends(spec: dict[str, Any]) -> None:
    spec["edges"].append({"source": "gpu-0", "target": "core-0", "type": "nearby"})


def _twin(spec: dict[str, Any]) -> None:
    spec["nodes"].append(dict(spec["nodes"][0]))


def _twin_edge(spec: dict[str, Any]) -> None:
    spec["edges"].append(dict(spec["edges"][0]))


def _strange_id(spec: dict[str, Any]) -> None:
    spec["nodes"][0]["id"] = "sock-0"


def _status(spec: dict[str, Any]) -> None:
    _gpu(spec)["status"] = "busy"


def _free_but_used(spec: dict[str, Any]) -> None:
    _gpu(spec).update(status="free", usedBy="p")


def _used_by_nobody(spec: dict[str, Any]) -> None:
    _gpu(spec).update(status="used")


def _two_users(spec: dict[str, Any]) -> None:
    _gpu(spec).update(status="used", usedBy="p,q")


def _two_numas(spec: dict[str, Any]) -> None:
    with_nearby({"spec": spec}, [0])
    spec["edges"].append({"source": "gpu-0", "target": "numa-1", "type": "nearby"})


def _two_sockets(spec: dict[str, Any]) -> None:
    spec["edges"].append({"source": "socket-1", "target": "numa-0", "type": "contains"})


def _stray_core(spec: dict[str, Any]) -> None:
    spec["nodes"].append({"id": "core-64", "type": "CPUCore", "attributes": {"status": "free"}})


def _gpu(spec: dict[str, Any]) -> dict[str, Any]:
    return next(node["attributes"] for node in spec["nodes"] if node["id"] == "gpu-0")  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (_dangling, ("edge gpu-0 -> numa-9: target", "dangling")),
        (_cycle, ("edges", "socket-0", "core-0", "form no cycle")),
        (_loop, ("numa-0 -> numa-0", "form no cycle")),
        (_wrong_kind, ("vertex socket-0: type", "'Sockets'")),
        (_wrong_edge_kind, ("edge", "type", "'holds'")),
        (_wrong_ends, ("edge gpu-0 -> core-0: type", "GPU to NUMANode", "GPU to CPUCore")),
        (_twin, ("vertex socket-0: id", "twice")),
        (_twin_edge, ("edge socket-0 -> numa-0", "twice")),
        (_strange_id, ("vertex sock-0: id", "socket-0")),
        (_status, ("vertex gpu-0: status", "'busy'")),
        (_free_but_used, ("vertex gpu-0: usedBy", "p")),
        (_used_by_nobody, ("vertex gpu-0: usedBy", "nothing")),
        (_two_users, ("vertex gpu-0: usedBy", "p, q")),
        (_two_numas, ("vertex gpu-0", "at most one NUMANode", "numa-0, numa-1")),
        (_two_sockets, ("vertex numa-0", "exactly one Socket")),
        (_stray_core, ("vertex core-64", "exactly one CoreGroup", "none")),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, break_it: Callable[[dict[str, Any]], None], words: tuple[str, ...]):
    document = agent_flextopo()
    break_it(document["spec"])
    with pytest.raises(InputError) as caught:
        report(read(tmp_path, document), "topo.yaml: FlexTopo 10.0.0.40")
    assert caught.value.hint
    for word in ("FlexTopo 10.0.0.40", *words):
        assert word in caught.value.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "Deployment"}, ("kind", "FlexTopo", "Deployment")),
        ({"apiVersion": "apps/v1"}, ("FlexTopo 10.0.0.40", "apiVersion", "flextopo.baichuan-inc.com")),
        ({"metadata": {"name": "../up"}}, ("metadata.name", "'../up'")),
        ({"spec": {"edges": []}}, ("spec.nodes", "missing")),
    ],
)
def test_objects_of_another_kind_are_refused(tmp_path: Path, change: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, agent_flextopo() | change)
    for word in words:
        assert word in caught.value.message


def _node(numas: list[NumaNode], near: list[int]) -> ClusterNode:
    return ClusterNode(
        name="n-1",
        gpu="H200",
        gpus=tuple(NodeGpu(index=i, uuid=f"GPU-{i}", numa=numa) for i, numa in enumerate(near)),
        numa_nodes=tuple(numas),
        cpus=float(sum(len(numa.cores) for numa in numas)),
        memory_gb=0.0,
        asw="",
    )


@st.composite
def nodes_and_pods(draw: st.DrawFn) -> tuple[ClusterNode, list[Pod], int]:
    """A node of any shape, and pods that hold some of it; one core is always left, as Kubernetes leaves it."""
    per_numa = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
    ids = draw(st.lists(st.integers(0, 20), min_size=len(per_numa), max_size=len(per_numa), unique=True))
    starts = [sum(per_numa[:i]) for i in range(len(per_numa))]
    numas = [
        NumaNode(id=n, socket=draw(st.integers(0, 3)), cores=tuple(range(start, start + cores)))
        for n, start, cores in sorted(zip(ids, starts, per_numa, strict=True))
    ]
    near = draw(st.lists(st.sampled_from([numa.id for numa in numas]), max_size=8))
    gpu_owner = draw(st.lists(st.integers(0, 3), min_size=len(near), max_size=len(near)))
    total = max(0, sum(per_numa) - 1)
    core_owner = draw(st.lists(st.integers(0, 3), min_size=total, max_size=total))
    pods = []
    for owner in range(1, 4):
        gpus = tuple(i for i, o in enumerate(gpu_owner) if o == owner)
        cores = tuple(i for i, o in enumerate(core_owner) if o == owner)
        if gpus or cores:
            pods.append(
                Pod(
                    name=f"p{owner}",
                    namespace="ns",
                    node="n-1",
                    gpus=gpus,
                    gpu_request=len(gpus),
                    cores=cores,
                    cpus=float(len(cores)),
                )
            )
    return _node(numas, near), pods, draw(st.sampled_from([1, 4, 8]))


@given(nodes_and_pods())
def test_the_papers_dialect_reads_back_as_it_was(case: tuple[ClusterNode, list[Pod], int]) -> None:
    node, pods, size = case
    told = report(flextopo(node, pods, size), "again")
    assert told.numa_nodes == node.numa_nodes
    assert [(gpu.index, gpu.uuid, gpu.numa) for gpu in told.gpus] == [(g.index, g.uuid, g.numa) for g in node.gpus]
    assert pods_of_claims("n-1", claims_of(told, node, [])) == pods


@given(nodes_and_pods())
def test_the_agents_dialect_loses_the_numa_of_gpus_alone(case: tuple[ClusterNode, list[Pod], int]) -> None:
    node, pods, size = case
    topo = flextopo(node, pods, size, Dialect.AGENT)
    assert {edge.kind for edge in topo.edges} <= {"contains"}
    told = report(topo, "again")
    assert told.numa_nodes == node.numa_nodes
    assert {gpu.numa for gpu in told.gpus} <= {None}
    back = pods_of_claims("n-1", claims_of(told, node, []))
    assert back == [replace(pod, namespace="default") for pod in pods]


def test_the_papers_edges_are_those_of_its_table() -> None:
    node = _node([NumaNode(id=0, socket=0, cores=(0, 1))], [0])
    topo = flextopo(node, [], 8)
    assert set(topo.edges) == {
        TopologyEdge(source="socket-0", target="coregroup-0-0", kind="host"),
        TopologyEdge(source="coregroup-0-0", target="core-0", kind="contain"),
        TopologyEdge(source="coregroup-0-0", target="core-1", kind="contain"),
        TopologyEdge(source="coregroup-0-0", target="numa-0", kind="localized"),
        TopologyEdge(source="gpu-0", target="numa-0", kind="nearby"),
    }


def test_cores_that_only_their_group_knows_are_its_users() -> None:
    node = _node([NumaNode(id=0, socket=0, cores=(0, 1, 2))], [])
    topo = flextopo(node, [Pod(name="p", node="n-1", cores=(0, 1))], 8)
    bare = tuple(
        Vertex(
            id=v.id, kind=v.kind, attributes=tuple(a for a in v.attributes if v.kind != "CPUCore" or a[0] != "usedBy")
        )
        for v in topo.vertices
    )
    assert report(replace(topo, vertices=bare), "x").core_users == ((0, ("default/p",)), (1, ("default/p",)))


def test_cores_of_two_pods_and_of_all_cores_float(tmp_path: Path) -> None:
    cores = {f"core_{core}": "pinned" for core in range(24, 31)}
    told = report(read(tmp_path, agent_flextopo(**cores)), "x")
    node = _node(list(told.numa_nodes), [])
    notes: list[tuple[str, str]] = []
    held = claims_of(told, node, notes)
    assert held["pinned"].cores == tuple(range(24, 31))
    assert held[EXPORTER].cores == ()
    assert [subject for subject, _ in notes] == [f"pod {EXPORTER} on n-1"]
    shared = replace(told, core_users=((0, ("a", "b")), (1, ("a",)), (2, ("c",))))
    held = claims_of(shared, node, notes)
    assert [held[name].cores for name in "abc"] == [(), (), (2,)]


def test_only_the_agents_full_nodes_have_a_floating_pod() -> None:
    node = _node([NumaNode(id=0, socket=0, cores=(0, 1, 2))], [])
    full = [Pod(name="a", node="n-1", cores=(0, 1)), Pod(name="b", node="n-1", cores=(2,))]
    exact = claims_of(report(flextopo(node, full, 8), "x"), node, [])
    assert {name: held.cores for name, held in exact.items()} == {"default/a": (0, 1), "default/b": (2,)}
    last = claims_of(report(flextopo(node, full, 8, Dialect.AGENT), "x"), node, [])
    assert {name: held.cores for name, held in last.items()} == {"a": (), "b": (2,)}
    whole = [Pod(name="a", node="n-1", cores=(0, 1, 2))]
    assert claims_of(report(flextopo(node, whole, 8), "x"), node, [])["default/a"].cores == ()


def test_a_made_up_cluster_reads_back_node_by_node() -> None:
    cluster = synthesize(20, 7, 0.8)
    for node in cluster.nodes:
        pods = [pod for pod in cluster.pods if pod.node == node.name]
        told = report(flextopo(node, pods, cluster.core_group_size), "again")
        assert told.numa_nodes == tuple(replace(numa, memory_gb=0.0) for numa in node.numa_nodes)
        assert [(gpu.index, gpu.uuid, gpu.numa) for gpu in told.gpus] == [(g.index, g.uuid, g.numa) for g in node.gpus]
        held = claims_of(told, node, [])
        assert {name: (c.gpus, c.cores) for name, c in held.items()} == {
            pod.key: (pod.gpus, pod.cores) for pod in pods if pod.gpus or pod.cores
        }


def test_what_cannot_be_said_is_not_written(tmp_path: Path) -> None:
    node = _node([NumaNode(id=0, socket=0, cores=(0,))], [0])
    with pytest.raises(InputError, match="pod default/p: gpus must be known"):
        flextopo(node, [Pod(name="p", node="n-1", gpu_request=1)], 8)
    with pytest.raises(InputError, match="must stay below"):
        write_flextopos([FlexTopo(node="../up", vertices=(), edges=())], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_written_objects_are_read_again(tmp_path: Path) -> None:
    node = _node([NumaNode(id=0, socket=0, cores=(0, 1))], [0, 0])
    topo = flextopo(node, [Pod(name="p", node="n-1", cores=(1,), gpus=(1,))], 8)
    write_flextopos([topo], tmp_path / "out")
    found = read_flextopos(tmp_path / "out" / "n-1.yaml")[0][1]
    assert flextopo_document(found)["spec"] == {
        "nodes": [{"id": v.id, "type": v.kind, "attributes": dict(sorted(v.attributes))} for v in topo.vertices],
        "edges": [{"source": e.source, "target": e.target, "type": e.kind} for e in topo.edges],
    }
