"""What a node offers of its GPUs, and what a pod holds of them: whole ones, and parts of those that are shared.

| way of cutting up | told by | a piece is |
|---|---|---|
| MIG, strategy mixed | resource nvidia.com/mig-3g.40gb | 3 of 7 compute slices (A30: of 4) |
| MIG, strategy single | product ...-MIG-1g.10gb, GKE's gpu-partition-size | the same, as nvidia.com/gpu |
| time slicing, MPS | gpu.shared; gpu.replicas and product ...-SHARED; GKE's max-shared-clients-per-gpu | 1 / replicas |
| HAMi | annotation hami.io/node-nvidia-register: uuid,split,MiB,cores,product,numa,healthy:... | 1 / split |
| AMD partitions | resource amd.com/cpx_nps4 (dpx 2, qpx 4, cpx 8 to a GPU) | 1 / partitions |
| gpushare, vGPU, vcuda | aliyun.com/gpu-mem, volcano.sh/vgpu-*, tencent.com/vcuda-core | GPUs / pieces |

Sources: NVIDIA/k8s-device-plugin (README: labels of GPU feature discovery, shared access), GKE's guides on time-sharing
and on multi-instance GPUs, Project-HAMi/HAMi docs/develop/protocol.md, ROCm/k8s-device-plugin docs (resource naming).

| told by | part of a GPU |
|---|---|
| a resource that its node offers in pieces (`gpu_parts`) | pieces x what one is |
| HAMi: nvidia.com/gpucores (percent), gpumem (MiB), gpumem-percentage, of each GPU | the larger; else all of it |
| annotations gpu-fraction, gpu-fraction-num-devices, gpu-memory (KAI, Run:ai) | the fraction, of each device |
| alibabacloud.com/gpu-milli, gpu-count (annotation or resource) | thousandths, of each |
| koordinator.sh/gpu, gpu-core, gpu-memory-ratio; tencent.com/vcuda-core | hundredths; 100 and more: whole GPUs |

Sources: Project-HAMi/HAMi README, KAI-Scheduler docs/gpu-sharing, run-ai/fake-gpu-operator (constants), the pod lists
published with openb, Koordinator's and gpu-manager's READMEs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from planner.domain.cluster import MOST_GPUS_OF_A_NODE
from planner.errors import InputError
from planner.files.kubernetes.kubernetes_objects import count
from planner.files.sections import Section

WHOLE_GPUS = ("nvidia.com/gpu", "amd.com/gpu", "alibabacloud.com/gpu-count")
HAMI = "hami.io/node-nvidia-register"
_PART = re.compile(
    r"nvidia\.com/(mig-.+|gpu\.shared|vgpu|GRID.+|gpu-[0-9]+gb)|amd\.com/(spx|dpx|tpx|qpx|cpx)_nps[0-9]"
    r"|aliyun\.com/(gpu-mem|gpu-core\.percentage)|volcano\.sh/(vgpu-.+|gpu-memory|gpu-number)|4pd\.io/vgpu.*"
    r"|tencent\.com/vcuda-(core|memory)|.+\.shared"
)
_SLICE = re.compile(r"([1-8])g\.[0-9]+gb")
_PARTITIONS = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4, "cpx": 8}
_SLICES, _A30_SLICES = 7, 4
_SHARED_NAME = re.compile(r"-SHARED$")
_MIG_NAME = re.compile(r"-MIG-(.+)$")
_MEASURES = (
    "aliyun.com/gpu-core.percentage",
    "volcano.sh/vgpu-memory",
    "volcano.sh/vgpu-cores",
    "tencent.com/vcuda-memory",
)
"""Second measures of the same pieces: offered, but no share of a GPU by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGpus:
    """GPUs of a node: `whole` ones, `lost` ones that are not allocatable, what it `offers` of the others by resource,
    and what one piece of a resource is, in GPUs (0: not told). `memory_mib`: of one GPU (0: not told); `split_by_hami`:
    whether a piece is all of a GPU that the pod does not limit.
    """

    whole: int = 0
    lost: int = 0
    offers: tuple[tuple[str, int], ...] = ()
    share_of: tuple[tuple[str, float], ...] = ()
    memory_mib: float = 0.0
    split_by_hami: bool = False
    notes: tuple[str, ...] = ()

    def share(self, resource: str) -> float | None:
        """What a piece is of a GPU; None where the node does not offer the resource in pieces."""
        return dict(self.share_of).get(resource)


