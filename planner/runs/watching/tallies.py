"""The log of a watch with what it comes to, its plans read back; and its page."""

import hashlib
from functools import cache
from pathlib import Path

from planner import files
from planner.domain import Plan
from planner.domain.watching import Fleet, WatchLog
from planner.files.plan.watch_folders import load_watch, plan_folder
from planner.replanning.changes import changes_between
from planner.replanning.watches.hindsight import tally, windows_of
from planner.report.replanning import watch_tables
from planner.report.replanning.watch_page import watch_page
from planner.runs.pages import made_by, page_bytes
from planner.runs.watching.fleets import fleet_of


def read_log(folder: Path) -> WatchLog:
    """The log of the watch in `folder`, which may be at work. InputError where it is none, or is damaged."""
    header, steps = load_watch(folder)
    numbers = {step.decision.fleet.plan: step.decision.number for step in steps if step.decision.fleet is not None}
    start = None
    if dict(header.facts)["run"]:
        start = fleet_of(files.load_run(plan_folder(folder, 1)))
        numbers.setdefault(start.plan, 1)

    @cache
    def plan_at(number: int) -> Plan:
        return files.load_run(plan_folder(folder, number))

    def change_usd(before: Fleet, later: Fleet) -> float:
        plan = plan_at(numbers[later.plan])
        change = changes_between(plan_at(numbers[before.plan]), plan, plan.scenario.changes.times)
        return change.usd or 0.0  # watches have prices

    return WatchLog(
        name=header.name,
        iso=header.iso,
        settings=header.settings,
        windows=tuple(windows_of(steps, header.every_s, start)),
        tally=tally(steps, header.settings, change_usd, last_s=header.every_s, start=start),
    )


WINDOWS_FILE, WORDS_FILE = "windows.csv", "watch.md"


def watch_html(log: WatchLog, source: str) -> bytes:
    """The page of what was watched so far."""
    return page_bytes(watch_page(log, made_by(), source))


def watch_files(log: WatchLog, source: str) -> dict[str, bytes]:
    """Relative path -> content: the page, the words, a row an observation."""
    return {
        files.PAGE_FILE: watch_html(log, source),
        WORDS_FILE: watch_tables.watch_report(log).encode(),
        WINDOWS_FILE: watch_tables.windows(log).csv(),
    }


def source_of(folder: Path) -> str:
    """By which a page is known to be of this watch, however far it has come: what it was begun with."""
    header, _ = load_watch(folder)
    return f"watch {hashlib.sha256(repr((header.name, header.facts, header.settings)).encode()).hexdigest()}"
