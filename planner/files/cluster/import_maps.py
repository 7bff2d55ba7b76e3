"""What is added to what the nodes of an import tell: the NUMA nodes of GPUs and the GPUs of pods by the user, and the
boards that GPUs usually come on, from usual_boards.yaml beside this file."""

from functools import cache
from pathlib import Path

from planner.domain import MOST_GPUS_OF_A_NODE
from planner.domain.cluster import HIGHEST_NUMA
from planner.domain.node_report import GpuNumaMap, UsualBoard
from planner.files.cluster.cluster_sections import whole_numbers
from planner.files.disk.documents import read_yaml
from planner.files.sections import Section

_MOST_NUMA_ID = 9999


def read_gpu_numa(path: Path) -> GpuNumaMap:
    """`NODE: [0, 0, 1, 1]`, or `NODE: {gpus: [0, 0, 1, 1], sockets: [0, 1]}`."""
    document = read_yaml(path)
    gpus: dict[str, tuple[int, ...]] = {}
    sockets: dict[str, tuple[int, ...]] = {}
    for node in document:
        if document.holds_section(node):
            entry = document.section(node)
            entry.allow_only("gpus", "sockets")
            gpus[node] = _ids(entry, "gpus")
            sockets[node] = _ids(entry, "sockets")
        else:
            gpus[node] = _ids(document, node)
    return GpuNumaMap(file=str(path), gpus=tuple(gpus.items()), sockets=tuple(sockets.items()))


def _ids(section: Section, key: str) -> tuple[int, ...]:
    values = section.entries(key)
    ids = tuple(value for value in values if isinstance(value, int) and not isinstance(value, bool))
    if len(ids) < len(values) or not all(0 <= value <= _MOST_NUMA_ID for value in ids):
        raise section.fault(key, "a list of ids, whole numbers of at least 0")
    return ids


def read_devices(path: Path) -> dict[str, tuple[int | str, ...]]:
    """GPU indices or UUIDs by `namespace/pod`, as kubelet's PodResources interface tells them."""
    document = read_yaml(path)
    return {pod: _devices(document, pod) for pod in document}


def _devices(document: Section, pod: str) -> tuple[int | str, ...]:
    namespace, slash, name = pod.partition("/")
    values = document.entries(pod)
    if not (namespace and slash and name):
        raise document.fault(pod, "under a key namespace/pod")
    plain = tuple(value for value in values if isinstance(value, int | str) and not isinstance(value, bool))
    if len(plain) < len(values) or len(values) > MOST_GPUS_OF_A_NODE or len(set(plain)) < len(plain):
        raise document.fault(pod, "a list of distinct GPU indices or UUIDs")
    return plain


@cache
def usual_boards() -> tuple[UsualBoard, ...]:
    """All rows, in order: the first that fits counts."""
    return tuple(_board(row) for row in read_yaml(Path(__file__).with_name("usual_boards.yaml")).sections("boards"))


def _board(row: Section) -> UsualBoard:
    return UsualBoard(
        machine=row.text("machine", default=""),
        types=row.texts("types") if "types" in row else (),
        numa=whole_numbers(row, "numa", HIGHEST_NUMA),
        sockets=whole_numbers(row, "sockets", HIGHEST_NUMA),
    )
