"""`planner schedule`: plans over a day or a week, few changes, and what no schedule undercuts."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan import fleet_folders
from planner.cli.plan.replay import read_seeds
from planner.domain.schedules import ForecastKind, ForecastSettings, GapRule, Tariff, TariffKind
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain import LengthProfile, RequestTrace
    from planner.domain.schedules import Schedule
    from planner.replanning.days.replaying import WindowReplay

MOST_CHANGES_SHOWN = 30
BURSTS = 2.0
"""Of gaps between requests in bursts: deviation over mean, where a fleet's levels are replayed."""


def command(
    context: typer.Context,
    scenario: Annotated[
        Path,
        typer.Argument(
            help="A scenario file, its inventory as what may be rented; or the folder of a fleet, whose services have "
            "curves.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the schedule, its plans and its page.", show_default=False)],
    rates: Annotated[
        str | None,
        typer.Option(
            help="A CSV file of requests/s by time, or a shipped one such as servegen-m-large.", show_default=False
        ),
    ] = None,
    pool: Annotated[
        str | None, typer.Option(help="Whose rates, where the file has several pools.", show_default=False)
    ] = None,
    gaps: Annotated[GapRule, typer.Option(help="What stands for windows that are missing.")] = GapRule.REFUSE,
    begin: Annotated[
        float | None, typer.Option("--from", help="Day to begin with, 0 being the first of the rates.")
    ] = None,
    days: Annotated[float | None, typer.Option(help="How many days. [default: all]", show_default=False)] = None,
    changes: Annotated[int, typer.Option(help="Changes a day at most.")] = 4,
    tariff: Annotated[TariffKind, typer.Option(help="How GPUs are paid.")] = TariffKind.HOURLY,
    reserved_discount: Annotated[float, typer.Option(help="Of reserved GPUs' price.")] = 0.4,
    usd_per_kwh: Annotated[float, typer.Option(help="Of power, of owned GPUs.")] = 0.1,
    idle_share: Annotated[float, typer.Option(help="Of its highest draw, what an idle GPU draws.")] = 0.25,
    spot_share: Annotated[float, typer.Option(help="Of its price, what a GPU earns given back to spot.")] = 0.3,
    forecast: Annotated[ForecastKind, typer.Option(help="What plans are made on.")] = ForecastKind.KNOWN,
    every: Annotated[float, typer.Option(help="Hours after which the day ahead is planned on the forecast.")] = 24,
    headroom: Annotated[
        float | None,
        typer.Option(help="Share planned above forecasts. [default: by past errors]", show_default=False),
    ] = None,
    quantile: Annotated[float, typer.Option(help="Of past errors, where no headroom is stated.")] = 0.95,
    storage_gb_s: Annotated[
        float | None, typer.Option(help="GB/s at which a node reads weights. [default: 2]", show_default=False)
    ] = None,
    start_s: Annotated[
        float | None, typer.Option(help="Seconds from weights to the first request. [default: 120]", show_default=False)
    ] = None,
    drain_s: Annotated[
        float | None, typer.Option(help="Seconds at most for requests in flight. [default: 300]", show_default=False)
    ] = None,
    replay: Annotated[bool, typer.Option("--replay", help="Replay every window: do the levels hold?")] = False,
    bursty: Annotated[bool, typer.Option("--bursty", help="With gaps as the file's burstiness says.")] = False,
    autoscaled: Annotated[
        bool, typer.Option("--autoscaled", help="Beside fleets whose copies follow the load: cost, levels kept.")
    ] = False,
    trace: Annotated[
        str | None,
        typer.Option(help="Trace or workload to replay. [default: the scenario's lengths]", show_default=False),
    ] = None,
    requests: Annotated[int, typer.Option(help="Requests of a replay at least.")] = 4000,
    seeds: Annotated[str, typer.Option(help="How many seeds of a replay, or which: 3, or 1,5, or 4-6.")] = "1",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the scenario, such as slo.tpot_ms=40."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a schedule that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Plan for a day or a week of changing load: which plan stands when, its cost, and the bound of the day.

    Of a fleet's folder: which nodes its services need by the hour, and what work that waits does on the others."""
    from planner import files
    from planner.files.scenario.settings import read_setting
    from planner.runs.replanning.inputs import change_settings
    from planner.runs.replanning.scheduling import (
        ScheduleRequest,
        checked,
        claim_schedule_folder,
        make_schedule,
        windows_between,
        write_schedule,
    )
    from planner.workload import summarize

    if fleet_folders.of_fleet(scenario):
        accepted = ("scenario", "days", "headroom", "replay", "bursty", "requests", "seeds")
        hint = "Rates, prices and times of changes stand in the fleet's file; plan it again with others."
        fleet_folders.refuse_options(context, accepted, hint)
        replays = (BURSTS if bursty else 1.0, requests, read_seeds(seeds)) if replay else None
        fleet_folders.schedule_fleet(
            scenario, out, days=days, headroom=headroom, replay=replays, force=force, as_json=json, quiet=quiet
        )
        return
    if rates is None:
        raise typer.BadParameter("must be given for one service", param_hint="--rates")
    _refuse_idle(replay=replay, bursty=bursty, trace=trace, forecast=forecast, headroom=headroom)
    claim_schedule_folder(out, force=force)
    series = files.load_rates(rates, pool, gaps=gaps)
    first, after = windows_between(series, begin, days)
    planned = files.load_scenario(scenario, summarize, tuple(map(read_setting, settings or [])))
    request = ScheduleRequest(
        scenario=planned,
        series=series,
        tariff=checked(
            Tariff,
            kind=tariff,
            reserved_discount=reserved_discount,
            usd_per_kwh=usd_per_kwh,
            idle_share=idle_share,
            spot_share=spot_share,
        ),
        change=change_settings(planned.changes.times, storage_gb_s=storage_gb_s, start_s=start_s, drain_s=drain_s),
        most_changes=changes,
        forecast=checked(ForecastSettings, kind=forecast, every_hours=every, headroom=headroom, quantile=quantile),
        first=first,
        after=after,
        replay=_replay(requests, seeds, bursty=bursty) if replay else None,
        autoscaled=autoscaled,
        trace=_trace(trace),
    )
    schedule = make_schedule(request, _listener(quiet=quiet or json))
    write_schedule(out, schedule, force=force)
    show(schedule, out, as_json=json)


def _refuse_idle(
    *, replay: bool, bursty: bool, trace: str | None, forecast: ForecastKind, headroom: float | None
) -> None:
    """What would be ignored in silence is refused."""
    if not replay and (bursty or trace is not None):
        raise InputError(
            f"{'--bursty' if bursty else '--trace'}: goes with a replay of the windows, got none.",
            hint="Add --replay, or leave it out.",
        )
    if forecast is ForecastKind.KNOWN and headroom is not None:
        raise InputError(
            "--headroom: is planned above a forecast, got rates that are known.",
            hint="Add --forecast last-day, last-week or ewma, or leave it out.",
        )


def _replay(requests: int, seeds: str, *, bursty: bool) -> "WindowReplay":
    from planner.replanning.days.replaying import WindowReplay

    return WindowReplay(requests=requests, seeds=read_seeds(seeds), bursty=bursty)


def _trace(name: str | None) -> "RequestTrace | LengthProfile | None":
    from planner import files

    return None if name is None else files.load_workload(name)


def _listener(*, quiet: bool) -> Callable[[str], None]:
    return (lambda _: None) if quiet else screen.show_note


def show(schedule: "Schedule", folder: Path, *, as_json: bool) -> None:
    """The schedule on standard output."""
    from planner.files.plan.stored_schedules import level_names
    from planner.report.replanning import schedule_tables as tables
    from planner.runs.replanning.scheduling import schedule_summary

    if as_json:
        screen.show_json({"folder": str(folder), **schedule_summary(schedule)})
        return
    names = level_names(schedule)
    costs, levels, changes = tables.costs(schedule), tables.levels(schedule, names), tables.changes(schedule, names)
    screen.show_table("Cost", costs.headings, costs.values)
    screen.show_table("Plans", levels.headings, levels.values)
    if schedule.autoscaled:
        followers = tables.followers(schedule)
        screen.show_table("Autoscaled", followers.headings, followers.values)
    if changes.rows:
        screen.show_table("Changes", changes.headings, changes.values[:MOST_CHANGES_SHOWN])
    if len(changes.rows) > MOST_CHANGES_SHOWN:
        screen.show_prose(f"{len(changes.rows) - MOST_CHANGES_SHOWN} more changes stand in {folder / 'changes.md'}.")
    screen.show_prose(tables.verdict(schedule).replace("**", ""))
    for line in tables.notes(schedule):
        screen.show_note(f"note: {line}")
    screen.show_prose(f"Written to {folder}")
