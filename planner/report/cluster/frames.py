"""Clusters and diagnoses as data frames, columns named as the fields."""

from collections import Counter

from planner.domain import Cluster, ClusterNode, Fragmentation
from planner.domain.diagnosis import ClusterDiagnosis, RequestDiagnosis, StrandingCause
from planner.report.cluster.diagnosis.words import CAUSES, REQUEST_CAUSES, change_words
from planner.report.kit.frames import Frame, frame_of
from planner.report.kit.tables import Column, fields, table_of


def _cause(cause: StrandingCause) -> Column[RequestDiagnosis]:
    return Column(CAUSES[cause], lambda row: row.of(cause))


def _change(row: RequestDiagnosis, place: int) -> str:
    return change_words(row.changes[place]) if len(row.changes) > place else ""


_REQUEST: tuple[Column[RequestDiagnosis], ...] = (
    *fields("gpu", "request=request.name", "idle_gpus", "fit"),
    Column("best_change", lambda row: _change(row, 0)),
    Column("next_change", lambda row: _change(row, 1)),
    *(_cause(cause) for cause in REQUEST_CAUSES),
)


def cluster_frame(cluster: Cluster) -> Frame:
    """One row a node; `held`: GPUs that pods have, or asked for where nobody says which."""
    held_gpus: Counter[str] = Counter()
    pods = Counter(pod.node for pod in cluster.pods)
    for pod in cluster.pods:
        held_gpus[pod.node] += len(pod.gpus) or pod.gpu_request
    columns: tuple[Column[ClusterNode], ...] = (
        *fields("node=name", "gpu"),
        Column("gpus", lambda node: len(node.gpus)),
        Column("held", lambda node: held_gpus[node.name]),
        Column("idle", lambda node: max(0, len(node.gpus) - held_gpus[node.name])),
        *fields("asw", "aggregation", "nvlink_domain"),
        Column("pods", lambda node: pods[node.name]),
    )
    return table_of(columns, cluster.nodes).frame()


def diagnosis_frame(diagnosis: ClusterDiagnosis) -> Frame:
    """One row a GPU type ("": all) and request: how often it fits, what would open most, idle GPUs by cause."""
    return table_of(_REQUEST, diagnosis.requests).frame()


def fragments_frame(fragmentation: Fragmentation) -> Frame:
    """One row a kind of pod that the cluster runs: how frequent it is, idle GPUs that it could use, and those that it
    could not for want of GPUs, CPUs or both on their node."""
    return frame_of(
        {
            "gpus": pod.gpus,
            "cpus": pod.cpu_milli / 1000,
            "share": pod.popularity,
            "usable": cause.usable / 1000,
            "too few GPUs": cause.short_of_gpu / 1000,
            "too few CPUs": cause.short_of_cpu / 1000,
            "too few of both": cause.short_of_both / 1000,
        }
        for pod, cause in fragmentation.classes
    )
