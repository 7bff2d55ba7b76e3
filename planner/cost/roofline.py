"""The least time that data-sheet rates allow: no efficiency, no latency, no network.

| symbol | meaning | unit |
|---|---|---|
| roofline | max(sum over parts of FLOPs / data-sheet rate, sum of bytes / data-sheet bandwidth) | ms |
"""

from planner.cost.device import CostContext, arithmetic_tflops
from planner.cost.parts import StepCost
from planner.cost.step import Steps, step_cost
from planner.domain import GpuSpec, ModelSpec

_FLOP_PER_MS = 1e9
_BYTE_PER_MS = 1e6


def roofline_ms(gpu: GpuSpec, model: ModelSpec, cost: StepCost) -> float:
    """The least time for the operations and bytes of one pass."""
    of_experts = arithmetic_tflops(gpu, model.expert_bytes)
    rates = {
        "attention": gpu.fp16_tflops,
        "attention of sequences": gpu.fp16_tflops,
        "head": gpu.fp16_tflops,
        "shared experts": of_experts,
        "routed experts": of_experts,
    }
    usual = arithmetic_tflops(gpu, model.weight_bytes)
    computing = sum(float(part.flops) / rates.get(part.name, usual) / _FLOP_PER_MS for part in cost.parts)
    moving = sum(float(part.bytes) for part in cost.parts) / gpu.memory_gb_s / _BYTE_PER_MS
    return max(computing, moving)


def least_ms(context: CostContext, steps: Steps) -> float:
    """The least time of a step (scalars), with its weights read once."""
    cost = step_cost(context, steps, overlap=False)
    return roofline_ms(context.gpu, context.model, cost) * float(cost.scale)
