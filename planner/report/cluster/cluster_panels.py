"""A cluster drawn: who holds which GPU, node by node; for large ones, the shares under each switch.

After figure 8 of the FlexTopo paper: a line joins the GPUs that a pod holds together, dotted and red where it crosses
sockets though one had GPUs enough.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from types import MappingProxyType

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from planner.domain import Cluster, ClusterNode, PlacedPart, Pod
from planner.report.cluster.cluster_state import crosses_sockets, sockets
from planner.report.kit import style

MOST_ROWS = 600
"""Rows that one density drawing can hold and still be read."""


class Owner(StrEnum):
    """A class of pods, the plan, a pod whose GPUs are not known, or nobody."""

    PLANNED = "planned"
    ONLINE = "online"
    OFFLINE = "offline"
    SPOT = "spot"
    UNKNOWN = "held, not known by whom"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldGroup:
    """GPUs (places in the node, ascending) that one pod or one group of an island holds together."""

    owner: Owner
    places: tuple[int, ...]
    crossing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOwners:
    """A node as it is drawn: the owner of each GPU, and which of them belong together."""

    node: ClusterNode
    owners: tuple[Owner, ...]
    groups: tuple[HeldGroup, ...]


def owners_of(cluster: Cluster, parts: Iterable[PlacedPart] = ()) -> list[NodeOwners]:
    """The nodes with GPUs, in the cluster's order; `parts` of a plan hold what they were given."""
    pods: Mapping[str, list[Pod]] = defaultdict(list)
    for pod in cluster.pods:
        if pod.gpu_count:
            pods[pod.node].append(pod)
    planned: Mapping[str, list[tuple[int, ...]]] = defaultdict(list)
    for part in parts:
        planned[part.node] += part.groups
    return [_of_node(node, pods.get(node.name, []), planned.get(node.name, [])) for node in cluster.nodes if node.gpus]


def _of_node(node: ClusterNode, pods: Sequence[Pod], planned: Sequence[tuple[int, ...]]) -> NodeOwners:
    place = {gpu.index: at for at, gpu in enumerate(node.gpus)}
    owners = [Owner.IDLE] * len(node.gpus)
    holders = [(Owner(pod.kind.value), pod.gpus) for pod in pods] + [(Owner.PLANNED, gpus) for gpus in planned]
    groups = []
    for owner, gpus in holders:
        places = tuple(sorted(place[gpu] for gpu in gpus))
        for at in places:
            owners[at] = owner
        if len(places) > 1:
            groups.append(HeldGroup(owner=owner, places=places, crossing=bool(crosses_sockets(node, gpus))))
    for _ in range(sum(pod.gpu_count - len(pod.gpus) for pod in pods)):
        if Owner.IDLE in owners:
            owners[owners.index(Owner.IDLE)] = Owner.UNKNOWN
    return NodeOwners(node=node, owners=tuple(owners), groups=tuple(groups))


def by_switch(nodes: Iterable[NodeOwners]) -> dict[tuple[str, str], list[NodeOwners]]:
    """Nodes under each access switch (name, GPU type), as the switches first appear."""
    switches: dict[tuple[str, str], list[NodeOwners]] = {}
    for row in nodes:
        switches.setdefault((row.node.asw or "no switch", row.node.gpu), []).append(row)
    return switches


def by_level(nodes: Sequence[NodeOwners]) -> tuple[str, dict[tuple[str, str], list[NodeOwners]]]:
    """Nodes by access switch, or where these are too many by aggregation switch, or by type; the level's name first."""
    switches = by_switch(nodes)
    if len(switches) <= MOST_ROWS:
        return "access switch", switches
    above: dict[tuple[str, str], list[NodeOwners]] = {}
    for row in nodes:
        above.setdefault((row.node.aggregation or "no switch", row.node.gpu), []).append(row)
    if len(above) <= MOST_ROWS:
        return "aggregation switch", above
    types: dict[tuple[str, str], list[NodeOwners]] = {}
    for row in nodes:
        types.setdefault(("all nodes", row.node.gpu), []).append(row)
    return "GPU type", types


MOST_NODES = 256
"""Nodes that can be drawn one by one."""

COLOURS = MappingProxyType(
    {
        Owner.PLANNED: "#882255",
        Owner.ONLINE: "#0072B2",
        Owner.OFFLINE: "#E69F00",
        Owner.SPOT: "#009E73",
        Owner.UNKNOWN: "#8A8A8A",
        Owner.IDLE: "#F2F2F2",
    }
)

