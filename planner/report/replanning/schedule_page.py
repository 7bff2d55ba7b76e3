"""A schedule as a page to send: load against promise, cost against bounds, GPUs, changes, plans."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from planner.domain.replanning.schedules import Schedule
from planner.report.kit.clock import Clock
from planner.report.kit.html.blocks import Block, DataTable, Figure, Page, Prose, Section
from planner.report.kit.html.plots import Kind, Plot, Series, chart_of, held_series
from planner.report.kit.quantities import money
from planner.report.replanning.schedule_figures import edges_of
from planner.report.replanning.schedule_tables import (
    CHANGE_COLUMNS,
    COST_COLUMNS,
    LEVEL_COLUMNS,
    change_rows,
    cost_rows,
    level_rows,
    notes,
    percent_of,
    verdict,
)

_ALL_WINDOWS = "windows.csv of the schedule's folder"


def schedule_page(schedule: Schedule, names: Sequence[str], made_by: str, source: str = "") -> Page:
    """The page; `names` of the plans, smallest promise first."""
    lines = notes(schedule)
    words: tuple[Block, ...] = (Prose(markdown="\n".join(f"- {line}" for line in lines)),) if lines else ()
    costs = DataTable(columns=COST_COLUMNS, rows=tuple(cost_rows(schedule)), caption="Cost")
    levels = DataTable(columns=LEVEL_COLUMNS, rows=tuple(level_rows(schedule, names)), caption="Plans that stand")
    changes = DataTable(columns=CHANGE_COLUMNS, rows=tuple(change_rows(schedule, names)), caption="Changes in order")
    return Page(
        title=f"Schedule of {schedule.levels[0].plan.scenario.name}: {schedule.series.name}",
        verdict=verdict(schedule),
        figures=tuple(_heads(schedule)),
        sections=(
            Section(name="load", title="Load and plans", blocks=(*words, chart_of(_load(schedule)))),
            Section(name="cost", title="Cost", blocks=(chart_of(_cost(schedule)), costs)),
            Section(name="plans", title="Plans", blocks=(chart_of(_gpus(schedule)), levels)),
            Section(name="changes", title="Changes", blocks=(changes,)),
        ),
        made_by=made_by,
        source=source,
    )


def _heads(schedule: Schedule) -> Iterator[Figure]:
    yield Figure(label="USD", value=money(schedule.usd))
    if schedule.static_usd > 0:
        yield Figure(label="of the static plan's cost", value=percent_of(schedule.usd / schedule.static_usd))
    if schedule.gap is not None:
        yield Figure(label="above the bound", value=percent_of(schedule.gap))
    yield Figure(label="windows carried", value=percent_of(schedule.carried_share))
    if schedule.holding_share is not None:
        yield Figure(label="windows that hold the levels, replayed", value=percent_of(schedule.holding_share))


def _load(schedule: Schedule) -> Plot:
    edges = edges_of(schedule)
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
        ),
        rest=_ALL_WINDOWS,
    )


def _cost(schedule: Schedule) -> Plot:
    times = tuple(edges_of(schedule)[1:])
    spent = tuple(accumulate(window.usd + window.change_usd for window in schedule.windows))
    shares = [(number + 1) / len(times) for number in range(len(times))]
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
