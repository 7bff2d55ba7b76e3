"""Pods that arrive one by one: placed at once or failed, and what is measured at every percent.

Allocation, fragmentation (FGD study): a report line belongs to the percent that its arrived share rounds to, half to
even; a percent's figure is the mean of its lines' figures, which are rounded to two digits first.
Power, GRAR (PWR study): of lines with the same arrived share the first counts; between lines, the points of a grid of
half percents are filled in evenly by their position, not by their distance; the ends are level.
Source: facts on fragmentation and power, section 10.

Source: facts on fragmentation and power, section 3. Nothing leaves in the study that it reproduces.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from planner.domain import (
    WHOLE_GPU,
    PowerFormula,
    PowerTable,
    Semantics,
    TraceNode,
    TracePod,
    TypicalPod,
)
from planner.errors import InputError
from planner.placement.fragmentation import TargetWorkload
from planner.placement.node_states import NodeState, PodClasses, Reals, class_key
from planner.placement.power_model import OPENB_POWER, NodePower
from planner.studies.policies.online.policies import POLICIES, AlphaByLoad, PolicyMix
from planner.studies.policies.online.score_board import NOWHERE, ScoreBoard
from planner.studies.policies.online.seam import Policy, Scene
from planner.studies.policies.records import (
    Decision,
    OnlineMetrics,
    OnlineRun,
)

GRID_STEP = 0.005


def metrics_of(decisions: Sequence[Decision], gpu_milli: int) -> tuple[OnlineMetrics, ...]:
    """Figures of every percent that a line is within 1 of; `gpu_milli` of the whole cluster, above 0."""
    arrived = np.array([line.arrived_gpu_milli for line in decisions], dtype=np.float64)
    used = np.array([line.used_gpu_milli for line in decisions], dtype=np.float64)
    fragments = np.array([line.fragmentation_milli for line in decisions])
    failed = np.cumsum([not line.node for line in decisions])
    percent = np.rint(arrived * 100 / gpu_milli).astype(np.int64)
    idle = gpu_milli - used
    ratio = np.round(100 * np.divide(fragments, idle, out=np.zeros_like(idle), where=idle > 0), 2)
    columns = np.stack([np.round(used * 100 / gpu_milli, 2), fragments * 100 / gpu_milli, ratio])
    drawn = [[line.cpu_power_w, line.gpu_power_w, line.arrived_gpu_milli, line.used_gpu_milli] for line in decisions]
    power = _on_grid(arrived / gpu_milli, np.array(drawn, dtype=np.float64))
    rows = []
    for at in range(int(percent.max()) + 1):
        lines = _lines_of(percent, at)
        if lines is None:
            continue
        means = columns[:, lines].mean(axis=1)
        rows.append(
            OnlineMetrics(
                arrived_percent=at,
                allocation_percent=round(float(means[0]), 2),
                fragmentation_percent=round(float(means[1]), 2),
                fragmentation_ratio_percent=float(means[2]),
                failures=int(failed[lines][-1]),
                **dict(zip(_DRAWN, map(float, power[2 * at]), strict=True)),
            )
        )
    return tuple(rows)


_DRAWN = ("cpu_power_w", "gpu_power_w", "arrived_gpu_milli", "used_gpu_milli")


def _lines_of(percent: np.ndarray, at: int) -> slice | None:
    """Lines of a percent, else those within 1 of it; lines come by percent ascending."""
    first, last = percent.searchsorted([at, at + 1])
    if first == last:
        first, last = percent.searchsorted([at - 1, at + 2])
    return slice(int(first), int(last)) if last > first else None


def _on_grid(shares: Reals, values: Reals) -> Reals:
    """Rows of `values` at every half percent, from the lines at `shares` of arrived capacity (ascending)."""
    distinct_shares, first = np.unique(shares, return_index=True)
    rows = values[first]
    grid = np.round(np.arange(round(max(1.0, distinct_shares[-1] + 0.01) / GRID_STEP) + 1) * GRID_STEP, 6)
    below = distinct_shares.searchsorted(grid, side="right") - 1
    hit = (below >= 0) & (distinct_shares[np.maximum(below, 0)] == grid)
    gap_rank = np.array([np.sum(below[: k + 1] == below[k]) - _hits(hit, below, k) for k in range(len(grid))])
    gap_size = np.array([np.sum((below == below[k]) & ~hit) for k in range(len(grid))])
    low, high = np.maximum(below, 0), np.clip(below + 1, 0, len(distinct_shares) - 1)
    step = np.where(hit, 0.0, gap_rank / (gap_size + 1))
    interpolated = rows[low] + (rows[high] - rows[low]) * step[:, None]
    return np.where((below < 0)[:, None], rows[0], interpolated)


def _hits(hit: np.ndarray, below: np.ndarray, k: int) -> int:
    return int(np.sum(hit[: k + 1] & (below[: k + 1] == below[k])))


PROGRESS_EVERY = 256


class Meter:
    """Fragmentation and watts of the cluster, node by node, brought up to date as nodes change."""

    def __init__(self, states: Sequence[NodeState], workload: TargetWorkload, power: dict[str, NodePower]) -> None:
        self.states, self.workload, self.power = states, workload, power
        alike: dict[object, tuple[float, float, float]] = {}
        self._parts = []
        for state in states:
            node = state.node
            key = (node.gpu_model, node.cpu_model, node.cpu_milli, state.cpu_left, tuple(state.gpu_left))
            if key not in alike:
                alike[key] = self._measure(state)
            self._parts.append(alike[key])
        self._weighted, self.cpu_w, self.gpu_w = (sum(column) for column in zip(*self._parts, strict=True))

    @property
    def fragmentation_milli(self) -> float:
        """F of the cluster, milli-GPU."""
        return float(self._weighted / self.workload.weight)

    def _measure(self, state: NodeState) -> tuple[float, float, float]:
        power = self.power[state.node.name]
        cpu_w = float(power.cpu_watts(np.array([state.cpu_left]))[0])
        return self.workload.weighted(state), cpu_w, float(power.gpu_watts(state.gpu_left))

    def update(self, number: int) -> None:
        """A node has changed."""
        before, after = self._parts[number], self._measure(self.states[number])
        self._parts[number] = after
        self._weighted += after[0] - before[0]
        self.cpu_w += after[1] - before[1]
        self.gpu_w += after[2] - before[2]


def simulate(
    nodes: Sequence[TraceNode],
    arrivals: Sequence[TracePod],
    policy: PolicyMix,
    workload: Sequence[TypicalPod],
    *,
    semantics: Semantics = Semantics.REFERENCE,
    tie_order: Sequence[str] | None = None,
    seed: int = 0,
    power: PowerTable = OPENB_POWER,
    formula: PowerFormula | None = None,
    progress: Callable[[int], None] | None = None,
) -> OnlineRun:
    """What becomes of `arrivals`, in their order, under one policy.

    `workload`: the target workload of FGD and of the figures. `tie_order`: names of all nodes, the first of the best
    is taken (None: as in `nodes`). `seed` matters to `random` only. `formula` None: the simulators' in reference
    semantics, the paper's in the exact one. `progress` is told now and then how many pods have arrived.
    InputError: nothing to simulate, a tie order that is not one of these nodes, models without watts.
    """
    simulation = prepare(
        nodes,
        arrivals,
        policy,
        workload,
        semantics=semantics,
        tie_order=tie_order,
        seed=seed,
        power=power,
        formula=formula,
    )
    decisions = _run(simulation, arrivals, progress)
    return OnlineRun(
        policy=policy.name,
        semantics=semantics,
        gpu_milli=simulation.gpu_milli,
        decisions=tuple(decisions),
        metrics=metrics_of(decisions, simulation.gpu_milli),
    )


@dataclass(slots=True)
class Simulation:
    """A cluster, its scores and figures while pods come and go. `rule` chooses the weights of a mixture by the load."""

    board: ScoreBoard
    meter: Meter
    gpu_milli: int
    rule: AlphaByLoad | None
    used_gpu_milli: int = 0

    def place(self, kind: int) -> tuple[int, tuple[int, ...]]:
        """Number of the node and the GPUs for a pod of this class; NOWHERE where it fits on none."""
        if self.rule is not None:
            self.board.weigh(self.rule.alpha(self.used_gpu_milli / self.gpu_milli))
        node = self.board.choose(kind)
        if node == NOWHERE:
            return NOWHERE, ()
        gpus = self.board.place(node, kind)
        self.meter.update(node)
        self.used_gpu_milli += self.board.pods.pods[kind].total_gpu_milli
        return node, gpus

    def remove(self, node: int, pod: TracePod, gpus: Sequence[int]) -> None:
        """A pod that was placed goes."""
        self.board.remove(node, pod, gpus)
        self.meter.update(node)
        self.used_gpu_milli -= pod.total_gpu_milli


def prepare(
    nodes: Sequence[TraceNode],
    pods: Sequence[TracePod],
    policy: PolicyMix,
    workload: Sequence[TypicalPod],
    *,
    semantics: Semantics,
    tie_order: Sequence[str] | None,
    seed: int,
    power: PowerTable,
    formula: PowerFormula | None,
) -> Simulation:
    """The empty cluster, and the scores of its nodes for all classes of `pods`; arguments as those of `simulate`."""
    if formula is None:
        formula = PowerFormula.SIMULATORS if semantics is Semantics.REFERENCE else PowerFormula.PAPER
    ordered = _in_tie_order(nodes, tie_order)
    _require_work(ordered, pods, workload)
    watts = _watts(ordered, power, formula)
    states = [NodeState.empty(node) for node in ordered]
    target, classes = TargetWorkload.of(workload), PodClasses.of(pods)
    scene = Scene(pods=classes, workload=target, power=watts, semantics=semantics, seed=seed)
    policies = [_policy(name, scene) for name, _ in policy.terms]
    return Simulation(
        board=ScoreBoard(states, classes, policies, policy, semantics),
        meter=Meter(states, target, watts),
        gpu_milli=sum(node.gpu_milli for node in ordered),
        rule=policy.rule,
    )


def _run(
    simulation: Simulation, arrivals: Sequence[TracePod], progress: Callable[[int], None] | None
) -> list[Decision]:
    decisions: list[Decision] = []
    board, meter = simulation.board, simulation.meter
    arrived = 0
    for number, pod in enumerate(arrivals):
        arrived += pod.total_gpu_milli
        node, gpus = simulation.place(board.class_of(pod))
        decisions.append(
            Decision(
                arrival=number,
                pod=pod.name,
                node=board.states[node].node.name if node != NOWHERE else "",
                gpus=gpus,
                arrived_gpu_milli=arrived,
                used_gpu_milli=simulation.used_gpu_milli,
                fragmentation_milli=meter.fragmentation_milli,
                cpu_power_w=meter.cpu_w,
                gpu_power_w=meter.gpu_w,
            )
        )
        if progress is not None and number % PROGRESS_EVERY == 0:
            progress(number)
    if progress is not None:
        progress(len(arrivals))
    return decisions


def _policy(name: str, scene: Scene) -> Policy:
    if name not in POLICIES:
        raise InputError(
            f"policy {name!r} is not known.", hint="Take one of planner.studies.policies.online.policies.NAMES."
        )
    return POLICIES[name].make(scene)


def _watts(nodes: Sequence[TraceNode], table: PowerTable, formula: PowerFormula) -> dict[str, NodePower]:
    alike: dict[object, NodePower] = {}
    for node in nodes:
        key = (node.gpu_model, node.cpu_model, node.cpu_milli)
        if key not in alike:
            alike[key] = NodePower.of(node, table, formula)
    return {node.name: alike[node.gpu_model, node.cpu_model, node.cpu_milli] for node in nodes}


def _in_tie_order(nodes: Sequence[TraceNode], tie_order: Sequence[str] | None) -> list[TraceNode]:
    by_name = {node.name: node for node in nodes}
    if len(by_name) < len(nodes):
        raise InputError("nodes: each must have a name of its own; one came twice.", hint="Rename one of them.")
    if tie_order is None:
        return list(nodes)
    if sorted(tie_order) != sorted(by_name):
        strange = sorted(set(tie_order) ^ set(by_name))
        fault = f"{strange[0]} is only in one of the two" if strange else "one is listed twice"
        raise InputError(
            f"tie order: must list each of the {len(nodes)} nodes once; {fault}.", hint="Give the order of these nodes."
        )
    return [by_name[name] for name in tie_order]


def _require_work(nodes: Sequence[TraceNode], arrivals: Sequence[TracePod], workload: Sequence[TypicalPod]) -> None:
    if not any(node.gpus for node in nodes):
        raise InputError("nodes: at least one must have GPUs; none has.", hint="Give the nodes with GPUs.")
    for name, listed in (("arrivals", arrivals), ("target workload", workload)):
        if not listed:
            raise InputError(f"{name}: must hold at least one pod; none came.", hint="Give a trace with pods.")
    for pod in {class_key(pod): pod for pod in arrivals}.values():
        if pod.gpus > 1 and pod.gpu_milli != WHOLE_GPU:
            raise InputError(
                f"pod {pod.name}: several GPUs must be whole ones (1000 milli-GPU each), got {pod.gpu_milli}.",
                hint="Ask for whole GPUs, or for a part of one.",
            )
