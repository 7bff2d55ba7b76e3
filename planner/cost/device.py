"""A GPU as formulas need it: data-sheet rates in operations and bytes per millisecond.

| symbol | meaning | unit |
|---|---|---|
| TFLOP/s | = 10^9 FLOP/ms | |
| GB/s | = 10^6 B/ms | |
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.cost.arrays import Array
from planner.cost.efficiency import Efficiency, efficiency_of
from planner.cost.measured import Kernels, kernels_of
from planner.cost.residuals.pace import NO_PACE, Pace, pace_of
from planner.domain import CostSettings, GpuSpec, ModelSpec, NetworkSettings, Phase
from planner.errors import InputError
from planner.files import catalog

_FLOP_PER_MS = 1e9
_BYTE_PER_MS = 1e6
FP4_BYTES = 0.6  # FP4 with its scales stays below
_NEEDED = (
    "sms",
    "fp16_tflops",
    "memory_gb",
    "memory_gb_s",
    "nvlink_gb_s",
    "nic_gb_s",
    "gpus_per_nvlink_domain",
    "gpus_per_host",
)
_OPTIONAL = {
    "fp8_tflops": "the device lacks the format",
    "fp4_tflops": "the device lacks the format",
    "memory_mib": "the driver's figure is not known",
    "host_link_gb_s": "NVLink joins a whole host",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CostContext:
    """What every cost is one of: a model on a GPU type, under the settings. `network`: what KV caches may take of NICs
    (None: handing them over takes time, and limits nothing)."""

    gpu: GpuSpec
    model: ModelSpec
    settings: CostSettings
    network: NetworkSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU type in one phase. `weights`, `experts` and `shared` (experts): FLOP/ms for GEMMs on weights of their
    precision; `expert_reads`: most that few rows of an expert cost over the reading of its weights.

    `fans_out`: share of the tokens that cross the NIC once for each foreign domain, as in prefill, not for each expert.
    `kernels`: what was measured of its engine's (None: nothing); `pace`: what a pass gains on them. `relative`: a GPU
    of its family whose kernels were measured, where its own were not.
    """

    gpu: GpuSpec
    phase: Phase
    efficiency: Efficiency
    fp16: Array
    weights: Array
    experts: Array
    shared: Array
    expert_reads: float
    memory: float
    cache: float
    nvlink: float
    host_link: float
    nic: Array | float
    fans_out: Array | float
    kernels: Kernels | None = None
    pace: Pace = NO_PACE
    relative: "Device | None" = None

    def link(self, devices: Array) -> Array:
        """Bytes/ms at which so many GPUs side by side reach each other without a NIC: several NVLink domains of a host
        by the link between these."""
        return np.where(devices <= self.gpu.gpus_per_nvlink_domain, self.nvlink, self.host_link or self.nvlink)


def device(
    gpu: GpuSpec, model: ModelSpec, phase: Phase, settings: CostSettings, *, overlapped: NDArray[np.bool_]
) -> Device:
    """The rates of `gpu`, whose figures are sound. In prefill some SMs communicate where that is `overlapped`."""
    efficiency = efficiency_of(gpu, settings.calibration)
    share = np.asarray(efficiency.kernels(phase))
    if phase is Phase.PREFILL:
        share = share * np.where(overlapped, (gpu.sms - gpu.sms_for_communication) / gpu.sms, 1.0)
    shared_bytes = model.expert_bytes if model.shared_bytes is None else model.shared_bytes
    alone = model.weight_only
    of_format, of_shared = (_format_share(gpu, size, efficiency, alone) for size in (model.expert_bytes, shared_bytes))
    kernels = kernels_of(gpu, model, settings)
    return Device(
        gpu=gpu,
        phase=phase,
        efficiency=efficiency,
        fp16=gpu.fp16_tflops * share * _FLOP_PER_MS,
        weights=arithmetic_tflops(gpu, model.weight_bytes, alone) * share * _FLOP_PER_MS,
        experts=arithmetic_tflops(gpu, model.expert_bytes, alone) * share * of_format * _FLOP_PER_MS,
        shared=arithmetic_tflops(gpu, shared_bytes, alone) * share * of_shared * _FLOP_PER_MS,
        expert_reads=efficiency.expert_reads if alone or weight_only(gpu, model.expert_bytes) else math.inf,
        # Bandwidth is apart from the kernels' share, which is of arithmetic.
        memory=gpu.memory_gb_s * efficiency.memory * _BYTE_PER_MS,
        cache=gpu.memory_gb_s * efficiency.cache * _BYTE_PER_MS,
        nvlink=gpu.nvlink_gb_s * efficiency.nvlink * _BYTE_PER_MS,
        host_link=gpu.host_link_gb_s * efficiency.nvlink * _BYTE_PER_MS,
        nic=gpu.nic_gb_s * efficiency.nic(phase) * _BYTE_PER_MS,
        fans_out=float(phase is Phase.PREFILL),
        kernels=kernels,
        pace=pace_of(gpu, model, phase, settings),
        relative=None if kernels is not None else _relative(gpu, model, phase, settings, overlapped),
    )


