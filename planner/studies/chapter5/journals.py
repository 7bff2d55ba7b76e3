"""The searches of a study on disk as they end, so that the same study goes on with them after whatever cut it short.

`searches.jsonl` in the study's folder holds a checksummed line for each search, under the hash of all that it follows
from. It goes when the study takes its place.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from planner.domain import Scenario
from planner.files.disk.folders import at_work, entered, errors_told, place_of, remove_empty, to_be_made
from planner.files.plan.journal_lines import Document, append, damaged, line_of, lock, rows_of
from planner.files.scenario.scenario_documents import scenario_document
from planner.processes.interrupts import held_back
from planner.studies.chapter5.records import TrialOutcome

SEARCHES_FILE = "searches.jsonl"
Versions = tuple[tuple[str, str], ...]


class TrialJournal:
    """A `StudyJournal` in the folder of a study, which no other planner can open meanwhile."""

    def __init__(self, folder: Path, descriptor: int, versions: Versions) -> None:
        self._folder = folder
        self._descriptor = descriptor
        self._versions = versions
        self._outcomes: dict[str, TrialOutcome] = {}

    @property
    def searches(self) -> int:
        """How many are kept."""
        return len(self._outcomes)

    def outcome_of(self, scenario: Scenario) -> TrialOutcome | None:
        """What became of the scenario's search, if it was made before."""
        return self._outcomes.get(self._hash(scenario))

    def keep(self, scenario: Scenario, outcome: TrialOutcome) -> None:
        """A search has ended. InputError where the disk does not take it."""
        key = self._hash(scenario)
        with errors_told(self._folder), held_back():
            append(self._descriptor, line_of("search", {"of": key, **asdict(outcome)}))
        self._outcomes[key] = outcome

    def recall(self, path: Path) -> None:
        """Take up the lines of a process before. InputError where one cannot be trusted."""
        for number, row in enumerate(rows_of(path, self._descriptor) if path.stat().st_size else [], start=1):
            try:
                self._outcomes[row["search"]["of"]] = _read(row["search"])
            except (KeyError, TypeError, ValueError):
                raise damaged(path, number, "is not a search") from None

    def _hash(self, scenario: Scenario) -> str:
        facts = [file.sha256 for file in scenario.inputs]
        text = json.dumps([scenario_document(scenario), facts, self._versions], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _read(row: Document) -> TrialOutcome:
    return TrialOutcome(
        seed=row["seed"],
        best_rps=tuple(row["best_rps"]),
        generation_cpu_s=tuple(row["generation_cpu_s"]),
        evaluation_cpu_s=tuple(row["evaluation_cpu_s"]),
        deviation_rps=row["deviation_rps"],
        layout=row["layout"],
    )


def holds_searches(folder: Path) -> bool:
    """Whether there is an unfinished study in `folder`."""
    return (folder / SEARCHES_FILE).exists()


@contextmanager
def trial_journal(folder: Path, versions: Versions) -> Iterator[TrialJournal]:
    """The journal in `folder`, made with its parents where it is not there; one without a search leaves nothing behind.

    Raises InputError where it cannot be written, is damaged, or is another planner's at this moment.
    """
    with errors_told(folder):
        place = place_of(folder)
        top = to_be_made(place)
        path = place / SEARCHES_FILE
        with entered(place), held_back():
            place.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        try:
            lock(descriptor)
        except BlockingIOError:
            raise at_work(folder) from None
        journal = TrialJournal(folder, descriptor, versions)
        journal.recall(path)
        try:
            yield journal
        finally:
            if not journal.searches and path.exists():
                path.unlink()
                remove_empty(place, top or place)
    finally:
        os.close(descriptor)
