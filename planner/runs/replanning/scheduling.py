"""A schedule from question to folder: rates and a scenario in, plans and pages out."""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import TypeVar

from planner import files, pipeline
from planner.domain import LengthProfile, Plan, RequestTrace, Scenario
from planner.domain.changes import ChangeLimits, ChangeSettings
from planner.domain.schedules import DAY_S, ForecastKind, ForecastSettings, RateSeries, Schedule, Tariff, TariffKind
from planner.errors import InputError
from planner.files.plan.stored_schedules import PLANS_FOLDER, SCHEDULE_FILE, level_names, schedule_digest, schedule_text
from planner.files.records import fields_of, read_record
from planner.files.sections import top_level
from planner.replanning.days.autoscaled import autoscaled, require_hourly
from planner.replanning.days.replaying import WindowReplay, replay_schedule
from planner.replanning.days.rolling_horizons import rolling_schedule
from planner.replanning.days.transitions import with_transitions
from planner.replanning.schedules.levels import Planner, Replanner
from planner.replanning.schedules.scheduling import best_schedule
from planner.report.kit.markdown import page_text
from planner.report.replanning import schedule_tables
from planner.report.replanning.schedule_page import schedule_page
from planner.runs.exports import MANIFESTS, with_carried
from planner.runs.pages import page_bytes
from planner.runs.publication import publish
from planner.runs.replanning.steps import in_turns

WINDOWS_FILE, SPOT_FILE, CHANGES_FILE, WORDS_FILE = "windows.csv", "spot.csv", "changes.md", "schedule.md"
KINDS = (SCHEDULE_FILE, WINDOWS_FILE, SPOT_FILE, CHANGES_FILE, WORDS_FILE, files.PAGE_FILE, f"{PLANS_FOLDER}/level-1")
"""Names of what a schedule's folder may hold."""

GIVE_UP = 0.001
"""Of the rent of the cheapest plan for a rate, what one near another plan may cost more; fleets are whole servers, so
most cost the same."""

MOST_CHANGES = 1000
"""A day: more would be one every minute and a half, and memory without end."""

