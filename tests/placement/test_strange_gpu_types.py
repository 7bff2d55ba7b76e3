"""Importing a cluster with nodes whose GPUs nobody knows: they are left out, and said to be."""

from pathlib import Path

import pytest
from recorded_sources import kubectl_node, kubectl_pod, written_list

from planner.runs.cluster_import import ClusterSources, import_cluster


@pytest.mark.parametrize(
    ("product", "why"),
    [
        ("Tesla-T4", "no GPU spec describes Tesla-T4 (--gpu-type Tesla-T4=TYPE)"),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb is a slice of one"),
    ],
)
def test_nodes_of_types_that_nobody_knows_are_left_out(tmp_path: Path, product: str, why: str) -> None:
    """One T4 beside the others refused the whole list; its pods go with it, and so do lines of other files on them."""
    strange = kubectl_node("t4", labels={"nvidia.com/gpu.product": product}, gpus=56)
    pods = [kubectl_pod("mine", "n-1", gpus=8), kubectl_pod("theirs", "t4", gpus=1)]
    (tmp_path / "numa.yaml").write_text("default: [0, 0, 0, 0, 1, 1, 1, 1]\nt4: [0]\n")
    (tmp_path / "devices.yaml").write_text("serving/theirs: [0]\n")
    cluster = import_cluster(
        ClusterSources(
            kubectl=(written_list(tmp_path / "list.json", kubectl_node("n-1"), strange, *pods),),
            gpu_numa=tmp_path / "numa.yaml",
            devices=tmp_path / "devices.yaml",
            levels=(("asw", "rack"),),
        )
    )
    assert [node.name for node in cluster.nodes] == ["n-1"]
    assert [pod.name for pod in cluster.pods] == ["mine"]
    assert any("node t4: left out with its pods" in note and why in note for note in cluster.notes)
