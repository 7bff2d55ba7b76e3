"""The figures of a schedule, by name. matplotlib is loaded with the first figure, not with this file."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from planner.domain.replanning.schedules import Schedule
from planner.errors import InputError
from planner.report.kit.clock import Clock

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCHEDULE_FIGURES = {
    "load": "Load, promise and changes over the days",
    "cost": "Cost so far, beside the static plan and the bound",
    "gpus": "GPUs in servers over the days, by type",
}
"""Names and titles of the figures of a schedule."""


def schedule_figure(schedule: Schedule, name: str) -> "Figure":
    """The figure `name`, one of SCHEDULE_FIGURES, on an Agg canvas. Raises InputError for another name."""
    if name not in SCHEDULE_FIGURES:
        raise InputError(
            f"Figure: the name must be one of {', '.join(SCHEDULE_FIGURES)}, got {name!r}.",
            hint="Choose one of these names.",
        )
    from planner.report.kit import style  # noqa: PLC0415  # matplotlib takes a second to load

    draw: dict[str, Callable[[Axes, Schedule], None]] = {"load": _load, "cost": _cost, "gpus": _gpus}
    with style.look():
        figure = style.blank(4.2)
        style.heading(figure, f"{style.shown(schedule.series.name, 40)}: {SCHEDULE_FIGURES[name]}")
        draw[name](figure.subplots(), schedule)
        return figure


def edges_of(schedule: Schedule) -> list[float]:
    """Beginnings of the windows and the end of the last, in seconds from midnight of the first day."""
    series = schedule.series
    return [series.begins_s + number * series.window_s for number in range(len(series.windows) + 1)]


def _load(axes: "Axes", schedule: Schedule) -> None:
    from planner.report.kit import style  # noqa: PLC0415  # as above

    edges = edges_of(schedule)
    promises = [schedule.levels[window.level].promise_rps for window in schedule.windows]
    shade = style.mixed(style.palette()[0], style.paper(), 0.55)
    axes.stairs(schedule.series.rates_rps, edges, fill=True, color=shade, label="load")
    axes.stairs(promises, edges, baseline=None, color=style.ink(), linewidth=1.4, label="promise of the plan")
    for number in schedule.changes:
        colour = style.ALARM if number in schedule.emergencies else style.GRID
        axes.axvline(edges[number], color=colour, linewidth=0.8, zorder=0)
    missed = [edges[number] for number, carried in enumerate(schedule.carried) if not carried]
    if missed:
        axes.plot(missed, [0.0] * len(missed), "x", color=style.ALARM, clip_on=False, label="not carried")
    style.clock_axis(axes, Clock.DAYS, edges_of(schedule))
    axes.set_ylabel("requests/s")
    axes.set_ylim(0, 1.1 * max(*promises, schedule.series.peak_rps))
    style.legend_beside(axes)


def _cost(axes: "Axes", schedule: Schedule) -> None:
    from planner.report.kit import style  # noqa: PLC0415  # as above

    edges = np.array(edges_of(schedule)[1:])
    spent = np.cumsum([window.usd + window.change_usd for window in schedule.windows])
    share = (np.arange(len(edges)) + 1) / len(edges)
    axes.plot(edges, schedule.static_usd * share, color=style.faint(), label="the cheapest plan, all the time")
    axes.plot(edges, spent, color=style.ink(), label="schedule")
    axes.axhline(schedule.bound_usd, color=style.palette()[6], linestyle="--", label="bound of all windows")
    style.clock_axis(axes, Clock.DAYS, edges_of(schedule))
    axes.set_ylabel("USD so far")
    style.legend_beside(axes)


def _gpus(axes: "Axes", schedule: Schedule) -> None:
    from planner.report.kit import style  # noqa: PLC0415  # as above

    inventory = schedule.levels[0].plan.scenario.inventory
    colours = style.type_colours(inventory)
    below = np.zeros(len(schedule.windows))
    for item in inventory.items:
        counts = [dict(schedule.levels[window.level].gpus).get(item.gpu.name, 0) for window in schedule.windows]
        if any(counts):
            top = below + counts
            axes.stairs(
                top, edges_of(schedule), baseline=below, fill=True, color=colours[item.gpu.name], label=item.gpu.name
            )
            below = top
    style.clock_axis(axes, Clock.DAYS, edges_of(schedule))
    axes.set_ylabel("GPUs in servers")
    style.legend_beside(axes)
