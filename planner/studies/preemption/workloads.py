"""The workloads of the scale-up study, and how many of each fill a cluster.

| symbol | meaning | unit | source |
|---|---|---|---|
| n | nodes of 8 GPUs | 1 | given (the paper: 100) |
| A | ⌊n · 20/100⌋ pods of 8 GPUs | 1 | FlexTopo paper, table 3 |
| B | ⌊n · 40/100⌋ pods of 4 GPUs | 1 | table 3 |
| C | ⌊n · 200/100⌋ pods of 2 GPUs | 1 | table 3 |
| D | 8n - 8A - 4B - 2C pods of 1 GPU (table 3: 80) | 1 | what fills the cluster |

Nodes: RTX 4090 hosts, 2 sockets, 8 NUMA nodes; GPU i is nearest to NUMA node i, which is of socket i // 4 (paper,
section 5).
"""

from planner.studies.preemption.records import ScaleUpWorkload

GPUS, NUMA_NODES, SOCKETS = 8, 8, 2
NODES = 100

TABLE_3 = (
    ScaleUpWorkload(name="A", priority=1500, gpus=8, instances=20, preemptible=False),
    ScaleUpWorkload(name="B", priority=1000, gpus=4, instances=40, preemptible=False),
    ScaleUpWorkload(name="C", priority=500, gpus=2, instances=200, preemptible=True),
    ScaleUpWorkload(name="D", priority=200, gpus=1, instances=80, preemptible=True),
)
"""Largest first; the last fills up."""

SCALED_UP = ("B", "C")
"""The paper's tables 4 and 5 leave A out (a whole node is aligned or nothing) and D (nothing is below it)."""


ALL = tuple(row.name for row in TABLE_3)


def workload(name: str) -> ScaleUpWorkload:
    """A row of table 3."""
    return next(row for row in TABLE_3 if row.name == name)


def instances(nodes: int) -> dict[str, int]:
    """Pods of each workload that together hold every GPU of so many nodes."""
    counts = {row.name: nodes * row.instances // NODES for row in TABLE_3[:-1]}
    used_gpus = sum(counts[row.name] * row.gpus for row in TABLE_3[:-1])
    return counts | {TABLE_3[-1].name: (GPUS * nodes - used_gpus) // TABLE_3[-1].gpus}
