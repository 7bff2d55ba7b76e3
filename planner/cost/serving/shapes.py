"""Shapes of servers: copies of the model on equal parts of a node, or on whole nodes."""

from collections.abc import Callable, Iterable, Iterator

from planner.cost.arrays import divisors
from planner.cost.device import CostContext
from planner.cost.parallelism import replica_shapes
from planner.domain import GpuSpec, ParallelConfig

EVERY_NODE_COUNT = 8
"""Up to so many nodes every number of them is tried; above powers of two alone, whose experts divide."""

MOST_NODES = 64
EVERY_SIZE = 64
"""GPUs up to which every size is tried where all are asked for: for studies, as engines refuse most of them."""


def server_shapes(
    context: CostContext, sizes: Iterable[int], accepts: Callable[[ParallelConfig], bool]
) -> list[ParallelConfig]:
    """Configurations of one copy on so many GPUs that the model, the hosts and `accepts` admit."""
    return [shape for devices in sizes for shape in replica_shapes(context, devices) if accepts(shape)]


def node_sizes(gpu: GpuSpec, gpus: int) -> Iterator[int]:
    """Equal parts of a host, then whole hosts within an NVLink domain, or of whole domains."""
    host, domain = gpu.gpus_per_host, max(gpu.gpus_per_host, gpu.gpus_per_nvlink_domain)
    yield from (part for part in divisors(host) if part <= gpus)
    for nodes in range(2, MOST_NODES + 1):
        size = nodes * host
        whole_domains = size % domain == 0 and _tried(size // domain)
        if size <= gpus and (whole_domains or (size <= domain and _tried(nodes))):
            yield size


def every_size(gpu: GpuSpec, gpus: int) -> Iterator[int]:
    """Every number of GPUs up to `EVERY_SIZE`, then whole hosts."""
    yield from range(1, min(gpus, EVERY_SIZE) + 1)
    yield from (size for size in node_sizes(gpu, gpus) if size > EVERY_SIZE)


def _tried(nodes: int) -> bool:
    return nodes <= EVERY_NODE_COUNT or nodes & (nodes - 1) == 0
