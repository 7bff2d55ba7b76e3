"""A small trace like Alibaba's openb, where none is at hand."""

import numpy as np

from planner.domain import TraceNode, TracePod


def made_up_trace(
    nodes: int = 48, pods: int = 420, seed: int = 0
) -> tuple[tuple[TraceNode, ...], tuple[TracePod, ...]]:
    """Kinds of nodes of openb, and pods of whole GPUs, parts of one, or none."""
    draw = np.random.default_rng(seed)
    hosts = [
        TraceNode(name=f"node-{k:02}", cpu_milli=1000 * cpus, memory_mib=4096 * cpus, gpus=gpus, gpu_model=model)
        for k, (model, gpus, cpus) in enumerate(_KINDS[k % len(_KINDS)] for k in range(nodes))
    ]
    shapes = [_ASKS[k] for k in draw.choice(len(_ASKS), size=pods, p=_CHANCES)]
    wanted = [
        TracePod(
            name=f"pod-{k:03}",
            cpu_milli=int(draw.choice([4000, 8000, 11000])) * max(1, gpus),
            memory_mib=8192,
            gpus=gpus,
            gpu_milli=milli,
        )
        for k, (gpus, milli) in enumerate(shapes)
    ]
    return tuple(hosts), tuple(wanted)


_KINDS = (
    *[("G2", 8, 96)] * 3,
    ("T4", 2, 104),
    ("P100", 2, 64),
    ("V100M32", 8, 96),
    ("G3", 8, 128),
)
"""GPU model, GPUs and CPUs of nodes, as frequent as in openb."""

_ASKS = ((0, 0), (1, 1000), (1, 500), (1, 250), (1, 470), (1, 810), (2, 1000), (4, 1000), (8, 1000))
_CHANCES = (0.13, 0.20, 0.15, 0.12, 0.16, 0.20, 0.02, 0.01, 0.01)
"""GPUs and thousandths of each that pods ask for, and how many do, as in openb's default trace."""
