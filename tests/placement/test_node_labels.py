"""Nodes as each provider, operator and sharing scheme labels them, and the parts of GPUs that pods hold of them.

Every expected figure is counted by hand from the labels as their documentation describes them.
"""

from pathlib import Path
from typing import Any

import pytest
from listed_nodes import PRODUCT, TYPE, asking, eight, imported, node, said

GKE, KARPENTER = "cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-"
GPUS, H200 = {"nvidia.com/gpu": 8}, {PRODUCT: "NVIDIA-H200"}

# what it is | labels | resource and pieces | GPU type, whole GPUs, offers
FORMS: list[tuple[str, dict[str, str], dict[str, int], str, int, tuple[tuple[str, int], ...]]] = [
    ("GKE A3 Mega", {GKE: "nvidia-h100-mega-80gb"}, GPUS, "H100", 8, ()),
    ("GKE A100 of 40 GB", {GKE: "nvidia-tesla-a100"}, GPUS,
     "nvidia-tesla-a100", 8, ()),
    ("GKE MIG", {GKE: "nvidia-h100-80gb",
                 "cloud.google.com/gke-gpu-partition-size": "1g.10gb"}, {"nvidia.com/gpu": 56}, "H100", 0,
     (("nvidia.com/gpu", 56),)),
    ("GKE time-sharing", {GKE: "nvidia-l4",
                          "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
                          "cloud.google.com/gke-max-shared-clients-per-gpu": "4"}, GPUS, "L4", 0,
     (("nvidia.com/gpu", 8),)),
    ("EKS by machine", {TYPE: "p5en.48xlarge"}, GPUS, "H200", 8, ()),
    ("Karpenter", {KARPENTER + "name": "h100", TYPE: "p5.48xlarge"}, GPUS, "H100", 8,
     ()),
    ("Karpenter, A100 of 80 GB", {KARPENTER + "name": "a100",
                                  KARPENTER + "memory": "81920"}, GPUS, "A100", 8, ()),
    ("Karpenter, A100 of 40 GB", {KARPENTER + "name": "a100",
                                  KARPENTER + "memory": "40960"}, GPUS, "a100-other", 8, ()),
    ("EKS Auto Mode", {"eks.amazonaws.com/instance-gpu-name": "l40s"}, {"nvidia.com/gpu": 4}, "L40S", 4, ()),
    ("AKS", {"kubernetes.azure.com/accelerator": "nvidia", TYPE: "Standard_ND96isr_H100_v5"}, GPUS,
     "H100", 8, ()),
    ("AKS auto-provisioned", {"karpenter.azure.com/sku-gpu-name": "A100", TYPE: "Standard_ND96amsr_A100_v4"},
     GPUS, "A100", 8, ()),
    ("AKS, AMD", {TYPE: "Standard_ND96isr_MI300X_v5"}, {"amd.com/gpu": 8}, "MI300X", 8, ()),
    ("Oracle", {TYPE: "BM.GPU.H200.8"}, GPUS, "H200", 8, ()),
    ("CoreWeave", {"gpu.nvidia.com/class": "H100_NVLINK_80GB", "gpu.nvidia.com/model": "H100"}, GPUS,
     "H100", 8, ()),
    ("Alibaba Cloud", {"aliyun.accelerator/nvidia_name": "NVIDIA-H20"}, GPUS, "H20", 8, ()),
    ("AMD operator", {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, {"amd.com/gpu": 8}, "MI300X", 8, ()),
    ("AMD labeller with counts", {"beta.amd.com/gpu.product-name.AMD_Instinct_MI300X_OAM": "8"}, {"amd.com/gpu": 8},
     "MI300X", 8, ()),
    ("AMD partitions", {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, {"amd.com/cpx_nps4": 64}, "MI300X", 0,
     (("amd.com/cpx_nps4", 64),)),
    ("AMD partitions by the plain name", {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, {"amd.com/gpu": 64},
     "MI300X", 0, (("amd.com/gpu", 64),)),
    ("GPU operator, MIG mixed", {PRODUCT: "NVIDIA-H100-80GB-HBM3", "nvidia.com/mig.strategy": "mixed"},
     {"nvidia.com/gpu": 6, "nvidia.com/mig-1g.10gb": 7, "nvidia.com/mig-3g.40gb": 2}, "H100", 6,
     (("nvidia.com/mig-1g.10gb", 7), ("nvidia.com/mig-3g.40gb", 2))),
    ("GPU operator, MIG single, no slice made", {PRODUCT: "NVIDIA-H100-80GB-HBM3", "nvidia.com/mig.strategy": "single",
                                                "nvidia.com/mig.capable": "true"}, GPUS, "H100", 8, ()),
    ("time slicing", {PRODUCT: "NVIDIA-L40S-SHARED", "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "8"},
     {"nvidia.com/gpu": 32}, "L40S", 0, (("nvidia.com/gpu", 32),)),
    ("time slicing, renamed", {PRODUCT: "NVIDIA-L40S", "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "8"},
     {"nvidia.com/gpu.shared": 32, "nvidia.com/gpu": 0}, "L40S", 0, (("nvidia.com/gpu.shared", 32),)),
    ("MPS", {PRODUCT: "NVIDIA-A100-SXM4-80GB-SHARED", "nvidia.com/gpu.replicas": "2",
             "nvidia.com/gpu.sharing-strategy": "mps"}, {"nvidia.com/gpu": 16}, "A100", 0, (("nvidia.com/gpu", 16),)),
    ("shares that no label names", {}, {"nvidia.com/gpu.shared": 16}, "", 0, (("nvidia.com/gpu.shared", 16),)),
    ("replicas of one are whole", {PRODUCT: "NVIDIA-H200", "nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.count": "8"},
     GPUS, "H200", 8, ()),
    ("gpushare", {"aliyun.accelerator/nvidia_name": "NVIDIA-A10"},
     {"aliyun.com/gpu-mem": 48, "aliyun.com/gpu-count": 2}, "A10", 0, (("aliyun.com/gpu-mem", 48),)),
    ("openb's simulator", {"alibabacloud.com/gpu-card-model": "V100M16"}, {"alibabacloud.com/gpu-count": 8}, "V100M16",
     8, ()),
    ("NFD beside the driver", {"feature.node.kubernetes.io/pci-10de.present": "true", PRODUCT: "NVIDIA-B200"},
     GPUS, "DGX-B200", 8, ()),
    ("no device plugin", {"feature.node.kubernetes.io/pci-10de.present": "true"}, {}, "", 0, ()),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "resources", "gpu", "whole_gpus", "offers"), [row[1:] for row in FORMS],
                         ids=[row[0] for row in FORMS])  # fmt: skip
def test_labels_of_every_kind_are_read(
    tmp_path: Path,
    labels: dict[str, str],
    resources: dict[str, int],
    gpu: str,
    whole_gpus: int,
    offers: tuple[tuple[str, int], ...],
) -> None:
    cluster = imported(tmp_path, node("n-1", labels, resources=resources))
    (one,) = cluster.nodes
    assert (one.gpu, len(one.gpus), one.offers) == (gpu, whole_gpus, offers)
    assert bool(offers) is said(cluster, "node n-1: offers")


SHARES: list[tuple[str, dict[str, Any], dict[str, Any], int, float]] = [
    ("MIG slice", node("n-1", {PRODUCT: "NVIDIA-H100-80GB-HBM3"}, resources={"nvidia.com/mig-3g.40gb": 2}),
     {"resources": {"nvidia.com/mig-3g.40gb": "1"}}, 0, 3 / 7),
    ("time slice", eight("n-1", {PRODUCT: "NVIDIA-L4-SHARED", "nvidia.com/gpu.replicas": "4"}, 32),
     {"resources": {"nvidia.com/gpu": "2"}}, 0, 0.5),
    ("CPX partition", node("n-1", {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"},
                           resources={"amd.com/cpx_nps4": 64}), {"resources": {"amd.com/cpx_nps4": "4"}}, 0, 0.5),
    ("gpushare's memory", node("n-1", {"aliyun.accelerator/nvidia_name": "NVIDIA-A10"},
                               resources={"aliyun.com/gpu-mem": 48, "aliyun.com/gpu-count": 2}),
     {"resources": {"aliyun.com/gpu-mem": "6"}}, 0, 0.25),
    ("a fraction of KAI", eight("n-1", H200), {"annotations": {"gpu-fraction": "0.5"}}, 0, 0.5),
    ("a fraction of two", eight("n-1", H200),
     {"annotations": {"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}}, 0, 0.5),
    ("memory of a GPU", eight("n-1", {PRODUCT: "NVIDIA-H200", "nvidia.com/gpu.memory": "143771"}),
     {"annotations": {"gpu-memory": "14377.1"}}, 0, 0.1),
    ("thousandths", eight("n-1", H200),
     {"annotations": {"alibabacloud.com/gpu-milli": "460", "alibabacloud.com/gpu-count": "1"}}, 0, 0.46),
    ("whole by thousandths", eight("n-1", H200),
     {"annotations": {"alibabacloud.com/gpu-milli": "1000", "alibabacloud.com/gpu-count": "2"}}, 2, 0.0),
    ("percent of Koordinator", eight("n-1", H200), {"resources": {"koordinator.sh/gpu-core": "50"}}, 0,
     0.5),
    ("whole by percent", eight("n-1", H200), {"resources": {"koordinator.sh/gpu": "400"}}, 4, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("host", "change", "request_gpus", "share"), [row[1:] for row in SHARES],
                         ids=[row[0] for row in SHARES])  # fmt: skip
def test_parts_of_gpus_that_pods_hold(
    tmp_path: Path, host: dict[str, Any], change: dict[str, Any], request_gpus: int, share: float
) -> None:
    (pod,) = imported(tmp_path, host, asking("p", change)).pods
    assert (pod.gpu_request, pod.gpu_share) == (request_gpus, pytest.approx(share, abs=1e-6))
