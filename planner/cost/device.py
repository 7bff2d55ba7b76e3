"""A GPU as one phase sees it: data-sheet rates after derating.

| symbol | meaning | unit |
|---|---|---|
| fp16, gemm, expert | arithmetic rates: attention scores, projections, FFNs | TFLOP/s (GFLOP/ms) |
| memory, nvlink, nic | bandwidths | GB/s, used as MiB/ms as Shallowsim does |
"""

from dataclasses import dataclass

from planner.cost.efficiency import DERATING
from planner.cost.rules import Rules
from planner.domain import GpuSpec, ModelSpec, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Derated rates of one GPU type in one phase, and whether it runs FP4."""

    gpu: GpuSpec
    fp16: float
    gemm: float
    expert: float
    memory: float
    nvlink: float
    nic: float
    fp4: bool


def device(gpu: GpuSpec, model: ModelSpec, rules: Rules, phase: Phase) -> Device:
    """Derate `gpu` for `phase`; prefill gives some SMs to communication.

    FP4 serves FP4 weights only (0.5 bytes each), FP8 falls back to FP16 arithmetic on devices without it
    (weights stay in FP8 in memory: weight-only quantisation).
    """
    share = DERATING
    if phase is Phase.PREFILL:
        share *= (gpu.sms - gpu.sms_for_communication) / gpu.sms
    fp4 = gpu.fp4_tflops > 0 and (rules.fp4_wherever_supported or model.weight_bytes <= 0.5)
    fp8 = gpu.fp8_tflops if gpu.fp8_tflops > 0 and model.weight_bytes <= 1 else gpu.fp16_tflops
    low = gpu.fp4_tflops if fp4 else fp8
    memory = gpu.reference_memory_gb_s if rules.listed_memory_bandwidth else gpu.memory_gb_s
    return Device(
        gpu=gpu,
        fp16=gpu.fp16_tflops * share,
        gemm=low * share,
        expert=low * share,
        memory=memory * DERATING,
        nvlink=gpu.nvlink_gb_s * DERATING,
        nic=gpu.nic_gb_s * DERATING,
        fp4=fp4,
    )
