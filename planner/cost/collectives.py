"""Collectives of a step: all-reduce within a tensor-parallel group, expert all-to-all, hand-over between stages.

| symbol | meaning | unit |
|---|---|---|
| n | tokens that one GPU sends (all-to-all), tokens of the group (all-reduce) | tokens |
| d | hidden size; dispatch 1 byte an element, combine and all-reduce 2 | 1 |
| D, N | GPUs that share the experts, GPUs of an NVLink domain, or of a host whose domains a link joins | 1 |
| k | domains that D GPUs fill: ceil(D/N) | 1 |
| M | most such domains that a token's experts lie in (routing by groups); all where the model has no limit | 1 |
| K | routed experts a token visits | 1 |
| sigma | part of the traffic between nodes that crosses access switches: 1 - 1/ceil(D / GPUs of a switch) | 1 |

Prefill sends a token once over the NIC to each foreign domain it visits, min(M, k (1 - (1 - 1/k)^K)) (k - 1)/k of
them, and fans it out over NVLink, or over the link between the NVLink domains of a host where they are several: once to
each other GPU that has one of its experts, D (1 - (1 - 1/D)^K) (D - 1)/D of them. Decode does so within one domain;
over several it sends every copy by itself, (k - 1)/k of them over the NIC. NIC and NVLink work at the same time. NIC
time grows by 1 + sigma (1/crossing - 1). One attention group needs no all-to-all: two all-reduces a layer combine.
Of a placed replica (`Reach`) the GPU that lies worst counts, as all wait for it: the share of the replica that it
reaches over the NIC alone stands for (k - 1)/k, the share under other switches for sigma.
Source: facts on the cost model (defect 8), DeepEP's two modes; crossing 1/1.27: Alibaba ASI (all-reduce within a switch
is 27 % faster).
"""

import numpy as np

from planner.cost.arrays import Array, as_array, ceil_divide
from planner.cost.device import Device
from planner.cost.kernels import KernelTime
from planner.cost.measured import times_of
from planner.cost.parts import Part
from planner.domain import CostSettings, Experts, ModelSpec

DISPATCH_BYTES = 1
COMBINE_BYTES = 2
ACTIVATION_BYTES = 2
_US_PER_MS = 1000.0
_HOPS_OF_EIGHT = 3  # log2: the latency is given for a group of eight


def all_reduce_part(
    dev: Device, model: ModelSpec, *, tokens: Array, tp: Array, dp: Array, micro_batches: Array
) -> Part:
    """Ring all-reduces over NVLink: after every attention and FFN block.

    With several attention groups (`dp`) experts combine by all-to-all instead.
    """
    count = model.blocks - np.where(dp > 1, model.moe_layers, 0)
    size = tokens * model.hidden_size * ACTIVATION_BYTES * 2 * (tp - 1) / tp
    hops = np.log2(tp) / _HOPS_OF_EIGHT
    over_nic = tp > dev.gpu.linked_gpus
    # Over several domains a ring is as fast as its slowest part: the NICs of one domain together.
    rate = np.where(over_nic, dev.nic * dev.gpu.linked_gpus, dev.link(tp))
    latency_us = hops * dev.efficiency.all_reduce_us + over_nic * dev.efficiency.all_reduce_node_us
    kernel = None
    if dev.kernels is not None:
        message = tokens / micro_batches * model.hidden_size * ACTIVATION_BYTES
        kernel = times_of(dev.kernels.tables.all_reduce(np.maximum(message, 1.0), tp), count * micro_batches)
    return Part(
        name="all-reduce",
        network_ms=count * size / rate,
        latency_ms=count * micro_batches * latency_us / _US_PER_MS,
        kernel=kernel,
    )


def all_to_all_parts(
    dev: Device,
    model: ModelSpec,
    experts: Experts,
    settings: CostSettings,
    *,
    tokens: Array,
    group_tokens: Array,
    devices: Array,
    dp: Array,
    micro_batches: Array,
) -> tuple[Part, Part]:
    """(dispatch, combine) of all MoE layers for `tokens` on each of `devices` GPUs in `dp` attention groups.

    One group combines by all-reduce and needs neither.
    """
    d = np.where(dp > 1, devices, 1)
    per_byte = _per_byte_ms(dev, experts, settings, d)
    layers = model.moe_layers
    _, foreign = _domains(dev, settings, d)
    us = dev.efficiency.all_to_all_us + (foreign > 0) * dev.efficiency.all_to_all_node_us
    latency = np.where(d > 1, layers * micro_batches * us / _US_PER_MS, 0.0)
    sent = tokens * experts.sent_width(model.hidden_size)
    message = np.where(d > 1, layers * sent * per_byte, 0.0)  # a placed group may span domains
    rank_tokens = group_tokens / micro_batches
    gather, scatter = (
        _exchange(dev, model, experts, name, rank_tokens, dp, d, layers * micro_batches)
        for name in ("dispatch", "combine")
    )
    return (
        Part(name="dispatch", network_ms=message * DISPATCH_BYTES, latency_ms=latency, kernel=gather),
        Part(name="combine", network_ms=message * COMBINE_BYTES, latency_ms=latency, kernel=scatter),
    )


