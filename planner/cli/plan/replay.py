"""`planner replay`: does a plan keep its promise, request by request?"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan import fleet_folders, saved_runs
from planner.cli.program.shared_options import seeds_of
from planner.errors import EXIT_BAD_INPUT, EXIT_INFEASIBLE, InputError

if TYPE_CHECKING:
    from planner.domain.arrivals import Failure
    from planner.domain.replay import ReplayResult, ReplaySweep

_FAILURE = re.compile(r"(?P<island>.+)@(?P<at>[^@:]+)(?::(?P<nodes>[^@:]+))?")


def read_seeds(text: str) -> tuple[int, ...]:
    """`3`: so many seeds, from 0 on; `7,` or `1,5` or `4-6`: these."""
    if "," not in text and "-" not in text:
        count = seeds_of(text)[0]
        if not 1 <= count <= 1000:
            raise InputError(f"--seeds: must be from 1 to 1000 seeds, got {text!r}.", hint="Write 3, or 0,1,2.")
        return tuple(range(count))
    return seeds_of(text.removesuffix(","))


def read_stretch(text: str | None) -> tuple[float, float] | None:
    """`0:1800`, seconds of the trace."""
    if text is None:
        return None
    start, _, end = text.partition(":")
    seconds = _number(start), _number(end)
    if any(math.isnan(second) for second in seconds):
        raise InputError(f"--between: must be two seconds of the trace, got {text!r}.", hint="Write 0:1800.")
    return seconds


def read_failure(text: str) -> "Failure":
    """`ISLAND@SECONDS`, one node; `ISLAND@SECONDS:NODES`, so many or `all`."""
    from planner.domain.arrivals import Failure

    match = _FAILURE.fullmatch(text)
    nodes = "1" if match is None or match["nodes"] is None else match["nodes"].replace("all", "0")
    at_s = math.nan if match is None else _number(match["at"])
    if match is None or math.isnan(at_s) or not (nodes.isascii() and nodes.isdigit() and len(nodes) <= 9):
        raise InputError(
            f"--fail: must be ISLAND@SECONDS or ISLAND@SECONDS:NODES, got {text!r}.",
            hint="Write --fail prefill-1@60, --fail prefill-1@60:2, or --fail prefill-1@60:all.",
        )
    return Failure(island=match["island"], at_s=at_s, nodes=int(nodes))


def _number(text: str) -> float:
    """The number, or NaN."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def command(
    context: typer.Context,
    run: saved_runs.Run,
    trace: saved_runs.Trace = None,
    rate: saved_runs.Rate = None,
    router: Annotated[
        str | None,
        typer.Option(
            help="A router of `planner export`, or how one of your own chooses: least_work, prefix_aware, session, "
            "overflow, round_robin or random. [default: the plan's]",
            show_default=False,
        ),
    ] = None,
    length_spread: Annotated[
        float | None,
        typer.Option(help="Error of a length told by bytes: standard deviation of its logarithm. [default: 0.2]"),
    ] = None,
    arrivals: Annotated[
        str | None,
        typer.Option(help="trace, compressed, poisson, gamma or diurnal. [default: poisson]", show_default=False),
    ] = None,
    variation: Annotated[
        float | None,
        typer.Option(help="Squared variation of the gaps: gamma, diurnal.", show_default=False),
    ] = None,
    curve: Annotated[
        str | None, typer.Option(help="Rates over the day of diurnal arrivals: a name or a file.", show_default=False)
    ] = None,
    between: Annotated[
        str | None, typer.Option(help="Seconds of the trace to take, as 0:1800.", show_default=False)
    ] = None,
    sessions: Annotated[
        str,
        typer.Option(
            help="closed: a later turn comes its pause after the answer before it, not when it came in the trace."
        ),
    ] = "open",
    requests: Annotated[int, typer.Option(help="Requests a seed, warm-up included.")] = 20_000,
    seeds: Annotated[str, typer.Option(help="How many seeds, or which: 3, or 1,5, or 4-6.")] = "3",
    warm_up: Annotated[float, typer.Option(help="Share of the requests that does not count.")] = 0.1,
    fail: Annotated[
        list[str] | None,
        typer.Option(
            help="ISLAND@SECONDS[:NODES]: it loses a node then, or so many, or all; may be repeated.",
            show_default=False,
        ),
    ] = None,
    storage_gb_s: Annotated[float, typer.Option(help="GB/s at which a server that comes back reads weights.")] = 2.0,
    sweep: Annotated[bool, typer.Option("--sweep", help="Find the highest rate that holds the levels, too.")] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with 3 where levels break, with 2 where too few requests came to tell."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for replay.md, report.html, replay.json, tables and figures.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a replay that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Send requests through a plan one by one: TTFT, TPOT, goodput, and whether the promise holds.

    Of a fleet's folder: every deployment with the requests of all its services, each judged by its own levels."""
    from planner import files, pipeline, report
    from planner.runs.replays.replay_settings import replay_settings
    from planner.runs.replays.replays import (
        NAMES,
        AskedReplay,
        rate_of,
        replay_folder,
        trace_of,
        unasked_lengths,
        with_failures,
    )

    choices = {
        "router": router,
        "length_spread": length_spread,
        "arrivals": arrivals,
        "variation": variation,
        "curve": curve,
        "between": read_stretch(between),
        "sessions": sessions,
        "requests": requests,
        "seeds": read_seeds(seeds),
        "warm_up": warm_up,
        "storage_gb_s": storage_gb_s,
    }
    if fleet_folders.of_fleet(run):
        taken = ("rate", "router", "length_spread", "arrivals", "variation", "curve", "requests", "seeds", "warm_up")
        hint = "Replay a deployment by itself: planner replay FLEET/services/NAME."
        fleet_folders.refuse_options(context, (*taken, "strict"), hint)
        fleet_folders.replay_fleet(run, rate, choices, strict=strict, as_json=json, quiet=quiet)
        return
    plan = saved_runs.read_run(run)
    settings = replay_settings(plan, **choices, failures=[read_failure(text) for text in fail or []])  # type: ignore[arg-type]
    rate_rps = rate_of(plan, rate)
    source = trace_of(plan, trace, run)
    if out is not None:  # fails before the work, not after it
        files.claim_folder(out, NAMES, force=force)
    listen = progress_of("replay", quiet=quiet or json)
    drawn = unasked_lengths(plan, trace, source)
    result = with_failures(pipeline.replay(plan, source, settings, rate_rps, listen), settings, *drawn)
    rates = None
    if sweep:
        rates = pipeline.sweep_rates(plan, source, settings, progress_of("sweep", quiet=quiet or json))
    if out is not None:
        request = AskedReplay(trace=trace, rate_rps=rate_rps, sweep=sweep, settings=settings)
        files.write_folder(out, replay_folder(request, result, rates), force=force, kinds=NAMES)
    if json:
        screen.show_json({"folder": None if out is None else str(out), **report.replay_document(result, rates)})
    else:
        _show(result, rates, out)
    if strict and result.holds is not True:
        raise typer.Exit(EXIT_INFEASIBLE if result.holds is False else EXIT_BAD_INPUT)


