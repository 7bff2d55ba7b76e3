"""`planner rehearse`: a plan's routing by the routers' own programs, before a GPU is rented."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan import saved_runs
from planner.errors import EXIT_BAD_INPUT, EXIT_INFEASIBLE, InputError

if TYPE_CHECKING:
    from planner.runs.rehearsal.settings import Kill

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
    run: saved_runs.Run,
    router: Annotated[
        str,
        typer.Option(
            help="haproxy, vllm or model-gateway, as `planner export --target script` starts it. [default: the "
            "scenario's, else haproxy]",
            show_default=False,
        ),
    ] = "",
    engine: Annotated[str, typer.Option(help="vllm or sglang. [default: the scenario's]", show_default=False)] = "",
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
    from planner.runs.rehearsal.settings import RehearsalSettings, check_settings
    from planner.runs.replays.replays import rate_of, trace_of

    plan = saved_runs.read_run(run)
    words = dict(read_program(text) for text in program or ())
    settings = RehearsalSettings(
        router=router,
        engine=engine,
        ranks=ranks,
        router_counts=router_counts,
        rate_rps=rate_of(plan, rate),
        requests=requests,
        seed=seed,
        slower=slower,
        minutes=minutes,
        length_spread=length_spread,
        kills=tuple(read_kill(text) for text in kill or ()),
        programs=words,
    )
    check_settings(settings, plan)
    # what speaks HTTP is an extra, whose absence `check_settings` tells
    from planner.runs.rehearsal.rehearsing import rehearse
    from planner.runs.rehearsal.writing import NAMES, rehearsal_document, rehearsal_files, rehearsal_page

    if out is not None:  # fails before the work, not after it
        files.claim_folder(out, NAMES, force=force)
    listen = _progress(settings.expected_s, quiet=quiet or json)
    rehearsal = rehearse(plan, trace_of(plan, trace, run), settings, listen)
    if out is not None:
        files.write_folder(out, rehearsal_files(rehearsal), force=force, kinds=NAMES)
    if json:
        screen.show_json({"folder": None if out is None else str(out), **rehearsal_document(rehearsal)})
    else:
        screen.show_markdown(report.page_text(rehearsal_page(rehearsal)))
        if out is not None:
            screen.show_prose(f"Written to {out}")
    if rehearsal.holds is not True:
        raise typer.Exit(EXIT_INFEASIBLE if rehearsal.holds is False else EXIT_BAD_INPUT)


def _progress(expected_s: float, *, quiet: bool) -> Callable[[float], None]:
    """Tells how far the rehearsal is, a line every tenth, and first how long it takes about."""
    last = -1

    def listen(done: float) -> None:
        nonlocal last
        if quiet:
            return
        if last < 0:
            screen.show_note(f"rehearse: about {expected_s:.0f} s")
        tenth = int(10 * done)
        if tenth > last:
            last = tenth
            screen.show_note(f"rehearse: {10 * tenth} %")

    return listen
