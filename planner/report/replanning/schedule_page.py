"""A schedule as plots, figures and a page to send: load against promise, cost against bounds, GPUs, changes, plans."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from planner.domain.schedules import Schedule
from planner.report.kit.markdown import listed
from planner.report.kit.plots import Clock, Kind, Plot, Series, chart_of, held_series, require_figure, series_of
from planner.report.kit.quantities import money
from planner.report.kit.tree import Figure, Page, Section, section
from planner.report.replanning.schedule_tables import (
    changes,
    costs,
    followers,
    levels,
    notes,
    percent_of,
    verdict,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as StillFigure

SCHEDULE_FIGURES = {
    "load": "Load, promise and changes over the days",
    "cost": "Cost so far, beside the static plan and the bound",
    "gpus": "GPUs in servers over the days, by type",
}
"""Names and titles of the figures of a schedule."""
_ALL_WINDOWS = "windows.csv of the schedule's folder"


def schedule_figure(schedule: Schedule, name: str) -> "StillFigure":
    """The figure `name`, one of SCHEDULE_FIGURES, on an Agg canvas. Raises InputError for another name."""
    require_figure(name, SCHEDULE_FIGURES)
    from planner.report.kit.stills import still  # noqa: PLC0415  # matplotlib takes a second to load

    return still(schedule.series.name, SCHEDULE_FIGURES[name], (schedule_plot(schedule, name),), "")


def schedule_plot(schedule: Schedule, name: str) -> Plot:
    """The plot `name`, one of SCHEDULE_FIGURES."""
    return {"load": _load, "cost": _cost, "gpus": _gpus}[name](schedule)


def edges_of(schedule: Schedule) -> list[float]:
    """Beginnings of the windows and the end of the last, in seconds from midnight of the first day."""
    series = schedule.series
    return [series.begins_s + number * series.window_s for number in range(len(series.windows) + 1)]


def _load(schedule: Schedule) -> Plot:
    edges = edges_of(schedule)
    missed = [number for number, carried in enumerate(schedule.carried) if not carried]
    promises = tuple(schedule.levels[window.level].promise_rps for window in schedule.windows)
    return Plot(
        name="load-and-promise",
        title="Load and promise",
        says="Requests/s that came, and what the plan that stands promises; each step is a change.",
        kind=Kind.STEPS,
        x=Clock.DAYS.value,
        clock=Clock.DAYS,
        y="requests/s",
        series=(
            held_series("load", edges, schedule.series.rates_rps, place=0),
            held_series("promise", edges, promises, tone="chosen"),
            *_moments("change", edges, promises, schedule.changes, "faint"),
            *_moments("change that was not planned", edges, promises, schedule.emergencies, "alarm"),
            *_moments("not carried", edges, [0.0] * len(promises), missed, "alarm"),
        ),
        rest=_ALL_WINDOWS,
    )


def _moments(
    name: str, edges: Sequence[float], heights: Sequence[float], windows: Sequence[int], tone: str
) -> Iterator[Series]:
    """Dots where windows begin; nothing where there are none."""
    if windows:
        points = [(edges[number], heights[number]) for number in windows]
        yield series_of(name, points, kind=Kind.DOTS, tone=tone)


def _cost(schedule: Schedule) -> Plot:
    times = tuple(edges_of(schedule))
    spent = tuple(accumulate((window.usd + window.change_usd for window in schedule.windows), initial=0.0))
    shares = [number / (len(times) - 1) for number in range(len(times))]
    return Plot(
        name="cost-so-far",
        title="Cost so far",
        says="USD of the schedule with its changes, and of the cheapest plan that stands all the time. No schedule "
        "that carries every rate ends below the bound.",
        kind=Kind.LINES,
        x=Clock.DAYS.value,
        clock=Clock.DAYS,
        y="USD",
        series=(
            Series(name="schedule", x=times, y=spent, tone="chosen"),
            Series(name="static plan", x=times, y=tuple(schedule.static_usd * share for share in shares), tone="faint"),
        ),
        bounds=(("bound of all windows", schedule.bound_usd),),
        rest=_ALL_WINDOWS,
    )


def _gpus(schedule: Schedule) -> Plot:
    edges = edges_of(schedule)
    names = sorted({gpu for level in schedule.levels for gpu, _ in level.gpus})
    return Plot(
        name="gpus-in-servers",
        title="GPUs in servers",
        says="GPUs of each type in servers of the plan that stands; the others are free.",
        kind=Kind.STEPS,
        x=Clock.DAYS.value,
        clock=Clock.DAYS,
        y="GPUs",
        series=tuple(
            held_series(
                gpu,
                edges,
                tuple(float(dict(schedule.levels[w.level].gpus).get(gpu, 0)) for w in schedule.windows),
                place=place,
                gpu=gpu,
            )
            for place, gpu in enumerate(names)
        ),
        rest=_ALL_WINDOWS,
    )


def schedule_page(schedule: Schedule, names: Sequence[str]) -> Page:
    """The report; `names` of the plans, smallest promise first."""
    charts = {name: chart_of(schedule_plot(schedule, name)) for name in SCHEDULE_FIGURES}
    return Page(
        title=f"Schedule of {schedule.levels[0].plan.scenario.name}: {schedule.series.name}",
        verdict=verdict(schedule),
        figures=tuple(_heads(schedule)),
        sections=(
            section("load", "Load and plans", *listed(notes(schedule)), charts["load"]),
            section("cost", "Cost", charts["cost"], costs(schedule).block()),
            *_autoscaled(schedule),
            section("plans", "Plans", charts["gpus"], levels(schedule, names).block()),
            section("changes", "Changes", changes(schedule, names).block()),
        ),
    )


def _autoscaled(schedule: Schedule) -> Iterator[Section]:
    if schedule.autoscaled:
        yield section("autoscaled", "Autoscaled", followers(schedule).block())


def _heads(schedule: Schedule) -> Iterator[Figure]:
    yield Figure(label="USD", value=money(schedule.usd))
    if schedule.static_usd > 0:
        yield Figure(label="of the static plan's cost", value=percent_of(schedule.usd / schedule.static_usd))
    if schedule.gap is not None:
        yield Figure(label="above the bound", value=percent_of(schedule.gap))
    yield Figure(label="windows carried", value=percent_of(schedule.carried_share))
    if schedule.holding_share is not None:
        yield Figure(label="windows that hold the levels, replayed", value=percent_of(schedule.holding_share))