def progress_of(name: str, *, quiet: bool) -> Callable[[float], None]:
    """Tells how far the replay is, a line every tenth."""

    last = -1

    def listen(done: float) -> None:
        nonlocal last
        tenth = int(10 * done)
        if tenth > last and not quiet:
            last = tenth
            screen.show_note(f"{name}: {10 * tenth} %")

    return listen


def _show(result: "ReplayResult", sweep: "ReplaySweep | None", out: Path | None) -> None:
    """The verdict, the times, the rates, the notes."""
    from planner import report
    from planner.report.replay.tables import found_table, islands_table, latency_table, sweep_table, turns_table

    screen.show_prose(_plain(report.verdict(result)))
    screen.show_table("Times", *latency_table(result).words(), important=("P50", "P99"))
    if result.turns:
        screen.show_table("Turns", *turns_table(result).words(), important=("TTFT P99", "Levels"))
    if result.total.found_at:
        screen.show_table("Where prompts are found", *found_table(result).words())
    screen.show_table("Islands", *islands_table(result).words(), important=("Utilisation", "KV most", "Wait P99"))
    if sweep is not None:
        screen.show_table("Rates", *sweep_table(sweep).words())
        screen.show_prose(_plain(report.sweep_verdict(sweep)))
    for reason, count in result.left_out:
        screen.show_note(f"left out: {count:,} requests {reason}")
    for note in result.notes:
        screen.show_note(f"note: {note}")
    if out is not None:
        screen.show_prose(f"Written to {out}")


def _plain(text: str) -> str:
    """Markdown of a sentence as a terminal shows it."""
    return text.replace("**", "").replace("\\", "")
