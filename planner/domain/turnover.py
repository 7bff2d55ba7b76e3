"""Tasks that come to a cluster and go, rhythms of defragmentation on it, and which of them is worth its moves."""

from dataclasses import dataclass
from itertools import pairwise

from planner.domain.cluster import ClusterNode, Pod, Taint
from planner.domain.serving.levels import Spread
from planner.errors import InputError

MOST_TASKS = 1_000_000
"""Of a simulation."""


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
    """The cluster on average over an hour (the mean of its first moment, after a run, and its last, before the next),
    and what the run at its end did. `not_full`: nodes with any idle GPU; `empty_gpus`: of the empty nodes; `placeable`:
    nodes with eight idle GPUs and CPUs for a request of eight; `waiting_gpus` of tasks without room."""

    hour: int
    held_gpus: float
    not_full: float
    empty: float
    empty_gpus: float
    placeable: float
    waiting_gpus: float
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
    frees beyond the last one worth it is beyond doubt (the interval of 95 % is above 0), and each node-hour of that
    takes `most_moves_per_node_hour` at most. None: its moves hold no more GPU-hours twice, by old and new copies, than
    it frees.
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
        seeds, rarest = self.seeds, max((every for every in self.every_hours if every is not None), default=0.0)
        spell, enough = "Write never,168,24,6,1.", 2 <= len({*seeds}) == len(seeds)
        two_runs = f"have room for two runs of each rhythm, one of {rarest:g} h"
        for key, holds, rule, value, hint in (
            ("rhythms", len(hours) > 1 and hours[0] == float("inf"), "be never and others", written, spell),
            ("rhythms", rarer_first, "come with fewer hours each", written, spell),
            ("rhythms", min(hours, default=1.0) >= 1, "be an hour apart or more", written, spell),
            ("seeds", enough, "be two or more, each once: one has no interval", seeds, "Give 0-4."),
            ("days", 1 / 24 <= self.days <= 365, "be within an hour and 365 days", self.days, "Give 14."),
            ("days", 24 * self.days >= 2 * rarest, two_runs, self.days, f"Give {2 * rarest / 24:g}, or a rhythm less."),
            ("hours of life", 0 < self.life_hours < float("inf"), "be above 0", self.life_hours, "Give 24."),
            ("moves a node-hour", 0 <= (limit or 0) < float("inf"), "be finite, 0 or more", limit, "Leave it out."),
        ):
            if not holds:
                raise InputError(f"Rhythms: {key} must {rule}, got {value}.", hint=hint)


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
    """Rhythms of a cluster side by side, and the one `recommended`: the last that is worth its moves. `held_percent` on
    average under never. `tasks` that came by a list (0: as copies of the cluster's own pods)."""

    cluster: str
    settings: RhythmSettings
    overlap_hours: float
    nodes: int
    gpus: int
    held_percent: float
    tasks: int
    rhythms: tuple[Rhythm, ...]
    recommended: float | None
