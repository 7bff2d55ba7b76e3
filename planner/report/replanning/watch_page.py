"""A watch as a page to send: load against promise, rent, GPUs, every change with its reason."""

from collections.abc import Iterator

from planner.domain.replanning.watching import WatchLog
from planner.report.kit.html.blocks import Block, DataTable, Figure, Page, Prose, Section
from planner.report.kit.html.plots import Kind, Plot, chart_of, held_series
from planner.report.kit.quantities import money
from planner.report.replanning.watch_figures import clock_of, edges_of, gpu_types, gpus_of
from planner.report.replanning.watch_tables import (
    CHANGE_COLUMNS,
    MOST_NOTES,
    NOTE_COLUMNS,
    TALLY_COLUMNS,
    change_rows,
    note_rows,
    tally_rows,
    verdict,
)

_ALL_WINDOWS = "watch.jsonl of the watch's folder"


def watch_page(log: WatchLog, made_by: str, source: str = "") -> Page:
    """The page of what was watched so far."""
    tally = DataTable(columns=TALLY_COLUMNS, rows=tuple(tally_rows(log)), caption="What it comes to")
    changes = DataTable(columns=CHANGE_COLUMNS, rows=tuple(change_rows(log)), caption="Plans in order")
    edges = tuple(edges_of(log)) if log.windows else ()
    return Page(
        title=f"Watch of {log.name}",
        verdict=verdict(log),
        figures=tuple(_heads(log)),
        sections=(
            Section(name="load", title="Load and promise", blocks=(chart_of(_load(log, edges)),)),
            Section(name="cost", title="Rent", blocks=(chart_of(_rent(log, edges)), tally)),
            Section(name="gpus", title="GPUs", blocks=(chart_of(_gpus(log, edges)),)),
            Section(name="changes", title="Changes", blocks=(changes,)),
            Section(name="refused", title="Not believed, not met", blocks=tuple(_notes(log))),
        ),
        made_by=made_by,
        source=source,
    )


def _heads(log: WatchLog) -> Iterator[Figure]:
    tally = log.tally
    yield Figure(label="USD", value=money(tally.usd))
    yield Figure(label="changes", value=str(sum(count for _, count in tally.changes)))
    yield Figure(label="GPUs touched", value=f"{tally.gpus_touched:,}")
    yield Figure(label="of the requests beyond the promise", value=f"{tally.unserved:.3%}")
    yield Figure(label="beside the best in hindsight", value=f"{tally.regret:+.1%}")


def _notes(log: WatchLog) -> Iterator[Block]:
    rows = note_rows(log)
    if not rows:
        yield Prose(markdown=f"Every value of the feeds was believed. {_met(log)}")
        return
    if len(rows) > MOST_NOTES:
        yield Prose(markdown=f"The last {MOST_NOTES:,} of {len(rows):,}; all of them are in {_ALL_WINDOWS}.")
    yield DataTable(columns=NOTE_COLUMNS, rows=tuple(rows[-MOST_NOTES:]), caption="In order")


def _met(log: WatchLog) -> str:
    """Whether the promise was enough at every moment, as the verdict says it."""
    if not log.tally.unserved:
        return "Every need was met."
    return f"A plan was found for every need; until it served, {log.tally.unserved:.3%} of the requests were too many."


def _load(log: WatchLog, edges: tuple[float, ...]) -> Plot:
    loads = tuple(window.step.observation.load_rps for window in log.windows)
    promises = tuple(window.promise_rps for window in log.windows)
    return Plot(
        name="load-and-promise",
        title="Load and promise",
        says="Requests/s as observed, and the promise in force, which is the smaller of two plans' while a change is "
        "under way.",
        kind=Kind.STEPS,
        x=clock_of(log).value,
        clock=clock_of(log),
        y="requests/s",
        series=(
            held_series("load", edges, loads, place=0),
            held_series("promise in force", edges, promises, tone="chosen"),
        ),
        rest=_ALL_WINDOWS,
    )


def _rent(log: WatchLog, edges: tuple[float, ...]) -> Plot:
    return Plot(
        name="rent",
        title="Rent of the fleet",
        says="USD/hour of the plan that stands, at the prices of the moment.",
        kind=Kind.STEPS,
        x=clock_of(log).value,
        clock=clock_of(log),
        y="USD/hour",
        series=(held_series("rent", edges, tuple(window.usd_per_hour for window in log.windows), tone="chosen"),),
        rest=_ALL_WINDOWS,
    )


def _gpus(log: WatchLog, edges: tuple[float, ...]) -> Plot:
    return Plot(
        name="gpus-in-servers",
        title="GPUs in servers",
        says="GPUs of each type in servers of the plan that stands.",
        kind=Kind.STEPS,
        x=clock_of(log).value,
        clock=clock_of(log),
        y="GPUs",
        series=tuple(
            held_series(gpu, edges, gpus_of(log, gpu), place=place, gpu=gpu) for place, gpu in enumerate(gpu_types(log))
        ),
        rest=_ALL_WINDOWS,
    )
