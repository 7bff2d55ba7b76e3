"""Expert all-to-all: dispatch (one byte an element) and combine (two) of one layer.

| symbol | meaning | unit |
|---|---|---|
| n | tokens that one GPU sends | tokens |
| N | GPUs of an NVLink domain | 1 |
| D | GPUs that share the experts | 1 |
| nodes | NVLink domains that D GPUs fill: ceil(D/N) | 1 |

Mended form: a token visits at most `TARGET_NODES` domains (DeepSeek-V3 routes so). Prefill sends it once to each
foreign domain over the NIC and fans it out over NVLink; decode sends every copy by itself. NIC and NVLink work at the
same time.
"""

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array, ceil_divide
from planner.cost.device import Device
from planner.cost.efficiency import (
    DECODE_ALL_TO_ALL_LATENCY_MS,
    MICRO_BATCHES,
    PREFILL_ALL_TO_ALL_LATENCY_MS,
)
from planner.cost.rules import Rules
from planner.domain import ModelSpec
from planner.units import MIB

TARGET_NODES = 4
COMBINE_BYTES = 2
SMALL_NODE = 8


def prefill_ms(
    device: Device,
    model: ModelSpec,
    rules: Rules,
    tokens_per_rank: Numbers,
    tp: Numbers,
    devices: Numbers,
) -> tuple[Array, Array]:
    """(dispatch, combine) for `tokens_per_rank` on each rank of `tp` GPUs (ms)."""
    if rules.four_nodes_always:
        dispatch = _listed_prefill_ms(device, model, as_array(tokens_per_rank), as_array(tp))
    else:
        tokens = as_array(tokens_per_rank) / as_array(tp)
        dispatch = _grouped_ms(device, model, tokens, as_array(devices), once_per_node=True)
    combine = COMBINE_BYTES * dispatch
    if rules.dispatch_always_halved or device.fp4:
        dispatch = dispatch / 2
    return dispatch + PREFILL_ALL_TO_ALL_LATENCY_MS, combine + PREFILL_ALL_TO_ALL_LATENCY_MS


def _listed_prefill_ms(device: Device, model: ModelSpec, tokens: Array, tp: Array) -> Array:
    """Shallowsim's dispatch before halving."""
    n, e = device.gpu.gpus_per_nvlink_domain, model.experts
    if n == SMALL_NODE:
        sent = (TARGET_NODES - 1) * (n / tp) * tokens * (e.active / n) * model.hidden_size / MIB
        return sent / (n * device.nic)
    foreign = (e.routed - np.ceil(e.routed / n)) / e.routed
    return np.asarray(foreign * e.active * tokens / tp * model.hidden_size / MIB / device.nvlink)


def decode_ms(
    device: Device,
    model: ModelSpec,
    rules: Rules,
    tokens: Numbers,
    devices: Numbers,
    experts_on_device: Numbers,
    *,
    fp8_combine: bool,
) -> tuple[Array, Array]:
    """(dispatch, combine) for `tokens` on each GPU (ms). FP8 combine needs a device with FP4."""
    n, d, g = as_array(tokens), as_array(devices), as_array(experts_on_device)
    if rules.four_nodes_always:
        volume = n * model.hidden_size * model.experts.active / MIB
        dispatch = volume / _listed_decode_bandwidth(device, model, d, g)
    else:
        dispatch = _grouped_ms(device, model, n, d, once_per_node=False)
    small = fp8_combine and device.gpu.fp4_tflops > 0
    combine = dispatch if small else COMBINE_BYTES * dispatch
    latency = DECODE_ALL_TO_ALL_LATENCY_MS * MICRO_BATCHES
    return dispatch + latency, combine + latency


def _listed_decode_bandwidth(device: Device, model: ModelSpec, devices: Array, experts: Array) -> Array:
    """Shallowsim's choice of link."""
    n = device.gpu.gpus_per_nvlink_domain
    near = model.experts.routed / experts == SMALL_NODE if n == SMALL_NODE else devices <= n
    return np.where(near, as_array(device.nvlink), as_array(device.nic))


def _grouped_ms(device: Device, model: ModelSpec, tokens: Array, devices: Array, *, once_per_node: bool) -> Array:
    """Dispatch over NVLink within a domain and the NIC between domains, both at once (ms)."""
    k = model.experts.active
    nodes = ceil_divide(devices, device.gpu.gpus_per_nvlink_domain)
    foreign = (nodes - 1) / nodes
    over_nic = np.minimum(nodes, min(TARGET_NODES, k)) * foreign if once_per_node else k * foreign
    over_nvlink = k * (devices - 1) / devices if once_per_node else k * (1 - foreign)
    over_nvlink = np.where(devices > 1, over_nvlink, 0.0)
    message = tokens * model.hidden_size / MIB
    return np.asarray(np.maximum(message * over_nic / device.nic, message * over_nvlink / device.nvlink))
