"""Figures of the scale-up study, by name. matplotlib is loaded with the first figure, not with this file."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.studies.preemption.records import HitCount, Scenes, SourcingLatency
from planner.studies.preemption.report.page import hit_summaries

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def hit_rates_figure(counts: Sequence[HitCount]) -> "Figure":
    """Hit rates of the methods, a panel a size, a group of bars a placement and mode. InputError: nothing to draw."""
    from planner.report.kit import style  # matplotlib takes a second to load
    from planner.studies.preemption.report import panels as preemption_panels  # matplotlib takes a second to load

    _require(counts, "hit rates")
    with style.look():
        return preemption_panels.draw_hit_rates(hit_summaries(counts))


def latency_figure(latencies: Sequence[SourcingLatency]) -> "Figure":
    """Search times, a panel a workload: P50 to P90 of each method at each size (figure 11 of the paper).

    InputError: nothing to draw.
    """
    from planner.report.kit import style  # matplotlib takes a second to load
    from planner.studies.preemption.report import panels as preemption_panels  # matplotlib takes a second to load

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
    from planner.studies.preemption.report import scene_panels  # matplotlib takes a second to load

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