_GATHERING = {"dispatch": "all_gather", "combine": "reduce_scatter"}


def _exchange(
    dev: Device, model: ModelSpec, experts: Experts, phase: str, tokens: Array, dp: Array, devices: Array, count: Array
) -> KernelTime | None:
    """Within a node: every rank has all tokens and the sums are scattered, or tokens go to their experts alone, by the
    faster of both."""
    if dev.kernels is None:
        return None
    tables, sent = dev.kernels.tables, experts.sent_width(model.hidden_size)
    message = np.maximum(tokens * dp * sent * ACTIVATION_BYTES, 1.0)
    all_ms = tables.collective(_GATHERING[phase], message, devices)
    # Tokens of a group are cut among its GPUs first.
    of_rank = np.maximum(tokens * dp / devices, 1.0)
    some_ms = tables.expert_exchange(phase, of_rank, sent, experts.active, experts.routed, devices, "normal")
    talks = np.where(devices > 1, 1.0, 0.0)
    return all_ms.becoming(np.fmin(all_ms.ms, some_ms.ms) * (count * talks))


def _per_byte_ms(dev: Device, experts: Experts, settings: CostSettings, devices: Array) -> Array:
    """Time that one byte of every token's activations takes to reach its experts (ms)."""
    k, (domains, foreign) = experts.active, _domains(dev, settings, devices)
    ranks = devices * (1 - (1 - 1 / devices) ** k)
    visited = domains * (1 - (1 - 1 / domains) ** k)
    copies = 1 - dev.fans_out
    # Without a limit each of a token's experts may lie in a domain of its own.
    over_nic = (dev.fans_out * np.minimum(visited, experts.node_limit or k) + copies * k) * foreign
    each_once = ranks * (devices - 1) / devices
    over_nvlink = np.where(domains > 1, dev.fans_out * each_once + copies * k * (1 - foreign), each_once)
    return np.maximum(over_nic / dev.nic * crossing_factor(settings, devices), over_nvlink / dev.link(devices))


def _domains(dev: Device, settings: CostSettings, devices: Array) -> tuple[Array, Array]:
    """(k, (k - 1)/k): as compact as NVLink domains allow, unless the settings say where the replica lies."""
    if settings.reach is not None:
        foreign = np.full(devices.shape, settings.reach.foreign)
        return 1 / (1 - foreign), foreign
    domains = ceil_divide(devices, dev.gpu.linked_gpus)
    return domains, (domains - 1) / domains


def crossing_factor(settings: CostSettings, devices: Array) -> Array:
    """By how much traffic between nodes is slowed where `devices` GPUs lie under several access switches (>= 1)."""
    if settings.reach is not None:
        crossing = np.full(devices.shape, settings.reach.crossing)
    else:
        crossing = 1 - 1 / ceil_divide(devices, settings.gpus_per_switch)
    return np.asarray(1 + crossing * (1 / settings.cross_switch_bandwidth - 1))


def transfer_part(
    dev: Device, model: ModelSpec, settings: CostSettings, *, tokens: Array, tp: Array, pp: Array, stage_devices: Array
) -> Part:
    """Activations handed from stage to stage, over the NIC where stages lie in different NVLink domains."""
    replica = as_array(stage_devices) * pp
    domains, _ = _domains(dev, settings, replica)
    crosses = settings.reach is not None and settings.reach.crossing > 0
    nic = dev.nic * (settings.cross_switch_bandwidth if crosses else 1.0)
    rate = np.where(domains <= 1, dev.link(replica), nic)
    size = tokens * model.hidden_size * ACTIVATION_BYTES / tp
    return Part(
        name="pipeline",
        network_ms=(pp - 1) * size / rate,
        latency_ms=(pp - 1) * dev.efficiency.transfer_us / _US_PER_MS,
    )
