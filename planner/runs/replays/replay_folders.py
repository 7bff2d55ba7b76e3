"""The folder of a replay: what was asked for, what came of it, sealed."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner import files, report
from planner.domain.arrivals import ReplaySettings
from planner.domain.replay import ReplayResult, ReplaySweep
from planner.errors import InputError
from planner.files.plan.sealed_documents import read_sealed, require_schema, sealed_text
from planner.files.records import load_record, record_document
from planner.runs.pages import written_page

ASKED = "asked"
NAMES = (*report.replay_file_names(), files.PAGE_FILE)
"""All that such a folder may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedReplay:
    """What a replay was asked for. `trace`: as it was named (None: the one that the plan was made for); `sweep`:
    whether the highest rate that holds was looked for, too."""

    trace: str | None
    rate_rps: float
    sweep: bool
    settings: ReplaySettings


def replay_folder(asked: AskedReplay, result: ReplayResult, rates: ReplaySweep | None) -> dict[str, bytes]:
    """Relative path -> content of every file."""
    page = written_page(report.replay_page(result, rates), report.replay_plots(result, rates))
    written = report.replay_files(result, rates)
    document = json.loads(written[files.REPLAY_FILE]) | {ASKED: record_document(asked)}
    return {**written, files.REPLAY_FILE: sealed_text(document, indent=2), files.PAGE_FILE: page}


def asked_of(folder: Path) -> AskedReplay:
    """What the replay in a folder was asked for. InputError where it was edited, or does not tell."""
    path = folder / files.REPLAY_FILE
    document: dict[str, Any] = read_sealed(path).plain()
    if not isinstance(document.get(ASKED), dict):
        raise InputError(f"{path}: {ASKED}: must be what was asked for, is missing.", hint="Replay the plan again.")
    require_schema(AskedReplay, document[ASKED], f"{path}: {ASKED}")
    return load_record(AskedReplay, document[ASKED])
