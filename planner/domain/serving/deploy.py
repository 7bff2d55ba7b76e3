"""How a plan is to be deployed: the kind of manifests, the router, and what they ask of the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from planner.domain.keys import INTERNAL, Bounds, Key, Mapped, OneOf
from planner.domain.placement import PlacementSettings

LOAD_GB_PER_S = 1.0
"""GB/s at which a pod reads weights unless somebody says: shared storage behind a link of 10 Gbit/s, which carries 1.25
at best. An assumption: measure it with `fio` in a pod."""
NONE, HPA, KEDA = AUTOSCALERS = ("none", "hpa", "keda")
BY_ENGINE, BY_ROUTER = "engine", "router"
LOAD_SOURCES = (BY_ENGINE, BY_ROUTER)
HOURS = 24
HOUR_NAMES = tuple(f"h{hour:02d}" for hour in range(HOURS))
COUNTS_BYTES = "bytes"
COUNTS = (COUNTS_BYTES, "requests")
BY_RANK, BY_SERVER = "rank", "server"
ENDPOINTS = ("auto", BY_SERVER, BY_RANK)
_CPUS_PER_GPU, _MEMORY_GIB_PER_GPU = 8, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploySettings:
    """Choices that shape the manifests; target, router, `router_counts` and `ranks` also decide what a plan promises.

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

    `weights`: who fetches them: a `job` into the model's volume, each `node` into a folder of its own, or every pod
    from the `hub`; empty: a job where there is a volume and a repository to fetch from, else the hub. `hf_secret`: the
    Secret with the Hugging Face token, NAME or NAME:KEY. `load_gb_per_s`: what a pod reads weights at (GB/s, 10^9
    bytes). `rdma`: RDMA devices of pods that talk to others, RESOURCE (one for each GPU) or RESOURCE=COUNT.
    `hugepages`: of every engine's pod, SIZE=AMOUNT. `nccl_ib_hca`, `socket_interface`: network cards and interface of
    pods that talk to others; empty: NCCL chooses. `compute_domains`: ComputeDomains for copies that count on NVLink
    between hosts. `kv_store`: where the store of `tiers.remote` answers, SCHEME://HOST:PORT.
    `router_counts`: what router `haproxy` counts of prefill servers to find the least loaded, bytes or requests.
    `bytes_per_token`: of a prompt's text, for routers that know a request's size alone. `images` may also replace those
    of routers: HAPROXY, VLLM-ROUTER, MODEL-GATEWAY.
    `served_names`: names that requests may give the model, beside its own.
    `ranks`: what a router chooses among: `rank`, every attention rank at a port of its own; `server`, copies of the
    model, whose engines share requests out over their ranks; `auto`: ranks where engine, target and router all can.
    `sbatch`: names of a Slurm cluster (target slurm), OPTION or OPTION.GPU: partition, account and such.
    `monitoring`: a PodMonitor and a PrometheusRule beside the rest, for clusters with the Prometheus operator.
    `image_digests`: (image, sha256:...) pairs; where there are any, every image is written by its digest.
    `api_key_secret`: the Secret with the key that engines ask for, NAME or NAME:KEY. `network_policies`: who may speak
    to whom, in the pods' namespace; `client_namespaces`: from where requests come, besides; empty: from anywhere.
    `autoscaling`: an autoscaler for each island, hpa or keda; the latter asks at `prometheus` (http or https).
    `load_source`: whose metrics tell the requests that come. `hours_rps`: requests/s that the day surely brings
    from each of these hours on, in `time_zone`; `spare_rps`: that copies are kept ready for beyond the load; both as
    `planner export --schedule` finds them.
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
    weights: Annotated[str, Key("who fetches them: job, node or hub", sparse=True)] = ""
    hf_secret: Annotated[str, Key("Secret with the token, NAME:KEY", sparse=True)] = ""
    load_gb_per_s: Annotated[
        float, Bounds(low=0.01, high=1000), Key("at which a pod reads weights", unit="GB/s", sparse=True)
    ] = LOAD_GB_PER_S
    rdma: Annotated[str, Key("RDMA devices of pods that talk to others", sparse=True)] = ""
    hugepages: Annotated[str, Key("of a pod, SIZE=AMOUNT", sparse=True)] = ""
    nccl_ib_hca: Annotated[str, Key("network cards for NCCL", sparse=True)] = ""
    compute_domains: Annotated[bool, Key("NVLink between the hosts of a copy", sparse=True)] = False
    socket_interface: Annotated[str, Key("of rendezvous between pods", sparse=True)] = ""
    kv_store: Annotated[str, Key("address of the store of tiers.remote", sparse=True)] = ""
    bytes_per_token: Annotated[
        float, Bounds(low=1, high=64), Key("of a prompt's text", unit="bytes/token", sparse=True)
    ] = 4.0
    router_counts: Annotated[str, OneOf(COUNTS), Key("of prefill servers: bytes, requests", sparse=True)] = COUNTS_BYTES
    ranks: Annotated[str, OneOf(ENDPOINTS), Key("endpoints of routers: rank or server", sparse=True)] = "auto"
    served_names: Annotated[tuple[str, ...], Key("what requests may call the model, too", sparse=True)] = ()
    sbatch: Annotated[tuple[tuple[str, str], ...], Mapped(), Key("options of the job (slurm)", sparse=True)] = ()
    monitoring: Annotated[bool, Key("PodMonitor and PrometheusRule, too", sparse=True)] = False
    image_digests: Annotated[tuple[tuple[str, str], ...], Mapped(), Key("of images, by name and tag", sparse=True)] = ()
    api_key_secret: Annotated[str, Key("Secret with the engines' key, NAME:KEY", sparse=True)] = ""
    network_policies: Annotated[bool, Key("who may speak to whom", sparse=True)] = True
    client_namespaces: Annotated[tuple[str, ...], Key("from where requests come", sparse=True)] = ()
    autoscaling: Annotated[str, OneOf(AUTOSCALERS), Key("autoscalers with the plan's bounds", sparse=True)] = "none"
    prometheus: Annotated[str, Key("where keda asks", sparse=True)] = "http://prometheus-operated.monitoring.svc:9090"
    load_source: Annotated[str, OneOf(LOAD_SOURCES), Key("whose metrics tell the load", sparse=True)] = BY_ENGINE
    hours_rps: Annotated[
        tuple[tuple[str, float], ...],
        Mapped(),
        Bounds(low=0, high=1e9),
        Key("from an hour on, as h08", unit="requests/s", sparse=True),
    ] = ()
    spare_rps: Annotated[float, Bounds(low=0, high=1e9), Key("kept ready", unit="requests/s", sparse=True)] = 0.0
    time_zone: Annotated[str, Key("of the hours", sparse=True)] = "Etc/UTC"

    @property
    def hourly_rps(self) -> tuple[float, ...]:
        """`hours_rps` of every hour, the last going on after midnight; empty where there are none."""
        from_hour = {int(name[1:]): rate for name, rate in self.hours_rps}
        if not from_hour:
            return ()
        last = from_hour[max(from_hour)]
        return tuple(last := from_hour.get(hour, last) for hour in range(HOURS))

    def cpus(self, settings: PlacementSettings) -> int:
        """Cores that each GPU takes along."""
        return self.cpus_per_gpu if self.cpus_per_gpu is not None else settings.cpus_per_gpu or _CPUS_PER_GPU

    def memory_gib(self, settings: PlacementSettings) -> int:
        """Memory that each GPU takes along (GiB)."""
        if self.memory_gib_per_gpu is not None:
            return self.memory_gib_per_gpu
        return int(settings.memory_gb_per_gpu * 1e9 / 2**30) or _MEMORY_GIB_PER_GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRecord:
    """All that decided what manifests say, beside the plan itself.

    `target`, `engine`, `router`: as they came out; `options` as they were asked for. `carried`: file -> objects as they
    were started under an earlier plan and run on, to the letter; where `step` is set these are all that the folder
    holds, as a step of a roll-out stands between two plans.
    """

    planner: Annotated[str, Key("version that wrote it")]
    plan_digest: Annotated[str, Key("of plan.json")]
    target: Annotated[str, Key("kind of manifests")]
    engine: Annotated[str, Key("that they start")]
    router: Annotated[str, Key("who executes the routing, or none")]
    cells: Annotated[int, Bounds(low=1, high=4096), Key("of a grid router")]
    topology_objects: Annotated[bool, Key("with those of the placement's nodes")] = False
    step: Annotated[bool, Key("of a roll-out")] = False
    options: Annotated[DeploySettings, INTERNAL] = field(default_factory=DeploySettings)
    carried: Annotated[Mapping[str, tuple[Mapping[str, Any], ...]], INTERNAL] = field(default_factory=dict)
