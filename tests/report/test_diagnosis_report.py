"""The diagnosis drawn: bars are the counts, in the order of requests, causes and types."""

from matplotlib.patches import Rectangle

from planner.domain import Cluster, ClusterNode, NodeGpu, NumaNode, Pod
from planner.domain.diagnosis import ChangeKind, GpuRequest, UnlockingChange
from planner.placement.diagnosis import diagnose
from planner.report import diagnosis_figure, diagnosis_page, page_text
from planner.report.cluster.diagnosis_words import change_words


def node_of(name: str, gpu: str, asw: str) -> ClusterNode:
    return ClusterNode(
        name=name,
        gpu=gpu,
        gpus=tuple(NodeGpu(index=k, uuid=f"{name}-{k}", numa=0) for k in range(8)),
        numa_nodes=(NumaNode(id=0, socket=0),),
        cpus=96,
        memory_gb=1024,
        asw=asw,
    )


NODES = (node_of("a", "H20", "s1"), node_of("b", "H20", "s2"), node_of("c|d", "H800", "s2"))
CLUSTER = Cluster(name="two_types", nodes=NODES, pods=(Pod(name="p", node="b", gpus=(0, 1, 2), cpus=80),))


def widths(axes: object) -> list[list[float]]:
    """Bars of each container of a panel, which lie."""
    return [[float(bar.get_width()) for bar in bars if isinstance(bar, Rectangle)] for bars in axes.containers]  # type: ignore[attr-defined]


def test_bars_are_the_counts() -> None:
    requests = (GpuRequest.parse("4G32C"), GpuRequest.parse("8G96C"))
    figure = diagnosis_figure(diagnose(CLUSTER, requests=requests, jobs=(8, 16), cpus_per_gpu=8))
    released, partition, eight, sixteen = figure.axes
    # b: 5 idle GPUs and 16 CPUs: too few CPUs for either request, as the scripts count
    assert widths(released) == [[0, 0], [0, 0], [4, 5]]
    # 4G32C: two on a, two on c; of b one stranded, four short of CPUs. 8G96C: a and c; five stranded
    assert widths(partition) == [[16, 16], [1, 5], [4, 0]]
    # slots at 8 CPUs: a 8, b 2, c 8
    assert widths(eight) == [[1, 1, 2], [1, 1, 2]]
    assert widths(sixteen) == [[0, 0, 1], [0, 0, 0]]
    assert [label.get_text() for label in eight.get_yticklabels()] == ["H20", "H800", "heterogeneous"]


def test_over_committed_nodes_are_named_and_escaped() -> None:
    pods = (Pod(name="p", node="c|d", gpu_request=9, cpus=100),)
    page = page_text(diagnosis_page(diagnose(Cluster(name="c", nodes=NODES, pods=pods))))
    assert "## Over-committed" in page
    assert "- c\\|d: gpus 9 of 8\n- c\\|d: cpus 100 of 96" in page


def test_changes_in_words() -> None:
    locked = UnlockingChange(kind=ChangeKind.LOCKED_PODS, amount=4, gpus=8, at_most=True, nodes=("n-1", "n-2"))
    assert change_words(locked) == "locked pods on n-1, n-2 and 2 more free to move as well: at most +8 GPUs"
    assert change_words(UnlockingChange(kind=ChangeKind.CPUS, amount=1, gpus=1)) == "1 CPU more a node: +1 GPU"
