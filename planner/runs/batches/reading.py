"""Scenarios of many jobs read by one process: a workload that several name is read, and a trace counted, once.

What is remembered is known by the content of its files, and a few of them at a time.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from planner import files
from planner.domain import InputHash, LengthProfile, RequestTrace, Scenario
from planner.files.scenario.settings import Setting
from planner.files.tables.workloads import files_of_workload, read_workload
from planner.workload import summarize

MOST_WORKLOADS = 4
"""Remembered at a time: a trace of a million requests has some 24 MB."""


class _Same:
    """A trace that equals itself alone: to compare a million requests would take longer than it saves."""

    def __init__(self, trace: RequestTrace) -> None:
        self.trace = trace

    def __hash__(self) -> int:
        return id(self.trace)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.trace is self.trace


def load_scenario_again(path: Path, settings: Sequence[Setting] = ()) -> Scenario:
    """As `files.load_scenario`, for one job after the other. Raises InputError."""
    return files.load_scenario(path, lambda trace: _counted(_Same(trace)), settings, _read_requests)


def _read_requests(path: Path) -> tuple[LengthProfile | RequestTrace, tuple[InputHash, ...]]:
    return _read(path, tuple(files.input_hash(file).sha256 for file in files_of_workload(path)))


@lru_cache(maxsize=MOST_WORKLOADS)
def _read(path: Path, _contents: tuple[str, ...]) -> tuple[LengthProfile | RequestTrace, tuple[InputHash, ...]]:
    return read_workload(path)


@lru_cache(maxsize=MOST_WORKLOADS)
def _counted(same: _Same) -> LengthProfile:
    return summarize(same.trace)
