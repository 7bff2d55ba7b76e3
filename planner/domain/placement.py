"""The plan on real nodes: who gets which GPUs, and what the cluster looks like before and after."""

from dataclasses import dataclass, field
from enum import StrEnum

from planner.domain.cluster import Pod, Taint
from planner.domain.layout import Phase


class Qos(StrEnum):
    """How firmly a group of GPUs has to be aligned (FlexTopo's QoS; kubelet's topologyManagerPolicy).

    `single_numa`: inside one NUMA node (single-numa-node). `guaranteed`: within the fewest sockets and NUMA nodes that
    an empty node of its kind could give the group (restricted; where one NUMA node is enough, single-numa-node).
    `best_effort`: aligned where it can be (best-effort). `none`: alignment does not count (none).
    """

    SINGLE_NUMA = "single_numa"
    GUARANTEED = "guaranteed"
    BEST_EFFORT = "best_effort"
    NONE = "none"

    @property
    def kubelet_policy(self) -> str:
        """The kubelet's topologyManagerPolicy that admits what this QoS asks for."""
        return _POLICIES[self]

    @property
    def binds(self) -> bool:
        """Whether a group that is not aligned must not be placed."""
        return self in (Qos.SINGLE_NUMA, Qos.GUARANTEED)


_POLICIES = {
    Qos.SINGLE_NUMA: "single-numa-node",
    Qos.GUARANTEED: "restricted",
    Qos.BEST_EFFORT: "best-effort",
    Qos.NONE: "none",
}


class Alignment(StrEnum):
    """Where a group of GPUs lies in its node (T of the FlexTopo paper, equation 1)."""

    NUMA = "numa"
    SOCKET = "socket"
    CROSS = "cross"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementWeights:
    """What a placement's score is made of, each term within [-1, 1], higher is better (facts: `placement.score`)."""

    topology: float = 1.0
    proximity: float = 0.2
    fragmentation: float = 0.2
    packing: float = 0.1
    power: float = 0.1
    preemption: float = 0.5


