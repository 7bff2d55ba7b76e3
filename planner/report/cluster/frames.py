"""Clusters and diagnoses as data frames, columns named as the fields."""

from collections import Counter

from planner.domain import Cluster, Fragmentation
from planner.domain.diagnosis import ClusterDiagnosis, RequestDiagnosis
from planner.report.cluster.diagnosis.words import CAUSES, REQUEST_CAUSES, change_words
from planner.report.kit.frames import Frame, frame_of

_NODE_COLUMNS = ("node", "gpu", "gpus", "held", "idle", "asw", "aggregation", "nvlink_domain", "pods")


def cluster_frame(cluster: Cluster) -> Frame:
    """One row a node; `held`: GPUs that pods have, or asked for where nobody says which."""
    held_gpus: Counter[str] = Counter()
    pods = Counter(pod.node for pod in cluster.pods)
    for pod in cluster.pods:
        held_gpus[pod.node] += len(pod.gpus) or pod.gpu_request
    rows = [
        {
            "node": node.name,
            "gpu": node.gpu,
            "gpus": len(node.gpus),
            "held": held_gpus[node.name],
            "idle": max(0, len(node.gpus) - held_gpus[node.name]),
            "asw": node.asw,
            "aggregation": node.aggregation,
            "nvlink_domain": node.nvlink_domain,
            "pods": pods[node.name],
        }
        for node in cluster.nodes
    ]
    return frame_of(rows, _NODE_COLUMNS)


def diagnosis_frame(diagnosis: ClusterDiagnosis) -> Frame:
    """One row a GPU type ("": all) and request: how often it fits, what would open most, idle GPUs by cause."""
    return frame_of([_request_row(row) for row in diagnosis.requests], ("gpu", "request", "idle_gpus", "fit"))


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


def _request_row(row: RequestDiagnosis) -> dict[str, object]:
    changes = [change_words(change) for change in row.changes[:2]]
    return {
        "gpu": row.gpu,
        "request": row.request.name,
        "idle_gpus": row.idle_gpus,
        "fit": row.fit,
        "best_change": changes[0] if changes else "",
        "next_change": changes[1] if len(changes) > 1 else "",
        **{CAUSES[cause]: row.of(cause) for cause in REQUEST_CAUSES},
    }
