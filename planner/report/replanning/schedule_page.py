"""A schedule as a page to send: load against promise, cost against bounds, GPUs, changes, plans."""

from collections.abc import Iterator, Sequence

from planner.domain.schedules import Schedule
from planner.report.kit.html.blocks import Block, Figure, Page, Prose, Section
from planner.report.kit.html.plots import chart_of
from planner.report.kit.quantities import money
from planner.report.replanning.schedule_figures import SCHEDULE_FIGURES, schedule_plot
from planner.report.replanning.schedule_tables import (
    changes,
    costs,
    levels,
    notes,
    percent_of,
    verdict,
)


def schedule_page(schedule: Schedule, names: Sequence[str], made_by: str, source: str = "") -> Page:
    """The page; `names` of the plans, smallest promise first."""
    lines = notes(schedule)
    stand = levels(schedule, names).html("Plans that stand")
    words: tuple[Block, ...] = (Prose(markdown="\n".join(f"- {line}" for line in lines)),) if lines else ()
    charts = {name: chart_of(schedule_plot(schedule, name)) for name in SCHEDULE_FIGURES}
    return Page(
        title=f"Schedule of {schedule.levels[0].plan.scenario.name}: {schedule.series.name}",
        verdict=verdict(schedule),
        figures=tuple(_heads(schedule)),
        sections=(
            Section(name="load", title="Load and plans", blocks=(*words, charts["load"])),
            Section(
                name="cost",
                title="Cost",
                blocks=(charts["cost"], costs(schedule).html("Cost")),
            ),
            Section(
                name="plans",
                title="Plans",
                blocks=(charts["gpus"], stand),
            ),
            Section(name="changes", title="Changes", blocks=(changes(schedule, names).html("Changes in order"),)),
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
