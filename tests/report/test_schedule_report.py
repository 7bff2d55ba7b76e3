"""A schedule in tables, figures and a page: the figures are those of its windows."""

import csv
from dataclasses import replace
from itertools import pairwise

import pytest
from small_schedules import hourly, small_fleet, small_schedule

from planner.domain.changes import ChangeSettings
from planner.domain.schedules import Schedule
from planner.errors import InputError
from planner.files.plan.stored_schedules import level_names
from planner.replanning.days.transitions import with_transitions
from planner.report.kit.markdown import page_text
from planner.report.replanning import schedule_tables as tables
from planner.report.replanning.schedule_page import SCHEDULE_FIGURES, schedule_figure, schedule_page


def names() -> tuple[str, ...]:
    return level_names(small_schedule())


def missing() -> Schedule:
    """The day, met by the rates of a fleet half as large again, with an emergency and no room for a change."""
    schedule = replace(small_schedule(), series=hourly(48.0), forecast="ewma", foresight_usd=400.0)
    return replace(schedule, emergencies=schedule.changes[:1], thin_windows=(schedule.changes[1] - 1,))


def test_windows_changes_and_levels_add_up() -> None:
    schedule = small_schedule()
    rows = list(csv.DictReader(tables.windows(schedule, names()).csv().decode().splitlines()))
    assert sum(float(row["usd"]) + float(row["change_usd"]) for row in rows) == pytest.approx(schedule.usd)
    changes = tables.changes(schedule, names()).values
    starts = [row["time"] for before, row in pairwise(rows) if row["plan"] != before["plan"]]
    assert [change[1] for change in changes] == starts
    assert sum(row[-1] for row in tables.levels(schedule, names()).values) == len(rows) == 24
    assert len(tables.windows(schedule, names()).frame()) == 24
    assert f"{schedule.usd:,.2f}" in tables.verdict(schedule)
    assert tables.notes(schedule) == []


def test_what_is_missed_is_told() -> None:
    schedule = missing()
    carried = [
        float(row["rate_rps"]) <= float(row["promise_rps"]) and int(row["window"]) not in schedule.thin_windows
        for row in csv.DictReader(tables.windows(schedule, names()).csv().decode().splitlines())
    ]
    assert schedule.carried == tuple(carried)
    words = " ".join(
        [tables.verdict(schedule), *tables.notes(schedule), page_text(tables.roll_out_page(schedule, names()))]
    )
    assert f"{carried.count(False)} windows of 24 are not carried" in words
    assert "1 change came unplanned" in words
    assert "no room for both plans" in words
    assert "with the rates known it would cost 400.00 USD" in words
    assert tables.changes(schedule, names()).values[0][-1] == "emergency"


def test_free_gpus_are_those_that_no_plan_of_the_hour_has() -> None:
    """Windows of half an hour: the larger of two plans counts."""
    schedule = small_schedule()
    windows = tuple(replace(window, start_s=window.start_s / 2) for window in schedule.series.windows)
    halves = replace(schedule, series=replace(schedule.series, window_s=1800.0, windows=windows))
    free = [row[2] for row in tables.spot_rows(halves)]
    gpus = [dict(schedule.levels[window.level].gpus)["H20"] for window in schedule.windows]
    assert free == [16 - max(gpus[k : k + 2]) for k in range(0, 24, 2)]
    assert small_fleet().inventory.item("H20").count == 16


def test_gpus_that_load_or_drain_are_not_free() -> None:
    """New servers load in the hour before they serve, old ones drain in the hour after: as many as the plans differ by,
    as all servers of the smaller one are in the larger."""
    schedule = with_transitions(small_schedule(), small_fleet(), ChangeSettings())
    gpus = [dict(schedule.levels[window.level].gpus)["H20"] for window in schedule.windows]
    free = [16 - count for count in gpus]
    for number in schedule.changes:
        more = gpus[number] - gpus[number - 1]
        free[number - (more > 0)] -= abs(more)
    assert [row[2] for row in tables.spot_rows(schedule)] == free
    assert any(window.changing for window in schedule.windows)


@pytest.mark.parametrize("name", SCHEDULE_FIGURES)
def test_figures_show_every_window(name) -> None:
    figure = schedule_figure(missing(), name)
    (axes,) = figure.axes
    assert axes.get_xlabel() == "time of the day"
    assert [label.get_text() for label in axes.get_xticklabels()][:2] == ["00:00\nday 1", "03:00"]
    start, end = axes.get_xlim()
    assert start <= 0.05 * 86400
    assert end >= 86400


def test_an_unknown_figure_is_refused() -> None:
    with pytest.raises(InputError, match="must be one of load, cost, gpus, got 'clouds'"):
        schedule_figure(small_schedule(), "clouds")


def test_the_page_has_the_figures_of_the_schedule() -> None:
    schedule = small_schedule()
    page = schedule_page(schedule, names())
    assert page.figures[0].value == f"{schedule.usd:,.2f}"
    assert [section.name for section in page.sections] == ["load", "cost", "plans", "changes"]
    assert schedule_page(missing(), names()).verdict == tables.verdict(missing())


@pytest.mark.parametrize(
    ("share", "words"), [(1.0, "100.0 %"), (0.9996, "99.96 %"), (0.0, "0.0 %"), (0.003, "0.3 %"), (0.5, "50.0 %")]
)
def test_shares_never_round_to_all_or_nothing(share, words) -> None:
    assert tables.percent_of(share) == words
