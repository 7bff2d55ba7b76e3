"""What a pod holds of GPUs: whole ones, and parts of GPUs that it shares with others.

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

from collections.abc import Mapping
from dataclasses import dataclass

from planner.errors import InputError
from planner.files.kubernetes.gpu_parts import NodeGpus, is_gpu_part

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
    whole, share, notes = 0.0, 0.0, []
    of_offer = False
    for resource, amount in amounts.items():
        piece = pieces.share(resource)
        if piece is not None and amount:
            of_offer = True
            part = amount * (_piece_of_gpu(amounts, pieces, piece) if resource in WHOLE_POD else piece)
            share += part
            notes += [] if part or resource not in (*WHOLE_POD, "nvidia.com/gpu.shared") else [NO_SIZE]
        elif resource in WHOLE_POD:
            whole += amount
    if not of_offer and _asks_hami(amounts) and whole and (part := _hami_part(amounts, pieces)) < 1:
        return GpuHolding(share=whole * part, devices=round(whole))
    fraction = _fraction(amounts, annotations, pieces, origin)
    if fraction is not None:
        return GpuHolding(
            whole=fraction.whole or round(whole),
            share=share + fraction.share,
            devices=fraction.devices,
            notes=fraction.notes,
        )
    return GpuHolding(whole=round(whole), share=share, of_offer=of_offer, notes=tuple(notes))


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
