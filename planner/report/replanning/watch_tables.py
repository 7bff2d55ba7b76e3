"""A watch in words and tables: what it comes to, its changes, its observations, what was not believed."""

from planner.domain.watching import Cause, Decision, Fleet, Verdict, WatchLog, WatchWindow, clock_text
from planner.report.kit.quantities import counted, measured, money, rate, significant
from planner.report.kit.tables import Column, Table, fields, of_part, table_of

NOTE_COLUMNS = ("time", "what was not believed")
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


def tallied(log: WatchLog) -> Table[tuple[str, str | int]]:
    """The tally line by line."""
    columns: tuple[Column[tuple[str, str | int]], ...] = (
        Column("", lambda row: row[0]),
        Column("value", lambda row: row[1], str),
    )
    return table_of(columns, _tally_rows(log))


def _tally_rows(log: WatchLog) -> list[tuple[str, str | int]]:
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


def gpus_text(fleet: Fleet) -> str:
    """GPUs by type, as `64 H200, 16 H20`."""
    return ", ".join(f"{count} {gpu}" for gpu, count in fleet.gpus)


_CAUSE: Column[Decision] = Column("cause", lambda decision: "" if decision.cause is None else decision.cause.value)
_FLEET: tuple[Column[Fleet], ...] = (
    Column("promise (requests/s)", lambda fleet: rate(fleet.promise_rps), right=True),
    Column("GPUs", gpus_text),
    Column("touched", lambda fleet: fleet.gpus_touched, str),
    Column("cost (USD)", lambda fleet: money(fleet.change_usd), right=True),
)


def changes(log: WatchLog) -> Table[WatchWindow]:
    """One row a plan that took its place."""
    columns: tuple[Column[WatchWindow], ...] = (
        Column("time", lambda window: str(_time(log, window))),
        Column("plan", lambda window: f"{window.step.decision.number:04d}"),
        *of_part(lambda window: window.step.decision, (_CAUSE, Column("why", lambda decision: decision.reason))),
        *of_part(lambda window: window.step.decision.fleet, _FLEET[:1]),
        Column("USD/hour", lambda window: significant(window.usd_per_hour, 4), right=True),
        *of_part(lambda window: window.step.decision.fleet, _FLEET[1:]),
    )
    return table_of(columns, log.changes)


def _time(log: WatchLog, window: WatchWindow) -> str | float:
    return clock_text(window.step.observation.at_s, iso=log.iso)


def note_rows(log: WatchLog) -> list[tuple[str, str]]:
    """What of the feeds was refused, and needs that could not be met when they came up."""
    rows: list[tuple[str, str]] = []
    before = ""
    for window in log.windows:
        decision, time = window.step.decision, str(clock_text(window.step.observation.at_s, iso=log.iso))
        rows += [(time, note) for note in window.step.observation.notes]
        short = decision.reason if decision.verdict is Verdict.SHORT else ""
        cause = decision.cause.value if short and decision.cause is not None else ""
        if short and cause != before:
            rows.append((time, f"short: {short}"))
        before = cause
    return rows


def windows(log: WatchLog) -> Table[WatchWindow]:
    """One row an observation, as in windows.csv."""
    columns: tuple[Column[WatchWindow], ...] = (
        Column("time", lambda window: _time(log, window)),
        *fields("step.observation.load_rps", "promise_rps", "plan=step.decision.number", "usd_per_hour", "usd"),
        Column("change_usd", lambda window: getattr(window.step.decision.fleet, "change_usd", 0.0)),
        Column("gpus_touched", lambda window: getattr(window.step.decision.fleet, "gpus_touched", 0)),
        *fields("step.decision.verdict"),
        *of_part(lambda window: window.step.decision, (_CAUSE, *fields("reason"))),
        Column("lost_nodes", lambda window: " ".join(window.step.observation.lost_nodes)),
        Column("gpus", lambda window: "" if window.fleet is None else gpus_text(window.fleet)),
    )
    return table_of(columns, log.windows)
