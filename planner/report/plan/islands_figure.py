"""The layout drawn: each GPU type a bar, cut into islands, filled as far as they are busy."""

from collections.abc import Callable, Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from planner.domain import InventoryItem, Phase, Plan, PlannedIsland
from planner.report.kit import style
from planner.report.kit.quantities import money, percent_span, span
from planner.report.plan.routing import IslandGroup, groups, merged

# inches; the layout is fixed so that the width of labels can be compared with the width of the axes
LEFT, RIGHT, TOP, BOTTOM = 0.8, 0.3, 1.1, 0.1
PANEL, GAP = 1.5, 0.5
AXES_WIDTH = style.WIDTH_IN - LEFT - RIGHT
LABEL_GAP = 0.1
LABEL_SIZE_PT = 7.0
LEAST_BAR = 8
"""A bar is at least one in so many parts of the axes long; a much smaller type has its own scale."""
MOST_TICKS = 16
LABEL_ROOM = 0.85 * AXES_WIDTH

MOST_COLUMNS = 150
"""Of a group, drawn apart from each other: more of them on a bar would be little but the lines between them."""
FLOOR = -1.3
"""Lower end of a panel (the bar reaches from 0 to 1): room for leaders and three lines of text."""


def draw(plan: Plan) -> Figure:
    """GPUs per type, cut into islands by phase; labels give sizes, parallel configuration and utilisation."""
    items = plan.scenario.inventory.items
    height = TOP + BOTTOM + len(items) * PANEL + (len(items) - 1) * GAP
    figure = style.blank(height, layout=None)
    style.titled(figure, plan, f"{plan.form.row.part}s and their load")
    widest = max(item.count for item in items)
    for row, item in enumerate(items):
        bottom = height - TOP - PANEL - row * (PANEL + GAP)
        axes = figure.add_axes((LEFT / style.WIDTH_IN, bottom / height, AXES_WIDTH / style.WIDTH_IN, PANEL / height))
        _frame(axes, item, min(widest, max(1, item.count * LEAST_BAR)))
        _draw_type(axes, item, [g for g in groups(plan) if g.gpu == item.gpu.name], plan)
    _legend(figure, plan)
    return figure