_MEASURED_OF = {"ada": "L40S", "ampere": "A100", "blackwell": "DGX-B200", "hopper": "H100"}
"""By family: whose measured kernels stand in for those of a type that has none."""


def _relative(
    gpu: GpuSpec, model: ModelSpec, phase: Phase, settings: CostSettings, overlapped: NDArray[np.bool_]
) -> Device | None:
    name = _MEASURED_OF.get(gpu.family)
    if name is None or name == gpu.name or not settings.engine:
        return None
    relative = device(catalog.gpu(name), model, phase, settings, overlapped=overlapped)
    return None if relative.kernels is None else relative


def _format_share(gpu: GpuSpec, bytes_per_weight: float, efficiency: Efficiency, alone: bool) -> float:
    """What products of experts reach in their format, of what they reach in FP8 and 16 bits."""
    if bytes_per_weight > FP4_BYTES:
        return 1.0
    return efficiency.weight_only if alone or weight_only(gpu, bytes_per_weight) else efficiency.expert_fp4


def weight_only(gpu: GpuSpec, bytes_per_weight: float) -> bool:
    """Whether weights of this size are FP4 on a device that multiplies no FP4."""
    return bytes_per_weight <= FP4_BYTES and gpu.fp4_tflops == 0


def arithmetic_tflops(gpu: GpuSpec, bytes_per_weight: float, alone: bool) -> float:
    """Data-sheet rate that weights of this size are multiplied at.

    A format that the device lacks is unpacked to 16 bits (weight-only quantisation), and all are where weights `alone`
    are quantised.
    """
    if alone:
        return gpu.fp16_tflops
    if bytes_per_weight <= FP4_BYTES:
        return gpu.fp4_tflops or gpu.fp16_tflops
    if bytes_per_weight <= 1:
        return gpu.fp8_tflops or gpu.fp16_tflops
    return gpu.fp16_tflops


def require_figures(gpu: GpuSpec) -> None:
    """Raises InputError that names the first figure that is missing or cannot be."""
    for figure in _NEEDED:
        _require(gpu, figure, "a positive number", lambda value: value > 0)
    for figure, absence in _OPTIONAL.items():
        _require(gpu, figure, f"a number, 0 where {absence}", lambda value: value >= 0)
    _require(gpu, "sms_for_communication", f"at least 0 and less than sms ({gpu.sms})", lambda n: 0 <= n < gpu.sms)


def _require(gpu: GpuSpec, figure: str, rule: str, holds: Callable[[float], bool]) -> None:
    value = getattr(gpu, figure)
    if not (isinstance(value, int | float) and math.isfinite(value) and holds(value)):
        raise InputError(
            f"GPU {gpu.name}: {figure} must be {rule}, the cost formulas need it, got {value!r}.",
            hint="Add the figure, with its source, to the GPU's file.",
        )
