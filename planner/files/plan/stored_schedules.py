"""Schedules as folders: `schedule.json`, and the plan of every level as a run folder under `plans/`.

A schedule's document names its plans with their digests, and is sealed by digests of its own as plans are.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planner.domain import Plan
from planner.domain.schedules import (
    ForecastKind,
    LoopResult,
    RateSeries,
    RateWindow,
    ReplayedRung,
    Schedule,
    ScheduledWindow,
    ScheduleLevel,
    Tariff,
)
from planner.errors import InputError
from planner.files.disk.opening import is_folder, is_there
from planner.files.plan.digests import KEY, REMEDY, WHOLE_PLAN, read_sealed, sealed, sealed_text
from planner.files.plan.plan_document import plan_document
from planner.files.plan.runs import load_run
from planner.files.records import read_record, record_document
from planner.files.sections import Section

SCHEDULE_FILE, PLANS_FOLDER = "schedule.json", "plans"
SCHEMA_VERSION = 1
_KEYS = (
    *("schema_version", "scenario", "series", "tariff", "levels", "windows", "most_changes_a_day", "usd", "static_usd"),
    *("bound_usd", "unlimited_bound_usd", "reserved", "forecast", "foresight_usd", "emergencies", "thin_windows"),
    *("replayed", "autoscaled"),
)


def holds_schedule(folder: Path) -> bool:
    """Whether the folder is that of a schedule, whatever it is worth."""
    return is_there(folder / SCHEDULE_FILE)


def level_names(schedule: Schedule) -> tuple[str, ...]:
    """What the plans of a schedule are called: by their promise, smallest first, no two alike."""
    digits = len(str(len(schedule.levels)))
    return tuple(f"level-{number + 1:0{digits}d}" for number in range(len(schedule.levels)))


def schedule_text(schedule: Schedule) -> bytes:
    """schedule.json."""
    return sealed_text(_document(schedule))


def schedule_digest(schedule: Schedule) -> str:
    """The digest of what schedule.json says."""
    return str(sealed(_document(schedule))[KEY][WHOLE_PLAN])


def _document(schedule: Schedule) -> dict[str, Any]:
    series, names = schedule.series, level_names(schedule)
    return {
        "schema_version": SCHEMA_VERSION,
        "scenario": schedule.levels[0].plan.scenario.name,
        "series": {"name": series.name, "window_s": series.window_s, "begins_s": series.begins_s},
        "tariff": record_document(schedule.tariff),
        "levels": [_level(level, name) for level, name in zip(schedule.levels, names, strict=True)],
        "windows": [_window(*pair) for pair in zip(series.windows, schedule.windows, strict=True)],
        "most_changes_a_day": schedule.most_changes,
        "usd": float(schedule.usd),
        "static_usd": float(schedule.static_usd),
        "bound_usd": float(schedule.bound_usd),
        "unlimited_bound_usd": float(schedule.unlimited_bound_usd),
        "reserved": dict(schedule.reserved),
        "forecast": schedule.forecast,
        "foresight_usd": schedule.foresight_usd,
        "emergencies": list(schedule.emergencies),
        "thin_windows": list(schedule.thin_windows),
        "replayed": [record_document(rung) for rung in schedule.replayed],
        **({"autoscaled": [record_document(row) for row in schedule.autoscaled]} if schedule.autoscaled else {}),
    }


def _level(level: ScheduleLevel, name: str) -> dict[str, Any]:
    return {
        "plan": name,
        "digest": plan_document(level.plan)["digests"]["plan"],
        "promise_rps": level.promise_rps,
        "usd_per_hour": float(level.usd_per_hour),
        "bound_usd_per_hour": float(level.bound_usd_per_hour),
        "watts": float(level.watts),
        "gpus": dict(level.gpus),
    }


def _window(rates: RateWindow, window: ScheduledWindow) -> dict[str, Any]:
    return {
        "rate_rps": float(rates.rate_rps),
        "burstiness": rates.burstiness,
        "level": window.level,
        "usd": float(window.usd),
        "change_usd": float(window.change_usd),
        "holds": window.holds,
        **({"changing": dict(window.changing)} if window.changing else {}),
    }


def load_schedule(source: Path) -> Schedule:
    """The schedule of a folder that `planner schedule` wrote, or of its schedule.json. InputError where it is none, was
    edited, or a plan of it is missing or another."""
    file = source / SCHEDULE_FILE if is_folder(source) else source
    document = read_sealed(file, hint=REMEDY)
    document.allow_only(*_KEYS)
    if document.integer("schema_version", low=1) != SCHEMA_VERSION:
        raise document.fault("schema_version", f"{SCHEMA_VERSION}, which this version reads")
    levels = tuple(_read_level(row, file.parent / PLANS_FOLDER) for row in document.sections("levels"))
    rows = document.sections("windows")
    last = len(rows) - 1
    return Schedule(
        series=_read_series(document.section("series"), rows),
        tariff=read_record(Tariff, document.section("tariff")),
        levels=levels,
        windows=tuple(_read_window(row, len(levels)) for row in rows),
        most_changes=document.integer("most_changes_a_day", low=0),
        usd=document.number("usd"),
        static_usd=document.number("static_usd"),
        bound_usd=document.number("bound_usd"),
        unlimited_bound_usd=document.number("unlimited_bound_usd"),
        reserved=_read_gpus(document.section("reserved")),
        forecast=document.choice("forecast", ForecastKind).value,
        foresight_usd=_number_or_none(document, "foresight_usd"),
        emergencies=_numbers(document, "emergencies", last),
        thin_windows=_numbers(document, "thin_windows", last),
        replayed=tuple(read_record(ReplayedRung, row) for row in document.sections("replayed")),
        autoscaled=()
        if document.is_empty("autoscaled")
        else tuple(read_record(LoopResult, row) for row in document.sections("autoscaled")),
    )


def _read_level(row: Section, plans: Path) -> ScheduleLevel:
    row.allow_only("plan", "digest", "promise_rps", "usd_per_hour", "bound_usd_per_hour", "watts", "gpus")
    plan = _same_plan(load_run(plans / row.name("plan")), row, plans)
    return ScheduleLevel(
        plan=plan,
        promise_rps=row.number("promise_rps", above=0),
        usd_per_hour=row.number("usd_per_hour", low=0),
        bound_usd_per_hour=row.number("bound_usd_per_hour", low=0),
        watts=row.number("watts", low=0),
        gpus=_read_gpus(row.section("gpus")),
    )


def _same_plan(plan: Plan, row: Section, plans: Path) -> Plan:
    """The plan, if it is the one that the schedule was made of."""
    if plan_document(plan)["digests"]["plan"] != row.text("digest"):
        raise InputError(
            f"{plans / row.name('plan')}: must be the plan that the schedule was made of; its digest differs.",
            hint=REMEDY,
        )
    return plan


def _read_gpus(row: Section) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((gpu, row.integer(gpu, low=0)) for gpu in row))


def _read_series(section: Section, rows: Sequence[Section]) -> RateSeries:
    section.allow_only("name", "window_s", "begins_s")
    window_s = section.number("window_s", above=0)
    return RateSeries(
        name=section.printable("name"),
        window_s=window_s,
        begins_s=section.number("begins_s", low=0),
        windows=tuple(
            RateWindow(
                start_s=number * window_s,
                rate_rps=row.number("rate_rps", low=0),
                burstiness=_number_or_none(row, "burstiness"),
            )
            for number, row in enumerate(rows)
        ),
    )


def _read_window(row: Section, levels: int) -> ScheduledWindow:
    row.allow_only("rate_rps", "burstiness", "level", "usd", "change_usd", "holds", "changing")
    return ScheduledWindow(
        level=row.integer("level", low=0, high=levels - 1),
        usd=row.number("usd"),
        change_usd=row.number("change_usd", low=0),
        holds=None if row.is_empty("holds") else row.flag("holds"),
        changing=_read_gpus(row.section("changing", optional=True)),
    )


def _numbers(document: Section, key: str, last: int) -> tuple[int, ...]:
    """Numbers of windows; there may be none."""
    return document.integers(key, low=0, high=last) if document.entries(key) else ()


def _number_or_none(row: Section, key: str) -> float | None:
    return None if row.is_empty(key) else row.number(key)
