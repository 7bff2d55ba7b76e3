"""Importing a cluster with nodes whose GPUs no spec describes, or that are cut up: they are read, and said to be."""

from pathlib import Path

import pytest
from recorded_sources import kubectl_node, kubectl_pod, written_list

from planner.runs.cluster_import import ClusterSources, import_cluster


@pytest.mark.parametrize(
    ("product", "pieces", "gpus", "offers", "share", "said"),
    [
        ("Tesla-T4", 4, {"H200": 8, "Tesla-T4": 4}, (), 0.0, "GPU type Tesla-T4: no GPU spec describes this type"),
        (
            "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
            56,
            {"H200": 8},
            (("nvidia.com/gpu", 56),),
            1 / 7,
            "node odd: offers MIG slices 1g.10gb as nvidia.com/gpu",
        ),
    ],
)
def test_nodes_of_types_that_nobody_knows_are_read(
    tmp_path: Path,
    product: str,
    pieces: int,
    gpus: dict[str, int],
    offers: tuple[tuple[str, int], ...],
    share: float,
    said: str,
) -> None:
    """One T4 beside the others refused the whole list once; slices were left out with their pods."""
    strange = kubectl_node("odd", labels={"nvidia.com/gpu.product": product}, gpus=pieces)
    pods = [kubectl_pod("mine", "n-1", gpus=8), kubectl_pod("theirs", "odd", gpus=1)]
    cluster = import_cluster(
        ClusterSources(kubectl=(written_list(tmp_path / "list.json", kubectl_node("n-1"), strange, *pods),))
    )
    odd = {node.name: node for node in cluster.nodes}["odd"]
    assert (cluster.gpus, odd.offers) == (gpus, offers)
    assert odd.gpu == ("Tesla-T4" if not offers else "H100")
    theirs = {pod.name: pod for pod in cluster.pods}["theirs"]
    assert (theirs.gpu_count, theirs.gpu_share) == (0 if offers else 1, pytest.approx(share, abs=1e-6))
    assert any(note.startswith(said) for note in cluster.notes)