def is_gpu_part(resource: str) -> bool:
    """Whether a resource is a part of a GPU."""
    return _PART.fullmatch(resource) is not None


def gpus_of_node(
    capacity: Section, allocatable: Section, labels: Mapping[str, str], annotations: Mapping[str, str], origin: str
) -> NodeGpus:
    """What a node offers of its GPUs. InputError where more is allocatable than there is, or a count is none."""
    parts = {name: count(allocatable, name) for name in allocatable if is_gpu_part(name)}
    parts = {name: pieces for name, pieces in parts.items() if pieces}
    shares = {name: _share_of(name, labels, allocatable) for name in parts}
    notes = [f"offers GPUs in parts: {_shown(parts)}; islands take whole GPUs, not cut up or shared"] if parts else []
    whole_gpus = lost = 0
    for resource in WHOLE_GPUS:
        present = count(capacity if resource in capacity else allocatable, resource)
        usable = count(allocatable, resource)
        if usable > present:
            raise InputError(
                f"{origin}: status.allocatable: GPUs must be at most the capacity, {present}, got {usable}.",
                hint="Take the list anew.",
            )
        pieces = _pieces(resource, present, labels, annotations)
        if pieces is not None:
            parts[resource], shares[resource] = usable, pieces[0]
            notes.append(pieces[1])
        elif usable or not parts:  # a plugin that now offers parts leaves the old capacity behind
            whole_gpus, lost = whole_gpus + present, lost + present - usable
    return NodeGpus(
        whole=whole_gpus,
        lost=lost,
        offers=tuple(sorted((name, pieces) for name, pieces in parts.items() if pieces)),
        share_of=tuple(sorted(shares.items())),
        memory_mib=_memory_mib(labels, annotations),
        split_by_hami=_hami_split(annotations) > 1,
        notes=tuple(notes),
    )


def _shown(parts: Mapping[str, int]) -> str:
    return ", ".join(f"{pieces} {name}" for name, pieces in sorted(parts.items()))


def _share_of(resource: str, labels: Mapping[str, str], allocatable: Section) -> float:
    """What a piece of a resource is, in GPUs; 0 where nobody says."""
    name = resource.partition("/")[2]
    if resource in _MEASURES:
        return 0.0
    if resource.startswith("nvidia.com/mig-"):
        replicas = _number(labels, f"{resource}.replicas".replace(".shared", "")) if name.endswith(".shared") else 1
        return _slice_share(name, labels) / max(replicas, 1)
    if resource == "aliyun.com/gpu-mem":
        gpus = count(allocatable, "aliyun.com/gpu-count")
        return gpus / pieces if gpus and (pieces := count(allocatable, resource)) else 0.0
    if resource == "tencent.com/vcuda-core":
        return 0.01
    if resource.startswith("amd.com/"):
        return 1 / _PARTITIONS[name.partition("_")[0]]
    replicas = _number(labels, "nvidia.com/gpu.replicas")
    return 1 / replicas if resource == "nvidia.com/gpu.shared" and replicas > 1 else 0.0


def _slice_share(profile: str, labels: Mapping[str, str]) -> float:
    match = _SLICE.search(profile)
    slices = _A30_SLICES if "A30" in labels.get("nvidia.com/gpu.product", "") else _SLICES
    return min(1.0, int(match[1]) / slices) if match else 0.0


