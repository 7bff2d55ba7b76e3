"""Fragmentation of a cluster now, against the pods that it runs."""

from planner.domain import WHOLE_GPU, Cluster, Fragmentation, TracePod, TypicalPod
from planner.placement.cluster_states import MILLI, states_of
from planner.placement.fragmentation import fragmentation
from planner.placement.typical_pods import target_workload

REQUESTS = (1, 2, 4, 8)
"""GPUs of the requests, all equally likely, that stand in where no pod holds a GPU."""


def fragments_now(cluster: Cluster) -> Fragmentation:
    """What pods like those of a sound cluster cannot use of its idle GPUs, by class and cause.

    Pods without GPUs could use none of them and are no class. Whole GPUs count by number, whichever a pod holds.
    """
    return fragmentation(states_of(cluster), workload_of(cluster))


def workload_of(cluster: Cluster) -> tuple[TypicalPod, ...]:
    """The target workload of a cluster: the classes of its pods with GPUs, else requests of 1, 2, 4, 8 GPUs."""
    pods = [
        TracePod(
            name=pod.key,
            cpu_milli=round(pod.cpu_count * MILLI),
            memory_mib=0,  # classes do not tell pods apart by it
            gpus=pod.gpu_count,
            gpu_milli=WHOLE_GPU,
        )
        for pod in cluster.pods
        if pod.gpu_count
    ]
    return target_workload(pods) if pods else tuple(_request(gpus) for gpus in REQUESTS)


def _request(gpus: int) -> TypicalPod:
    share = 1 / len(REQUESTS)
    return TypicalPod(cpu_milli=0, gpus=gpus, gpu_milli=WHOLE_GPU, gpu_spec="", weight=1.0, popularity=share)
