"""What islands and other pods hold of the nodes that host islands, GPU by GPU, as the placement's figure draws it."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from planner.domain import Cluster, Phase, Placement, Plan

NO_SWITCH = "no switch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A GPU: the island that holds it ("": none), its phase and shade (0 or 1, so that neighbours differ)."""

    island: str = ""
    phase: Phase | None = None
    shade: int = 0
    foreign: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCells:
    """A node that hosts islands, a cell a GPU."""

    name: str
    gpus: tuple[Cell, ...]

    @property
    def runs(self) -> list[tuple[int, int, str, Phase | None]]:
        """Neighbouring GPUs of one island: first place, how many, island, phase."""
        runs, at = [], 0
        for (island, phase), cells in groupby(self.gpus, key=lambda cell: (cell.island, cell.phase)):
            count = len(list(cells))
            if island:
                runs.append((at, count, island, phase))
            at += count
        return runs


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchCells:
    """The nodes under an access switch, or of an NVLink domain of several nodes, that host islands."""

    name: str
    nodes: tuple[NodeCells, ...]

    @property
    def planned(self) -> int:
        """GPUs that the plan takes under the switch."""
        return sum(bool(cell.island) for node in self.nodes for cell in node.gpus)

    def of_phase(self, phase: Phase) -> int:
        """GPUs that islands of a phase take under the switch."""
        return sum(cell.phase is phase for node in self.nodes for cell in node.gpus if cell.island)


def cells_of(plan: Plan, placed: Placement) -> list[SwitchCells]:
    """Switches and nodes that host islands, by name. Without a cluster other GPUs of a node stay blank."""
    phases = {island.id: island.phase for island in plan.islands}
    shades = {island: at % 2 for at, island in enumerate(dict.fromkeys(part.island for part in placed.parts))}
    cells_by_node: dict[tuple[str, str], dict[int, Cell]] = defaultdict(dict)
    domains = _domains(plan.scenario.cluster)
    for part in placed.parts:
        cell = Cell(island=part.island, phase=phases.get(part.island), shade=shades[part.island])
        cells_by_node[_place(part.asw, domains.get(part.node, "")), part.node].update(
            dict.fromkeys(part.gpu_indices, cell)
        )
    widest = 1 + max((gpu for cells in cells_by_node.values() for gpu in cells), default=0)
    indices, foreign = _foreign(plan, placed)
    switches: dict[str, list[NodeCells]] = defaultdict(list)
    for (switch, node), cells in sorted(cells_by_node.items()):
        others = foreign[node]
        row = [cells.get(gpu) or Cell(foreign=gpu in others) for gpu in indices.get(node, tuple(range(widest)))]
        switches[switch].append(NodeCells(name=node, gpus=tuple(row)))
    return [SwitchCells(name=name, nodes=tuple(nodes)) for name, nodes in switches.items()]


def _domains(cluster: Cluster | None) -> dict[str, str]:
    """The NVLink domain of each node that is in one."""
    return {node.name: node.nvlink_domain for node in cluster.nodes if node.nvlink_domain} if cluster else {}


def _place(asw: str, domain: str) -> str:
    """What a panel is called: a switch, or an NVLink domain with its switch."""
    if not domain:
        return asw or NO_SWITCH
    return f"{domain} ({asw})" if asw else domain


def _foreign(plan: Plan, placed: Placement) -> tuple[dict[str, tuple[int, ...]], dict[str, set[int]]]:
    """GPU indices of each node, and those held by pods that stay."""
    foreign: dict[str, set[int]] = defaultdict(set)
    cluster = plan.scenario.cluster
    if cluster is None:
        return {}, foreign
    gone = _gone(placed)
    for pod in cluster.pods:
        if (pod.node, pod.key) not in gone:
            foreign[pod.node].update(pod.gpus)
    return {node.name: tuple(gpu.index for gpu in node.gpus) for node in cluster.nodes}, foreign


def _gone(placed: Placement) -> set[tuple[str, str]]:
    return {(victim.node, victim.pod) for victim in placed.victims}


def foreign_of(plan: Plan, switches: Iterable[str]) -> dict[str, tuple[int, int]]:
    """GPUs that other pods hold, and idle ones, under each switch once the plan is placed; 0 without a cluster."""
    names = set(switches)
    cluster, placed = plan.scenario.cluster, plan.placement
    if cluster is None or placed is None:
        return dict.fromkeys(names, (0, 0))
    gone = _gone(placed)
    place_of = {node.name: _place(node.asw, node.nvlink_domain) for node in cluster.nodes}
    busy, total, planned = Counter[str](), Counter[str](), Counter[str]()
    for node in cluster.nodes:
        total[place_of[node.name]] += len(node.gpus)
    for part in placed.parts:
        planned[place_of[part.node]] += len(part.gpu_indices)
    for pod in cluster.pods:
        if (pod.node, pod.key) not in gone:
            busy[place_of[pod.node]] += pod.gpu_count
    return {name: (busy[name], max(0, total[name] - busy[name] - planned[name])) for name in names}
