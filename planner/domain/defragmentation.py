"""Pods moved so that nodes come free: what is asked, the moves in their order, and what they gain; and single changes
that win back what topology costs a placed plan, which are told and not carried out."""

from dataclasses import dataclass, field
from enum import StrEnum

from planner.domain.layout import Layout
from planner.errors import InputError

SLOT_GPUS = 8
"""GPUs of the request that is hardest to place: a host's worth of them (ASI paper, section 4.1)."""


class MoveAim(StrEnum):
    """What moves are for: to vacate nodes, or to bring a job under one switch or into one NVLink domain."""

    NODES = "nodes"
    SWITCH = "switch"
    NVLINK_DOMAIN = "nvlink_domain"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveBudget:
    """What moves may cost; None: no limit.

    `most_moves` in all; `most_gpu_hours` that GPUs are held twice, old and new copy; `most_at_once`: moves that run at
    the same time.
    """

    most_moves: int | None = None
    most_gpu_hours: float | None = None
    most_at_once: int | None = None

    def __post_init__(self) -> None:
        for key, value, low in (
            ("most_moves", self.most_moves, 0),
            ("most_gpu_hours", self.most_gpu_hours, 0.0),
            ("most_at_once", self.most_at_once, 1),
        ):
            if value is not None and not low <= value < float("inf"):
                raise InputError(
                    f"Defragmentation: {key} must be finite and at least {low:g}, got {value:g}.",
                    hint="Leave it out for no limit.",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragmentationSettings:
    """How pods are moved.

    Nodes of a GPU type are cut at random (`seed`) into partitions of `partition_nodes` at most; chains are `depth`
    moves long at most and look at `width` nodes a move; there are `rounds` rounds at most (ASI paper, 4.1: 500, 3 and
    5; the width is ours). Where a type has few nodes in use, every order of moves is looked at afterwards, up to
    `states` of them a number of nodes (0: none; 50,000 take about half a second). `overlap_hours`: how long the old and
    the new copy of a pod run side by side.
    """

    aim: MoveAim = MoveAim.NODES
    depth: int = 3
    rounds: int = 5
    partition_nodes: int = 500
    width: int = 12
    seed: int = 0
    states: int = 50_000
    overlap_hours: float = 0.25
    budget: MoveBudget = field(default_factory=MoveBudget)

    def __post_init__(self) -> None:
        for key, value, low, high in (
            ("depth", self.depth, 1, 8),
            ("rounds", self.rounds, 1, 1_000),
            ("partition_nodes", self.partition_nodes, 2, 1_000_000),
            ("width", self.width, 1, 1_000_000),
            ("seed", self.seed, 0, 2**63),
            ("states", self.states, 0, 1_000_000_000),
            ("overlap_hours", self.overlap_hours, 0.0, 8_760.0),
        ):
            if not low <= value <= high:
                raise InputError(
                    f"Defragmentation: {key} must be within {low:g} and {high:g}, got {value:g}.",
                    hint="Correct the value.",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One pod from a node to another: its copy comes up on `target` before the pod on `source` goes.

    Moves of one `wave` may run at the same time, and no wave begins before the last one is over. `gpu_indices`: those
    of the copy, the lowest that are free then (empty: not known). `gpu_hours` that its GPUs are held twice. `step`: the
    number of the `MoveStep` that it belongs to. `order` counts from 1.
    """

    order: int
    wave: int
    step: int
    pod: str
    source: str
    target: str
    gpus: int
    gpu_indices: tuple[int, ...] = ()
    gpu_hours: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStep:
    """Moves that gain nothing but together: `goal` is the node that they vacate, or the job that they gather.

    An operator may stop after any step. `gpus` of the node or of the job; `last_move`: the order of its last one.
    """

    number: int
    goal: str
    gpu: str
    gpus: int
    moves: int
    last_move: int

    @property
    def slots_per_move(self) -> float:
        """Requests of 8 GPUs that a move makes room for."""
        return self.gpus // SLOT_GPUS / self.moves


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragmentationRound:
    """What a round gained, before any budget."""

    number: int
    steps: int
    moves: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupation:
    """Nodes with GPUs, by how full they are: `full` ones have no idle GPU, `empty` ones no pod with GPUs."""

    nodes: int
    full: int
    empty: int
    gpus: int
    allocated: int

    @property
    def partial(self) -> int:
        """Nodes with both pods and idle GPUs."""
        return self.nodes - self.full - self.empty

    @property
    def in_use(self) -> int:
        """Nodes with pods."""
        return self.nodes - self.empty

    @property
    def not_full(self) -> int:
        """Nodes with an idle GPU, empty ones included: what the ASI paper counts."""
        return self.nodes - self.full


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredJob:
    """A job that was scattered: the switch or NVLink domain that its pods lie under now, and its entropy (nats) over
    them before."""

    job: str
    place: str
    gpus: int
    moves: int
    entropy_before: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Defragmentation:
    """Moves in the order in which they are safe, and what they gain.

    `problems`: what is contradictory in the cluster, in words; the pods that it is about are not moved. `left_out`:
    what no move was looked for, and why. `rounds` are IPC's, before any budget; `moves`, `steps` and `after` are within
    it. `proven`: without a budget no order of moves that opens no empty node vacates more nodes, or as many by fewer
    moves; `fewest_in_use`: of the nodes in use fewer cannot hold the pods, however they are moved (0: not asked).
    """

    cluster: str
    settings: DefragmentationSettings
    moves: tuple[Move, ...]
    steps: tuple[MoveStep, ...]
    rounds: tuple[DefragmentationRound, ...]
    before: Occupation
    after: Occupation
    gathered: tuple[GatheredJob, ...] = ()
    problems: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    proven: bool = False
    fewest_in_use: int = 0

    @property
    def vacated(self) -> tuple[str, ...]:
        """Nodes that come free, in order."""
        return tuple(step.goal for step in self.steps) if self.settings.aim is MoveAim.NODES else ()

    @property
    def gpu_hours(self) -> float:
        """GPU-hours that GPUs are held twice."""
        return sum(move.gpu_hours for move in self.moves)

    @property
    def waves(self) -> int:
        """How many times moves run side by side."""
        return self.moves[-1].wave if self.moves else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FewestNodes:
    """The exact optimum: nodes `in_use` at least, those `vacated` against today, the fewest moves of such a state
    (None: not asked); `variables` and `rows` of the programme."""

    in_use: int
    vacated: int
    moves: int | None
    proven: bool
    variables: int
    rows: int


class RepairKind(StrEnum):
    """`move`: a pod of the cluster goes to another node. `eviction`: a preemptible pod goes. `exchange`: two servers of
    the plan swap what they have of two nodes. `layout`: another plan, which serves at most 1 % less before it is
    placed."""

    MOVE = "move"
    EVICTION = "eviction"
    EXCHANGE = "exchange"
    LAYOUT = "layout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A single change. `rate_rps`: of the plan placed again, `rates_rps`: what each island could serve there.

    `move` of a move; `pod` and `node` of an eviction, with the GPU-hours lost since its checkpoint (None: not known),
    and its `turn` by the rule of victims; `exchange` as the key `placement.exchange` has it; `layout` of a layout.
    """

    kind: RepairKind
    rate_rps: float
    rates_rps: tuple[tuple[str, float], ...]
    move: Move | None = None
    pod: str = ""
    node: str = ""
    lost_gpu_hours: float | None = 0.0
    turn: int = 0
    exchange: str = ""
    layout: Layout | None = None

    @property
    def disturbs(self) -> tuple[int, int]:
        """What it costs others, less being better: pods that go, pods that move, and of victims who is to go later."""
        rank = {RepairKind.EXCHANGE: 0, RepairKind.LAYOUT: 1, RepairKind.MOVE: 2, RepairKind.EVICTION: 3}
        return rank[self.kind], self.turn


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandRepair:
    """An island that serves less than it could under one switch (0: it found no room), and the best single change for
    it; None where none of those tried wins anything back."""

    island: str
    rate_rps: float
    ideal_rps: float
    repair: Repair | None
    repaired_rps: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """Repairs of a plan on a cluster. `tried`: changes of each kind that were tried, and how many there are."""

    cluster: str
    rate_rps: float
    unplaced_rps: float
    islands: tuple[IslandRepair, ...]
    tried: tuple[tuple[RepairKind, int, int], ...]

    @property
    def each(self) -> tuple[Repair, ...]:
        """The changes of the islands, each once."""
        return tuple(dict.fromkeys(row.repair for row in self.islands if row.repair is not None))

    @property
    def best(self) -> Repair | None:
        """The change after which the whole plan serves most."""
        return max(self.each, key=lambda repair: (repair.rate_rps, [-cost for cost in repair.disturbs]), default=None)
