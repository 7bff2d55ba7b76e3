"""Pods moved so that nodes come free: what is asked, the moves in their order, and what they gain."""

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from planner.domain.cluster import ClusterNode, Pod, Taint
from planner.domain.serving.levels import Spread
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
    it. `proven`: without a budget no order of moves vacates more nodes, or as many by fewer moves; `fewest_in_use`:
    nodes with pods that no order of moves goes below (0: not asked).
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnTask:
    """A pod that comes and goes: when, and how long it runs once it lies somewhere. `group`: its anti-affinity group.

    It takes nodes of its `gpu` type ("": any) that have the labels it selects and no taint beyond `taints`.
    """

    number: int
    submit_h: float
    life_h: float
    gpus: int
    cpus: float
    memory_gb: float = 0.0
    locked: bool = False
    gpu: str = ""
    node_selector: tuple[tuple[str, str], ...] = ()
    taints: frozenset[Taint] = frozenset()
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnover:
    """A cluster's life for so many `hours`: pods that are `staying`, tasks that lie on nodes from the start (with the
    node's name), those that are `coming`, by submission. The first `warm_up_h` are simulated and not counted."""

    nodes: tuple[ClusterNode, ...]
    coming: tuple[ChurnTask, ...]
    hours: int
    warm_up_h: float = 0.0
    staying: tuple[Pod, ...] = ()
    placed: tuple[tuple[ChurnTask, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnSample:
    """The cluster at the end of an hour, and what happened in it. `not_full`: nodes with any idle GPU; `empty_gpus`: of
    the empty nodes; `placeable`: nodes with eight idle GPUs and CPUs for a request of eight; `waiting_gpus` of tasks
    without room."""

    hour: int
    held_gpus: int
    not_full: int
    empty: int
    empty_gpus: int
    placeable: int
    waiting_gpus: int
    vacated: int
    moves: int
    moved_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnFigures:
    """Means and sums over the `hours` after the warm-up, waits of tasks that came in them (h; of those still waiting so
    far). `moved_gpus`: of all moves. `reduction_percent`: by how much a run lowers the number of nodes with an idle GPU
    (empty ones included), mean over runs: the ASI paper's 20.2 %. None: nothing to take a mean of."""

    hours: int
    held_percent: float
    not_full: float
    empty: float
    empty_gpus: float
    placeable: float
    waiting_gpus: float
    host_wait_h: float | None
    other_wait_h: float | None
    runs: int
    vacated: int
    moves: int
    moved_gpus: int
    moves_per_node: float | None
    reduction_percent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnRun:
    """One seed under one rhythm. `every_hours` None: never defragmented."""

    every_hours: float | None
    seed: int
    figures: ChurnFigures
    series: tuple[ChurnSample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RhythmSettings:
    """Rhythms that are compared, in hours, the rarest first (`None`: never), over so many days and these seeds.

    `life_hours`: mean life of a pod, unless tasks are given with theirs. A rhythm is worth its moves where what it
    frees is beyond doubt (the interval of 95 % is above 0), and each node-hour beyond the last one worth it takes
    `most_moves_per_node_hour` at most. None: as many as hold no more GPU-hours twice, by old and new copies, than
    whole nodes come free.
    """

    every_hours: tuple[float | None, ...]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    days: float = 14.0
    life_hours: float = 24.0
    most_moves_per_node_hour: float | None = None

    def __post_init__(self) -> None:
        hours = [float("inf") if every is None else every for every in self.every_hours]
        rarer_first = all(rarer > oftener for rarer, oftener in pairwise(hours))
        limit = self.most_moves_per_node_hour
        written = ", ".join("never" if every is None else f"{every:g}" for every in self.every_hours)
        for key, holds, rule, value in (
            ("rhythms", len(hours) > 1 and hours[0] == float("inf"), "be never and others", written),
            ("rhythms", rarer_first, "come with fewer hours each", written),
            ("rhythms", min(hours, default=1.0) >= 1, "be an hour apart or more", written),
            ("seeds", self.seeds and len({*self.seeds}) == len(self.seeds), "be one or more, each once", self.seeds),
            ("days", 1 / 24 <= self.days <= 365, "be within an hour and 365 days", self.days),
            ("hours of life", 0 < self.life_hours < float("inf"), "be above 0", self.life_hours),
            ("moves a node-hour", (limit or 0) >= 0, "be 0 or more", limit),
        ):
            if not holds:
                raise InputError(f"Rhythms: {key} must {rule}, got {value}.", hint="Write never,168,24,6,1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """What a rhythm brings, over the seeds. `empty`: whole nodes that are free on average over the hours; `freed`:
    node-hours a day more than never, on the same tasks; `freed_gpu_hours` a day of them; `moves` a day, and the
    GPU-hours a day that they hold twice. `step`: moves a node-hour beyond the last rhythm that was `worth` it (None:
    there is no gain, or nothing to compare with)."""

    every_hours: float | None
    empty: Spread
    not_full: Spread
    freed: Spread
    freed_gpu_hours: float
    moves: Spread
    twice_gpu_hours: float
    step: float | None
    worth: bool

    @property
    def moves_per_node_hour(self) -> float | None:
        """Moves for each node-hour that is freed."""
        return self.moves.mean / self.freed.mean if self.freed.mean > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RhythmChoice:
    """Rhythms of a cluster side by side, and the one `recommended`: the last that is worth its moves. `limit` on moves
    a node-hour, derived from both kinds of GPU-hours unless `limited` by the user. `tasks` that came by a list (0: as
    copies of the cluster's own pods)."""

    cluster: str
    settings: RhythmSettings
    overlap_hours: float
    nodes: int
    gpus: int
    held_percent: float
    tasks: int
    limit: float
    limited: bool
    rhythms: tuple[Rhythm, ...]
    recommended: float | None
