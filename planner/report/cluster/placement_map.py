"""Where a placed plan lies: nodes under their switches, what of the plan found no nodes, what has to go first."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from planner.domain import Phase, Placement, Plan
from planner.report.cluster.placement import placement_details, placement_lead
from planner.report.kit.drawing import NARROW, box, svg, words
from planner.report.kit.quantities import counted
from planner.report.kit.tree import DataTable, Drawing, Section, paragraphs, section

MOST_NODES = 480
"""Nodes that the map draws; the rest stand in placement.csv."""
_WIDTH, _LABEL, _CELL, _LINE = 980.0, 150.0, 98.0, 34.0


@dataclass(slots=True, kw_only=True)
class NodeUse:
    """A node with what lies on it: GPUs by island, those that are known only by number among them."""

    name: str
    asw: str
    gpus: int
    type: str
    phases: tuple[Phase, ...]
    islands: dict[str, int] = field(default_factory=dict)

    @property
    def used(self) -> int:
        """GPUs of the node that the plan takes."""
        return sum(self.islands.values())


def placement_section(plan: Plan) -> Section:
    """The map, then what lies behind it; of no blocks where the plan is not placed."""
    placed = plan.placement
    if placed is None:
        return section("placement", "Placement")
    return Section(
        name="placement",
        title="Placement",
        blocks=(*paragraphs(placement_lead(plan, placed)), *([_map(plan, placed)] if placed.parts else [])),
        folded=placement_details(plan, placed),
        fold="The cluster before and after, alignment, what is short, the score",
    )


def _nodes(plan: Plan, placed: Placement) -> list[NodeUse]:
    """Nodes of the plan, switch by switch, in the order of their names."""
    sizes = {node.name: len(node.gpus) for node in plan.scenario.cluster.nodes} if plan.scenario.cluster else {}
    islands = {island.id: island for island in plan.islands}
    nodes: dict[str, NodeUse] = {}
    for part in placed.parts:
        node = nodes.get(part.node) or NodeUse(
            name=part.node, asw=part.asw, gpus=sizes.get(part.node, 0), type=islands[part.island].gpu, phases=()
        )
        nodes[part.node] = node
        node.islands[part.island] = node.islands.get(part.island, 0) + len(part.gpu_indices)
        phase = islands[part.island].phase
        node.phases = tuple(p for p in Phase if p in {*node.phases, phase})
    return sorted(nodes.values(), key=lambda node: (node.asw, node.type, node.name))


def _map(plan: Plan, placed: Placement) -> Drawing:
    nodes = _nodes(plan, placed)
    shown = nodes[:MOST_NODES]
    says = f"{counted(len(nodes), 'node')} that the plan uses, by access switch; how full, and for which phase."
    if len(nodes) > len(shown):
        says += f" Of these the first {len(shown):,} are drawn; placement.csv of the run folder has all."
    return Drawing(
        name="placement-map",
        title="Nodes by switch",
        says=says,
        svg=_pictures(plan, shown, says),
        table=DataTable(
            columns=("Node", "Access switch", "GPU type", "GPUs of the plan", "GPUs of the node", "Phase", "For"),
            rows=tuple(
                (
                    *(node.name, node.asw or None, node.type, node.used, node.gpus or None),
                    *(", ".join(node.phases), ", ".join(f"{name} {count}" for name, count in node.islands.items())),
                )
                for node in nodes
            ),
            rest="placement.csv of the run folder",
        ),
    )


def _legend(plan: Plan, width: float) -> Iterator[str]:
    x = _LABEL if width > NARROW else 0.0
    for phase in plan.phases:
        yield box(x, 4, 14, 14, fill=f"--{phase.value}", line="--muted", radius=2)
        yield words(x + 20, 15, phase.value, size=12)
        x += 90
    if width > NARROW:
        yield words(x, 15, "filled: GPUs of the node that the plan takes", size=12, colour="--muted")


def _pictures(plan: Plan, nodes: list[NodeUse], label: str) -> str:
    """For wide screens, and for narrow ones with fewer nodes beside each other."""
    pictures = []
    for screens, width in (("wide", _WIDTH), ("narrow", NARROW)):
        shapes, height = _rows(nodes, int((width - _LABEL) // _CELL))
        pictures.append(svg(width, height, [*_legend(plan, width), *shapes], label=label, screens=screens))
    return "".join(pictures)


def _rows(nodes: list[NodeUse], across: int) -> tuple[list[str], float]:
    by_switch = {asw: [node for node in nodes if node.asw == asw] for asw in dict.fromkeys(node.asw for node in nodes)}
    shapes: list[str] = []
    y = 30.0
    for asw, members in by_switch.items():
        shapes.append(words(0, y + 15, asw or "switch not known", size=12, bold=True, room=_LABEL - 8))
        for place, node in enumerate(members):
            shapes += _node(node, _LABEL + (place % across) * _CELL, y + (place // across) * _LINE)
        y += -(-len(members) // across) * _LINE + 6
    return shapes, y


def _node(node: NodeUse, x: float, y: float) -> Iterator[str]:
    """A box with a bar inside: of both phases, the bar is in two halves."""
    width = _CELL - 8
    total = max(node.gpus, node.used, 1)
    yield box(x, y, width, _LINE - 6, fill="--paper", line="--line")
    yield words(x + 4, y + 12, node.name, size=9.5, room=width - 8)
    bar_x = x + 4
    for phase in node.phases:
        part = (width - 8) * node.used / total / len(node.phases)
        yield box(bar_x, y + 17, part, 7, fill=f"--{phase.value}", line="--muted", radius=1)
        bar_x += part
