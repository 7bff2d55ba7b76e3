"""Where the plan's islands lie: the nodes under each access switch, GPU by GPU, and what fits before and after.

With too many nodes to draw, a bar a switch shows how many of its GPUs the plan takes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from planner.domain import Cluster, ClusterState, Phase, Placement, Plan
from planner.report.kit import style

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


MOST_LINES = 40
"""Lines of nodes that can be drawn GPU by GPU."""
MOST_SWITCHES = 60

FOREIGN, FREE = "#9A9A9A", "#FFFFFF"

# inches
TOP, LABEL, SIDE = 0.8, 1.05, 0.2
LINE, NAME = 0.36, 0.15
BAR = 0.17
LOWER, LOWER_GAP, FOOT = 1.5, 0.75, 0.5
AXES_WIDTH = style.WIDTH_IN - LABEL - SIDE
CELLS_A_LINE = 72
LETTER = 0.047
"""Width of a letter of a cell's label (inches)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """Nodes drawn side by side; only the first line of a switch names it, and the GPU types of islands under it."""

    label: str
    gpus: str
    nodes: tuple[NodeCells, ...]


def draw(plan: Plan) -> Figure:
    """The switches that host islands, above bars of what fits; the plan has a placement."""
    placed = plan.placement
    assert placed is not None
    switches = cells_of(plan, placed)
    widest = max((len(node.gpus) for switch in switches for node in switch.nodes), default=8)
    types = {island.id: island.gpu for island in plan.islands}
    lines = _lines(switches, max(1, CELLS_A_LINE // (widest + 1)), types)
    fine = len(lines) <= MOST_LINES
    shown = switches if fine else sorted(switches, key=lambda switch: -switch.planned)[:MOST_SWITCHES]
    upper = max(0.5, len(lines) * LINE if fine else len(shown) * BAR)
    height = TOP + upper + LOWER_GAP + LOWER + FOOT
    figure = style.blank(height, layout=None)
    style.titled(figure, plan, "islands on nodes")
    box = (LABEL / style.WIDTH_IN, 1 - (TOP + upper) / height, AXES_WIDTH / style.WIDTH_IN, upper / height)
    axes = figure.add_axes(box)
    axes.grid(visible=False)
    if not lines:
        style.nothing_to_show(axes, "no island has nodes")
    elif fine:
        _strips(axes, lines, widest)
    else:
        _bars(axes, plan, shown)
    _legend(figure, plan, "" if len(shown) == len(switches) else f"{len(shown)} of {len(switches)} switches")
    _compare(figure, placed, height)
    return figure


def types_of(switch: SwitchCells, types: Mapping[str, str]) -> str:
    """The GPU types of the islands under a switch; `types`: that of each island."""
    gpus = (types.get(cell.island, "") for node in switch.nodes for cell in node.gpus)
    return ", ".join(filter(None, dict.fromkeys(gpus)))


def _lines(switches: Sequence[SwitchCells], each: int, types: Mapping[str, str]) -> list[_Line]:
    return [
        _Line(
            label=switch.name if at == 0 else "",
            gpus=types_of(switch, types) if at == 0 else "",
            nodes=switch.nodes[at : at + each],
        )
        for switch in switches
        for at in range(0, len(switch.nodes), each)
    ]


def _strips(axes: Axes, lines: Sequence[_Line], widest: int) -> None:
    axes.set_xlim(0, max(CELLS_A_LINE, widest + 1))
    axes.set_ylim(len(lines) * LINE, 0)
    axes.axis("off")
    width = AXES_WIDTH / max(CELLS_A_LINE, widest + 1)
    patches, colours = [], []
    for place, line in enumerate(lines):
        top = place * LINE
        if line.label and place:
            axes.axhline(top + 0.01, color=style.GRID, linewidth=0.6)
        axes.text(
            -0.6, top + NAME + 0.1, style.shown(line.label, 16), ha="right", va="center", fontsize=style.points(7.5)
        )
        axes.text(
            -0.6,
            top + 0.09,
            style.shown(line.gpus, 16),
            ha="right",
            va="center",
            fontsize=style.points(6.5),
            fontweight="bold",
        )
        for at, node in enumerate(line.nodes):
            x = at * (widest + 1)
            letters = int((widest + 0.8) * width / LETTER)
            axes.text(
                x, top + NAME - 0.02, style.shown(node.name, letters), fontsize=style.points(5.8), color=style.ink()
            )
            for gpu, cell in enumerate(node.gpus):
                patches.append(Rectangle((x + gpu, top + NAME), 1, LINE - NAME - 0.05))
                colours.append(_colour(cell.phase, cell.shade) if cell.island else FOREIGN if cell.foreign else FREE)
            for start, count, name, phase in node.runs:
                if len(name) * LETTER < (count - 0.3) * width:
                    axes.text(
                        x + start + count / 2,
                        top + NAME + 0.085,
                        style.shown(name),
                        ha="center",
                        va="center",
                        fontsize=style.points(5.8),
                        color=style.paper() if phase is Phase.PREFILL else style.ink(),
                    )
    edges = [style.faint() if colour == FREE else style.mixed(colour, style.paper(), 0.25) for colour in colours]
    axes.add_collection(PatchCollection(patches, facecolors=colours, edgecolors=edges, linewidths=0.5))


def _colour(phase: Phase | None, shade: int) -> str:
    return style.mixed(style.PHASE_COLOURS[phase], style.paper(), 0.28 * shade)


def _bars(axes: Axes, plan: Plan, switches: Sequence[SwitchCells]) -> None:
    """GPUs under each switch by who has them; only nodes with islands where the cluster is not at hand."""
    axes.set_ylim(len(switches) - 0.5, -0.5)
    types = {island.id: island.gpu for island in plan.islands}
    names = [f"{style.shown(switch.name, 12)} {style.shown(types_of(switch, types), 8)}" for switch in switches]
    axes.set_yticks(range(len(switches)), names, fontsize=style.points(6.8))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    foreign = foreign_of(plan, [switch.name for switch in switches])
    parts: list[tuple[str, list[int]]] = [
        (style.PHASE_COLOURS[phase], [switch.of_phase(phase) for switch in switches]) for phase in plan.phases
    ]
    parts.append((FOREIGN, [foreign[switch.name][0] for switch in switches]))
    parts.append((FREE, [foreign[switch.name][1] for switch in switches]))
    ends = [0] * len(switches)
    for colour, counts in parts:
        axes.barh(
            range(len(switches)), counts, left=ends, height=0.75, color=colour, edgecolor=style.faint(), linewidth=0.3
        )
        ends = [a + b for a, b in zip(ends, counts, strict=True)]
    axes.set_xlabel("GPUs under the switch", labelpad=1)


def _legend(figure: Figure, plan: Plan, excerpt: str) -> None:
    phases = [phase for phase in plan.phases if any(island.phase is phase for island in plan.islands)]
    handles = [Patch(facecolor=style.PHASE_COLOURS[phase], label=f"{phase}: islands") for phase in phases]
    if plan.scenario.cluster is None:
        handles.append(Patch(facecolor=FREE, edgecolor=style.faint(), label="not the plan's"))
    else:
        handles.append(Patch(facecolor=FOREIGN, label="other pods"))
        handles.append(Patch(facecolor=FREE, edgecolor=style.faint(), label="idle"))
    if excerpt:
        handles.append(Patch(facecolor="none", label=f"({excerpt}, those with most GPUs of the plan)"))
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.01, 1 - 0.4 / style.drawn_height_in(figure)),
        ncols=len(handles),
        borderaxespad=0,
        borderpad=0,
    )


