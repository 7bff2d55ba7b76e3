"""Shallowsim's expert all-to-all: dispatch (one byte an element) and combine (two) of one layer.

| symbol | meaning | unit |
|---|---|---|
| N | GPUs of an NVLink domain | 1 |
| TARGET_NODES | nodes that a token's experts lie on, whatever the island's size [8] | 1 |
"""

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array
from planner.cost.reference.device import Device
from planner.cost.reference.experts import MICRO_BATCHES
from planner.domain import Experts, ModelSpec
from planner.units import MIB

TARGET_NODES = 4
COMBINE_BYTES = 2
SMALL_NODE = 8
PREFILL_LATENCY_MS = 0.05
DECODE_LATENCY_MS = 0.005


def prefill_ms(dev: Device, model: ModelSpec, experts: Experts, tokens: Numbers, tp: Numbers) -> tuple[Array, Array]:
    """(dispatch, combine) for `tokens` on each rank of `tp` GPUs; dispatch is halved on every device [2]."""
    dispatch = _prefill_dispatch_ms(dev, model, experts, as_array(tokens), as_array(tp))
    return dispatch / 2 + PREFILL_LATENCY_MS, COMBINE_BYTES * dispatch + PREFILL_LATENCY_MS


def _prefill_dispatch_ms(dev: Device, model: ModelSpec, experts: Experts, tokens: Array, tp: Array) -> Array:
    n = dev.gpu.linked_gpus
    if n == SMALL_NODE:
        sent = (TARGET_NODES - 1) * (n / tp) * tokens * (experts.active / n) * model.hidden_size / MIB
        return sent / (n * dev.nic)
    foreign = (experts.routed - np.ceil(experts.routed / n)) / experts.routed
    return np.asarray(foreign * experts.active * tokens / tp * model.hidden_size / MIB / dev.nvlink)


def decode_ms(
    dev: Device,
    model: ModelSpec,
    experts: Experts,
    tokens: Numbers,
    devices: Numbers,
    experts_on_device: Numbers,
    *,
    fp8_combine: bool,
) -> tuple[Array, Array]:
    """(dispatch, combine) for `tokens` on each GPU. FP8 combine needs a device with FP4."""
    d, g, n = as_array(devices), as_array(experts_on_device), dev.gpu.linked_gpus
    near = experts.routed / g == SMALL_NODE if n == SMALL_NODE else d <= n
    bandwidth = np.where(near, as_array(dev.nvlink), as_array(dev.nic))
    dispatch = as_array(tokens) * model.hidden_size * experts.active / MIB / bandwidth
    combine = dispatch if fp8_combine and dev.fp4 else COMBINE_BYTES * dispatch
    latency = DECODE_LATENCY_MS * MICRO_BATCHES
    return dispatch + latency, combine + latency
