"""Shallowsim's feed-forward blocks, per layer.

| symbol | meaning | unit |
|---|---|---|
| n | tokens that one GPU pushes through the block in a step | tokens |
| K, g | experts a token visits, experts that one GPU holds | 1 |
| m | tokens per expert and micro-batch: int(n K / g) | tokens |
| eta | efficiency at the next power of two above m [7] | 1 |
"""

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array
from planner.cost.reference.device import Device
from planner.domain import Experts, GpuSpec, ModelSpec
from planner.units import GIGA, MIB

MICRO_BATCHES = 2
_CURVES = {
    "general": np.array([0.05, 0.05, 0.05, 0.05, 0.08, 0.1, 0.2, 0.35, 0.4, 0.6, 0.7]),
    "h20": np.array([0.06, 0.06, 0.06, 0.12, 0.25, 0.45, 0.8, 0.9, 1.0, 1.0, 1.0]),
}


def efficiency(gpu: GpuSpec, tokens_per_expert: Numbers) -> Array:
    """The table's share at the next power of two strictly above int(m); the H200 counts as an H20 [1]."""
    curve = _CURVES["h20" if "H20" in gpu.name else "general"]
    tokens = np.maximum(np.floor(as_array(tokens_per_expert)), 0.0)
    above = np.where(tokens < 1, 0, np.floor(np.log2(np.maximum(tokens, 1.0))) + 1)
    return np.asarray(curve[np.minimum(above, len(curve) - 1).astype(int)])


def dense_ms(dev: Device, model: ModelSpec, tokens: Numbers) -> Array:
    """One dense FFN on one GPU."""
    flops = 2 * as_array(tokens) * model.dense_ffn_parameters / GIGA
    return flops / dev.low + model.dense_ffn_parameters * model.weight_bytes / MIB / dev.memory


def _flops(model: ModelSpec, tokens: Array) -> Array:
    return 2 * tokens * model.expert_parameters / GIGA


def _load_ms(dev: Device, model: ModelSpec) -> float:
    return model.expert_parameters * model.expert_bytes / MIB / dev.memory


def prefill_ms(
    dev: Device, model: ModelSpec, experts: Experts, tokens: Numbers, experts_on_device: Numbers
) -> tuple[Array, Array]:
    """(shared, routed) at the full derated rate."""
    n, g, load = as_array(tokens), as_array(experts_on_device), _load_ms(dev, model)
    shared = _flops(model, n * experts.shared) / dev.low + load * experts.shared
    return shared, _flops(model, n * experts.active) / dev.low + load * g


def decode_ms(
    dev: Device, model: ModelSpec, experts: Experts, tokens: Numbers, experts_on_device: Numbers
) -> tuple[Array, Array]:
    """(shared, routed); two micro-batches each load the weights, half of them on FP4 devices."""
    n, g = as_array(tokens) / MICRO_BATCHES, as_array(experts_on_device)
    load = _load_ms(dev, model) / (2 if dev.fp4 else 1)
    rate = dev.low * efficiency(dev.gpu, n * experts.active / g)
    shared = _flops(model, n * experts.shared) / rate + load * experts.shared
    routed = _flops(model, n * experts.active) / rate + load * g
    return MICRO_BATCHES * np.asarray(shared), MICRO_BATCHES * np.asarray(routed)