class EvictionRule(StrEnum):
    """Which pods go first for an island.

    `priority`: as few as can be of the highest priority, then of the next. `lost_work`: least GPU-hours since the last
    checkpoints. `combined`: over pods, how near their priorities are to the islands' plus a tenth of their GPU-hours.
    """

    PRIORITY = "priority"
    LOST_WORK = "lost_work"
    COMBINED = "combined"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSettings:
    """How a plan is put on nodes.

    `qos` of the islands of each phase; `cpus_per_gpu` whole cores and `memory_gb_per_gpu` that every GPU takes along
    (0: none). `tolerations`: taints that the islands' pods tolerate. `preempt`: whether preemptible pods of a priority
    below `priority` may be evicted; `priority_class` is the class of the islands' pods ("": none is named). Evicted are
    `most_victims` pods with `most_lost_gpu_hours` of work since their last checkpoints at most (None: no limit).
    `lost_gpu_hour_rps`: requests/s that a lost GPU-hour counts as much as, where the objective is `placed`. Where lost
    work is limited or counts, pods of unknown checkpoints stay, unless `assumed_checkpoint_age_s` says what to take for
    them. `power_cap_w`: most watts of the nodes with GPUs of the plan's types once islands are placed, GPUs at work at
    their highest draw (0: no cap).
    """

    prefill_qos: Qos = Qos.GUARANTEED
    decode_qos: Qos = Qos.GUARANTEED
    cpus_per_gpu: int = 8
    memory_gb_per_gpu: float = 0.0
    tolerations: tuple[Taint, ...] = ()
    weights: PlacementWeights = field(default_factory=PlacementWeights)
    preempt: bool = False
    priority: int = 1000
    priority_class: str = ""
    victim_rule: EvictionRule = EvictionRule.PRIORITY
    most_victims: int | None = None
    most_lost_gpu_hours: float | None = None
    lost_gpu_hour_rps: float = 0.0
    assumed_checkpoint_age_s: float | None = None
    power_cap_w: float = 0.0

    def qos(self, phase: Phase) -> Qos:
        """The QoS of islands of a phase."""
        return self.prefill_qos if phase is Phase.PREFILL else self.decode_qos

    @property
    def lost_work_counts(self) -> bool:
        """Whether it has to be known what an eviction loses."""
        return self.most_lost_gpu_hours is not None or self.lost_gpu_hour_rps > 0

    def lost_gpu_hours(self, pod: Pod) -> float | None:
        """GPU-hours that evicting a pod counts as; None where nothing is known and nothing assumed."""
        age_s = self.assumed_checkpoint_age_s if pod.checkpoint_age_s is None else pod.checkpoint_age_s
        return None if age_s is None else age_s / 3600 * pod.gpu_count


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementDemand:
    """An island that asks for nodes: `replicas` copies of `groups` attention groups of `tp` GPUs each.

    A group lies inside one node. `selector`: labels that its nodes must have. `feeds`: islands of the other phase that
    it exchanges KV caches with, and their weight (requests/s). `rate_rps`: what it serves (0: not known).
    """

    island: str
    gpu: str
    phase: Phase
    replicas: int
    groups: int
    tp: int
    qos: Qos = Qos.GUARANTEED
    cpus_per_gpu: int = 0
    memory_gb_per_gpu: float = 0.0
    selector: tuple[tuple[str, str], ...] = ()
    feeds: tuple[tuple[str, float], ...] = ()
    rate_rps: float = 0.0

    @property
    def size(self) -> int:
        """GPUs of the island."""
        return self.replicas * self.groups * self.tp


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPart:
    """What one replica of an island holds on one node.

    `gpu_indices` lists its attention groups one after the other, `tp` GPUs each; `cores` are ids of pinned cores,
    `nics` the cards nearest to its NUMA nodes.
    """

    island: str
    replica: int
    node: str
    asw: str
    tp: int
    gpu_indices: tuple[int, ...]
    numa_nodes: tuple[int, ...]
    cores: tuple[int, ...] = ()
    nics: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """GPU indices of each attention group."""
        return tuple(self.gpu_indices[at : at + self.tp] for at in range(0, len(self.gpu_indices), self.tp))


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandSite:
    """How well a placed island lies. `entropy` over its switches (nats); `switches`: GPUs under each.

    `aligned`: every group within the fewest sockets and NUMA nodes that an empty node of the kind could give it.
    `worst`: the alignment of its worst group. `crossing_replicas`: replicas that lie under several switches.
    `waits_for`: orders of the victims that have to be gone before it comes up, those for others among them (None: there
    are no victims, or it is not told).
    """

    island: str
    gpus: int
    nodes: int
    switches: tuple[tuple[str, int], ...]
    entropy: float
    aligned: bool
    worst: Alignment
    crossing_replicas: int
    waits_for: tuple[int, ...] | None = None

    @property
    def asws(self) -> int:
        """Switches that it lies under."""
        return len(self.switches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """An island that was not placed: which resource is short, where, and what would help."""

    island: str
    gpu: str
    gpus: int
    resource: str
    reason: str
    remedies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentShare:
    """For requests of `gpus` GPUs: idle GPUs that cannot be part of any (`stranded`), and how many would fit."""

    gpus: int
    stranded: int
    fit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A cluster at one moment, over the GPU types that the plan uses. `watts` of GPUs and CPUs, idle ones included.

    `headroom_gpus`: idle GPUs that a node could still give to guaranteed work (with their cores).
    """

    gpus: int
    allocated: int
    idle: int
    headroom_gpus: int
    watts: float
    empty_nodes: int
    fragments: tuple[FragmentShare, ...]

    @property
    def allocation(self) -> float:
        """Share of GPUs that somebody holds."""
        return self.allocated / self.gpus if self.gpus else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePart:
    """One term of a placement's score: its value within [-1, 1] and its weight."""

    name: str
    value: float
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A pod that has to go before an island can come. `order`: its number, from 1, among all victims (0: not told).

    Whole islands come free early: pods go island by island, node by node. An island may lie where others made room;
    `waits_for` of its site says so. `lost_gpu_hours` since its last checkpoint (None: not known).
    """

    pod: str
    node: str
    island: str
    priority: int
    gpus: int
    lost_gpu_hours: float | None
    order: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Islands on nodes. `score` is the weighted sum of `terms` over the sum of the weights.

    `unplaced_rps` is the plan's rate before placement, as the cost model takes islands to lie compactly; the rate after
    is the plan's own (0 for both: not measured). `judged_rps` is the rate after, less what the lost work of victims
    counts; it is what a search that places every layout compares (None: lost work does not count).
    """

    cluster: str
    parts: tuple[PlacedPart, ...]
    sites: tuple[IslandSite, ...]
    shortfalls: tuple[Shortfall, ...]
    before: ClusterState
    after: ClusterState
    score: float
    terms: tuple[ScorePart, ...]
    victims: tuple[Victim, ...] = ()
    unplaced_rps: float = 0.0
    placed_rps: float = 0.0
    judged_rps: float | None = None

    @property
    def lost_gpu_hours(self) -> float:
        """Work of the victims since their last checkpoints, as far as it is known."""
        return sum(victim.lost_gpu_hours or 0.0 for victim in self.victims)
