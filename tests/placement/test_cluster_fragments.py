"""Fragmentation of a cluster now, against a count by hand of every GPU."""

from dataclasses import replace

import pytest

from planner.domain import Cluster, ClusterNode, NodeGpu, NumaNode, Pod, TypicalPod
from planner.placement.clusters.synthetic import synthesize
from planner.placement.fragmentation import REQUESTS, fragments_now, workload_of


def node(name: str, gpus: int = 8, cpus: float = 64.0) -> ClusterNode:
    numa = (NumaNode(id=0, socket=0, cores=(0, 1)),) if gpus else ()
    devices = tuple(NodeGpu(index=k, uuid=f"{name}-{k}", numa=0) for k in range(gpus))
    gpu = "H20" if gpus else ""
    return ClusterNode(name=name, gpu=gpu, gpus=devices, numa_nodes=numa, cpus=cpus, memory_gb=512.0, asw="")


SMALL = Cluster(
    name="small",
    nodes=(node("full"), node("half"), node("starved"), node("unknown"), node("plain", gpus=0)),
    pods=(
        Pod(name="a", node="full", gpus=tuple(range(8)), gpu_request=8, cpus=32.0),
        Pod(name="b", node="half", gpus=(0, 1, 2, 3, 4), gpu_request=5, cpus=8.0),
        Pod(name="c", node="starved", gpus=(6, 7), gpu_request=2, cpus=56.0),
        Pod(name="d", node="unknown", gpu_request=2, cpus=8.0),
        Pod(name="e", node="plain", cpus=3.0),
    ),
)


def test_causes_by_hand() -> None:
    """Idle: 3 GPUs on half (56 CPUs free), 6 on starved (8 CPUs free), 6 on unknown (56), whichever they are."""
    found = fragments_now(SMALL)
    assert found.idle_gpu_milli == 15000
    causes = {(pod.gpus, pod.cpu_milli): cause for pod, cause in found.classes}
    assert set(causes) == {(8, 32000), (5, 8000), (2, 56000), (2, 8000)}
    assert (causes[8, 32000].short_of_gpu, causes[8, 32000].short_of_both) == (9000, 6000)
    assert (causes[5, 8000].short_of_gpu, causes[5, 8000].usable) == (3000, 12000)
    assert (causes[2, 56000].usable, causes[2, 56000].short_of_cpu) == (9000, 6000)
    assert (causes[2, 8000].usable, causes[2, 8000].total) == (15000, 0)
    assert found.causes.usable == pytest.approx((0 + 12000 + 9000 + 15000) / 4)
    assert found.ratio == pytest.approx(0.4)


def test_without_pods_there_are_requests() -> None:
    empty = replace(SMALL, pods=())
    assert [pod.gpus for pod in workload_of(empty)] == list(REQUESTS)
    assert fragments_now(empty).ratio == 0
    only = fragments_now(replace(SMALL, pods=(SMALL.pods[3],)))  # two of its eight are held, whichever
    assert (only.idle_gpu_milli, only.causes.usable) == (30000, 30000)
    none = fragments_now(replace(SMALL, nodes=SMALL.nodes[-1:], pods=()))
    assert (none.idle_gpu_milli, none.ratio) == (0, 0)


def expected(cluster: Cluster, pod: TypicalPod) -> float:
    """Idle GPUs of nodes that the pod fits on, counted from the cluster's records alone."""
    total = 0
    for host in cluster.nodes:
        mine = [one for one in cluster.pods if one.node == host.name]
        idle = len(host.gpus) - sum(one.gpu_count for one in mine)
        cpus = host.cpus - sum(max(one.cpus, len(one.cores)) for one in mine)
        total += idle if idle >= pod.gpus and cpus * 1000 >= pod.cpu_milli - 1e-6 else 0
    return 1000.0 * total


def test_a_made_up_cluster_class_by_class() -> None:
    cluster = synthesize(60, seed=3, load=0.7)
    found = fragments_now(cluster)
    assert len(found.classes) > 5
    for pod, cause in found.classes:
        assert cause.usable == expected(cluster, pod)
        assert cause.usable + cause.total == found.idle_gpu_milli
