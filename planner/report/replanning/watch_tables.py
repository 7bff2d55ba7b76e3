"""A watch in words and tables: what it comes to, its changes, its observations, what was not believed."""

from collections.abc import Iterator
from typing import Any

from planner.domain.replanning.watching import Cause, Fleet, Verdict, WatchLog, clock_text
from planner.report.kit.csv_tables import csv_table
from planner.report.kit.frames import Frame, frame_of
from planner.report.kit.markdown import escaped, table
from planner.report.kit.quantities import counted, measured, money, rate, significant

Row = tuple[Any, ...]

TALLY_COLUMNS = ("", "value")
CHANGE_COLUMNS = ("time", "plan", "cause", "why", "promise (requests/s)", "USD/hour", "GPUs", "touched", "cost (USD)")
NOTE_COLUMNS = ("time", "what was not believed")
WINDOW_COLUMNS = (
    *("time", "load_rps", "promise_rps", "plan", "usd_per_hour", "usd", "change_usd", "gpus_touched"),
    *("verdict", "cause", "reason", "lost_nodes", "gpus"),
)
MOST_NOTES = 200


def verdict(log: WatchLog) -> str:
    """What the watch comes to, in two sentences of Markdown."""
    tally = log.tally
    changes = sum(count for _, count in tally.changes)
    first = (
        f"**{money(tally.usd)} USD** over {measured(round(tally.hours, 2), 'hour')} with {counted(changes, 'change')}, "
        f"{tally.gpus_touched:,} GPUs touched; {tally.regret:+.1%} beside the best sequence of its plans in hindsight."
    )
    short = f"The load was above the promise in force for {measured(round(tally.short_hours, 2), 'hour')}"
    return f"{first} {short} ({tally.unserved:.3%} of the requests)."


def tally_rows(log: WatchLog) -> list[Row]:
    """The tally line by line."""
    tally = log.tally
    static = "none of them serves all" if tally.static_usd is None else money(tally.static_usd)
    return [
        ("hours watched", f"{tally.hours:,.1f}"),
        ("USD, changes among them", f"{tally.usd:,.2f} ({tally.change_usd:,.2f})"),
        ("GPUs touched by changes", f"{tally.gpus_touched:,}"),
        *((f"changes, {_CAUSES[Cause(cause)]}", count) for cause, count in tally.changes),
        ("changes in the worst 24 hours, at most", f"{tally.most_in_a_day}, {tally.bound_a_day}"),
        ("hours short, share of requests beyond", f"{tally.short_hours:,.2f}, {tally.unserved:.3%}"),
        ("USD, one of the plans all the time", static),
        ("USD, best sequence in hindsight", f"{tally.hindsight_usd:,.2f} ({tally.regret:+.1%} regret)"),
        ("USD, switching freely for nothing", f"{tally.free_usd:,.2f} ({tally.free_regret:+.1%})"),
    ]


_CAUSES = {
    Cause.START: "first plan",
    Cause.LOAD: "for load",
    Cause.LOST: "for lost GPUs",
    Cause.SAVING: "for money",
}


def change_rows(log: WatchLog) -> list[Row]:
    """One row a plan that took its place."""
    rows = []
    for window in log.changes:
        decision, fleet = window.step.decision, window.step.decision.fleet
        assert fleet is not None, "changes have a plan"
        rows.append(
            (
                str(clock_text(window.step.observation.at_s, iso=log.iso)),
                f"{decision.number:04d}",
                decision.cause.value if decision.cause is not None else "",
                decision.reason,
                rate(fleet.promise_rps),
                significant(window.usd_per_hour, 4),
                gpus_text(fleet),
                fleet.gpus_touched,
                money(fleet.change_usd),
            )
        )
    return rows


def gpus_text(fleet: Fleet) -> str:
    """GPUs by type, as `64 H200, 16 H20`."""
    return ", ".join(f"{count} {gpu}" for gpu, count in fleet.gpus)


def note_rows(log: WatchLog) -> list[Row]:
    """What of the feeds was refused, and needs that could not be met when they came up."""
    rows, before = [], ""
    for window in log.windows:
        decision, time = window.step.decision, str(clock_text(window.step.observation.at_s, iso=log.iso))
        rows += [(time, note) for note in window.step.observation.notes]
        short = decision.reason if decision.verdict is Verdict.SHORT else ""
        cause = decision.cause.value if short and decision.cause is not None else ""
        if short and cause != before:
            rows.append((time, f"short: {short}"))
        before = cause
    return rows


def window_rows(log: WatchLog) -> Iterator[Row]:
    """One row an observation."""
    for window in log.windows:
        observation, decision, fleet = window.step.observation, window.step.decision, window.fleet
        changed_to = decision.fleet
        yield (
            clock_text(observation.at_s, iso=log.iso),
            observation.load_rps,
            window.promise_rps,
            decision.number,
            window.usd_per_hour,
            window.usd,
            0.0 if changed_to is None else changed_to.change_usd,
            0 if changed_to is None else changed_to.gpus_touched,
            decision.verdict.value,
            "" if decision.cause is None else decision.cause.value,
            decision.reason,
            " ".join(observation.lost_nodes),
            "" if fleet is None else gpus_text(fleet),
        )


def windows_csv(log: WatchLog) -> bytes:
    """windows.csv: one row an observation."""
    return csv_table(WINDOW_COLUMNS, window_rows(log))


def windows_frame(log: WatchLog) -> Frame:
    """The same as a data frame."""
    return frame_of((dict(zip(WINDOW_COLUMNS, row, strict=True)) for row in window_rows(log)), WINDOW_COLUMNS)


def changes_frame(log: WatchLog) -> Frame:
    """One row a plan that took its place."""
    return frame_of((dict(zip(CHANGE_COLUMNS, row, strict=True)) for row in change_rows(log)), CHANGE_COLUMNS)


def watch_report(log: WatchLog) -> str:
    """The watch in Markdown."""
    changes = [[escaped(str(cell)) for cell in row] for row in change_rows(log)]
    tallied = [[escaped(str(cell)) for cell in row] for row in tally_rows(log)]
    parts = [
        f"# Watch of {escaped(log.name)}",
        verdict(log),
        table(TALLY_COLUMNS, tallied, "lr"),
        "## Plans in order",
        table(CHANGE_COLUMNS, changes, "llllrrlrr") if changes else "No plan yet.",
    ]
    return "\n\n".join(parts) + "\n"
