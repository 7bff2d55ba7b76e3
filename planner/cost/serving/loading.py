"""What servers take to load, and what it costs to change those of one layout into those of another.

| symbol | meaning | unit |
|---|---|---|
| w | weights that the GPUs of a node load for a server | GB |
| v | speed at which a node gets weights: that of storage, of the network or of the node's NICs, the least | GB/s |
| load | w / v + time to start | s |
| n_k, m_k | servers of GPU type, phase and degrees k that run now; that are to run | 1 |
| d_k, p_k | GPUs of such a server; their price | 1, USD/GPU-hour |
| drain | longest that requests in flight are waited for | s |

cost = sum_k d_k p_k (max(n_k - m_k, 0) drain + max(m_k - n_k, 0) load_k) / 3600: the rent of GPUs that serve nothing
meanwhile. No pairing of those that stop with those that start changes it.
"""

from collections.abc import Mapping

import numpy as np

from planner.cost import memory
from planner.cost.device import CostContext
from planner.cost.drafts import draft_of
from planner.domain import GpuSpec, ParallelConfig, Scenario
from planner.domain.changes import ChangeSettings
from planner.domain.objective import ServerKind

S_PER_HOUR = 3600.0


def node_weights_gb(context: CostContext, shape: ParallelConfig) -> float:
    """Weights that the GPUs of a node load for one server of a shape (GB)."""
    of_gpu = memory.weights_gb(
        context.model,
        tp=shape.tp,
        experts_on_device=memory.experts_on_device(context.model, context.settings, shape.stage_devices),
        pp=shape.pp,
        draft=draft_of(context.model, context.settings),
    )
    # Nodes of a larger server load side by side.
    return float(np.max(of_gpu)) * min(shape.devices, context.gpu.gpus_per_host)


def load_s(scenario: Scenario, times: ChangeSettings, gpu: GpuSpec, shape: ParallelConfig) -> float:
    """From the start of a server to its first request (s)."""
    context = CostContext(gpu=gpu, model=scenario.model, settings=scenario.cost)
    return node_weights_gb(context, shape) / _node_gb_s(scenario, times, gpu) + times.start_s


def change_usd(scenario: Scenario, before: Mapping[ServerKind, int], after: Mapping[ServerKind, int]) -> float:
    """USD of a change of servers; GPU types are those of the scenario's inventory."""
    times, usd = scenario.changes.times, 0.0
    for gpu, phase, shape in {**before, **after}:
        item = scenario.inventory.item(gpu)
        gone = before.get((gpu, phase, shape), 0) - after.get((gpu, phase, shape), 0)
        # What stops is paid for while it drains, what starts while it loads.
        lost_s = times.drain_s if gone > 0 else load_s(scenario, times, item.gpu, shape)
        usd += abs(gone) * shape.devices * lost_s / S_PER_HOUR * item.rent_usd_per_gpu_hour
    return usd


def most_change_usd(scenario: Scenario, before: Mapping[ServerKind, int]) -> float:
    """No less than any change costs: all that runs stops, and every GPU loads as much as its memory holds."""
    times = scenario.changes.times
    # Both at their most, though not at once: a bound need not be reached.
    usd = change_usd(scenario, before, {})
    for item in scenario.inventory.items:
        most_gb = item.gpu.device_gb * item.gpu.gpus_per_host
        most_s = most_gb / _node_gb_s(scenario, times, item.gpu) + times.start_s
        usd += item.count * item.rent_usd_per_gpu_hour * most_s / S_PER_HOUR
    return usd


def _node_gb_s(scenario: Scenario, times: ChangeSettings, gpu: GpuSpec) -> float:
    """At which a node gets weights."""
    speeds = [times.storage_gb_s]
    if times.network_gb_s is not None:
        speeds.append(times.network_gb_s)
    elif scenario.network is not None:
        speeds.append(gpu.nic_gb_s * gpu.gpus_per_host)
    return min(speeds)
