"""What one source says about one node, before several sources are joined into a cluster."""

from dataclasses import dataclass

from planner.domain.cluster import Nic, NumaNode, Taint


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedGpu:
    """A GPU as a source tells it; "" or None: it does not say. `product` as nvidia-smi names it."""

    index: int
    uuid: str = ""
    product: str = ""
    numa: int | None = None
    used_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuName:
    """What a label calls a node's GPUs, and the type that this is ("": none that is known). `of_driver`: the label is
    set by what asks the driver, not by who rents the machine out.
    """

    label: str
    value: str
    gpu: str = ""
    of_driver: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualBoard:
    """The NUMA node of each GPU, and the socket of each NUMA id from 0, on hosts of a machine type (a shell pattern in
    small letters) or with GPUs of these types.
    """

    numa: tuple[int, ...]
    sockets: tuple[int, ...]
    machine: str = ""
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """What a source says about the node `node`; None and empty: nothing. `origin` names the source in errors.

    `gpus_per_numa`: how many GPUs lie in each NUMA node, where it is not known which. `sockets_known`: whether the
    sockets of `numa_nodes` are told, not assumed. `core_users`: core id and the pods that claim it;
    `last_user_only`: where several pods may run on a core, only one of them is told. `offers`: parts of GPUs by
    resource name; `whole_gpus`: how many GPUs are not cut up (None: all). `gpu_names`: what labels call its GPUs, the
    surest first.
    """

    node: str
    origin: str
    gpu_count: int | None = None
    gpus: tuple[ReportedGpu, ...] = ()
    gpus_per_numa: tuple[tuple[int, int], ...] = ()
    numa_nodes: tuple[NumaNode, ...] = ()
    sockets_known: bool = True
    nics: tuple[Nic, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    cpus: float | None = None
    memory_gb: float | None = None
    core_users: tuple[tuple[int, tuple[str, ...]], ...] = ()
    last_user_only: bool = False
    notes: tuple[str, ...] = ()
    offers: tuple[tuple[str, int], ...] = ()
    whole_gpus: int | None = None
    gpu_names: tuple[GpuName, ...] = ()
    machine: str = ""
    nvlink_domain: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNumaMap:
    """NUMA ids by GPU index, by node name or `default`; `sockets`: the socket of each NUMA id from 0, where told."""

    file: str
    gpus: tuple[tuple[str, tuple[int, ...]], ...]
    sockets: tuple[tuple[str, tuple[int, ...]], ...] = ()
    default: str = "default"

    def of(self, node: str) -> tuple[int, ...] | None:
        """NUMA ids by GPU index of a node; None where neither it nor a default is given."""
        numas = dict(self.gpus)
        return numas.get(node, numas.get(self.default))

    def sockets_of(self, node: str) -> tuple[int, ...] | None:
        """Sockets by NUMA id of a node; None where they are not told."""
        return dict(self.sockets).get(node if self.names(node) else self.default)

    def names(self, node: str) -> bool:
        """Whether the node has an entry of its own."""
        return node in dict(self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTypeNames:
    """What GPU types are called: `selectors` by type (labels of its nodes), `products` by the name on a GPU."""

    selectors: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    products: tuple[tuple[str, str], ...] = ()
