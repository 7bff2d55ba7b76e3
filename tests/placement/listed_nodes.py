"""Nodes and pods of made-up kubectl lists, and the clusters that are imported from them."""

from pathlib import Path
from typing import Any

from recorded_sources import kubectl_pod, written_list

from planner.domain import Cluster
from planner.files.cluster.clusters import load_cluster, write_cluster
from planner.runs.cluster_import import ClusterSources, import_cluster

PRODUCT, TYPE = "nvidia.com/gpu.product", "node.kubernetes.io/instance-type"


def node(
    name: str,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    resources: dict[str, int] | None = None,
) -> dict[str, Any]:
    """A node with 96 CPUs and these resources."""
    amounts = {"cpu": "96", "memory": "1000Gi"} | {key: str(value) for key, value in (resources or {}).items()}
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    return {
        "kind": "Node",
        "metadata": metadata,
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def eight(name: str, labels: dict[str, str], pieces: int = 8, resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    return node(name, labels, resources={resource: pieces})


def imported(folder: Path, *items: dict[str, Any], **options: Any) -> Cluster:
    """The cluster, which is also written and read back as it was."""
    cluster = import_cluster(ClusterSources(kubectl=(written_list(folder / "list.json", *items),), **options))
    write_cluster(cluster, folder / "cluster.json", force=True)
    assert load_cluster(folder / "cluster.json") == cluster
    return cluster


def said(cluster: Cluster, *words: str) -> bool:
    """Whether one note has all of these words."""
    return any(all(word in note for word in words) for note in cluster.notes)


def asking(name: str, change: dict[str, Any], namespace: str = "serving") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "annotations": change.get("annotations", {})}
    asked = {"cpu": "1"} | change.get("resources", {})
    return kubectl_pod(
        name, "n-1", metadata=metadata, spec={"containers": [{"name": "c", "resources": {"requests": asked}}]}
    )
