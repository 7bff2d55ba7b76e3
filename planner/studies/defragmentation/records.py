"""A churned cluster, defragmented every so often or never: what it is drawn from, and what became of it."""

from dataclasses import dataclass, field

HOST_GPUS = 8
HOST_CPUS = 192
WHOLE_REQUEST_CPUS = 64
"""CPUs of the 8-GPU request that is counted (8G64C: ASI paper, figure 13)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnWorkload:
    """What tasks are drawn from: facts on defragmentation, section 2, for shares and sizes.

    Tasks come at a rate that would hold `load` of the GPUs, live `life_hours` on average (exponential), and queue in
    order where they find no room; smaller ones may pass. Pairs are values and weights. `affine` tasks select one of
    two labels, each on half of the nodes; `exclusive` ones come in groups of `group` that never share a node.
    """

    nodes: int = 200
    load: float = 0.87
    days: float = 7.0
    warm_up_days: float = 1.0
    life_hours: float = 24.0
    sizes: tuple[tuple[int, float], ...] = ((1, 0.50), (2, 0.20), (4, 0.12), (8, 0.18))
    cpus_per_gpu: tuple[tuple[int, float], ...] = ((8, 0.5), (12, 0.3), (16, 0.2))
    locked: float = 0.40
    affine: float = 0.15
    exclusive: float = 0.15
    group: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnTask:
    """A task: what it asks for, when it comes and how long it lives. `pool` and `group`: -1 for none."""

    number: int
    submit_h: float
    life_h: float
    gpus: int
    cpus: int
    locked: bool
    pool: int
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnSample:
    """The cluster at the end of an hour, and what happened in it. `placeable`: nodes with eight idle GPUs and CPUs for
    a request of eight; `not_full`: with any idle GPU; `waiting_gpus` of tasks without room."""

    hour: int
    held_gpus: int
    not_full: int
    empty: int
    placeable: int
    waiting_gpus: int
    vacated: int
    moves: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnFigures:
    """Means over the hours after the warm-up, sums over them, waits of tasks that came in them (h; of those still
    waiting so far). `moved_gpus`: of all moves. `reduction_percent`: by how much a run lowers the number of nodes with
    an idle GPU (empty ones included), mean over runs: the ASI paper's 20.2 %. None: nothing to take a mean of."""

    held_percent: float
    not_full: float
    empty: float
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
class ExactComparison:
    """A churned cluster as it is, after IPC, and the exact optimum: nodes in use and moves. `proven`: in time."""

    seed: int
    nodes: int
    in_use: int
    ipc_in_use: int
    exact_in_use: int
    ipc_moves: int
    exact_moves: int | None
    proven: bool

    @property
    def excess(self) -> int:
        """Nodes that IPC needs more than the optimum."""
        return self.ipc_in_use - self.exact_in_use


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragmentationStudy:
    """What is compared: rhythms in hours (None: never) over seeds; exact optima of `exact_nodes` over `exact_seeds`."""

    workload: ChurnWorkload = field(default_factory=ChurnWorkload)
    every_hours: tuple[float | None, ...] = (None, 24.0, 6.0)
    seeds: tuple[int, ...] = (0, 1, 2)
    exact_nodes: int = 25
    exact_seeds: tuple[int, ...] = ()
