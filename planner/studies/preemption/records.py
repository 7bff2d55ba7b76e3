"""The scale-up study's records and workloads: pods of services on a full cluster, and how well newcomers lie.

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

from dataclasses import dataclass, field
from enum import StrEnum

from planner.domain.placement import Qos
from planner.domain.preemption import VictimMethod, VictimSettings


class InitialPlacement(StrEnum):
    """How the pods that a scale-up meets came to their GPUs; all but `packed` arrive in random order.

    `spread`: pods of whole nodes first, then each on the node with most free GPUs, lowest free indices; what no longer
    fits stays away. `saturated`: then pods that stayed away preempt lower ones until all GPUs are held. `random-nodes`:
    as `spread`, on any node that has room. `mixed`: as `random-nodes`, pods of whole nodes among the others, then
    saturated. `random-index`: as `saturated`, on random free indices. `packed`: the largest first, on the fullest node
    that has room.
    """

    SPREAD = "spread"
    SATURATED = "saturated"
    RANDOM_NODES = "random-nodes"
    MIXED = "mixed"
    RANDOM_INDEX = "random-index"
    PACKED = "packed"


class ScaleUpMode(StrEnum):
    """What a scale-up finds: the same snapshot each time, or what the ones before it in its cycle have left."""

    INDEPENDENT = "independent"
    SEQUENTIAL = "sequential"


class NodePolicy(StrEnum):
    """Gödel's candidate policies: as many candidate nodes as pods ask, of a random scan, or all nodes."""

    RANDOM = "random"
    BEST = "best"


class VictimTie(StrEnum):
    """Which of several victims of one priority goes first: by key (equal start times) or the youngest."""

    KEY = "key"
    START = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpWorkload:
    """A row of the paper's table 3. `instances` on 100 nodes."""

    name: str
    priority: int
    gpus: int
    instances: int
    preemptible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpSettings:
    """What comes in every cycle, and how room is made for it.

    `counts`: scale-ups of each workload. `node_policy` (random, best) and `tie` (key, start) are standard preemption's:
    the first candidate node of a random scan or the best of all; among victims of one priority, first the one whose
    key sorts so or the one that started last. `qos` and `victims` are the topology-aware methods'.
    """

    counts: tuple[tuple[str, int], ...]
    methods: tuple[VictimMethod, ...]
    modes: tuple[ScaleUpMode, ...]
    qos: Qos = Qos.GUARANTEED
    victims: VictimSettings = field(default_factory=VictimSettings)
    node_policy: NodePolicy = NodePolicy.RANDOM
    tie: VictimTie = VictimTie.KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class HitCount:
    """Scale-ups of one workload over all cycles of a seed.

    `hits`: GPUs of the new pod inside one socket. `failures`: no place at all, not even by preemption; they count as
    preemptions and not as hits. `decisions`: searches for victims that were run; an answer that cannot differ (same
    snapshot, no draws) is found once and counted for each scale-up. `victims` and `priority_sum` over all answers.
    """

    nodes: int
    initial: InitialPlacement
    seed: int
    method: VictimMethod
    workload: str
    mode: ScaleUpMode
    preemptions: int
    hits: int
    failures: int
    decisions: int
    victims: int
    priority_sum: int

    @property
    def hit_rate(self) -> float:
        """Share of the scale-ups that are hits."""
        return self.hits / self.preemptions if self.preemptions else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcingLatency:
    """CPU time of one search for victims over all nodes of a cluster, microseconds; medians and 90th percentiles.

    `initial`: how the cluster was filled. `mode`: whether each search found that cluster, or what those before it left.
    `p50_sets`, `p90_sets`: sets of victims that a search tried over all nodes; None where a method goes through none.
    """

    nodes: int
    workload: str
    method: VictimMethod
    p50_us: float
    p90_us: float
    repetitions: int
    initial: InitialPlacement
    mode: ScaleUpMode = ScaleUpMode.INDEPENDENT
    p50_sets: float | None = None
    p90_sets: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcingTime:
    """CPU time of one search for victims of a workload's pod (microseconds); `preemption` counts from 1."""

    workload: str
    method: VictimMethod
    preemption: int
    time_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHolder:
    """A GPU and the pod of `gpus` GPUs that holds it, after scale-ups by a method. `newcomer`: a scale-up's own pod.

    `crosses_sockets`: the pod's GPUs are of two sockets although one would hold them.
    """

    method: VictimMethod
    node: int
    gpu: int
    pod: str
    gpus: int
    crosses_sockets: bool
    newcomer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceCount:
    """Instances of a workload after so many preemptions; `event`: the scale-up that is under way."""

    step: int
    event: str
    workload: str
    instances: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenes:
    """Single runs as the paper's figures 8 to 10 show them."""

    holders: tuple[GpuHolder, ...]
    instances: tuple[InstanceCount, ...]
    searches: tuple[SourcingTime, ...]


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
