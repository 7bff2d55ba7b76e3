"""The figures of a watch, by name. matplotlib is loaded with the first figure, not with this file."""

from typing import TYPE_CHECKING

from planner.domain.replanning.watching import Cause, WatchLog
from planner.errors import InputError
from planner.report.kit.clock import Clock

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WATCH_FIGURES = {
    "watch": "Load, promise in force, rent and changes",
    "gpus": "GPUs in servers, by type",
}
"""Names and titles of the figures of a watch."""
_MARKS = {Cause.START: "o", Cause.LOAD: "^", Cause.LOST: "X", Cause.SAVING: "v"}


def watch_figure(log: WatchLog, name: str = "watch") -> "Figure":
    """The figure `name`, one of WATCH_FIGURES, on an Agg canvas. Raises InputError for another name."""
    if name not in WATCH_FIGURES:
        raise InputError(
            f"Figure: the name must be one of {', '.join(WATCH_FIGURES)}, got {name!r}.",
            hint="Choose one of these names.",
        )
    from planner.report.kit import style  # noqa: PLC0415  # matplotlib takes a second to load

    with style.look():
        figure = style.blank(5.6 if name == "watch" else 4.2)
        style.heading(figure, f"{style.shown(log.name, 40)}: {WATCH_FIGURES[name]}")
        if not log.windows:
            style.nothing_to_show(figure.subplots(), "nothing observed yet")
        elif name == "gpus":
            _gpus(figure.subplots(), log)
        else:
            above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
            _load(above, log)
            _rent(below, log)
        return figure


def edges_of(log: WatchLog) -> list[float]:
    """Beginnings of the windows and the end of the last, in seconds as `clock_of` counts them."""
    edges = [window.step.observation.at_s for window in log.windows]
    return [*edges, edges[-1] + 3600 * log.windows[-1].hours]


def clock_of(log: WatchLog) -> Clock:
    """What its times are counted from."""
    return Clock.DATED if log.iso else Clock.DAYS


def _load(axes: "Axes", log: WatchLog) -> None:
    from planner.report.kit import style  # noqa: PLC0415  # as above

    edges = edges_of(log)
    loads = [window.step.observation.load_rps or 0.0 for window in log.windows]
    promises = [window.promise_rps for window in log.windows]
    shade = style.mixed(style.palette()[0], style.paper(), 0.55)
    axes.stairs(loads, edges, fill=True, color=shade, label="load")
    axes.stairs(promises, edges, baseline=None, color=style.ink(), linewidth=1.4, label="promise in force")
    places = {id(window): number for number, window in enumerate(log.windows)}
    for cause, mark in _MARKS.items():
        numbers = [places[id(window)] for window in log.changes if window.step.decision.cause is cause]
        if numbers:
            axes.plot(
                [edges[n] for n in numbers],
                [promises[n] for n in numbers],
                mark,
                color=style.palette()[6],
                label=cause.value,
            )
    axes.set_ylabel("requests/s")
    axes.set_ylim(0, 1.1 * max(*promises, *loads, 1e-9))
    style.legend_beside(axes)


def _rent(axes: "Axes", log: WatchLog) -> None:
    from planner.report.kit import style  # noqa: PLC0415  # as above

    rents = [window.usd_per_hour for window in log.windows]
    axes.stairs(rents, edges_of(log), baseline=None, color=style.ink(), label="rent")
    axes.set_ylim(0, 1.1 * max(*rents, 1e-9))
    axes.set_ylabel("USD/hour")
    style.clock_axis(axes, clock_of(log), edges_of(log))


def _gpus(axes: "Axes", log: WatchLog) -> None:
    from planner.report.kit import style  # noqa: PLC0415  # as above

    edges, below = edges_of(log), [0.0] * len(log.windows)
    for gpu in gpu_types(log):
        top = [low + count for low, count in zip(below, gpus_of(log, gpu), strict=True)]
        axes.stairs(top, edges, baseline=below, fill=True, color=style.type_colour(gpu), label=gpu)
        below = top
    style.clock_axis(axes, clock_of(log), edges_of(log))
    axes.set_ylabel("GPUs in servers")
    style.legend_beside(axes)


def gpu_types(log: WatchLog) -> list[str]:
    """GPU types that any of its plans has."""
    return sorted({gpu for window in log.windows if window.fleet is not None for gpu, _ in window.fleet.gpus})


def gpus_of(log: WatchLog, gpu: str) -> tuple[float, ...]:
    """GPUs of a type in servers, window by window."""
    return tuple(0.0 if window.fleet is None else float(dict(window.fleet.gpus).get(gpu, 0)) for window in log.windows)
