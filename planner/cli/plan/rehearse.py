"""`planner rehearse`: a plan's routing by the routers' own programs, or a fleet's behind its front, before a GPU is
rented."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import screen
from planner.cli.plan import saved_runs
from planner.cli.plan.fleet_folders import of_fleet
from planner.cli.program.every_command import ANY_ENGINE
from planner.errors import EXIT_BAD_INPUT, EXIT_INFEASIBLE, InputError

if TYPE_CHECKING:
    from planner.domain import Plan
    from planner.domain.fleets import FleetPlan
    from planner.report.kit.tree import Page
    from planner.runs.rehearsal.settings import Kill, RehearsalSettings

RunOrFleet = Annotated[
    Path, typer.Argument(help="A run folder, its plan.json, or the folder of a fleet.", show_default=False)
]
_KILL = re.compile(r"(?P<island>.+)@(?P<at>\d+(?:\.\d+)?)s?")


def read_kill(text: str) -> "Kill":
    """`ISLAND@30s`: a server of the island dies at that second of the plan."""
    from planner.runs.rehearsal.settings import Kill

    match = _KILL.fullmatch(text)
    at_s = float(match["at"]) if match and text.isascii() else math.nan
    if match is None or not math.isfinite(at_s):
        raise InputError(f"--kill: must be ISLAND@SECONDS, got {text!r}.", hint="Write --kill prefill-1@30s.")
    return Kill(island=match["island"], at_s=at_s)


def command(
    run: RunOrFleet,
    router: Annotated[
        str,
        typer.Option(
            help="haproxy, vllm or model-gateway, as `planner export --target script` starts it. [default: the "
            "scenario's, else haproxy]",
            show_default=False,
        ),
    ] = "",
    engine: Annotated[str, typer.Option(help=f"{ANY_ENGINE}. [default: the scenario's]", show_default=False)] = "",
    ranks: Annotated[
        str,
        typer.Option(
            help="What the router chooses among: rank, server or auto. [default: the scenario's]", show_default=False
        ),
    ] = "",
    router_counts: Annotated[
        str,
        typer.Option(
            help="What haproxy counts of prefill servers: bytes or requests. [default: the scenario's]",
            show_default=False,
        ),
    ] = "",
    trace: saved_runs.Trace = None,
    rate: saved_runs.Rate = None,
    requests: Annotated[int, typer.Option(help="Requests, warm-up included; at most 20000.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of arrivals, lengths and texts.")] = 0,
    slower: Annotated[
        float | None,
        typer.Option(
            help="Times that plan time runs as slowly as the wall's. [default: as one process keeps up with the rate]",
            show_default=False,
        ),
    ] = None,
    kill: Annotated[
        list[str] | None,
        typer.Option(
            help="ISLAND@SECONDS: one of its servers dies then, and is back once it is loaded; may be repeated.",
            show_default=False,
        ),
    ] = None,
    minutes: Annotated[float, typer.Option(help="Of the wall's time at most.")] = 10.0,
    length_spread: Annotated[
        float, typer.Option(help="Of bytes a token of the prompts' texts: standard deviation of the logarithm.")
    ] = 0.2,
    program: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=COMMAND: how a router's program starts, NAME one of haproxy, vllm_router, sglang_router. "
            "[default: the one of PATH, or a Python that has the module]",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for rehearsal.md, rehearsal.json and requests.csv.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a rehearsal that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Try a plan's routing on this machine: real routers before engines simulated at its step times."""
    from planner import files, report
    from planner.runs.rehearsal.naming import read_program
    from planner.runs.rehearsal.settings import RehearsalSettings

    subject = _read(run, trace)
    settings = RehearsalSettings(
        router=router,
        engine=engine,
        ranks=ranks,
        router_counts=router_counts,
        rate_rps=_rate(subject, rate),
        requests=requests,
        seed=seed,
        slower=slower,
        minutes=minutes,
        length_spread=length_spread,
        kills=tuple(read_kill(text) for text in kill or ()),
        programs=dict(read_program(text) for text in program or ()),
    )
    _check(subject, settings)
    # what speaks HTTP is an extra, whose absence the check tells
    from planner.runs.rehearsal.writing import NAMES

    if out is not None:  # fails before the work, not after it
        files.claim_folder(out, NAMES, force=force)
    rehearsed = _rehearsed(
        subject,
        run,
        trace,
        settings,
        screen.tenths("rehearse", f"about {settings.expected_s:.0f} s", quiet=quiet or json),
    )
    if out is not None:
        files.write_folder(out, rehearsed.files, force=force, kinds=NAMES)
    if json:
        screen.show_json({"folder": None if out is None else str(out), **rehearsed.document})
    else:
        screen.show_markdown(report.page_text(rehearsed.page))
        if out is not None:
            screen.show_prose(f"Written to {out}")
    if rehearsed.holds is not True:
        raise typer.Exit(EXIT_INFEASIBLE if rehearsed.holds is False else EXIT_BAD_INPUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rehearsed:
    """What is shown and written of a rehearsal, and whether the levels hold (None: untold)."""

    page: "Page"
    document: dict[str, Any]
    files: dict[str, bytes]
    holds: bool | None


def _read(run: Path, trace: str | None) -> "Plan | FleetPlan":
    """The plan of a run, or that of a fleet's folder."""
    if not of_fleet(run):
        return saved_runs.read_run(run)
    if trace is not None:
        raise InputError(
            f"--trace: must be left out for the fleet {run}, got {trace!r}: every service has requests of its own.",
            hint=f"Rehearse a deployment by itself: planner rehearse {run}/services/NAME --trace {trace}.",
        )
    from planner.runs.fleets import read_fleet

    return read_fleet(run)


def _rate(subject: "Plan | FleetPlan", rate: str | None) -> float:
    from planner.domain.fleets import FleetPlan
    from planner.runs.replays.replays import rate_in, rate_of

    if isinstance(subject, FleetPlan):
        return rate_in(subject.promise_rps, sum(part.plan.throughput_rps for part in subject.parts), rate)
    return rate_of(subject, rate)


def _check(subject: "Plan | FleetPlan", settings: "RehearsalSettings") -> None:
    from planner.domain.fleets import FleetPlan
    from planner.runs.rehearsal.settings import check_fleet_settings, check_settings

    if isinstance(subject, FleetPlan):
        check_fleet_settings(settings, subject)
    else:
        check_settings(settings, subject)


def _rehearsed(
    subject: "Plan | FleetPlan",
    run: Path,
    trace: str | None,
    settings: "RehearsalSettings",
    listen: Callable[[float], None],
) -> _Rehearsed:
    from planner.domain.fleets import FleetPlan

    if isinstance(subject, FleetPlan):
        return _rehearsed_fleet(subject, settings, listen)
    from planner.runs.rehearsal.rehearsing import rehearse
    from planner.runs.rehearsal.writing import rehearsal_document, rehearsal_files, rehearsal_page
    from planner.runs.replays.replays import trace_of

    rehearsal = rehearse(subject, trace_of(subject, trace, run), settings, listen)
    return _Rehearsed(
        page=rehearsal_page(rehearsal),
        document=rehearsal_document(rehearsal),
        files=rehearsal_files(rehearsal),
        holds=rehearsal.holds,
    )


def _rehearsed_fleet(fleet: "FleetPlan", settings: "RehearsalSettings", listen: Callable[[float], None]) -> _Rehearsed:
    from planner.runs.rehearsal.fleets import writing
    from planner.runs.rehearsal.fleets.rehearsing import rehearse_fleet

    rehearsal = rehearse_fleet(fleet, settings, listen)
    return _Rehearsed(
        page=writing.fleet_rehearsal_page(rehearsal),
        document=writing.fleet_rehearsal_document(rehearsal),
        files=writing.fleet_rehearsal_files(rehearsal),
        holds=rehearsal.holds,
    )
