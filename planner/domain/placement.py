"""The plan on real nodes: who gets which GPUs, and what the cluster looks like before and after."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated

from planner.domain.cluster import HIGHEST_CORE, HIGHEST_PRIORITY, LOWEST_PRIORITY, Pod, Taint
from planner.domain.keys import INTERNAL, RANGES, Bounds, Items, Key
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


_Amount = Annotated[float, Bounds(low=0)]
_Count = Annotated[int, Bounds(low=0)]
_Some = Annotated[int, Bounds(low=1)]
_Score = Annotated[float, Bounds(low=-1.001, high=1.001)]
_Weight = Annotated[float, Bounds(low=0, high=1e6)]
_MOST_LOST = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementWeights:
    """What a placement's score is made of, each term within [-1, 1], higher is better (facts: `placement.score`)."""

    topology: _Weight = 1.0
    proximity: _Weight = 0.2
    fragmentation: _Weight = 0.2
    packing: _Weight = 0.1
    power: _Weight = 0.1
    preemption: _Weight = 0.5


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

    Where lost work is limited or counts, pods of unknown checkpoints stay, unless `assumed_checkpoint_age_s` says what
    to take for them. The power cap is of the nodes with GPUs of the plan's types once islands are placed, GPUs at work
    at their highest draw.
    """

    prefill_qos: Annotated[Qos, Key("alignment of groups of GPUs; or one a phase", name="qos")] = Qos.GUARANTEED
    decode_qos: Annotated[Qos, INTERNAL] = Qos.GUARANTEED
    cpus_per_gpu: Annotated[int, Bounds(low=0, high=1_024), Key("whole cores that a GPU takes along")] = 8
    memory_gb_per_gpu: Annotated[float, Bounds(low=0, high=1e6), Key("that a GPU takes along", unit="GB")] = 0.0
    tolerations: Annotated[tuple[Taint, ...], Key("taints that the islands' pods tolerate")] = ()
    weights: Annotated[PlacementWeights, Key("of the terms of the score")] = field(default_factory=PlacementWeights)
    preempt: Annotated[bool, Key("whether preemptible pods of a lower priority may be evicted")] = False
    priority: Annotated[int, Bounds(low=LOWEST_PRIORITY, high=HIGHEST_PRIORITY), Key("of the islands' pods")] = 1000
    power_cap_w: Annotated[float, Bounds(low=0, high=1e12), Key("most watts (0: no cap)", sparse=True)] = 0.0
    priority_class: Annotated[str, Key("of the islands' pods", sparse=True)] = ""
    victim_rule: Annotated[EvictionRule, Key("who goes first", sparse=True)] = EvictionRule.PRIORITY
    most_victims: Annotated[int | None, Bounds(low=0, high=10**9), Key("evictions at most", sparse=True)] = None
    most_lost_gpu_hours: Annotated[
        float | None,
        Bounds(low=0, high=_MOST_LOST),
        Key("of victims since checkpoints, at most", sparse=True),
    ] = None
    lost_gpu_hour_rps: Annotated[
        float, Bounds(low=0, high=_MOST_LOST), Key("what a lost GPU-hour counts as, of objective placed", sparse=True)
    ] = 0.0
    assumed_checkpoint_age_s: Annotated[
        float | None, Bounds(low=0, high=_MOST_LOST), Key("of pods whose checkpoints are not known", sparse=True)
    ] = None
    most_moves: Annotated[
        int, Bounds(low=0, high=10**6), Key("of other pods, looked for where islands find no room", sparse=True)
    ] = 0

    exchange: Annotated[str, Key("parts of two servers that swap places: ISLAND/COPY@NODE=…", sparse=True)] = ""

    def qos(self, phase: Phase) -> Qos:
        """The QoS of islands of a phase; what answers, as mixed ones do too, has that of decode."""
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
class IslandForm:
    """Another way to deploy an island on as many GPUs; `rate_rps`: what it would serve, laid out compactly."""

    replicas: int
    groups: int
    tp: int
    rate_rps: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementDemand:
    """An island that asks for nodes: `replicas` copies of `groups` attention groups of `tp` GPUs each.

    A group lies inside one node. `selector`: labels that its nodes must have. `feeds`: islands of the other phase that
    it exchanges KV caches with, and their weight (requests/s). `rate_rps`: what it serves (0: not known). `forms`: what
    is proposed instead where it finds no room, best first (none: even splits). `per_node`: every copy lies inside one
    node, and none has more of them (0: however they fit); `running`: copies beside those asked for, by node.
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
    forms: tuple[IslandForm, ...] = ()
    per_node: int = 0
    running: tuple[tuple[str, int], ...] = ()

    @property
    def size(self) -> int:
        """GPUs of the island."""
        return self.replicas * self.groups * self.tp


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPart:
    """What one replica of an island holds on one node; `tp` GPUs make an attention group."""

    island: Annotated[str, Key("id of the island")]
    replica: _Count
    node: str
    gpu_indices: Annotated[
        tuple[int, ...],
        Bounds(low=0),
        Items(least=1, distinct=True),
        Key("attention groups one after the other, tp GPUs each"),
    ]
    numa_nodes: Annotated[tuple[int, ...], Bounds(low=0), Items(distinct=True), Key("of the GPUs")]
    asw: Annotated[str, Key("access switch of the node")]
    tp: _Some
    cores: Annotated[
        tuple[int, ...], RANGES, Bounds(low=0, high=HIGHEST_CORE), Key("ids of pinned cores, as ranges: 0-7,16")
    ] = ()
    nics: Annotated[tuple[str, ...], Key("nearest to its NUMA nodes")] = ()
    gpus_assumed: Annotated[
        bool,
        Key(
            "nobody says which GPUs of the node are free: its indices stand for their number, kubelet picks",
            sparse=True,
        ),
    ] = False

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """GPU indices of each attention group."""
        return tuple(self.gpu_indices[at : at + self.tp] for at in range(0, len(self.gpu_indices), self.tp))


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandSite:
    """How well a placed island lies."""

    island: str
    gpus: _Some
    nodes: _Some
    switches: Annotated[
        tuple[tuple[str, int], ...], Bounds(low=1), Items(least=1), Key("rows of switch and GPUs under it")
    ]
    entropy: Annotated[_Amount, Key("over its switches (nats)")]
    aligned: Annotated[
        bool, Key("every group within the fewest sockets and NUMA nodes that an empty node could give it")
    ]
    worst: Annotated[Alignment, Key("alignment of its worst group")]
    crossing_replicas: Annotated[_Count, Key("replicas that lie under several switches")]
    domains: Annotated[
        tuple[tuple[str, int], ...],
        Bounds(low=1),
        Key("rows of NVLink domain and GPUs in it, nodes in none left out", sparse=True),
    ] = ()
    crossing_domains: Annotated[_Count, Key("replicas that leave an NVLink domain", sparse=True)] = 0
    waits_for: Annotated[
        tuple[int, ...] | None,
        Bounds(low=1),
        Key(
            "orders of the victims that have to be gone before it comes up, those that go for other islands among them "
            "(null: there are no victims, or it is not told)",
            sparse=True,
        ),
    ] = None
    rate_rps: Annotated[
        _Amount, Key("requests/s of its lengths that it could serve where it lies (0: not measured)", sparse=True)
    ] = 0.0
    ideal_rps: Annotated[
        _Amount, Key("the same with its servers and those that they work with all under one switch", sparse=True)
    ] = 0.0

    @property
    def lost_rps(self) -> float:
        """What topology costs it, requests/s."""
        return self.ideal_rps - self.rate_rps

    @property
    def lost_share(self) -> float:
        """The same as a share of what it could serve."""
        return self.lost_rps / self.ideal_rps if self.ideal_rps else 0.0

    @property
    def asws(self) -> int:
        """Switches that it lies under."""
        return len(self.switches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """An island that was not placed: which resource is short, where, and what would help."""

    island: str
    gpu: str
    gpus: _Some
    resource: str
    reason: str
    remedies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentShare:
    """What idle GPUs are worth to requests of one size."""

    gpus: Annotated[_Some, Key("of a request")]
    stranded: Annotated[_Count, Key("idle GPUs that cannot be part of any such request")]
    fit: Annotated[_Count, Key("such requests that would fit")]
    share: Annotated[
        float,
        Bounds(low=0, high=1),
        Key("of the cluster's pods that hold so many, in the score (0: it does not count there)", sparse=True),
    ] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A cluster at one moment, over the GPU types that the plan uses."""

    gpus: _Count
    allocated: _Count
    idle: _Count
    headroom_gpus: Annotated[_Count, Key("idle GPUs that a node could still give to guaranteed work, with their cores")]
    watts: Annotated[_Amount, Key("of GPUs and CPUs, idle ones included")]
    empty_nodes: _Count
    fragments: tuple[FragmentShare, ...]

    @property
    def allocation(self) -> float:
        """Share of GPUs that somebody holds."""
        return self.allocated / self.gpus if self.gpus else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePart:
    """One term of a placement's score."""

    name: str
    value: _Score
    weight: _Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A pod that has to go before an island can come.

    Whole islands come free early: pods go island by island, node by node. An island may lie where others made room;
    `waits_for` of its site says so.
    """

    pod: Annotated[str, Key("namespace/name")]
    node: str
    island: Annotated[str, Key("whom it makes room for")]
    priority: int
    gpus: _Count
    lost_gpu_hours: Annotated[float | None, Bounds(low=0), Key("work since its last checkpoint (null: not known)")]
    order: Annotated[
        _Count, Key("its number, from 1, in the order in which pods have to go (0: not told)", added=True)
    ] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evictions:
    """Sums over the victims; those of unknown checkpoints are counted, not added."""

    victims: _Some
    gpus: _Count
    lost_gpu_hours: Annotated[_Amount, Key("of victims whose checkpoints are known")]
    unknown_lost_work: Annotated[_Count, Key("victims whose checkpoints are not known")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Islands on nodes. `judged_rps` is what a search that places every layout compares."""

    parts: Annotated[tuple[PlacedPart, ...], INTERNAL]
    cluster: Annotated[str, Key("its name")]
    placed_rps: Annotated[_Amount, Key("requests/s of the islands where they lie (0: not measured)")] = 0.0
    unplaced_rps: Annotated[
        _Amount, Key("requests/s of the plan before, islands taken to lie compactly (0: not measured)")
    ] = 0.0
    judged_rps: Annotated[
        float | None,
        Key("placed_rps less what the lost work of victims counts (null: it does not count)", sparse=True),
    ] = None
    score: Annotated[_Score, Key("weighted sum of terms over the sum of weights")]
    terms: tuple[ScorePart, ...]
    sites: Annotated[tuple[IslandSite, ...], Key("how well each placed island lies")]
    shortfalls: Annotated[tuple[Shortfall, ...], Key("islands that were not placed")]
    victims: Annotated[
        tuple[Victim, ...],
        Key("pods that have to go first; an island without any comes once those on its nodes are gone"),
    ] = ()
    before: Annotated[ClusterState, Key("the cluster's nodes of the plan's GPU types, before the plan")]
    after: Annotated[ClusterState, Key("the same nodes with the plan on them")]

    def priced(self, rates: Mapping[str, tuple[float, float]]) -> "Placement":
        """With what each island could serve where it lies, and under one switch."""
        sites = (
            replace(site, rate_rps=rates[site.island][0], ideal_rps=rates[site.island][1])
            if site.island in rates
            else site
            for site in self.sites
        )
        return replace(self, sites=tuple(sites))

    @property
    def evictions(self) -> Evictions | None:
        """What the victims come to; None without any."""
        if not self.victims:
            return None
        return Evictions(
            victims=len(self.victims),
            gpus=sum(victim.gpus for victim in self.victims),
            lost_gpu_hours=self.lost_gpu_hours,
            unknown_lost_work=sum(victim.lost_gpu_hours is None for victim in self.victims),
        )

    @property
    def lost_gpu_hours(self) -> float:
        """Work of the victims since their last checkpoints, as far as it is known."""
        return sum(victim.lost_gpu_hours or 0.0 for victim in self.victims)