def _pieces(
    resource: str, present: int, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> tuple[float, str] | None:
    """What a piece of a resource that names whole GPUs elsewhere is here, and the note; None where it is a GPU."""
    if not present or resource == "alibabacloud.com/gpu-count":
        return None
    product = labels.get("nvidia.com/gpu.product", "")
    if resource == "nvidia.com/gpu":
        mig = _MIG_NAME.search(product)
        profile = mig[1] if mig else labels.get("cloud.google.com/gke-gpu-partition-size", "")
        if profile:
            return _slice_share(
                profile, labels
            ), f"offers MIG slices {profile} as {resource}; islands take whole GPUs (MIG turned off)"
        if (split := _hami_split(annotations)) > 1:
            return 1 / split, f"offers shares of GPUs as {resource} (HAMi, {split} a GPU); islands take whole GPUs"
        if (replicas := _replicas(product, present, labels)) > 1:
            way = labels.get("nvidia.com/gpu.sharing-strategy") or labels.get(
                "cloud.google.com/gke-gpu-sharing-strategy", "time slicing"
            )
            return (
                1 / replicas,
                f"offers shares of GPUs as {resource} ({way}, {replicas} a GPU); islands take whole GPUs",
            )
    if present > MOST_GPUS_OF_A_NODE:
        return 0.0, (
            f"offers {present} {resource}, more than a host has GPUs: taken for parts of GPUs, whose size is not told"
        )
    return None


def _replicas(product: str, present: int, labels: Mapping[str, str]) -> int:
    """Pieces of a GPU under time slicing or MPS; 1 where GPUs are whole."""
    clients = _number(labels, "cloud.google.com/gke-max-shared-clients-per-gpu")
    if clients > 1:
        return clients
    replicas, physical = _number(labels, "nvidia.com/gpu.replicas"), _number(labels, "nvidia.com/gpu.count")
    if replicas > 1 and (_SHARED_NAME.search(product) or physical * replicas == present):
        return replicas
    return present // physical if physical and present > physical and present % physical == 0 else 1


def _number(labels: Mapping[str, str], key: str) -> int:
    text = labels.get(key, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0  # digits of a count


def hami_devices(annotations: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """Fields of each device that HAMi's plugin registered: uuid, split, MiB, cores, product, NUMA node, healthy."""
    rows = (tuple(row.split(",")) for row in annotations.get(HAMI, "").split(":"))
    return tuple(row for row in rows if len(row) >= 5 and row[1].isdigit() and row[2].isdigit())  # up to the product


def _hami_split(annotations: Mapping[str, str]) -> int:
    return max((int(row[1]) for row in hami_devices(annotations)), default=0)


def _memory_mib(labels: Mapping[str, str], annotations: Mapping[str, str]) -> float:
    registered = max((float(row[2]) for row in hami_devices(annotations)), default=0.0)
    return registered or float(_number(labels, "nvidia.com/gpu.memory"))


WHOLE_POD = ("nvidia.com/gpu", "amd.com/gpu")
_HAMI = ("nvidia.com/gpucores", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage")
_PERCENT = (
    "koordinator.sh/gpu",
    "koordinator.sh/gpu-core",
    "koordinator.sh/gpu-memory-ratio",
    "tencent.com/vcuda-core",
)
_MILLI, _COUNT = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-count"
_FRACTION, _DEVICES, _MEMORY = "gpu-fraction", "gpu-fraction-num-devices", "gpu-memory"
_THOUSAND, _HUNDRED = 1000, 100
NO_SIZE = "shares GPUs, and nobody says how much of them: counted as nothing"
RESERVATIONS = ("kai-resource-reservation", "runai-reservation")
"""Namespaces of pods that hold a whole GPU for those that share it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHolding:
    """`whole` GPUs and parts of others; `devices`: GPUs that the parts may lie on at most; `of_offer`: the parts are
    of what the node offers in pieces, so that no whole GPU of it is touched.
    """

    whole: int = 0
    share: float = 0.0
    devices: int = 0
    of_offer: bool = False
    notes: tuple[str, ...] = ()


def names_gpus(resource: str) -> bool:
    """Whether a resource has to do with GPUs."""
    return resource in (*WHOLE_POD, *_HAMI, *_PERCENT, _MILLI, _COUNT) or is_gpu_part(resource)


def holding(
    amounts: Mapping[str, float], annotations: Mapping[str, str], node: NodeGpus | None, origin: str
) -> GpuHolding:
    """What a pod holds of its node's GPUs. InputError where an annotation is no number above 0."""
    pieces = node or NodeGpus()
    whole_gpus, share, notes = 0.0, 0.0, []
    of_offer = False
    for resource, amount in amounts.items():
        piece = pieces.share(resource)
        if piece is not None and amount:
            of_offer = True
            part = amount * (_piece_of_gpu(amounts, pieces, piece) if resource in WHOLE_POD else piece)
            share += part
            notes += [] if part or resource not in (*WHOLE_POD, "nvidia.com/gpu.shared") else [NO_SIZE]
        elif resource in WHOLE_POD:
            whole_gpus += amount
    if not of_offer and _asks_hami(amounts) and whole_gpus and (part := _hami_part(amounts, pieces)) < 1:
        return GpuHolding(share=whole_gpus * part, devices=round(whole_gpus))
    fraction = _fraction(amounts, annotations, pieces, origin)
    if fraction is not None:
        return GpuHolding(
            whole=fraction.whole or round(whole_gpus),
            share=share + fraction.share,
            devices=fraction.devices,
            notes=fraction.notes,
        )
    return GpuHolding(whole=round(whole_gpus), share=share, of_offer=of_offer, notes=tuple(notes))


def _piece_of_gpu(amounts: Mapping[str, float], node: NodeGpus, piece: float) -> float:
    """What one of a node's GPUs, cut in pieces, a pod takes; HAMi gives all of it to a pod that sets no limit."""
    if _asks_hami(amounts):
        return _hami_part(amounts, node)
    return 1.0 if node.split_by_hami else piece


def _asks_hami(amounts: Mapping[str, float]) -> bool:
    return any(amounts.get(resource) for resource in _HAMI)


def _hami_part(amounts: Mapping[str, float], node: NodeGpus) -> float:
    """What a pod takes of each of its GPUs: cores or memory, whichever is more."""
    cores, mib, percent = (amounts.get(resource, 0.0) for resource in _HAMI)
    by_memory = mib / node.memory_mib if node.memory_mib else (1.0 if mib and not cores else 0.0)
    return min(1.0, max(cores / _HUNDRED, by_memory, percent / _HUNDRED))


def _fraction(
    amounts: Mapping[str, float], annotations: Mapping[str, str], node: NodeGpus, origin: str
) -> GpuHolding | None:
    """Parts that annotations or other schedulers' resources tell; None where there are none."""
    if _FRACTION in annotations or _MEMORY in annotations:
        return _annotated(annotations, node, origin)
    if _MILLI in annotations or amounts.get(_MILLI):
        milli = _positive(annotations, _MILLI, origin) if _MILLI in annotations else amounts[_MILLI]
        gpus = _positive(annotations, _COUNT, origin) if _COUNT in annotations else amounts.get(_COUNT, 1.0) or 1.0
        if milli >= _THOUSAND:
            return GpuHolding(whole=round(gpus))
        return GpuHolding(share=gpus * milli / _THOUSAND, devices=round(gpus))
    percent = max((amounts.get(resource, 0.0) for resource in _PERCENT), default=0.0)
    if percent and not any(amounts.get(resource) for resource in WHOLE_POD):
        if percent >= _HUNDRED:
            return GpuHolding(whole=round(percent / _HUNDRED))
        return GpuHolding(share=percent / _HUNDRED, devices=1)
    return None


def _annotated(annotations: Mapping[str, str], node: NodeGpus, origin: str) -> GpuHolding:
    devices = round(_positive(annotations, _DEVICES, origin)) if _DEVICES in annotations else 1
    if _FRACTION in annotations:
        part, notes = _positive(annotations, _FRACTION, origin), tuple[str, ...]()
    else:
        mib = _positive(annotations, _MEMORY, origin)
        part = mib / node.memory_mib if node.memory_mib else 1.0
        notes = () if node.memory_mib else ("shares a GPU whose memory is not told: counted as all of it",)
    if part > 1:
        raise InputError(
            f"{origin}: metadata.annotations: {_FRACTION} must be a part of a GPU, at most 1, got {part:g}.",
            hint="Correct the annotation; whole GPUs are requested as nvidia.com/gpu.",
        )
    return GpuHolding(share=part * devices, devices=devices, notes=notes)


def _positive(annotations: Mapping[str, str], key: str, origin: str) -> float:
    try:
        value = float(annotations[key])
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:  # MiB of a GPU are far below
        raise InputError(
            f"{origin}: metadata.annotations: {key} must be a number above 0, got {annotations[key]!r:.60}.",
            hint="Correct the annotation.",
        )
    return value
