"""A GPU as Shallowsim sees it: every figure derated by the same share.

| symbol | meaning | unit |
|---|---|---|
| DERATING | share of a data-sheet rate that is seen (`discount`) | 1 |
| fp16, low | arithmetic rates: attention scores; everything else (FP4 where it exists [12], else FP8) | TFLOP/s |
| memory, nvlink, nic | bandwidths, MiB/(GB/s) taken as ms | GB/s |
"""

from dataclasses import dataclass

from planner.domain import GpuSpec, Phase

DERATING = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Derated rates of one GPU type in one phase."""

    gpu: GpuSpec
    fp16: float
    low: float
    memory: float
    nvlink: float
    nic: float
    fp4: bool


def device(gpu: GpuSpec, phase: Phase) -> Device:
    """Derate `gpu`; prefill gives some SMs to communication."""
    share = DERATING
    if phase is Phase.PREFILL:
        share *= (gpu.sms - gpu.sms_for_communication) / gpu.sms
    fp4 = gpu.fp4_tflops > 0
    fp8 = gpu.fp8_tflops or gpu.fp16_tflops  # the A100, absent from Shallowsim's table, computes FP8 weights in FP16
    return Device(
        gpu=gpu,
        fp16=gpu.fp16_tflops * share,
        low=(gpu.fp4_tflops if fp4 else fp8) * share,
        memory=gpu.reference_memory_gb_s * DERATING,  # [11]
        nvlink=(gpu.host_link_gb_s or gpu.nvlink_gb_s) * DERATING,  # no published device has links of two kinds
        nic=gpu.nic_gb_s * DERATING,
        fp4=fp4,
    )
