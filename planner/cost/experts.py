"""Feed-forward blocks: dense FFN, shared and routed experts, per layer.

| symbol | meaning | unit |
|---|---|---|
| n | tokens that one GPU pushes through the block in a step | tokens |
| K | routed experts a token visits | 1 |
| g | experts that one GPU holds (redundant copies included) | 1 |
| m | tokens per expert and step: n K / g | tokens |
| eta | expert efficiency at m | 1 |
"""

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array
from planner.cost.device import Device
from planner.cost.efficiency import MICRO_BATCHES, expert_efficiency
from planner.cost.rules import Rules
from planner.domain import ModelSpec
from planner.units import GIGA, MIB


def dense_ms(device: Device, model: ModelSpec, tokens: Numbers, tp: Numbers) -> Array:
    """One dense FFN over `tp` GPUs: arithmetic on `tokens`, and the weights' way out of memory (ms)."""
    flops = 2 * as_array(tokens) * model.dense_ffn_parameters / GIGA
    load = model.dense_ffn_parameters * model.weight_bytes / MIB / device.memory
    return (flops / device.expert + load) / as_array(tp)


def _flops(model: ModelSpec, tokens: Array) -> Array:
    return 2 * tokens * model.expert_parameters / GIGA


def expert_load_ms(device: Device, model: ModelSpec) -> float:
    """One expert's weights out of memory (ms)."""
    return model.expert_parameters * model.weight_bytes / MIB / device.memory


def prefill_ms(
    device: Device, model: ModelSpec, rules: Rules, tokens: Numbers, experts_on_device: Numbers
) -> tuple[Array, Array]:
    """(shared, routed) experts of one layer for `tokens` per GPU (ms)."""
    n, g, e = as_array(tokens), as_array(experts_on_device), model.experts
    load = expert_load_ms(device, model)
    if rules.peak_prefill_experts:
        shared_rate = routed_rate = as_array(device.expert)
    else:
        shared_rate = device.expert * expert_efficiency(device.gpu, rules, n)
        routed_rate = device.expert * expert_efficiency(device.gpu, rules, n * e.active / g)
    shared = _flops(model, n * e.shared) / shared_rate + load * e.shared
    routed = _flops(model, n * e.active) / routed_rate + load * g
    return shared, routed


def decode_ms(
    device: Device, model: ModelSpec, rules: Rules, tokens: Numbers, experts_on_device: Numbers
) -> tuple[Array, Array]:
    """(shared, routed) experts of one layer for `tokens` per GPU; two micro-batches each load the weights (ms)."""
    n, g, e = as_array(tokens) / MICRO_BATCHES, as_array(experts_on_device), model.experts
    load = expert_load_ms(device, model)
    if device.fp4 and rules.fp4_wherever_supported:
        load = load / 2
    per_expert = n * e.active / g
    routed_eta = expert_efficiency(device.gpu, rules, per_expert)
    # the simulator gives the shared expert the routed ones' efficiency; mended, it has its own token count
    shared_eta = routed_eta if rules.stepped_efficiency else expert_efficiency(device.gpu, rules, n)
    shared = _flops(model, n * e.shared) / (device.expert * shared_eta) + load * e.shared
    routed = _flops(model, n * e.active) / (device.expert * routed_eta) + load * g
    return MICRO_BATCHES * np.asarray(shared), MICRO_BATCHES * np.asarray(routed)
