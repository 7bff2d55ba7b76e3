"""How a plan is to be deployed: the kind of manifests, the router, and what they ask of the cluster."""

from dataclasses import dataclass
from typing import Annotated

from planner.domain.keys import Bounds, Key, Mapped, OneOf
from planner.domain.placement import PlacementSettings

AUTOSCALERS = ("none", "hpa", "keda")
_CPUS_PER_GPU, _MEMORY_GIB_PER_GPU = 8, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploySettings:
    """Choices that shape the manifests and leave the plan as it is.

    `target`, `router`: names of `planner export`; empty: lws, and the target's own router. `name`: prefix of every
    object's name; empty: the scenario's. `images`: (vendor, image) pairs that replace an engine's pinned image.
    `cpus_per_gpu` and `memory_gib_per_gpu` set limits equal to requests, so that pods get the Guaranteed class that
    NUMA alignment needs (None: what the plan's placement settings give each GPU, else 8 cores and 64 GiB).
    `shared_memory_gib` is the size of `/dev/shm`. `pod_resources`: further extended resources of every pod, such as
    ("rdma/ib", 8). `topology_labels`: (switch level, node label) pairs; empty: those of the cluster's import.
    `pin_nodes`: pods may only go to the nodes of the plan's placement. `priority_class`: name of a PriorityClass to
    make, with the placement's priority. `queue`: the Kueue LocalQueue that admits the workloads. `model_volume`: name
    of a claim to make for the weights, which every pod mounts. Empty: none of it. `namespace`: the Kubernetes namespace
    that manifests are made for where a name in them holds it (target dynamo); others leave it to whoever applies them.
    `monitoring`: a PodMonitor and a PrometheusRule beside the rest, for clusters with the Prometheus operator.
    `autoscaling`: an autoscaler for each island, hpa or keda; the latter asks at `prometheus` (http or https).
    """

    target: Annotated[str, Key("kind of manifests", sparse=True)] = ""
    router: Annotated[str, Key("who executes the routing, or none", sparse=True)] = ""
    name: Annotated[str, Key("what object names begin with", sparse=True)] = ""
    images: Annotated[tuple[tuple[str, str], ...], Mapped(), Key("of a vendor's GPUs", sparse=True)] = ()
    cpus_per_gpu: Annotated[int | None, Bounds(low=1, high=1024), Key("whole cores", sparse=True)] = None
    memory_gib_per_gpu: Annotated[int | None, Bounds(low=1, high=65_536), Key("of a pod", unit="GiB", sparse=True)] = (
        None
    )
    shared_memory_gib: Annotated[int, Bounds(low=1, high=65_536), Key("of /dev/shm", unit="GiB", sparse=True)] = 16
    pod_resources: Annotated[
        tuple[tuple[str, int], ...], Mapped(), Bounds(low=1, high=1_000_000), Key("of every pod", sparse=True)
    ] = ()
    topology_labels: Annotated[
        tuple[tuple[str, str], ...], Mapped(), Key("node label of a switch level", sparse=True, name="topology")
    ] = ()
    pin_nodes: Annotated[bool, Key("only the nodes of the placement", sparse=True)] = False
    priority_class: Annotated[str, Key("a PriorityClass to make and use", sparse=True)] = ""
    queue: Annotated[str, Key("Kueue LocalQueue that admits the workloads", sparse=True)] = ""
    model_volume: Annotated[str, Key("a claim for the weights", sparse=True)] = ""
    namespace: Annotated[str, Key("of the graphs (dynamo)", sparse=True)] = "default"
    monitoring: Annotated[bool, Key("PodMonitor and PrometheusRule, too", sparse=True)] = False
    autoscaling: Annotated[str, OneOf(AUTOSCALERS), Key("autoscalers with the plan's bounds", sparse=True)] = "none"
    prometheus: Annotated[str, Key("where keda asks", sparse=True)] = "http://prometheus-operated.monitoring.svc:9090"

    def cpus(self, settings: PlacementSettings) -> int:
        """Cores that each GPU takes along."""
        return self.cpus_per_gpu if self.cpus_per_gpu is not None else settings.cpus_per_gpu or _CPUS_PER_GPU

    def memory_gib(self, settings: PlacementSettings) -> int:
        """Memory that each GPU takes along (GiB)."""
        if self.memory_gib_per_gpu is not None:
            return self.memory_gib_per_gpu
        return int(settings.memory_gb_per_gpu * 1e9 / 2**30) or _MEMORY_GIB_PER_GPU
