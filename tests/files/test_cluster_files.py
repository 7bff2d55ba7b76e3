"""Cluster files: the way there and back, and every contradiction named with object and field."""

import copy
import gc
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.domain import (
    Cluster,
    ClusterNode,
    Nic,
    NodeGpu,
    NumaNode,
    Pod,
    PodClass,
    Taint,
    require_sound,
)
from planner.errors import InputError
from planner.files import cluster_document, cluster_from_section, load_cluster, write_cluster
from planner.files.disk.documents import parse_json, parse_large_yaml, parse_yaml

Refused = Callable[..., None]
Write = Callable[[str, str], Path]
Document = dict[str, Any]

TEXT = """\
name: two-nodes
notes: ["switches were given by hand"]
shapes:
  h200-8:
    gpu: H200
    gpus_per_numa: 4
    numa_nodes:
    - {id: 0, socket: 0, cores: 0-31, memory_gb: 1000}
    - {id: 1, socket: 1, cores: "32-61,62,63", memory_gb: 1000}
    cpus: 62
    memory_gb: 1900.5
    nics: [{name: mlx5_0, numa: 0}, {name: mlx5_1, numa: 1}]
    labels: {pool: serving, zone: a}
    taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
  cpu: {numa_nodes: [{socket: 0, cores: 0-7}], cpus: 8, memory_gb: 32}
nodes:
- {name: node-0, shape: h200-8, asw: asw-0, aggregation: agg-0, labels: {zone: b}}
- {name: node-1, shape: h200-8, asw: asw-1, uuids: [a, b, c, d, e, f, g, h], taints: [{key: mine, value: x}]}
- {name: head, shape: cpu, asw: asw-1}
pods:
- {name: web-0, node: node-0, gpus: [0, 1], gpu_request: 2, cpus: 8, memory_gb: 100, cores: "0-5,8-9", priority: 10}
- {name: sweep, namespace: lab, node: node-0, gpus: [7], preemptible: true, kind: offline, checkpoint_age_s: 90.5}
- {name: vague, node: node-1, gpu_request: 2, node_selector: {zone: a}, anti_affinity: vague, locked: true}
"""


@pytest.fixture
def path(write: Write) -> Path:
    return write("cluster.yaml", TEXT)


