"""`planner watch`: prices, inventory, load and lost GPUs as files, the load as engines count it, lost GPUs as a cluster
tells; plans that follow them without flapping."""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan import fleet_folders
from planner.cli.program.option_records import with_records
from planner.cli.program.shared_options import KubernetesFlags, PrometheusFlags
from planner.cli.replanning.fleets import watch_fleet
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain.watching import WatchLog, WatchStep

_TIME = re.compile(r"(\d+(?:\.\d+)?)(s|m|min|h|d)?")
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


@with_records
def command(
    context: typer.Context,
    scenario: Annotated[
        Path,
        typer.Argument(
            help="Scenario file; its prices and inventory are what feeds change. Or the folder of a fleet that runs."
        ),
    ],
    *,
    feeds: Annotated[
        list[Path] | None,
        typer.Option(
            "--feed", help="A CSV history or a YAML file of the current state; any number.", show_default=False
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the decision log and the plans; a watch in it goes on.")],
    source: PrometheusFlags,
    server: KubernetesFlags,
    window: Annotated[
        str,
        typer.Option(
            help="With --prometheus: the load is the mean of the last so long. [default: 5m]", show_default=False
        ),
    ] = "",
    name: Annotated[
        str,
        typer.Option(
            help="With --prometheus: the name that the plan was exported under. [default: the scenario's]",
            show_default=False,
        ),
    ] = "",
    repository: Annotated[
        Path | None,
        typer.Option(
            help="A git work tree that Argo CD or Flux follows: changes are committed there stage by stage, each once "
            "--prometheus says that the last one stands.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="Run folder of the plan that stands. [default: one is made]", show_default=False)
    ] = None,
    every: Annotated[str, typer.Option(help="Between two observations: 60s, 5m, 1h.")] = "60s",
    once: Annotated[bool, typer.Option("--once", help="One observation, as --ticks 1.")] = False,
    ticks: Annotated[
        int | None, typer.Option(min=1, help="Observations of this call. [default: no end]", show_default=False)
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="No observation after this time: ISO 8601, or seconds.", show_default=False)
    ] = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Go through the feeds' own times, as fast as plans are made.")
    ] = False,
    stale: Annotated[
        str | None,
        typer.Option(help="Tell of a feed that nobody has written for so long: 1h, 1d.", show_default=False),
    ] = None,
    dwell: Annotated[str, typer.Option(help="So long must a saving last.")] = "1h",
    changes: Annotated[int, typer.Option(min=1, max=1000, help="Most changes for money in 24 hours.")] = 4,
    headroom: Annotated[
        float, typer.Option(min=0, max=10, help="Of a new plan's promise over the highest load of the dwell time.")
    ] = 0.25,
    give_up: Annotated[
        float, typer.Option(min=0, max=0.99, help="Share of the cheapest plan's rent, so that more servers run on.")
    ] = 0.02,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the scenario, such as slo.tpot_ms=40."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the tally as JSON, and no decisions.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Begin anew where the folder holds another watch.")] = False,
) -> None:
    """Follow load, prices, inventory and lost GPUs: re-plan where it is needed or pays, and never flap.

    Every decision is a line of watch.jsonl in the folder; `current` names the run folder of the plan that stands. A
    watch that was ended, or killed, goes on with the same command. With --repository it carries out what it decides.

    Of a fleet's folder, with --once: one look at a feed of loads by service; where a promise is short, or least rent
    can be saved, OUT is the fleet divided anew, with its steps."""
    from planner.domain.watching import WatchSettings
    from planner.files.scenario.settings import read_setting
    from planner.runs.watching.acting import Acting
    from planner.runs.watching.live_feeds import live_feeds
    from planner.runs.watching.watches import WatchJob, read_log, watch

    if fleet_folders.of_fleet(scenario):
        hint = "Change prices, GPUs and levels with planner replan."
        fleet_folders.refuse_options(context, ("scenario", "feeds", "once", "headroom", "dwell"), hint)
        rules = WatchSettings(dwell_s=_seconds("--dwell", dwell), headroom=headroom)
        watch_fleet(scenario, feeds or [], out, rules, once=once, force=force, as_json=json)
        return
    if once and ticks not in (None, 1):
        raise InputError(f"--once: is --ticks 1, got --ticks {ticks} too.", hint="Give one of the two.")
    endpoint = source.source()
    if endpoint is None and (window or name):
        raise InputError("--window, --name: go with --prometheus alone.", hint="Leave them out.")
    live = live_feeds(endpoint, server.cluster(), window or "5m", name)
    if not feeds and not live:
        raise InputError(
            "planner watch: must get --feed, --prometheus or --kubernetes, got none.",
            hint="Name what tells of load, prices or lost GPUs.",
        )
    job = WatchJob(
        scenario=scenario,
        feeds=tuple(feeds or ()),
        live=live,
        acting=Acting.at(repository, endpoint, window or "5m"),
        out=out,
        run=run,
        every_s=_seconds("--every", every),
        simulate=simulate,
        ticks=1 if once else ticks,
        until_s=None if until is None else _moment(until),
        stale_s=None if stale is None else _seconds("--stale", stale),
        force=force,
        changes=tuple(map(read_setting, settings or [])),
        settings=WatchSettings(
            dwell_s=_seconds("--dwell", dwell), most_savings=changes, headroom=headroom, give_up=give_up
        ),
    )
    for step in watch(job):
        if not json:
            _tell(step)
    show(read_log(out), out, as_json=json)


def _seconds(flag: str, text: str) -> float:
    """A length of time."""
    match = _TIME.fullmatch(text.strip())
    seconds = float(match[1]) * _UNITS[match[2] or "s"] if match else math.nan
    if not 0 < seconds <= 7 * _UNITS["d"]:
        raise InputError(f"{flag}: must be a time of at most a week, got {text!r:.40}.", hint="Write 60s, 5m or 1h.")
    return seconds


def _moment(text: str) -> float:
    """A point in time as seconds."""
    from planner.files.disk.csv_rows import number_of
    from planner.files.tables.traces.clocks import iso_microseconds

    number = number_of(text)
    seconds = number if math.isfinite(number) else iso_microseconds(text) / 1e6
    if not math.isfinite(seconds):
        raise InputError(f"--until: must be a time, got {text!r:.40}.", hint="Write ISO 8601, or seconds.")
    return seconds


def _tell(step: "WatchStep") -> None:
    """What is worth reading: changes, needs that cannot be met, and what was refused."""
    from planner.domain.watching import Verdict, clock_text
    from planner.runs.watching.live_feeds import EARLIEST_EPOCH_S

    observation, decision = step.observation, step.decision
    for note in observation.notes:
        screen.show_warning(note)
    if decision.verdict is not Verdict.KEEP:
        number = f" plan {decision.number:04d}" if decision.verdict is Verdict.REPLAN else ""
        time = clock_text(observation.at_s, iso=observation.at_s >= EARLIEST_EPOCH_S)
        screen.show_text(f"{time}  {decision.verdict.value}{number}: {decision.reason}")


def show(log: "WatchLog", folder: Path, *, as_json: bool) -> None:
    """What a watch comes to so far, on standard output."""
    from planner.files.records import record_document
    from planner.report.replanning.watch_tables import tallied

    tally = log.tally
    if as_json:
        shares = {"regret": tally.regret, "free_regret": tally.free_regret}
        screen.show_json(record_document(tally) | shares)
        return
    screen.show_table("Watch", *tallied(log).words())
    screen.show_text(f"Written to {folder}")
