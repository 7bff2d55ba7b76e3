"""A watch as a page to send: load against promise, rent, GPUs, every change with its reason."""

from collections.abc import Iterator

from planner.domain.watching import WatchLog
from planner.report.kit.html.blocks import Block, DataTable, Figure, Page, Prose, Section
from planner.report.kit.html.plots import chart_of
from planner.report.kit.quantities import money
from planner.report.replanning.watch_figures import ALL_WINDOWS, gpus_plot, load_plot, rent_plot
from planner.report.replanning.watch_tables import (
    MOST_NOTES,
    NOTE_COLUMNS,
    TALLY_COLUMNS,
    changes,
    note_rows,
    tally_rows,
    verdict,
)


def watch_page(log: WatchLog, made_by: str, source: str = "") -> Page:
    """The page of what was watched so far."""
    tally = DataTable(columns=TALLY_COLUMNS, rows=tuple(tally_rows(log)), caption="What it comes to")
    return Page(
        title=f"Watch of {log.name}",
        verdict=verdict(log),
        figures=tuple(_heads(log)),
        sections=(
            Section(name="load", title="Load and promise", blocks=(chart_of(load_plot(log)),)),
            Section(name="cost", title="Rent", blocks=(chart_of(rent_plot(log)), tally)),
            Section(name="gpus", title="GPUs", blocks=(chart_of(gpus_plot(log)),)),
            Section(name="changes", title="Changes", blocks=(changes(log).html("Plans in order"),)),
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
        yield Prose(markdown=f"The last {MOST_NOTES:,} of {len(rows):,}; all of them are in {ALL_WINDOWS}.")
    yield DataTable(columns=NOTE_COLUMNS, rows=tuple(rows[-MOST_NOTES:]), caption="In order")


def _met(log: WatchLog) -> str:
    """Whether the promise was enough at every moment, as the verdict says it."""
    if not log.tally.unserved:
        return "Every need was met."
    return f"A plan was found for every need; until it served, {log.tally.unserved:.3%} of the requests were too many."
