"""Run folders: reading a plan, and a replay of it, back."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from planner.domain import Phase, Plan
from planner.domain.replay import StoredReplay, StoredTimes
from planner.errors import InputError
from planner.files.disk.documents import read_bytes, read_text
from planner.files.disk.folders import PLAN_FILE, SEARCH_FOLDER
from planner.files.disk.opening import MOST_OF_A_LIST, is_folder, is_there
from planner.files.plan.digests import read_sealed
from planner.files.plan.plan_reader import decode_plan
from planner.files.sections import Section

REPLAY_FILE = "replay.json"
FLEET_FILE, SERVICES_FOLDER = "fleet.json", "services"
"""Of a fleet: its document, and the folder of its runs."""
_ANEW = "Replay the plan again: planner replay RUN --out DIR."
_STATISTICS = ("P50", "P90", "P95", "P99", "mean")
_TIMES = ((Phase.PREFILL, "ttft_ms"), (Phase.DECODE, "tpot_ms"))


def load_stored_replay(source: Path) -> StoredReplay:
    """The replay of a folder that `planner replay --out` wrote, or of its replay.json. InputError where it is none."""
    document = read_sealed(source / REPLAY_FILE if is_folder(source) else source, hint=_ANEW)
    return StoredReplay(
        plan=document.text("plan"),
        capacity_rps=document.number("capacity_rps", low=0),
        rate_rps=document.number("rate_rps", low=0),
        holds=None if document.is_empty("holds") else document.flag("holds"),
        summary=document.text("summary"),
        buckets=tuple(times for row in document.sections("buckets") for times in _times(row)),
    )


def _times(bucket: Section) -> Iterator[StoredTimes]:
    start, end = bucket.integer("start", low=0), bucket.integer("end", low=1)
    for phase, key in _TIMES:
        if not bucket.is_empty(key):
            row = bucket.section(key)
            times_ms = {statistic: _time(row, statistic.lower()) for statistic in _STATISTICS}
            yield StoredTimes(phase=phase, start=start, end=end, times_ms=times_ms)


def _time(row: Section, key: str) -> float | None:
    return None if row.is_empty(key) else row.number(key, low=0)


MANIFESTS = "manifests"
ENGINE_LABEL = re.compile(r"app\.kubernetes\.io/name: ['\"]?(vllm|sglang|trtllm)\b")
USUAL_ENGINE = "vllm"


def holds_run(folder: Path) -> bool:
    """Whether there is a plan in `folder`, whatever it is worth."""
    return is_there(folder / PLAN_FILE)


def load_run(path: Path) -> Plan:
    """The plan of a run folder, or of a plan.json. Raises InputError where it is missing or not a plan."""
    file = path / PLAN_FILE if is_folder(path) else path
    hint = "Give a run folder that `planner plan` wrote, or its plan.json."
    if is_folder(path) and is_there(path / FLEET_FILE) and not is_there(file):
        raise InputError(
            f"{path}: must be the run folder of one deployment, is that of a fleet.",
            hint=f"Give one of its deployments, such as {_a_deployment(path)}.",
        )
    if not os.path.lexists(file):
        raise InputError(f"{file}: cannot be read: there is no such file.", hint=hint)
    try:
        text = read_bytes(file, most_bytes=MOST_OF_A_LIST)
    except InputError as error:
        raise InputError(error.message, hint=hint) from None
    return decode_plan(text, file)


def _a_deployment(fleet: Path) -> Path:
    """A run folder of a fleet."""
    runs = sorted((fleet / SERVICES_FOLDER).glob(f"*/{PLAN_FILE}"))
    return runs[0].parent if runs else fleet / SERVICES_FOLDER / "NAME"


def search_files(folder: Path) -> dict[str, bytes]:
    """What a finished search left in a run folder besides the plan: relative path -> content."""
    place = folder / SEARCH_FOLDER
    names = sorted(path.name for path in place.iterdir()) if is_folder(place) else []
    return {f"{SEARCH_FOLDER}/{name}": read_bytes(place / name, most_bytes=MOST_OF_A_LIST) for name in names}


def engine_of(folder: Path) -> str:
    """The engine that the manifests of a run folder are for; the usual one where they do not tell."""
    for path in sorted((folder / MANIFESTS).glob("*.yaml")) if is_folder(folder) else []:
        match = ENGINE_LABEL.search(read_text(path))
        if match:
            return match.group(1)
    return USUAL_ENGINE
