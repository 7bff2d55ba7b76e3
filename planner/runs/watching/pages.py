"""A watch as a page and as a folder to send."""

import hashlib
from pathlib import Path

from planner import files
from planner.domain.watching import WatchLog
from planner.files.plan.watch_folders import load_watch
from planner.report.replanning import watch_tables
from planner.report.replanning.watch_page import watch_page
from planner.runs.pages import made_by, page_bytes

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
