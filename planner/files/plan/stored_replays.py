"""A replay read back from its folder."""

from collections.abc import Iterator
from pathlib import Path

from planner.domain import Phase
from planner.domain.replay import StoredReplay, StoredTimes
from planner.files.disk.opening import is_folder
from planner.files.plan.sealed_documents import read_sealed
from planner.files.sections import Section

REPLAY_FILE = "replay.json"
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
        policy=document.text("policy"),
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
