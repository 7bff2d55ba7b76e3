"""Shapes of servers: copies of the model on equal parts of a node, or on whole nodes."""

from collections.abc import Callable, Iterator

from planner.cost.device import CostContext
from planner.cost.divisors import divisors
from planner.cost.parallelism import replica_shapes
from planner.domain import GpuSpec, ParallelConfig

EVERY_NODE_COUNT = 8
"""Up to so many nodes every number of them is tried; above powers of two alone, whose experts divide."""

MOST_NODES = 64


def server_shapes(
    context: CostContext, gpus: int, accepts: Callable[[ParallelConfig], bool], sizes: Callable[[int], bool]
) -> list[ParallelConfig]:
    """Configurations of one copy on at most `gpus` GPUs that the model, the hosts and `accepts` admit."""
    return [
        shape
        for devices in node_sizes(context.gpu, gpus)
        if sizes(devices)
        for shape in replica_shapes(context, devices)
        if accepts(shape)
    ]


def node_sizes(gpu: GpuSpec, gpus: int) -> Iterator[int]:
    """Equal parts of a host, then whole hosts within an NVLink domain, or of whole domains."""
    host, domain = gpu.gpus_per_host, max(gpu.gpus_per_host, gpu.gpus_per_nvlink_domain)
    yield from (part for part in divisors(host) if part <= gpus)
    for nodes in range(2, MOST_NODES + 1):
        size = nodes * host
        if size <= gpus and (size <= domain or size % domain == 0) and _tried(nodes):
            yield size


def _tried(nodes: int) -> bool:
    return nodes <= EVERY_NODE_COUNT or nodes & (nodes - 1) == 0