# inches
TOP, BOTTOM, SIDE = 0.85, 0.15, 0.2
ROW, LABEL, GAP = 0.15, 1.15, 0.25
THIN_ROW = 0.115
LEAST_HEIGHT = 2.2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A line of the drawing: a heading (no nodes), or a bar for these nodes."""

    text: str
    nodes: tuple[NodeOwners, ...] = ()


def draw(cluster: Cluster, parts: Iterable[PlacedPart] = ()) -> Figure:
    """Nodes by GPUs where there are at most MOST_NODES; else a bar a switch. `parts`: what a plan takes of it."""
    nodes = owners_of(cluster, parts)
    if not nodes:
        figure = style.blank(LEAST_HEIGHT)
        style.heading(figure, f"{style.shown(cluster.name, 40)}: no GPUs")
        style.nothing_to_show(figure.add_subplot(), "no node has a GPU")
        return figure
    return _draw_nodes(cluster, nodes) if len(nodes) <= MOST_NODES else _draw_shares(cluster, nodes)


def _draw_nodes(cluster: Cluster, nodes: Sequence[NodeOwners]) -> Figure:
    lines: list[_Line] = []
    for (switch, gpu), members in by_switch(nodes).items():
        lines.append(_Line(text=f"{style.shown(switch)}, {style.shown(gpu)}"))
        lines += [_Line(text=style.shown(node.node.name, 18), nodes=(node,)) for node in members]
    columns = 1 if len(lines) <= 12 else 2 if len(lines) <= 40 else 3
    figure, panels = _panels(lines, columns, ROW)
    widest = max(len(row.owners) for row in nodes)
    for axes, shown in panels:
        axes.set_xlim(0, widest)
        axes.set_xticks([at + 0.5 for at in range(widest)], [str(at) for at in range(widest)], fontsize=style.points(7))
        _cells(axes, shown)
        _links(axes, shown)
    _finish(figure, cluster, "who holds which GPU (columns: GPUs in the order of their indices)", nodes, linked=True)
    return figure


def _draw_shares(cluster: Cluster, nodes: Sequence[NodeOwners]) -> Figure:
    level, groups = by_level(nodes)
    order = sorted(groups.items(), key=lambda pair: (pair[0][1], pair[0][0]))
    lines: list[_Line] = []
    for (name, gpu), members in order:
        heading = _Line(text=style.shown(gpu))
        if heading not in lines:
            lines.append(heading)
        lines.append(_Line(text=style.shown(name, 14), nodes=tuple(members)))
    columns = min(5, max(1, ceil(len(lines) / 40)))
    figure, panels = _panels(lines, columns, THIN_ROW if len(lines) > 200 else ROW)
    for axes, shown in panels:
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.5, 1], ["0", "50", "100"], fontsize=style.points(7))
        _bars(axes, shown)
    _finish(figure, cluster, f"who holds the GPUs under each {level} (%)", nodes, linked=False)
    return figure


def _panels(lines: Sequence[_Line], columns: int, row: float) -> tuple[Figure, list[tuple[Axes, list[_Line]]]]:
    """An empty panel for each column of lines; a heading that would end a column begins the next."""
    cut = _columns(lines, columns)
    tallest = max(map(len, cut))
    height = max(LEAST_HEIGHT, TOP + BOTTOM + row * tallest)
    figure = style.blank(height, layout=None)
    width = (style.WIDTH_IN - 2 * SIDE - (columns - 1) * GAP) / columns
    label = min(LABEL, 0.4 * width)
    panels = []
    for at, shown in enumerate(cut):
        x = SIDE + at * (width + GAP) + label
        drawn = row * len(shown)
        box = (x / style.WIDTH_IN, 1 - (TOP + drawn) / height, (width - label) / style.WIDTH_IN, drawn / height)
        axes = figure.add_axes(box)
        axes.set_ylim(len(shown), 0)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.xaxis.tick_top()
        axes.tick_params(length=0, pad=1)
        axes.set_yticks([])
        for place, line in enumerate(shown):
            _label(axes, place, line, 5.8 if row < ROW else 6.8)
        panels.append((axes, shown))
    return figure, panels


def _label(axes: Axes, place: int, line: _Line, size: float) -> None:
    axes.text(
        -0.02 if line.nodes else 0.0,
        place + 0.55,
        line.text,
        transform=axes.get_yaxis_transform(),
        ha="right" if line.nodes else "left",
        va="center",
        fontsize=style.points(size),
        fontweight="normal" if line.nodes else "bold",
    )


def _columns(lines: Sequence[_Line], columns: int) -> list[list[_Line]]:
    """Lines in `columns` columns of about equal length; one that begins amid a group repeats its heading."""
    each = ceil(len(lines) / columns)
    cut: list[list[_Line]] = [[]]
    heading: _Line | None = None
    for at, line in enumerate(lines):
        ends = not line.nodes and len(cut[-1]) >= each - 1 and at < len(lines) - 1
        if cut[-1] and (len(cut[-1]) >= each or ends) and len(cut) < columns:
            cut.append([_Line(text=f"{heading.text} (further)")] if heading and line.nodes else [])
        heading = heading if line.nodes else line
        cut[-1].append(line)
    return cut


def _cells(axes: Axes, lines: Sequence[_Line]) -> None:
    cells, colours = [], []
    for place, line in enumerate(lines):
        for row in line.nodes:
            for at, owner in enumerate(row.owners):
                cells.append(Rectangle((at + 0.03, place + 0.08), 0.94, 0.84))
                colours.append(COLOURS[owner])
    axes.add_collection(PatchCollection(cells, facecolors=colours, edgecolors="none"))
    borders = [
        [(at, place), (at, place + 1)]
        for place, line in enumerate(lines)
        for row in line.nodes
        for at in _socket_borders(row)
    ]
    axes.add_collection(LineCollection(borders, colors=style.ink(), linewidths=0.8))


def _socket_borders(node: NodeOwners) -> list[int]:
    of = list(sockets(node.node).values())
    return [at for at in range(1, len(of)) if of[at] != of[at - 1]]


def _links(axes: Axes, lines: Sequence[_Line]) -> None:
    """A line through the GPUs that are held together, a dot on each."""
    for crossing in (False, True):
        links = [
            (place + 0.5, group.places)
            for place, line in enumerate(lines)
            for node in line.nodes
            for group in node.groups
            if group.crossing is crossing
        ]
        strokes = [[(places[0] + 0.5, y), (places[-1] + 0.5, y)] for y, places in links]
        colour, dash = (style.ALARM, "dotted") if crossing else (style.ink(), "solid")
        axes.add_collection(LineCollection(strokes, colors=colour, linewidths=1.1, linestyles=dash))
        dots = [(at + 0.5, y) for y, places in links for at in places]
        axes.scatter(
            [x for x, _ in dots],
            [y for _, y in dots],
            s=7,
            color=colour,
            edgecolors=style.paper(),
            linewidths=0.4,
            zorder=3,
        )


def _bars(axes: Axes, lines: Sequence[_Line]) -> None:
    ends = [0.0] * len(lines)
    for owner in Owner:
        bars, colour = [], COLOURS[owner]
        for place, line in enumerate(lines):
            total = sum(len(node.owners) for node in line.nodes)
            share = sum(node.owners.count(owner) for node in line.nodes) / total if total else 0.0
            if share:
                bars.append(Rectangle((ends[place], place + 0.1), share, 0.8))
                ends[place] += share
        axes.add_collection(PatchCollection(bars, facecolors=colour, edgecolors="none"))


def _finish(figure: Figure, cluster: Cluster, text: str, nodes: Sequence[NodeOwners], *, linked: bool) -> None:
    present = {owner for node in nodes for owner in node.owners}
    handles: list[Patch | Line2D] = [
        Patch(facecolor=COLOURS[owner], edgecolor=style.GRID, label=owner.value) for owner in Owner if owner in present
    ]
    groups = [group for node in nodes for group in node.groups]
    if linked and groups:
        handles.append(
            Line2D([], [], color=style.ink(), marker="o", markersize=3, linewidth=1.1, label="held together")
        )
    if linked and any(group.crossing for group in groups):
        handles.append(
            Line2D(
                [], [], color=style.ALARM, marker="o", markersize=3, linestyle=":", label="across sockets needlessly"
            )
        )
    height = style.drawn_height_in(figure)
    style.heading(figure, f"{style.shown(cluster.name, 40)}: {text}")
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.01, 1 - 0.36 / height),
        ncols=len(handles),
        borderaxespad=0,
        borderpad=0,
    )