def _compare(figure: Figure, placed: Placement, height: float) -> None:
    """Two panels of bars by request size: GPUs stranded, and requests that fit."""
    width = (style.WIDTH_IN - LABEL - SIDE - 0.9) / 2
    for at, (label, field) in enumerate((("idle GPUs stranded", "stranded"), ("requests that fit", "fit"))):
        x = LABEL + at * (width + 0.9)
        box = (x / style.WIDTH_IN, FOOT / height, width / style.WIDTH_IN, LOWER / height)
        axes = figure.add_axes(box)
        for offset, name, state, colour in (
            (-0.2, "before", placed.before, style.IDLE),
            (0.2, "after", placed.after, style.palette()[0]),
        ):
            _state_bars(axes, offset, name, state, field, colour)
        sizes = [row.gpus for row in placed.before.fragments]
        axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
        axes.set_xlabel("GPUs a request, of one node")
        axes.set_ylabel(f"{label} (count)", labelpad=3)
        axes.margins(y=0.18)
        axes.set_ylim(bottom=0)
        if axes.get_ylim()[1] <= 1:
            axes.set_ylim(0, 1)
        if at == 0:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, borderaxespad=0.2)


def _state_bars(axes: Axes, offset: float, name: str, state: ClusterState, field: str, colour: str) -> None:
    counts = [getattr(row, field) for row in state.fragments]
    bars = axes.bar([at + offset for at in range(len(counts))], counts, width=0.38, color=colour, label=name)
    axes.bar_label(bars, labels=[f"{count:,}" for count in counts], fontsize=style.points(6.8), padding=1)
