"""Idle GPUs that cannot be allocated, counted as the scripts released with ASI's trace do.

| symbol | meaning | unit |
|---|---|---|
| i, u | idle GPUs and CPUs of a node | GPUs, CPUs |
| g, c | GPUs and CPUs of a request | GPUs, CPUs |

fractional: i - floor(i) where u >= c and floor(i) >= g. stranded: floor(i) where u >= c and 0 < floor(i) < g.
CPU: min(g, i) where u < c, however many more are idle. Nodes of 16 GPUs are passed over. A job's slots on a node:
min(GPUs - floor(GPUs held), floor(u / 12)), the GPU of which a part is held counted as free.
Source: cluster-trace-gpu-v2026, build_aggregates.py; ASI paper, figures 13 and 14.
"""

from collections.abc import Iterable
from math import ceil, floor

from planner.domain.diagnosis import GpuRequest, ReleasedCounts
from planner.placement.diagnosis.rooms import ROUNDING, Room

PASSED_OVER = 16


def released_counts(rooms: Iterable[tuple[Room, int]], request: GpuRequest) -> ReleasedCounts:
    """The three counts over rooms, each with how many nodes have it."""
    fractional = stranded = cpu = 0.0
    for room, nodes in rooms:
        if sum(room.shape.gpus) == PASSED_OVER:
            continue
        if room.cpus < request.cpus:
            cpu += nodes * min(request.gpus, room.idle)
        elif room.whole_gpus >= request.gpus:
            fractional += nodes * max(room.idle - room.whole_gpus, 0.0)
        else:
            stranded += nodes * room.whole_gpus
    return ReleasedCounts(fractional=round(fractional, 6), stranded=stranded, cpu=round(cpu, 6))


def released_slots(room: Room, cpus_per_gpu: int) -> int:
    """A job's GPUs on a node, as the scripts count them."""
    free = ceil(room.idle - ROUNDING)
    return min(free, floor((room.cpus + ROUNDING) / cpus_per_gpu)) if cpus_per_gpu else free