def _frame(axes: Axes, item: InventoryItem, scale: int) -> None:
    price = item.count * item.rent_usd_per_gpu_hour
    rent = f", {money(price)} USD/hour" if price else ""
    axes.set_xlim(0, scale)
    axes.set_ylim(FLOOR, 1.0)
    axes.set_yticks([0, 0.5, 1], ["0", "50", "100"], fontsize=style.points(7.0))
    axes.set_ylabel("busy (%)", y=(0.5 - FLOOR) / (1 - FLOOR))
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(axis="x", labelsize=style.points(7.0), length=2.5)
    node = item.gpu.gpus_per_host
    axes.set_xticks(_node_ends(item.count, node, scale))
    axes.set_xticks(range(0, item.count + 1, node * -(-scale // (node * MOST_COLUMNS))), minor=True)
    axes.tick_params(axis="x", which="minor", length=1.5)
    text = f"{style.shown(item.gpu.name)}: {item.count:,} GPUs in {_nodes(item.count, node)}{rent}"
    axes.set_xlabel(text, loc="left", fontweight="bold", labelpad=6)


def _node_ends(gpus: int, node: int, scale: int) -> list[int]:
    """GPUs at which a node ends, so far apart that their figures fit, and the last GPU."""
    apart = node * max(1, -(-scale // (node * MOST_TICKS)))
    ends = list(range(0, gpus + 1, apart))
    return ends if gpus - ends[-1] < apart / 2 else [*ends, gpus]


def _nodes(gpus: int, node: int) -> str:
    """`8 nodes of 8`; a last node may have fewer GPUs."""
    nodes = -(-gpus // node)
    return f"{nodes:,} {'node' if nodes == 1 else 'nodes'} of {node}" if gpus % node == 0 else f"nodes of {node}"


def _draw_type(axes: Axes, item: InventoryItem, members: Sequence[IslandGroup], plan: Plan) -> None:
    spare = item.count - sum(g.gpus for g in members)
    spare_label = [f"{spare} GPUs\nin no {plan.form.row.part}"] if spare else []
    label, parts = (_pool_label, _cut) if plan.form.row.pooled else (_label, _uncut)
    fitting = _fitting(axes, members, spare_label, label)
    start, centres = 0, []
    for group in fitting:
        _draw_group(axes, group, start, parts)
        centres.append(start + group.gpus / 2)
        start += group.gpus
    if spare:
        axes.add_patch(Rectangle((start, 0), spare, 1, fill=False, edgecolor=style.faint(), linestyle=":"))
        centres.append(start + spare / 2)
    _annotate(axes, centres, [*map(label, fitting), *spare_label])


def _draw_group(axes: Axes, group: IslandGroup, x: int, parts: Callable[[PlannedIsland], list[int]]) -> None:
    colour = style.PHASE_COLOURS[group.phase]
    pale = style.mixed(colour, style.paper(), 0.72) if group.phase else colour
    start = x
    for gpus, busy, cuts in _columns(group, parts):  # artists, as a patch would look for limits, which are set
        axes.add_artist(Rectangle((x, 0), gpus, 1, facecolor=pale, linewidth=0))
        axes.add_artist(
            Rectangle(
                (x, 0),
                gpus,
                min(1.0, busy),
                facecolor=colour,
                edgecolor=style.mixed(colour, style.paper(), 0.6),
                hatch=style.PHASE_HATCHES[group.phase],
                linewidth=0,
            )
        )
        for size in cuts:
            axes.add_artist(Rectangle((x, 0), size, 1, fill=False, edgecolor=style.paper(), linewidth=0.8))
            x += size
    inset = min(0.015 * axes.get_xlim()[1] / AXES_WIDTH, group.gpus / 10)
    axes.plot([start + inset, x - inset], [-0.05, -0.05], color=style.ink(), linewidth=0.9, solid_capstyle="butt")


def _columns(group: IslandGroup, parts: Callable[[PlannedIsland], list[int]]) -> Iterator[tuple[int, float, list[int]]]:
    """GPUs, utilisation and parts of each column, the largest islands first: an island, or several in a row where so
    many would be narrower than the lines between them."""
    islands = sorted(group.islands, key=lambda i: -i.size)
    together = -(-len(islands) // MOST_COLUMNS)
    if together == 1:
        for island in islands:
            cuts = parts(island)
            yield island.size, island.utilisation, cuts if len(cuts) <= MOST_COLUMNS else [island.size]
        return
    for at in range(0, len(islands), together):
        column = islands[at : at + together]
        gpus = sum(island.size for island in column)
        yield gpus, sum(island.size * island.utilisation for island in column) / gpus, [gpus]


def _uncut(island: PlannedIsland) -> list[int]:
    """An island of any size is drawn as one."""
    return [island.size]


def _cut(island: PlannedIsland) -> list[int]:
    """GPUs of what is drawn apart: the copies of the model."""
    copies = island.parallel.replicas if island.parallel else 1
    return [island.size // copies] * copies


def _label(group: IslandGroup) -> str:
    first = f"{len(group.islands)} × {span(group.sizes)} GPUs"
    if group.phase is None:
        return f"{first}\nidle"
    configs = [i.parallel for i in group.islands if i.parallel]
    copies, stages = span(c.replicas for c in configs), span(c.pp for c in configs)
    parallel = f"TP{span(c.tp for c in configs)} DP{span(c.dp for c in configs)}"
    parallel += "" if stages == "1" else f" PP{stages}"
    busy = percent_span(i.utilisation for i in group.islands)
    return f"{first}\n{parallel}{'' if copies == '1' else f' R{copies}'}\n{busy} busy"


def _pool_label(group: IslandGroup) -> str:
    """Servers and their GPUs, degrees, longest prompt."""
    configs = [i.parallel for i in group.islands if i.parallel]
    if group.phase is None or not configs:
        return _label(group)
    servers, devices = sum(c.replicas for c in configs), span(c.devices for c in configs)
    stages = span(c.pp for c in configs)
    parallel = f"TP{span(c.tp for c in configs)} DP{span(c.dp for c in configs)}"
    longest = span(i.longest_prompt for i in group.islands)
    busy = percent_span(i.utilisation for i in group.islands)
    return (
        f"{servers} × {devices} GPUs\n{parallel}{'' if stages == '1' else f' PP{stages}'}\n"
        f"to {longest} tokens\n{busy} busy"
    )


def _fitting(
    axes: Axes, members: Sequence[IslandGroup], spare_label: Sequence[str], label: Callable[[IslandGroup], str]
) -> Sequence[IslandGroup]:
    """Groups whose labels fit side by side; where they do not, neighbouring sizes share one."""
    widths: dict[str, float] = {}  # few labels are new each time, and measuring them is most of a figure

    def room(texts: Sequence[str]) -> float:
        new = [text for text in dict.fromkeys(texts) if text not in widths]
        widths.update(zip(new, _widths(axes, new), strict=True))
        return sum(widths[text] for text in texts)

    while room([*map(label, members), *spare_label]) > LABEL_ROOM:
        fewer = merged(members, len(members) - 1)
        if len(fewer) == len(members):
            break
        members = fewer
    return members


def _widths(axes: Axes, texts: Sequence[str]) -> list[float]:
    """Width of each label with the gap after it (inches)."""
    probes = [axes.text(0, 0, text, fontsize=style.points(LABEL_SIZE_PT)) for text in texts]
    widths = [probe.get_window_extent().width / (axes.figure.dpi * style.scale()) + LABEL_GAP for probe in probes]
    for probe in probes:
        probe.remove()
    return widths


def _annotate(axes: Axes, centres: Sequence[float], texts: Sequence[str]) -> None:
    """Labels below the bar, moved sideways where they would overlap, tied to their islands by a line."""
    per_inch = axes.get_xlim()[1] / AXES_WIDTH
    widths = [width * per_inch for width in _widths(axes, texts)]
    places = spread(centres, widths, axes.get_xlim()[1])
    for centre, place, text in zip(centres, places, texts, strict=True):
        axes.plot([centre, place], [-0.05, -0.36], color=style.faint(), linewidth=0.7)
        axes.text(place, -0.4, text, ha="center", va="top", fontsize=style.points(LABEL_SIZE_PT), linespacing=1.25)


def spread(centres: Sequence[float], widths: Sequence[float], end: float) -> list[float]:
    """Places in [0, end], nearest (least squares) to the ascending `centres`, where no widths overlap.

    Less the room that the labels before it take, a place may equal its neighbour's but not fall below it:
    isotonic regression, solved by pooling adjacent violators.
    """
    room = [sum(widths[:at]) + width / 2 for at, width in enumerate(widths)]
    pools: list[list[float]] = []
    for centre, before in zip(centres, room, strict=True):
        pools.append([centre - before])
        while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    level = [min(max(_mean(pool), 0.0), max(end - sum(widths), 0.0)) for pool in pools for _ in pool]
    return [at + before for at, before in zip(level, room, strict=True)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _legend(figure: Figure, plan: Plan) -> None:
    phases = [phase for phase in plan.phases if any(island.phase is phase for island in plan.islands)]
    idle = [None] if any(island.phase is None for island in plan.islands) else []
    handles = [
        Patch(
            facecolor=style.PHASE_COLOURS[phase],
            edgecolor=style.mixed(style.PHASE_COLOURS[phase], style.paper(), 0.6),
            hatch=style.PHASE_HATCHES[phase],
            linewidth=0,
            label="idle" if phase is None else phase.value,
        )
        for phase in (*phases, *idle)
    ]
    pale = style.mixed(style.PHASE_COLOURS[Phase.PREFILL], style.paper(), 0.72)
    handles.append(Patch(facecolor=pale, label="pale: idle share of the time"))
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(LEFT / style.WIDTH_IN, 1 - 0.38 / style.drawn_height_in(figure)),
        ncols=len(handles),
        borderaxespad=0,
        borderpad=0,
    )
