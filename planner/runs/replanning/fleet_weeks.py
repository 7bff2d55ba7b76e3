"""The schedule of a fleet as a folder: who has which nodes hour by hour, in a page and in tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planner import files
from planner.domain.serving.fleets.lending import FleetSchedule, ReplayedLevel
from planner.report.kit.markdown import page_text
from planner.report.replanning import fleet_tables as tables
from planner.runs.pages import page_bytes

SUMMARY_FILE, WINDOWS_FILE, LEVELS_FILE, REPLAYS_FILE = "schedule.md", "windows.csv", "levels.csv", "replays.csv"
NAMES = (SUMMARY_FILE, WINDOWS_FILE, LEVELS_FILE, REPLAYS_FILE, files.PAGE_FILE)


def claim_week_folder(folder: Path, *, force: bool) -> None:
    """Fail before the work where its result could not be written. Raises InputError."""
    files.claim_folder(folder, NAMES, force=force)


def week_document(week: FleetSchedule, replayed: Sequence[ReplayedLevel] = ()) -> dict[str, Any]:
    """What there is to tell of it as plain values."""
    return {
        "fleet": week.plan.fleet.name,
        "days": week.days,
        "gained_tokens_a_day": week.gained_tokens_a_day,
        "standing_tokens_a_day": week.standing_tokens_a_day,
        "lent_gpu_hours_a_day": week.lent_gpu_hours_a_day,
        "switches": week.switches,
        "starts": week.starts,
        "short_windows": list(week.short),
        "levels": tables.levels(week).records(),
        "replays": tables.replays(replayed).records(),
    }


def write_week(folder: Path, week: FleetSchedule, replayed: Sequence[ReplayedLevel] = (), *, force: bool) -> None:
    """Write its folder, all of it or nothing."""
    page = tables.fleet_schedule_page(week, replayed)
    contents = {
        SUMMARY_FILE: page_text(page).encode(),
        WINDOWS_FILE: tables.windows(week).csv(),
        LEVELS_FILE: tables.levels(week).csv(),
        files.PAGE_FILE: page_bytes(page),
        **({REPLAYS_FILE: tables.replays(replayed).csv()} if replayed else {}),
    }
    files.write_folder(folder, contents, force=force, kinds=NAMES)
