"""Figures 8 to 10 of the FlexTopo paper: who holds which GPU, instances as services scale, times of single searches."""

from collections import defaultdict
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from planner.domain import VictimMethod
from planner.report.kit import style
from planner.studies.preemption.records import GpuHolder, InstanceCount, SourcingTime
from planner.studies.preemption.report.page import METHOD_TITLES
from planner.studies.preemption.report.panels import BESIDE

SIZES = (1, 2, 4, 8)


def draw_snapshots(holders: Sequence[GpuHolder]) -> Figure:
    """Figure 8: GPU indices over servers; lines link the GPUs of one pod, dashed red where it crosses sockets."""
    methods = list(dict.fromkeys(row.method for row in holders))
    figure = style.blank(3.1 * len(methods))
    style.heading(figure, "GPUs of pods after scale-ups, by server")
    panels = figure.subplots(len(methods), 1, squeeze=False, sharex=True)[:, 0]
    for axes, method in zip(panels, methods, strict=True):
        _snapshot(axes, [row for row in holders if row.method is method])
        axes.set_ylabel("GPU index")
    panels[-1].set_xlabel("server")
    panels[0].legend(**BESIDE)
    return figure


def _snapshot(axes: Axes, holders: Sequence[GpuHolder]) -> None:
    pods: dict[str, list[GpuHolder]] = defaultdict(list)
    for row in holders:
        pods[row.pod].append(row)
    crossing = [rows for rows in pods.values() if rows[0].crosses_sockets]
    for rows in pods.values():
        if len(rows) > 1:
            colour, line = (style.ALARM, "--") if rows[0].crosses_sockets else (style.faint(), "-")
            at = [row.node for row in rows], [row.gpu for row in rows]
            axes.plot(*at, linewidth=1.1, zorder=1, color=colour, linestyle=line)
    for size, colour, marker in zip(SIZES, style.palette(), style.MARKERS, strict=False):
        rows = [row for row in holders if row.gpus == size]
        axes.scatter(
            [row.node for row in rows],
            [row.gpu for row in rows],
            s=14,
            color=colour,
            marker=marker,
            zorder=2,
            label=f"{size} {'GPU' if size == 1 else 'GPUs'}",
        )
    new = sum(rows[0].newcomer for rows in crossing)
    title = METHOD_TITLES[holders[0].method]
    axes.set_title(f"{title}: {len(crossing)} pods cross sockets, {new} of them scale-ups'")


def draw_instances(counts: Sequence[InstanceCount]) -> Figure:
    """Figure 9: instances of each workload over the preemptions, a band a scale-up."""
    figure = style.blank(4.2)
    style.heading(figure, "Instances while services scale up by preemption")
    axes = figure.subplots()
    for place, name in enumerate(dict.fromkeys(row.workload for row in counts)):
        rows = [row for row in counts if row.workload == name]
        axes.step(
            [row.step for row in rows],
            [row.instances for row in rows],
            where="post",
            label=name,
            **style.line_of(place),
        )
    starts = {row.event: row.step for row in reversed(counts) if row.event}
    for event, step in starts.items():
        axes.axvline(step - 1, color=style.faint(), linestyle="--", linewidth=0.9)
        axes.text(step - 1, 1.0, f" {event}", transform=axes.get_xaxis_transform(), va="bottom", color=style.ink())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("preemptions")
    axes.set_ylabel("instances")
    style.legend_beside(axes, "workload")
    return figure


def draw_searches(searches: Sequence[SourcingTime]) -> Figure:
    """Figure 10: the time of each of a few searches, a panel a method, a line a workload."""
    methods: list[VictimMethod] = list(dict.fromkeys(row.method for row in searches))
    figure = style.blank(4.2)
    style.heading(figure, "Search for victims over all nodes, CPU time of single searches")
    panels = figure.subplots(1, len(methods), squeeze=False, sharey=True)[0]
    for axes, method in zip(panels, methods, strict=True):
        for place, name in enumerate(dict.fromkeys(row.workload for row in searches)):
            rows = [row for row in searches if row.workload == name and row.method is method]
            times = [row.time_us for row in rows]
            marker = style.MARKERS[place % len(style.MARKERS)]
            preemptions = [row.preemption for row in rows]
            axes.plot(preemptions, times, marker=marker, markersize=4, label=name, **style.line_of(place))
        style.plain_logarithm(axes, "y")
        axes.set_title(METHOD_TITLES[method])
        axes.set_xlabel("preemption")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0].set_ylabel("CPU time (µs)")
    style.legend_beside(panels[-1], "workload")
    return figure
