"""Plots and figures of the scale-up study: hit rates of the methods, times of their searches, single runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.domain import VictimMethod
from planner.errors import InputError
from planner.report.kit.plots import Kind, Plot, Series
from planner.studies.preemption.page import METHOD_TITLES, PAPER_HITS, HitSummary, hit_summaries
from planner.studies.preemption.records import HitCount, Scenes, SourcingLatency

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def preemption_plots(counts: Sequence[HitCount], latencies: Sequence[SourcingLatency]) -> tuple[Plot, ...]:
    """A plot a size of hit rates, a plot a workload of search times."""
    summaries = hit_summaries(counts)
    sizes = list(dict.fromkeys(summary.key[0] for summary in summaries))
    workloads = list(dict.fromkeys(row.workload for row in latencies))
    hits = [_hits(nodes, [summary for summary in summaries if summary.key[0] == nodes]) for nodes in sizes]
    return (*hits, *(_times(number, name, latencies) for number, name in enumerate(workloads)))


def _hits(nodes: int, summaries: Sequence[HitSummary]) -> Plot:
    preemptions, paper = next(iter(PAPER_HITS.values()))
    methods = [method for method in VictimMethod if any(summary.key[3] is method for summary in summaries)]
    return Plot(
        name=f"hits-{nodes}",
        title=f"Newcomers inside one socket, {nodes:,} nodes",
        says="The share of scale-ups whose GPUs all lie in one socket, by how the cluster was filled.",
        kind=Kind.BARS,
        x="cluster and mode",
        y="scale-ups inside one socket (%)",
        series=tuple(_hit_series(method, summaries) for method in methods),
        bounds=(("standard in the paper", 100 * paper / preemptions),),
        rest="hit_rates.csv",
    )


def _hit_series(method: VictimMethod, summaries: Sequence[HitSummary]) -> Series:
    rows = [summary for summary in summaries if summary.key[3] is method]
    return Series(
        name=METHOD_TITLES[method],
        x=tuple(f"{summary.key[1].value}, {summary.key[2].value}" for summary in rows),
        y=tuple(summary.rate for summary in rows),
        place=list(VictimMethod).index(method),
    )


def _times(number: int, workload: str, latencies: Sequence[SourcingLatency]) -> Plot:
    rows = [row for row in latencies if row.workload == workload]
    methods = [method for method in VictimMethod if any(row.method is method for row in rows)]
    return Plot(
        name=f"search-time-{number}",
        title=f"Search for victims over all nodes, workload {workload}",
        says="CPU time of a search as measured: medians, and up to where nine in ten end.",
        kind=Kind.DOTS,
        x="nodes",
        y="CPU time (µs)",
        series=tuple(_time_series(method, [row for row in rows if row.method is method]) for method in methods),
        interval="P50 to P90",
        logarithmic="y",
        rest="latency.csv",
    )


def _time_series(method: VictimMethod, rows: Sequence[SourcingLatency]) -> Series:
    medians = tuple(row.p50_us for row in rows)
    return Series(
        name=METHOD_TITLES[method],
        x=tuple(f"{row.nodes:,} nodes" for row in rows),
        y=medians,
        low=medians,
        high=tuple(row.p90_us for row in rows),
        place=list(VictimMethod).index(method),
    )


def hit_rates_figure(counts: Sequence[HitCount]) -> "Figure":
    """Hit rates of the methods, a panel a size, a group of bars a placement and mode. InputError: nothing to draw."""
    from planner.report.kit import style  # matplotlib takes a second to load
    from planner.studies.preemption import panels as preemption_panels  # matplotlib takes a second to load

    _require(counts, "hit rates")
    with style.look():
        return preemption_panels.draw_hit_rates(hit_summaries(counts))


def latency_figure(latencies: Sequence[SourcingLatency]) -> "Figure":
    """Search times, a panel a workload: P50 to P90 of each method at each size (figure 11 of the paper).

    InputError: nothing to draw.
    """
    from planner.report.kit import style  # matplotlib takes a second to load
    from planner.studies.preemption import panels as preemption_panels  # matplotlib takes a second to load

    _require(latencies, "latencies")
    with style.look():
        return preemption_panels.draw_latency(latencies)


def preemption_figures(counts: Sequence[HitCount], latencies: Sequence[SourcingLatency]) -> dict[str, bytes]:
    """PNGs by name: `hit_rates`, and `latency` where searches were timed."""
    from planner.report.kit import style  # matplotlib takes a second to load

    drawn = {"hit_rates": hit_rates_figure(counts)} if counts else {}
    if latencies:
        drawn["latency"] = latency_figure(latencies)
    return {name: style.encoded(figure) for name, figure in drawn.items()}


def scene_figures(scenes: Scenes) -> dict[str, bytes]:
    """PNGs of the paper's figures 8 to 10, as `figure-08` and so on."""
    from planner.report.kit import style  # matplotlib takes a second to load
    from planner.studies.preemption import panels as scene_panels  # matplotlib takes a second to load

    with style.look():
        drawn = {
            "figure-08": scene_panels.draw_snapshots(scenes.holders),
            "figure-09": scene_panels.draw_instances(scenes.instances),
            "figure-10": scene_panels.draw_searches(scenes.searches),
        }
    return {name: style.encoded(figure) for name, figure in drawn.items()}


def _require(rows: Sequence[object], name: str) -> None:
    if not rows:
        raise InputError(f"{name}: must hold at least one row, got none.", hint="Run the study with them.")