Listen = Callable[[str], None]
Settings = TypeVar("Settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRequest:
    """What is asked for. `first`, `after`: windows of the series that are judged (None: from the first that can be
    forecast, to the last). `replay`: None where windows are not replayed. `autoscaled`: beside fleets that follow the
    load."""

    scenario: Scenario
    series: RateSeries
    tariff: Tariff = field(default_factory=Tariff)
    change: ChangeSettings = field(default_factory=ChangeSettings)
    most_changes: int = 4
    forecast: ForecastSettings = field(default_factory=ForecastSettings)
    first: int | None = None
    after: int | None = None
    replay: WindowReplay | None = None
    autoscaled: bool = False
    trace: RequestTrace | LengthProfile | None = None


def make_schedule(request: ScheduleRequest, listen: Listen = lambda _: None) -> Schedule:
    """The schedule; `listen` hears a line of progress a plan and a tenth of the replay.

    Raises InputError where rates or tariff do not go with the question, InfeasibleError where the fleet does not serve
    the rates within the levels.
    """
    request = _within_bounds(request)
    if request.autoscaled:
        require_hourly(request.tariff, request.series)
    planned = count(1)

    def planner(scenario: Scenario) -> Plan:
        plan = pipeline.plan(scenario)
        promise = plan.outlook.promise_rps
        listen(f"plan {next(planned)}: {promise:,.6g} requests/s for {plan.price_usd_per_hour:,.6g} USD/hour")
        return plan

    def replanner(standing: Plan, scenario: Scenario) -> Plan:
        limits = ChangeLimits(give_up=GIVE_UP)
        plan = pipeline.replan(standing, scenario, request.change, limits, frontier=False).plan
        promise = plan.outlook.promise_rps
        listen(
            f"plan {next(planned)}, near another: {promise:,.6g} requests/s for {plan.price_usd_per_hour:,.6g} USD/hour"
        )
        return plan

    schedule = with_transitions(_scheduled(request, planner, replanner), request.scenario, request.change)
    if request.autoscaled:
        schedule = autoscaled(schedule, request.change)
    if request.replay is None:
        return schedule
    trace = request.scenario.workload if request.trace is None else request.trace
    return replay_schedule(schedule, trace, request.replay, _tenths(listen))


def _within_bounds(request: ScheduleRequest) -> ScheduleRequest:
    """The request with its settings read anew, as Python may make them of anything."""
    return replace(
        request,
        tariff=checked(Tariff, **_present(request.tariff)),
        change=checked(ChangeSettings, **_present(request.change)),
        forecast=checked(ForecastSettings, **_present(request.forecast)),
    )


def _present(settings: Tariff | ChangeSettings | ForecastSettings) -> dict[str, object]:
    """Fields by name; those that are None stand for what follows from elsewhere, and are not in files."""
    return {name: value for name, value in asdict(settings).items() if value is not None}


def _scheduled(request: ScheduleRequest, planner: Planner, replanner: Replanner) -> Schedule:
    series = request.series.part(0, request.after or len(request.series.windows))
    if not series.part(request.first or 0, len(series.windows)).peak_rps:
        raise InputError(
            f"rates {series.name}: must have requests in the days that are planned for, got none.",
            hint="Choose other days (--from, --days).",
        )
    settings = (request.tariff, request.change, _most_changes(request))
    if request.forecast.kind is ForecastKind.KNOWN:
        chosen = series.part(request.first or 0, len(series.windows))
        return best_schedule(request.scenario, chosen, *settings, planner=planner, replanner=replanner)
    return rolling_schedule(
        request.scenario,
        series,
        *settings,
        request.forecast,
        planner=planner,
        replanner=replanner,
        first=request.first,
    )


def _most_changes(request: ScheduleRequest) -> int:
    """Changes a day, no more than a day has windows. InputError beyond MOST_CHANGES."""
    if request.most_changes > MOST_CHANGES:
        raise InputError(
            f"schedule: most changes a day: must be at most {MOST_CHANGES}, got {request.most_changes}.",
            hint="Servers take minutes to load: a change every few minutes serves nothing.",
        )
    return min(request.most_changes, math.ceil(DAY_S / request.series.window_s))


def _tenths(listen: Listen) -> Callable[[float], None]:
    last = -1

    def heard(share: float) -> None:
        nonlocal last
        if int(10 * share) > last:
            last = int(10 * share)
            listen(f"replay: {10 * last} %")

    return heard


def checked(record: type[Settings], **values: object) -> Settings:
    """Settings of those values, each within the bounds of its field; None, where a field may have it, is left out.
    InputError names the first that is not."""
    nullable = {field.key for field in fields_of(record) if field.nullable}
    document = {
        key: value.value if isinstance(value, StrEnum) else value
        for key, value in values.items()
        if value is not None or key not in nullable
    }
    return read_record(record, top_level(document, "schedule"))


def windows_between(series: RateSeries, begin_day: float | None, days: float | None) -> tuple[int | None, int | None]:
    """(first window, the one after the last) of so many `days` from `begin_day` on, both counted from the series'
    beginning; None where nothing is said. InputError where there are no such windows."""
    total_days = len(series.windows) * series.window_s / DAY_S
    if not all(day is None or math.isfinite(day) for day in (begin_day, days)):
        raise InputError(
            f"rates {series.name}: the days must be numbers, got from {begin_day} and {days} days.",
            hint="Count days from the first window, as 0; parts of days as 0.5.",
        )
    first = None if begin_day is None else _window_at(series, begin_day)
    after = None if days is None else _window_at(series, (begin_day or 0.0) + days)
    if not 0 <= (first or 0) < len(series.windows) or (after is not None and not (first or 0) < after):
        raise InputError(
            f"rates {series.name}: the days must lie within the {total_days:.6g} days of the rates, got from "
            f"{begin_day or 0:g}, {'to the end' if days is None else f'{days:g} days'}.",
            hint="Count days from the first window, as 0; parts of days as 0.5.",
        )
    if after is not None and after > len(series.windows):
        raise InputError(
            f"rates {series.name}: must have the days that are asked for, up to day "
            f"{(begin_day or 0.0) + (days or 0.0):g}, got {total_days:.6g}.",
            hint="Ask for fewer days, or give more rates.",
        )
    return first, after


def _window_at(series: RateSeries, day: float) -> int:
    return round(day * DAY_S / series.window_s)


def schedule_files(schedule: Schedule, engine: str = "") -> dict[str, bytes]:
    """Relative path -> content of a schedule's folder."""
    names = level_names(schedule)
    contents = {
        SCHEDULE_FILE: schedule_text(schedule),
        WINDOWS_FILE: schedule_tables.windows(schedule, names).csv(),
        CHANGES_FILE: page_text(schedule_tables.roll_out_page(schedule, names)).encode(),
        WORDS_FILE: page_text(schedule_page(schedule, names)).encode(),
        files.PAGE_FILE: schedule_html(schedule),
    }
    if schedule.tariff.kind is TariffKind.OWNED:
        contents[SPOT_FILE] = schedule_tables.spot_csv(schedule)
    for name, published in zip(names, _published(schedule, engine), strict=True):
        contents |= {f"{PLANS_FOLDER}/{name}/{path}": content for path, content in published.items()}
    return contents


def _published(schedule: Schedule, engine: str) -> Iterator[dict[str, bytes]]:
    """The run folder of every plan; engines that run on from one to the next have the same pods in both."""
    plans = [level.plan for level in schedule.levels]
    folders = [dict(publish(plan, engine=engine).files) for plan in plans]
    manifests_of = [{path: text.decode() for path, text in files.items() if _is_manifest(path)} for files in folders]
    for files_of_plan, manifests in zip(folders, in_turns(plans, manifests_of), strict=True):
        yield {**files_of_plan, **with_carried(files_of_plan, manifests)}


def _is_manifest(path: str) -> bool:
    return path.startswith(MANIFESTS) and path.endswith(".yaml")


def schedule_html(schedule: Schedule) -> bytes:
    """The page of a schedule."""
    return page_bytes(schedule_page(schedule, level_names(schedule)), source_of(schedule))


def source_of(schedule: Schedule) -> str:
    """By which a page is known to be of this very schedule."""
    return f"schedule {schedule_digest(schedule)}"


def schedule_summary(schedule: Schedule) -> dict[str, object]:
    """The figures of a schedule as a document for programs; windows are in its folder."""
    names = level_names(schedule)
    return {
        "scenario": schedule.levels[0].plan.scenario.name,
        "rates": schedule.series.name,
        "windows": len(schedule.windows),
        "tariff": schedule.tariff.kind.value,
        "forecast": schedule.forecast,
        "usd": schedule.usd,
        "static_usd": schedule.static_usd,
        "bound_usd": schedule.bound_usd,
        "unlimited_bound_usd": schedule.unlimited_bound_usd,
        "foresight_usd": schedule.foresight_usd,
        "carried_share": schedule.carried_share,
        "holding_share": schedule.holding_share,
        "emergencies": len(schedule.emergencies),
        "thin_windows": len(schedule.thin_windows),
        "reserved": dict(schedule.reserved),
        "levels": schedule_tables.levels(schedule, names).records(),
        "changes": schedule_tables.changes(schedule, names).records(),
        "autoscaled": schedule_tables.followers(schedule).records(),
        "notes": schedule_tables.notes(schedule),
    }


def claim_schedule_folder(folder: Path, *, force: bool) -> None:
    """Fail before the work where the folder cannot take a schedule."""
    files.claim_folder(folder, KINDS, force=force)


def write_schedule(folder: Path, schedule: Schedule, *, engine: str = "", force: bool = False) -> None:
    """Write the folder of a schedule, all of it or nothing."""
    files.write_folder(folder, schedule_files(schedule, engine), force=force, kinds=KINDS)
