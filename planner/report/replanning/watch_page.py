"""A watch as plots, figures and a page to send: load against promise, rent, GPUs, every change with its reason."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.domain.watching import Cause, WatchLog, WatchWindow
from planner.report.kit.plots import Clock, Kind, Plot, Series, chart_of, held_series, require_figure, series_of
from planner.report.kit.quantities import money
from planner.report.kit.tree import Block, DataTable, Figure, Page, Prose, section
from planner.report.replanning.watch_tables import (
    MOST_NOTES,
    NOTE_COLUMNS,
    changes,
    note_rows,
    tallied,
    verdict,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as StillFigure

WATCH_FIGURES = {
    "watch": "Load, promise in force, rent and changes",
    "gpus": "GPUs in servers, by type",
}
"""Names and titles of the figures of a watch."""
ALL_WINDOWS = "watch.jsonl of the watch's folder"


def watch_figure(log: WatchLog, name: str = "watch") -> "StillFigure":
    """The figure `name`, one of WATCH_FIGURES, on an Agg canvas. Raises InputError for another name."""
    require_figure(name, WATCH_FIGURES)
    from planner.report.kit.stills import still  # noqa: PLC0415  # matplotlib takes a second to load

    plots = (gpus_plot(log),) if name == "gpus" else (load_plot(log), rent_plot(log))
    return still(log.name, WATCH_FIGURES[name], plots if log.windows else (), "nothing observed yet")


def edges_of(log: WatchLog) -> list[float]:
    """Beginnings of the windows and the end of the last, in seconds as `clock_of` counts them."""
    edges = [window.step.observation.at_s for window in log.windows]
    if not edges:
        return []
    return [*edges, edges[-1] + 3600 * log.windows[-1].hours]


def clock_of(log: WatchLog) -> Clock:
    """What its times are counted from."""
    return Clock.DATED if log.iso else Clock.DAYS


def load_plot(log: WatchLog) -> Plot:
    """Load and promise in force, with changes by their cause."""
    edges = edges_of(log)
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
            *(_changes(log, cause) for cause in Cause if any(_cause(window) is cause for window in log.changes)),
        ),
        rest=ALL_WINDOWS,
    )


def rent_plot(log: WatchLog) -> Plot:
    """USD/hour of the plan that stands."""
    edges = edges_of(log)
    return Plot(
        name="rent",
        title="Rent of the fleet",
        says="USD/hour of the plan that stands, at the prices of the moment.",
        kind=Kind.STEPS,
        x=clock_of(log).value,
        clock=clock_of(log),
        y="USD/hour",
        series=(held_series("rent", edges, tuple(window.usd_per_hour for window in log.windows), tone="chosen"),),
        rest=ALL_WINDOWS,
    )


def gpus_plot(log: WatchLog) -> Plot:
    """GPUs in servers, by type."""
    edges = edges_of(log)
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
        rest=ALL_WINDOWS,
    )


def _changes(log: WatchLog, cause: Cause) -> Series:
    """Changes of one cause, at the promise that they led to."""
    windows = [window for window in log.changes if _cause(window) is cause]
    points = [(window.step.observation.at_s, window.promise_rps) for window in windows]
    return series_of(f"change: {cause.value}", points, kind=Kind.DOTS, tone="alarm" if cause is Cause.LOST else "")


def _cause(window: WatchWindow) -> Cause | None:
    return window.step.decision.cause


def gpu_types(log: WatchLog) -> list[str]:
    """GPU types that any of its plans has."""
    return sorted({gpu for window in log.windows if window.fleet is not None for gpu, _ in window.fleet.gpus})


def gpus_of(log: WatchLog, gpu: str) -> tuple[float, ...]:
    """GPUs of a type in servers, window by window."""
    return tuple(0.0 if window.fleet is None else float(dict(window.fleet.gpus).get(gpu, 0)) for window in log.windows)


def watch_page(log: WatchLog) -> Page:
    """The report of what was watched so far."""
    return Page(
        title=f"Watch of {log.name}",
        verdict=verdict(log),
        figures=tuple(_heads(log)),
        sections=(
            section("load", "Load and promise", chart_of(load_plot(log))),
            section("cost", "Rent", chart_of(rent_plot(log)), tallied(log).block()),
            section("gpus", "GPUs", chart_of(gpus_plot(log))),
            section("changes", "Changes", changes(log).block()),
            section("refused", "Not believed, not met", *_notes(log)),
        ),
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
        yield Prose(markdown=f"The last {MOST_NOTES:,} of {len(rows):,}; all of them are in {ALL_WINDOWS}.")
    yield DataTable(columns=NOTE_COLUMNS, rows=tuple(rows[-MOST_NOTES:]))


def _met(log: WatchLog) -> str:
    """Whether the promise was enough at every moment, as the verdict says it."""
    if not log.tally.unserved:
        return "Every need was met."
    return f"A plan was found for every need; until it served, {log.tally.unserved:.3%} of the requests were too many."