def test_a_file_is_read_as_it_says(path: Path) -> None:
    cluster = load_cluster(path)
    first, second, head = cluster.nodes
    numa_nodes = (
        NumaNode(id=0, socket=0, cores=tuple(range(32)), memory_gb=1000.0),
        NumaNode(id=1, socket=1, cores=tuple(range(32, 64)), memory_gb=1000.0),
    )
    assert first == ClusterNode(
        name="node-0",
        gpu="H200",
        gpus=tuple(NodeGpu(index=i, uuid=f"GPU-node-0-{i}", numa=i // 4) for i in range(8)),
        numa_nodes=numa_nodes,
        cpus=62.0,
        memory_gb=1900.5,
        asw="asw-0",
        aggregation="agg-0",
        nics=(Nic(name="mlx5_0", numa=0), Nic(name="mlx5_1", numa=1)),
        labels=(("pool", "serving"), ("zone", "b")),
        taints=(Taint(key="nvidia.com/gpu"),),
    )
    assert [gpu.uuid for gpu in second.gpus] == list("abcdefgh")
    assert second.labels == (("pool", "serving"), ("zone", "a"))
    assert second.taints == (Taint(key="nvidia.com/gpu"), Taint(key="mine", value="x"))
    assert (head.gpu, head.gpus, head.aggregation) == ("", (), "")
    assert cluster.pods[0].cores == (0, 1, 2, 3, 4, 5, 8, 9)
    assert cluster.pods[1] == Pod(
        name="sweep",
        namespace="lab",
        node="node-0",
        gpus=(7,),
        preemptible=True,
        kind=PodClass.OFFLINE,
        checkpoint_age_s=90.5,
    )
    assert (cluster.pods[2].gpu_count, cluster.pods[2].gpus_known, cluster.pods[2].locked) == (2, False, True)
    assert cluster.idle_gpus == {"H200": 11}
    assert cluster.notes == ("switches were given by hand",)


def test_nodes_of_a_shape_share_its_records(path: Path) -> None:
    first, second, _ = load_cluster(path).nodes
    assert first.numa_nodes is second.numa_nodes
    assert first.nics is second.nics


# names that YAML might take for something else, and ones that need quotes
NAMES = (
    "a on no Null y 1e5 0x1f 010 12:30 2025-01-02 ~ << = \u00e4 \U0001f600 #x x: - null .inf a,b {x} [ &a *a !x % @ "
    "0-7 9-3 1_0 ? | > ' \" \\ ` a_b x:y"
)
WORDS = st.sampled_from([*NAMES.split(), "a b", "x: y", "a #b"])
NUMBERS = st.sampled_from([0.0, 0.5, 1e-7, 3.0, 64.0, 0.1 + 0.2, 123456.789])
LABELS = st.dictionaries(
    st.sampled_from(["zone", "a.b/c", "on", "x_1", "1"]), st.sampled_from(["", "on", "1", "1e3", "v-2"]), max_size=3
).map(lambda given: tuple(given.items()))
TAINTS = st.lists(
    st.builds(
        Taint,
        key=st.sampled_from(["k", "a.b/c"]),
        value=st.sampled_from(["", "true", "3"]),
        effect=st.sampled_from(["NoSchedule", "NoExecute"]),
    ),
    max_size=2,
).map(tuple)


@st.composite
def hardware(draw: st.DrawFn) -> tuple[tuple[NumaNode, ...], tuple[int, ...], tuple[int, ...]]:
    """NUMA nodes with their cores in any order, GPU indices, and the NUMA node of each."""
    cores = draw(st.permutations(range(12)))
    ids = draw(st.lists(st.integers(0, 9), unique=True, min_size=1, max_size=3))
    numa_nodes = tuple(
        NumaNode(id=one, socket=at // 2, cores=tuple(cores[at * 3 : at * 3 + 3]), memory_gb=draw(NUMBERS))
        for at, one in enumerate(ids)
    )
    indices = tuple(draw(st.lists(st.integers(0, 15), unique=True, max_size=4)))
    return numa_nodes, indices, tuple(draw(st.sampled_from(ids)) for _ in indices)


@st.composite
def nodes(draw: st.DrawFn, names: tuple[str, ...]) -> tuple[ClusterNode, ...]:
    kinds = draw(st.lists(hardware(), min_size=1, max_size=2))
    made = []
    for name in names:
        numa_nodes, indices, numas = draw(st.sampled_from(kinds))
        prefix = draw(st.sampled_from([f"GPU-{name}-", "on"]))
        made.append(
            ClusterNode(
                name=name,
                gpu=draw(st.sampled_from(["H200", "yes", "1e5"])) if indices else "",
                gpus=tuple(NodeGpu(index=i, uuid=f"{prefix}{i}", numa=n) for i, n in zip(indices, numas, strict=True)),
                numa_nodes=numa_nodes,
                cpus=draw(st.sampled_from([64.0, 95.5])),
                memory_gb=2e6,
                asw=draw(WORDS | st.just("")),
                aggregation=draw(WORDS | st.just("")),
                nics=draw(st.sampled_from([(), (Nic(name="mlx5_0", numa=numa_nodes[0].id),)])),
                labels=draw(LABELS),
                taints=draw(TAINTS),
            )
        )
    return tuple(made)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Sound clusters: one pod a node at most holds GPUs and cores there."""
    names = tuple(draw(st.lists(WORDS, unique=True, min_size=1, max_size=4)))
    made, pods = draw(nodes(names)), []
    for place, node in enumerate(made):
        if draw(st.booleans()):
            cores = tuple(core for numa in node.numa_nodes for core in numa.cores)
            pods.append(
                Pod(
                    name=draw(WORDS),
                    namespace=f"space-{place}",
                    node=node.name,
                    cpus=draw(st.sampled_from([0.0, 0.1, 64.0])),
                    memory_gb=draw(NUMBERS),
                    gpus=tuple(gpu.index for gpu in node.gpus[: draw(st.integers(0, 4))]),
                    gpu_request=draw(st.integers(0, len(node.gpus))),
                    cores=cores[: draw(st.integers(0, len(cores)))],
                    priority=draw(st.integers(-5, 2_000_000_000)),
                    preemptible=draw(st.booleans()),
                    kind=draw(st.sampled_from(PodClass)),
                    checkpoint_age_s=draw(st.none() | NUMBERS),
                    node_selector=draw(LABELS),
                    anti_affinity=draw(WORDS | st.just("")),
                    locked=draw(st.booleans()),
                )
            )
    return Cluster(
        name="any",
        nodes=made,
        pods=tuple(pods),
        core_group_size=draw(st.sampled_from([4, 8])),
        notes=tuple(draw(st.lists(WORDS | st.just("two\nlines\t\x07"), max_size=2))),
    )


@given(cluster=clusters(), suffix=st.sampled_from([".yaml", ".json"]))
def test_what_is_written_is_read_back(cluster: Cluster, suffix: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("cluster") / f"cluster{suffix}"
    require_sound(cluster, "drawn")
    write_cluster(cluster, path)
    assert load_cluster(path) == cluster
    first = path.read_bytes()
    write_cluster(load_cluster(path), path, force=True)
    assert path.read_bytes() == first


@given(cluster=clusters())
def test_the_text_says_the_same_to_the_slow_reader_of_small_files(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("cluster") / "cluster.yaml"
    write_cluster(cluster, path)
    assert cluster_from_section(parse_yaml(path.read_text(encoding="utf-8"), file="slow")) == cluster


def _edited(edit: Callable[[Document], None]) -> Document:
    document = cluster_document(cluster_from_section(parse_yaml(TEXT, file="first")))
    fresh: Document = json.loads(json.dumps(document))
    edit(fresh)
    return fresh


def _set(*place: str | int, value: object) -> Callable[[Document], None]:
    def edit(document: Document) -> None:
        target: Any = document
        for key in place[:-1]:
            target = target[key]
        target[place[-1]] = value

    return edit


BAD = [
    (_set("pods", 1, "gpus", value=[1]), ("pod lab/sweep: gpus", "1 of node node-0", "default/web-0")),
    (_set("pods", 1, "cores", value="9"), ("pod lab/sweep: cores", "9 of node node-0")),
    (_set("pods", 1, "gpus", value=[8]), ("pod lab/sweep: gpus", "must exist on node node-0", "8")),
    (_set("pods", 1, "gpus", value=[64]), ("pods[1].gpus", "0 to 63")),
    (_set("pods", 1, "gpus", value=3), ("pods[1].gpus", "a list of ids")),
    (_set("pods", 1, "gpus", value=[True]), ("pods[1].gpus", "whole numbers")),
    (_set("pods", 1, "cores", value="5-2"), ("pods[1].cores", "5-2", "ascend")),
    (_set("pods", 1, "cores", value="0-4000000000"), ("pods[1].cores", "no range of ids")),
    (_set("pods", 1, "cores", value="0-999999999"), ("pods[1].cores", "65535")),
    (_set("pods", 1, "node", value="node-9"), ("pod lab/sweep: node", "must be a node of the cluster", "node-9")),
    (_set("pods", 2, "gpu_request", value=9), ("node node-1: GPUs used", "at most the 8", "9")),
    (_set("pods", 0, "cpus", value=63), ("node node-0: cpus requested", "at most the 62", "63")),
    (_set("pods", 0, "kind", value="web"), ("pods[0].kind", "online, offline, spot")),
    (_set("pods", 0, "locked", value="yes"), ("pods[0].locked", "true or false")),
    (_set("pods", 0, "priority", value=1.5), ("pods[0].priority", "a whole number")),
    (_set("pods", 0, "checkpoint_age_s", value=-1), ("pods[0].checkpoint_age_s", "at least 0")),
    (_set("pods", 0, "gpu", value=[0]), ("pods[0].gpu is not a known key",)),
    (_set("pods", 0, "name", value="a\nb"), ("pods[0].name", "printable")),
    (_set("shapes", "h200-8", "gpu_numa", 0, value=7), ("node node-0: GPU 0: numa", "its NUMA nodes (0, 1)", "7")),
    (_set("shapes", "h200-8", "nics", 0, "numa", value=2), ("node node-0: NIC mlx5_0: numa", "2")),
    (_set("shapes", "h200-8", "numa_nodes", 1, "id", value=0), ("node node-0: numa_nodes", "listed once")),
    (_set("shapes", "h200-8", "numa_nodes", 1, "cores", value="31-63"), ("node node-0: cores", "31 more than once")),
    (_set("shapes", "h200-8", "gpus_per_numa", value=4), ("gpus_per_numa", "left out where gpu_numa")),
    (_set("shapes", "h200-8", "gpu_indices", value=[0, 1]), ("shapes.h200-8.gpu_indices", "8 indices")),
    (_set("shapes", "h200-8", "taints", 0, "effect", value="Never"), ("effect", "NoSchedule")),
    (_set("shapes", "h200-8", "labels", value={"a b": "c"}), ("labels.a b", "valid label key")),
    (_set("shapes", "h200-8", "labels", value={"a": "c d"}), ("labels.a", "a label value")),
    (_set("shapes", "h200-8", "cpus", value=float("nan")), ("shapes.h200-8.cpus", "finite")),
    (_set("nodes", 0, "shape", value="h200-9"), ("nodes[0].shape", "one of shapes", "h200-9")),
    (_set("nodes", 0, "name", value="node-1"), ("node node-1", "listed once", "2 times")),
    (_set("nodes", 1, "uuids", value=["a"]), ("nodes[1].uuids", "a list of 8 texts")),
    (_set("nodes", 1, "uuids", value=["a"] * 8), ("node node-1: GPU uuids", "listed once")),
    (_set("nodes", 0, "rack", value="r"), ("nodes[0].rack is not a known key",)),
    (_set("nodes", value=[]), ("nodes must be at least one node",)),
    (lambda d: d["nodes"][0].pop("asw"), ("nodes[0].asw", "it is missing")),
    (lambda d: d["shapes"]["h200-8"].pop("gpu"), ("shapes.h200-8.gpu", "it is missing")),
    (lambda d: d.pop("shapes"), ("shapes", "it is missing")),
    (_set("racks", value=[]), ("racks is not a known key",)),
]


@pytest.mark.parametrize(("edit", "words"), BAD)
def test_contradictions_are_named(
    edit: Callable[[Document], None], words: tuple[str, ...], refused: Refused, write: Write
) -> None:
    text = json.dumps(_edited(edit))
    refused(lambda: cluster_from_section(parse_json(text, file="c.json")), "c.json", *words)
    path = write("c.json", text)
    refused(lambda: load_cluster(path), str(path), *words)


def test_the_unedited_document_is_sound() -> None:
    assert len(cluster_from_section(parse_json(json.dumps(_edited(lambda _: None)), file="c.json")).nodes) == 3


def test_nothing_is_overwritten_unasked_or_left_behind(path: Path, tmp_path: Path, refused: Refused) -> None:
    cluster = load_cluster(path)
    refused(lambda: write_cluster(cluster, path), "exists already")
    assert path.read_text() == TEXT
    refused(lambda: write_cluster(cluster, tmp_path / "cluster.txt"), ".yaml, .yml, .json")
    broken = replace(cluster, pods=(*cluster.pods, replace(cluster.pods[1], name="other")))
    refused(lambda: write_cluster(broken, tmp_path / "new.yaml"), "cluster two-nodes", "pod lab/other: gpus")
    unreadable = replace(cluster, nodes=(replace(cluster.nodes[0], name="a\x07"),), pods=())
    refused(lambda: write_cluster(unreadable, tmp_path / "new.yaml"), "nodes[0].name")
    assert sorted(tmp_path.iterdir()) == [path]


# ---- the fast YAML reader

YAML_TEXTS = [
    "a: 010\nb: 1:30\nc: 1e-4\nd: 0x1f\ne: 1_000\nf: ~\ng: yes\nh: No\ni: .5\nj: -3\nk: 1.5e3\n",
    "a: '1'\nb: \"x\\ty\"\nc: |\n  two\n  lines\nd: >\n  folded\n  text\ne:\n",
    "a: &x [1, 2]\nb: *x\nc: {d: [], e: {}}\n",
    "base: &b {x: 1}\nmine: {<<: *b, y: 2}\n",
    "a: !!str 5\nb: !!float 3\n",
    "a: 2025-01-02\n",
    "1: a\ntrue: b\n",
    "# nothing\n",
    "",
    "- 1\n- 2\n",
    "a: 1\na: 2\n",
    "a: {b: 1, b: 2}\n",
    "[1]: a\n",
    "a: *x\n",
    "a: [1, 2\n",
    "a: 1\n---\nb: 2\n",
    "a: !!python/object/apply:os.system [ls]\n",
    "a: 2025-13-45\n",
    "a: \t1\n\tb: 2\n",
    "a: \x00\n",
    f"a: {'[' * 600}{']' * 600}\n",
    f"a: {'9' * 5000}\n",
]


def _outcome(parse: Callable[..., Any], text: str) -> object:
    try:
        section = parse(text, file="f")
    except InputError:
        return InputError
    return {key: (repr(section._values[key])) for key in section}


@pytest.mark.parametrize("text", YAML_TEXTS)
def test_large_files_are_read_as_small_ones(text: str) -> None:
    assert _outcome(parse_large_yaml, text) == _outcome(parse_yaml, text)


def test_what_holds_itself_is_refused(refused: Refused) -> None:
    refused(lambda: parse_large_yaml("a: &x [*x]\n", file="f"), "f: line 1", "undefined alias 'x'")


def test_errors_of_large_files_name_the_line(refused: Refused) -> None:
    refused(lambda: parse_large_yaml("a: 1\nb: {c: 1, c: 2}\n", file="f"), "f: line 2, column 11", "'c' is given twice")
    refused(lambda: parse_large_yaml("a: 1\nb: [1\n", file="f"), "f: line 3", "not readable YAML")


LETTERS = st.text(alphabet="ab01e:-.,[]{}'\"#&*!|>~ \n", max_size=25)


@given(text=LETTERS)
@settings(max_examples=400, deadline=None)
def test_any_text_reads_alike(text: str) -> None:
    fast, slow = _outcome(parse_large_yaml, text), _outcome(parse_yaml, text)
    # the two parsers themselves differ on a few broken texts; what both read they must read alike
    if InputError not in (fast, slow):
        assert fast == slow


def _large(nodes: int) -> Cluster:
    small = cluster_from_section(parse_yaml(TEXT, file="first"))
    shape, pod = replace(small.nodes[0], labels=()), small.pods[0]
    names = [f"node-{place:05d}" for place in range(nodes)]
    return Cluster(
        name="large",
        nodes=tuple(
            replace(
                shape,
                name=name,
                asw=f"asw-{place // 64}",
                gpus=tuple(replace(gpu, uuid=f"GPU-{name}-{gpu.index}") for gpu in shape.gpus),
            )
            for place, name in enumerate(names)
        ),
        pods=tuple(
            replace(pod, name=f"{name}-{k}", node=name, gpus=(k,), gpu_request=1, cores=(4 * k, 4 * k + 1), cpus=2.0)
            for name in names
            for k in range(3)
        ),
    )


@pytest.mark.parametrize(("suffix", "most_s"), [(".yaml", 2.5), (".json", 1.5)])
def test_a_tenth_of_the_largest_cluster_loads_in_a_tenth_of_the_time(
    suffix: str, most_s: float, tmp_path: Path
) -> None:
    """2 000 nodes, 16 000 GPUs and 6 000 pods; some five times as long as it takes, for slow machines."""
    cluster, path = _large(2_000), tmp_path / f"large{suffix}"
    write_cluster(cluster, path)
    begun = time.process_time()
    loaded = load_cluster(path)
    assert time.process_time() - begun < most_s
    assert loaded == cluster


def test_documents_are_fresh(path: Path) -> None:
    cluster = load_cluster(path)
    document = cluster_document(cluster)
    before = copy.deepcopy(document)
    document["pods"][0]["gpus"].append(5)
    assert cluster_document(cluster) == before


def test_garbage_is_collected_again_after_loading(path: Path, write: Write, refused: Refused) -> None:
    load_cluster(path)
    assert gc.isenabled()
    refused(lambda: load_cluster(write("bad.yaml", "name: 1\n")), "bad.yaml")
    assert gc.isenabled()
