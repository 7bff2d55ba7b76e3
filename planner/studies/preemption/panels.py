"""The panels of the scale-up study's figures, and figures 8 to 10 of the FlexTopo paper."""

from collections import defaultdict
from collections.abc import Sequence
from types import MappingProxyType

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from planner.domain import VictimMethod
from planner.report.kit import style
from planner.studies.preemption.page import METHOD_TITLES, PAPER_HITS, HitSummary
from planner.studies.preemption.records import GpuHolder, InstanceCount, SourcingLatency, SourcingTime

HEIGHT_IN = 4.2
BESIDE = MappingProxyType({"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0})
GROUP = 0.8
"""Width of a group of bars, of 1 between groups."""


def draw_hit_rates(summaries: Sequence[HitSummary]) -> Figure:
    """A panel a size, one under the other; dashed: the paper's standard preemption."""
    sizes = list(dict.fromkeys(summary.key[0] for summary in summaries))
    figure = style.blank(HEIGHT_IN if len(sizes) == 1 else 2.6 * len(sizes) + 0.8)
    style.heading(figure, "GPUs of newcomers inside one socket")
    rows = figure.subplots(len(sizes), 1, squeeze=False)[:, 0]
    for axes, nodes in zip(rows, sizes, strict=True):
        _hit_panel(axes, [summary for summary in summaries if summary.key[0] == nodes])
        axes.set_title(f"{nodes:,} nodes")
    handles, labels = rows[0].get_legend_handles_labels()
    rows[0].legend([*handles[1:], handles[0]], [*labels[1:], labels[0]], **BESIDE)  # bars, then the dashed line
    return figure


def _hit_panel(axes: Axes, summaries: Sequence[HitSummary]) -> None:
    groups = list(dict.fromkeys(summary.key[1:3] for summary in summaries))
    methods = [method for method in VictimMethod if any(summary.key[3] is method for summary in summaries)]
    width = GROUP / len(methods)
    for place, method in enumerate(methods):
        of_method = [summary for summary in summaries if summary.key[3] is method]
        at = [groups.index(summary.key[1:3]) + (place + 0.5) * width - GROUP / 2 for summary in of_method]
        bars = axes.bar(
            at,
            [summary.rate for summary in of_method],
            0.95 * width,
            label=METHOD_TITLES[method],
            **style.bar_of(list(VictimMethod).index(method)),
        )
        axes.bar_label(
            bars,
            [f"{summary.rate:.1f}" for summary in of_method],
            fontsize=style.points(7.5),
            bbox={"facecolor": style.paper(), "edgecolor": "none", "pad": 0.5},
            zorder=5,
        )
    preemptions, hits = next(iter(PAPER_HITS.values()))
    axes.axhline(
        100 * hits / preemptions, color=style.ink(), linestyle="--", linewidth=1.0, label="standard in the paper"
    )
    axes.set_xticks(range(len(groups)), [f"{initial.value}\n{mode.value}" for initial, mode in groups])
    axes.set_ylim(0, 112)
    axes.set_ylabel("scale-ups inside one socket (%)")


def draw_latency(latencies: Sequence[SourcingLatency]) -> Figure:
    """A panel a workload, a group of points a size; points are medians, whiskers reach to P90."""
    workloads = list(dict.fromkeys(row.workload for row in latencies))
    figure = style.blank(HEIGHT_IN)
    style.heading(figure, "Search for victims over all nodes, CPU time: P50, whiskers to P90")
    row = figure.subplots(1, len(workloads), squeeze=False, sharey=True)[0]
    for axes, name in zip(row, workloads, strict=True):
        _latency_panel(axes, [line for line in latencies if line.workload == name])
        axes.set_title(f"workload {style.shown(name)}")
    row[0].set_ylabel("CPU time (µs)")
    row[-1].legend(**BESIDE)
    return figure


def _latency_panel(axes: Axes, rows: Sequence[SourcingLatency]) -> None:
    sizes = list(dict.fromkeys(row.nodes for row in rows))
    methods = [method for method in VictimMethod if any(row.method is method for row in rows)]
    width = GROUP / len(methods)
    for place, method in enumerate(methods):
        of_method = [row for row in rows if row.method is method]
        axes.errorbar(
            [sizes.index(row.nodes) + (place + 0.5) * width - GROUP / 2 for row in of_method],
            [row.p50_us for row in of_method],
            yerr=[[0.0] * len(of_method), [row.p90_us - row.p50_us for row in of_method]],
            fmt=style.MARKERS[list(VictimMethod).index(method)],
            markersize=6,
            capsize=3,
            color=style.bar_of(list(VictimMethod).index(method))["color"],
            label=METHOD_TITLES[method],
        )
    style.plain_logarithm(axes, "y")
    axes.set_xticks(range(len(sizes)), [f"{nodes:,} nodes" for nodes in sizes])
    axes.set_xlim(-0.5, len(sizes) - 0.5)


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
